// A worker: a child process that runs `postern serve --worker <n>` with the supervisor's program and standard output.

import { spawn } from "node:child_process";

export type WorkerSignal = "SIGHUP" | "SIGTERM" | "SIGKILL";

export interface WorkerExit {
  readonly code: number | null;
  readonly signal: string | null;
}

export interface WorkerProcess {
  readonly pid: number | undefined;
  /** Resolves when it listens; never, if it exits before. */
  readonly ready: Promise<void>;
  readonly exited: Promise<WorkerExit>;
  readonly signal: (name: WorkerSignal) => void;
}

export type StartWorker = (
  args: readonly string[],
  env: Readonly<Record<string, string>>,
) => WorkerProcess;

/** What a worker sends to its supervisor when it listens. */
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
