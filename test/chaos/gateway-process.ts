// A gateway in its own process, on a port that stays the same when it is killed and started again.

import path from "node:path";
import { freePort } from "../../bench/server-process.ts";
import { eventually } from "../support/eventually.ts";
import { type ScriptProcess, startScript } from "../support/script-process.ts";

export interface GatewayProcess {
  readonly url: string;
  /** Kills the process and starts it again. */
  readonly kill: () => Promise<void>;
  /** Drains it; resolves with its exit code. */
  readonly stop: () => Promise<number | null>;
  /** Ends it at once, if it still runs. */
  readonly end: () => void;
}

const MAIN = path.resolve(import.meta.dirname, "../../src/main.ts");

export async function startGatewayProcess(
  settings: Readonly<Record<string, string>>,
): Promise<GatewayProcess> {
  const port = String(await freePort());
  const url = `http://127.0.0.1:${port}`;
  const start = async (): Promise<ScriptProcess> => {
    const started = startScript(MAIN, ["serve"], {
      ...settings,
      POSTERN_PORT: port,
      // By default the next port, which another gateway may have.
      POSTERN_IDENTITY_PORT: "0",
      POSTERN_PROCESS_NAME: `chaos:${port}`,
      POSTERN_LOG_LEVEL: "error",
      POSTERN_DRAIN_SECONDS: "10",
    });
    await eventually(async () => (await fetch(`${url}/healthz`)).status === 200);
    return started;
  };
  let running = await start();
  return {
    url,
    kill: async () => {
      running.process.kill("SIGKILL");
      await running.exitCode;
      running = await start();
    },
    stop: () => {
      running.process.kill("SIGTERM");
      return running.exitCode;
    },
    end: () => void running.process.kill("SIGKILL"),
  };
}
