// Child processes that run `postern` with the program of this one: workers, and commands whose output is read.

import { execFile, spawn } from "node:child_process";
import { constants, setPriority } from "node:os";
import type { RunCommand } from "../../server/ledger-verification.ts";

const OUTPUT_MAX_BYTES = 1_048_576;

export type WorkerSignal = "SIGHUP" | "SIGTERM" | "SIGKILL";

export interface WorkerExit {
  readonly code: number | null;
  readonly signal: string | null;
}

export interface WorkerProcess {
  readonly pid: number | undefined;
  /** Resolves when the worker listens; never if it exits first. */
  readonly ready: Promise<void>;
  readonly exited: Promise<WorkerExit>;
  readonly signal: (name: WorkerSignal) => void;
}

export type StartWorker = (
  args: readonly string[],
  env: Readonly<Record<string, string>>,
) => WorkerProcess;

/** The message of a worker to its supervisor when it listens. */
export const WORKER_READY = "ready";

/** `program` is the command line that runs `postern`, `env` the environment of this process. */
export function workerStarter(
  [file = "", ...programArgs]: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): StartWorker {
  return (args, settings) => {
    const child = spawn(file, [...programArgs, ...args], {
      env: { ...env, ...settings },
      // When the supervisor dies the channel closes, and the worker drains (`main.ts`).
      stdio: ["ignore", "inherit", "inherit", "ipc"],
      // A process group of its own: Ctrl-C reaches the supervisor only, which stops the workers in order.
      detached: true,
    });
    return {
      pid: child.pid,
      ready: new Promise((resolve) => {
        child.on("message", (message) => {
          if (message === WORKER_READY) resolve();
        });
      }),
      exited: new Promise((resolve) => {
        child.on("exit", (code, signal) => resolve({ code, signal }));
        child.on("error", () => resolve({ code: null, signal: null }));
      }),
      signal: (name) => child.kill(name),
    };
  };
}

/** Rejects if the command printed nothing; its exit code may be a result. */
export function commandRunner(
  [file = "", ...programArgs]: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): RunCommand {
  return (args) =>
    new Promise((resolve, reject) => {
      const options = { env: { ...env }, maxBuffer: OUTPUT_MAX_BYTES };
      const child = execFile(file, [...programArgs, ...args], options, (error, stdout, stderr) => {
        if (error === null || stdout !== "") resolve(stdout);
        else
          reject(new Error(`postern ${args.join(" ")} failed: ${stderr.trim()}`, { cause: error }));
      });
      try {
        if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW);
      } catch {
        // It runs with the priority of this process.
      }
    });
}
