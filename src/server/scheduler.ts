// Runs background jobs at intervals. A job that fails is logged and runs again at its next interval; runs of one job
// never overlap.

import type { JobRun } from "../base/job-run.ts";
import type { Log } from "../base/log.ts";

export interface Job {
  readonly name: string;
  readonly intervalMs: number;
  readonly run: () => Promise<unknown>;
}

interface SchedulerDeps {
  readonly log: Log;
  readonly now: () => number;
  /** Is filled with the last run of each job, by its name. */
  readonly jobRuns: Map<string, JobRun>;
}

/** Starts the jobs. The returned function stops them and waits for runs in flight. */
export function startJobs(
  { log, now, jobRuns }: SchedulerDeps,
  jobs: readonly Job[],
): () => Promise<void> {
  const running = new Set<Promise<void>>();
  const timers = jobs.map((job) => {
    let isRunning = false;
    let failures = 0;
    let succeededAt: number | undefined;
    jobRuns.set(job.name, { intervalMs: job.intervalMs, failures, last: undefined });
    return setInterval(() => {
      if (isRunning) return;
      isRunning = true;
      const startedAt = now();
      let isFailed = false;
      const run = job
        .run()
        .then(
          () => {},
          (error: unknown) => {
            isFailed = true;
            failures++;
            log.error("background job failed", { job: job.name, cause: error });
          },
        )
        .finally(() => {
          isRunning = false;
          const last = { startedAt, ms: Math.max(0, now() - startedAt), isFailed };
          if (!isFailed) succeededAt = startedAt;
          jobRuns.set(job.name, { intervalMs: job.intervalMs, failures, succeededAt, last });
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
