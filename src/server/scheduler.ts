// Runs background jobs at intervals. A job that fails is logged and runs again at its next interval; runs of one job
// never overlap.

import type { Log } from "../base/log.ts";

export interface Job {
  readonly name: string;
  readonly intervalMs: number;
  readonly run: () => Promise<unknown>;
}

/** Starts the jobs. The returned function stops them and waits for runs in flight. */
export function startJobs(log: Log, jobs: readonly Job[]): () => Promise<void> {
  const running = new Set<Promise<void>>();
  const timers = jobs.map((job) => {
    let isRunning = false;
    return setInterval(() => {
      if (isRunning) return;
      isRunning = true;
      const run = job
        .run()
        .then(
          () => {},
          (error: unknown) => log.error("background job failed", { job: job.name, cause: error }),
        )
        .finally(() => {
          isRunning = false;
          running.delete(run);
        });
      running.add(run);
    }, job.intervalMs);
  });
  return async () => {
    for (const timer of timers) clearInterval(timer);
    await Promise.all(running);
  };
}
