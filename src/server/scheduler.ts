// The house's background work. A tick that fails is logged and tried again at its next turn; ticks of one clock never
// overlap.

import type { Log } from "../base/log.ts";

export type Job = readonly [everyMs: number, tick: () => Promise<unknown>];

/** Starts the clocks; the function that it answers stops them and waits for ticks that still run. */
export function startJobs(log: Log, jobs: readonly Job[]): () => Promise<void> {
  const running = new Set<Promise<void>>();
  const timers = jobs.map(([intervalMs, runJob]) => {
    let isRunning = false;
    return setInterval(() => {
      if (isRunning) return;
      isRunning = true;
      const run = runJob()
        .then(
          () => {},
          (error: unknown) => log.error("background work failed", { cause: error }),
        )
        .finally(() => {
          isRunning = false;
          running.delete(run);
        });
      running.add(run);
    }, intervalMs);
  });
  return async () => {
    for (const timer of timers) clearInterval(timer);
    await Promise.all(running);
  };
}
