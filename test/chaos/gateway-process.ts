// A gateway in its own process, on a port that stays the same when it is killed and started again.

import { writeFileSync } from "node:fs";
import path from "node:path";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { PROGRAM, PROGRAM_SETTINGS } from "../support/program.ts";
import { scratchFolder } from "../support/scratch-folder.ts";
import { type ScriptProcess, startCommand } from "../support/script-process.ts";
import { TEST_POOL_SIZE } from "../support/stores/stores.ts";

export interface GatewayProcess {
  readonly url: string;
  /** Kills the process and starts it again, with the limits that are found in between. */
  readonly killAndStart: (findLimits?: () => ProcessLimits) => Promise<void>;
  /** Drains it and starts it again; throws if it did not end cleanly. */
  readonly restart: () => Promise<void>;
  /** Resolves when `/readyz` says that the store cannot be used. */
  readonly becomesUnready: () => Promise<void>;
  /** Sets its clock forward, or back with a negative number. */
  readonly moveClock: (ms: number) => void;
  /** Drains it; resolves with its exit code. */
  readonly stop: () => Promise<number | null>;
  /** Ends it at once, if it still runs. */
  readonly end: () => void;
}

interface ProcessLimits {
  /** A write that makes a file larger fails. */
  readonly fileBytesMax?: number;
}

/** The unit of `ulimit -f`. */
const BLOCK_BYTES = 512;

export async function startGatewayProcess(
  settings: Readonly<Record<string, string>>,
): Promise<GatewayProcess> {
  const port = String(await freePort());
  const url = `http://127.0.0.1:${port}`;
  const clockFile = path.join(scratchFolder("clock"), "offset");
  let offsetMs = 0;
  const start = async ({ fileBytesMax }: ProcessLimits = {}): Promise<ScriptProcess> => {
    const env = {
      ...PROGRAM_SETTINGS,
      ...settings,
      POSTERN_PORT: port,
      // By default the next port, which another gateway may have.
      POSTERN_IDENTITY_PORT: "0",
      POSTERN_PROCESS_NAME: `chaos:${port}`,
      POSTERN_LOG_LEVEL: "error",
      POSTERN_DATABASE_POOL_SIZE: String(TEST_POOL_SIZE),
      POSTERN_DRAIN_SECONDS: "10",
      CHAOS_CLOCK_FILE: clockFile,
      BUN_OPTIONS: `--preload ${path.join(import.meta.dirname, "clock-preload.ts")}`,
    };
    const launcher = fileBytesMax === undefined ? [] : launcherWithFileLimit(fileBytesMax);
    const started = startCommand([...launcher, ...PROGRAM, "serve"], env);
    let exit: { readonly code: number | null } | undefined;
    void started.exitCode.then((code) => {
      exit = { code };
    });
    // However long that takes on a busy machine.
    await eventually(
      async () => exit !== undefined || (await fetch(`${url}/healthz`)).status === 200,
      { timeoutMs: Infinity },
    );
    if (exit !== undefined)
      throw new Error(`a gateway exited with ${exit.code} before it listened`);
    return started;
  };
  let running = await start();
  return {
    url,
    killAndStart: async (findLimits) => {
      running.process.kill("SIGKILL");
      await running.exitCode;
      running = await start(findLimits?.());
    },
    restart: async () => {
      running.process.kill("SIGTERM");
      const code = await running.exitCode;
      if (code !== 0) throw new Error(`a gateway that was restarted exited with ${code}`);
      running = await start();
    },
    becomesUnready: async () => {
      await eventually(async () => (await fetch(`${url}/readyz`)).status === 503);
    },
    moveClock: (ms) => {
      offsetMs += ms;
      writeFileSync(clockFile, String(offsetMs));
      running.process.kill("SIGUSR2");
    },
    stop: () => {
      running.process.kill("SIGTERM");
      return running.exitCode;
    },
    end: () => void running.process.kill("SIGKILL"),
  };
}

/** Without the trap, the signal of the limit would end the process before the write fails. */
function launcherWithFileLimit(bytes: number): readonly string[] {
  const blocks = Math.ceil(bytes / BLOCK_BYTES);
  return ["sh", "-c", `trap "" XFSZ; ulimit -f ${blocks}; exec "$0" "$@"`];
}
