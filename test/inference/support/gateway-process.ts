// A gateway in a process of its own, which can be killed.

import { type ChildProcess, spawn } from "node:child_process";
import { tmpdir } from "node:os";
import { freePort } from "../../support/free-port.ts";
import { PROGRAM, PROGRAM_SETTINGS } from "../../support/program.ts";
import { TEST_POOL_SIZE } from "../../support/stores/stores.ts";

export interface GatewayProcess {
  readonly url: string;
  readonly kill: () => Promise<void>;
  readonly suspend: () => void;
  readonly resume: () => void;
  readonly stop: () => Promise<number | null>;
}

/** Resolves when the gateway listens. */
export async function startGatewayProcess(
  port: number,
  settings: Readonly<Record<string, string>>,
): Promise<GatewayProcess> {
  const [command, ...args] = PROGRAM;
  const child: ChildProcess = spawn(command, args, {
    // Not the folder of the repository, whose .env a program of Bun reads.
    cwd: tmpdir(),
    env: {
      ...PROGRAM_SETTINGS,
      PATH: process.env["PATH"] ?? "",
      POSTERN_PORT: String(port),
      // By default the next port, which another process may have.
      POSTERN_IDENTITY_PORT: "0",
      POSTERN_LOG_FORM: "json",
      POSTERN_DATABASE_POOL_SIZE: String(TEST_POOL_SIZE),
      ...settings,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  let output = "";
  await new Promise<void>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding("utf8").on("data", (chunk: string) => {
        if (output.length < 10_000) output += chunk;
        if (output.includes('"listening"')) resolve();
      });
    void ended.then(() => reject(new Error(`the gateway ended: ${output}`)));
  });
  const end = (signal: NodeJS.Signals) => {
    child.kill(signal);
    return ended;
  };
  return {
    url: `http://127.0.0.1:${port}`,
    kill: async () => void (await end("SIGKILL")),
    suspend: () => void child.kill("SIGSTOP"),
    resume: () => void child.kill("SIGCONT"),
    stop: () => end("SIGTERM"),
  };
}

const PORTS_TRIED = 5;

/** Retries with another port: another test may have taken the free one. */
export async function startGatewayProcessOnFreePort(
  settings: Readonly<Record<string, string>>,
): Promise<GatewayProcess> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await startGatewayProcess(await freePort(), settings);
    } catch (error) {
      if (attempt >= PORTS_TRIED || !String(error).includes("is taken")) throw error;
    }
  }
}
