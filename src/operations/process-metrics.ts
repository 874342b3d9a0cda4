// Metrics of the process itself: its start, open files, event loop, database connections and background jobs.

import type { JobRun } from "../base/job-run.ts";
import { SECOND_MS } from "../base/time.ts";
import { renderFamily } from "./prometheus.ts";

export interface ProcessMetricsDeps {
  /** Undefined where the system does not report them. */
  readonly openFiles?: { readonly max: number; readonly count: () => number } | undefined;
  /** Absent for SQLite. */
  readonly databasePool?:
    | (() => { readonly max: number; readonly busy: number; readonly waiting: number })
    | undefined;
  readonly eventLoop: EventLoopWatch;
  readonly jobRuns: ReadonlyMap<string, JobRun>;
}

const STARTED_AT_SECONDS = Date.now() / SECOND_MS - process.uptime();

export function processFamilies(deps: ProcessMetricsDeps): readonly string[] {
  const { openFiles, databasePool, eventLoop, jobRuns } = deps;
  const { user, system } = process.cpuUsage();
  const gauge = (name: string, help: string, value: number): string =>
    renderFamily(name, "gauge", help, [{ value }]);
  return [
    gauge(
      "process_start_time_seconds",
      "Start time of the process since unix epoch in seconds.",
      STARTED_AT_SECONDS,
    ),
    ...(openFiles === undefined
      ? []
      : [
          gauge("process_open_fds", "Number of open file descriptors.", openFiles.count()),
          gauge("process_max_fds", "Maximum number of open file descriptors.", openFiles.max),
        ]),
    gauge(
      "process_resident_memory_bytes",
      "Resident memory size in bytes.",
      process.memoryUsage.rss(),
    ),
    renderFamily("process_cpu_seconds_total", "counter", "User and system CPU time in seconds.", [
      { value: (user + system) / 1e6 },
    ]),
    gauge(
      "postern_event_loop_delay_seconds",
      "The longest delay of the event loop in the last minute, in seconds.",
      eventLoop.delay(),
    ),
    ...(databasePool === undefined ? [] : poolFamilies(databasePool())),
    ...jobFamilies(jobRuns),
  ];
}

function poolFamilies({
  max,
  busy,
  waiting,
}: ReturnType<NonNullable<ProcessMetricsDeps["databasePool"]>>): readonly string[] {
  return [
    renderFamily(
      "postern_database_connections",
      "gauge",
      "Statements and transactions that use a connection to PostgreSQL, and those that wait for one.",
      [
        { labels: { state: "busy" }, value: busy },
        { labels: { state: "waiting" }, value: waiting },
      ],
    ),
    renderFamily(
      "postern_database_connections_max",
      "gauge",
      "Connections of this process to PostgreSQL (POSTERN_DATABASE_POOL_SIZE).",
      [{ value: max }],
    ),
  ];
}

function jobFamilies(jobRuns: ProcessMetricsDeps["jobRuns"]): readonly string[] {
  const jobs = [...jobRuns];
  return [
    renderFamily(
      "postern_job_last_success_timestamp_seconds",
      "gauge",
      "When the last run of a background job succeeded, since unix epoch in seconds; 0 before the first.",
      jobs.map(([job, { succeededAt = 0 }]) => ({
        labels: { job },
        value: succeededAt / SECOND_MS,
      })),
    ),
    renderFamily(
      "postern_job_interval_seconds",
      "gauge",
      "How often a background job runs.",
      jobs.map(([job, { intervalMs }]) => ({ labels: { job }, value: intervalMs / SECOND_MS })),
    ),
    renderFamily(
      "postern_job_failures_total",
      "counter",
      "Failed runs of a background job.",
      jobs.map(([job, { failures }]) => ({ labels: { job }, value: failures })),
    ),
  ];
}

const SAMPLE_MS = 500;
const KEPT_SAMPLES = 120;

export interface EventLoopWatch {
  /** The longest delay of the last minute, in seconds. */
  readonly delay: () => number;
  readonly stop: () => void;
}

/** Measures how late a timer is. */
export function watchEventLoop(now: () => number = () => performance.now()): EventLoopWatch {
  const delays: number[] = [];
  let expectedAt = now() + SAMPLE_MS;
  const sample = (): void => {
    const at = now();
    delays.push(Math.max(0, at - expectedAt));
    if (delays.length > KEPT_SAMPLES) delays.shift();
    expectedAt = at + SAMPLE_MS;
  };
  const timer = setInterval(sample, SAMPLE_MS);
  timer.unref();
  return {
    // What blocks the loop now is counted, too.
    delay: () => Math.max(0, now() - expectedAt, ...delays) / SECOND_MS,
    stop: () => clearInterval(timer),
  };
}
