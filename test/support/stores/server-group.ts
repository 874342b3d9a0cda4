// PostgreSQL servers that tests kill, start and restart: the scripts that use server-group.mjs.

import { spawn } from "node:child_process";
import path from "node:path";
import { createInterface } from "node:readline";

export interface ServerGroup {
  /** What the script prints when the servers listen. */
  readonly firstLine: string;
  /** `kill` ends all processes of a server at once. */
  readonly run: (command: "start" | "kill" | "restart", server: number) => Promise<void>;
  readonly stop: () => Promise<void>;
}

export async function startServerGroup(
  script: string,
  scriptArguments: readonly string[],
): Promise<ServerGroup> {
  const child = spawn("node", [path.join(import.meta.dirname, script), ...scriptArguments], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const readLine = async (): Promise<string> => {
    const { value, done } = await lines.next();
    if (done === true) throw new Error(`the servers of ${script} exited`);
    return value;
  };
  return {
    firstLine: await readLine(),
    run: async (command, server) => {
      child.stdin.write(`${command} ${server}\n`);
      await readLine();
    },
    stop: async () => {
      child.stdin.end();
      await exited;
    },
  };
}
