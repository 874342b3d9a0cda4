// A PostgreSQL server of one test, which is stopped, started and restarted.

import { spawn } from "node:child_process";
import path from "node:path";
import { createInterface } from "node:readline";
import { connect } from "./postgres.ts";

export interface OwnPostgres {
  readonly url: string;
  /** Ends all sessions and starts the server again on its port. */
  readonly restart: () => Promise<void>;
  /** Ends all sessions; connections are refused until `resume`. */
  readonly pause: () => Promise<void>;
  readonly resume: () => Promise<void>;
  readonly stop: () => void;
}

export async function startOwnPostgres(): Promise<OwnPostgres> {
  const script = path.join(import.meta.dirname, "postgres-server.mjs");
  const server = spawn("node", [script, "log_min_messages=panic"], {
    stdio: ["pipe", "pipe", "ignore"],
  });
  const lines = createInterface({ input: server.stdout })[Symbol.asyncIterator]();
  const readLine = async (): Promise<string> => {
    const { value, done } = await lines.next();
    if (done === true) throw new Error("PostgreSQL exited");
    return value;
  };
  const run = async (command: string): Promise<void> => {
    server.stdin.write(`${command}\n`);
    await readLine();
  };
  const url = await readLine();
  await (await connect(url)).close();
  return {
    url,
    restart: () => run("restart"),
    pause: () => run("stop"),
    resume: () => run("start"),
    stop: () => server.stdin.end(),
  };
}
