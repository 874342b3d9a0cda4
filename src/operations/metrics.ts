// What is counted for Prometheus. Labels have few values: a route's name, never a path or an account.

import type { UsageRecord } from "../usage/usage.ts";
import { createCallMetrics } from "./call-metrics.ts";
import { family, type Sample } from "./prometheus.ts";

export interface Metrics {
  readonly request: (route: string, status: number, ms: number) => void;
  readonly call: (record: UsageRecord) => void;
  readonly text: () => string;
}

export interface MetricsParts {
  readonly version: string;
  readonly ledgerDepth: () => number;
  readonly openCircuits: () => number;
  /** Spans of calls that a collector took, and that it never got; absent where there is none. */
  readonly spanCounts?: (() => { readonly sent: number; readonly dropped: number }) | undefined;
}

export const METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

const LATENCY_BUCKETS_SECONDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
];

/** What was answered on one route. */
interface Answers {
  readonly byStatus: Map<number, number>;
  /** How many took no longer than each bucket and longer than the one before; the last takes the rest. */
  readonly byBucket: number[];
  seconds: number;
  count: number;
}

export function createMetrics(parts: MetricsParts): Metrics {
  const { version, ledgerDepth, openCircuits, spanCounts } = parts;
  const routes = new Map<string, Answers>();
  const calls = createCallMetrics();
  return {
    request: (route, status, ms) => {
      let answers = routes.get(route);
      if (answers === undefined) routes.set(route, (answers = noAnswers()));
      // The clock may have been set back meanwhile, and a sum that falls looks like a restart.
      note(answers, status, Math.max(0, ms) / 1_000);
    },
    call: calls.note,
    text: () => {
      const { user, system } = process.cpuUsage();
      return [
        family("postern_requests_total", "counter", "Requests answered.", countsOf(routes)),
        family(
          "postern_request_seconds",
          "histogram",
          "Time from a request's arrival to the start of its answer.",
          timesOf(routes),
        ),
        ...calls.families(),
        family(
          "postern_open_circuits",
          "gauge",
          "Providers' models that calls are kept away from.",
          [{ value: openCircuits() }],
        ),
        family("postern_info", "gauge", "The version that runs.", [
          { labels: { version }, value: 1 },
        ]),
        family(
          "postern_ledger_queue",
          "gauge",
          "Operations that wait for the ledger's next commit.",
          [{ value: ledgerDepth() }],
        ),
        ...(spanCounts === undefined ? [] : [spansOf(spanCounts())]),
        family("process_resident_memory_bytes", "gauge", "Resident memory.", [
          { value: process.memoryUsage.rss() },
        ]),
        family("process_cpu_seconds_total", "counter", "CPU time, user and system.", [
          { value: (user + system) / 1e6 },
        ]),
      ].join("\n");
    },
  };
}

function spansOf({ sent, dropped }: { readonly sent: number; readonly dropped: number }): string {
  return family("postern_spans_total", "counter", "Spans of calls, by what became of them.", [
    { labels: { fate: "sent" }, value: sent },
    { labels: { fate: "dropped" }, value: dropped },
  ]);
}

function noAnswers(): Answers {
  const byBucket = Array.from({ length: LATENCY_BUCKETS_SECONDS.length + 1 }, () => 0);
  return { byStatus: new Map(), byBucket, seconds: 0, count: 0 };
}

function note(answers: Answers, status: number, seconds: number): void {
  answers.byStatus.set(status, (answers.byStatus.get(status) ?? 0) + 1);
  let bucket = 0;
  while (seconds > (LATENCY_BUCKETS_SECONDS[bucket] ?? Number.POSITIVE_INFINITY)) bucket++;
  answers.byBucket[bucket] = (answers.byBucket[bucket] ?? 0) + 1;
  answers.seconds += seconds;
  answers.count++;
}

function countsOf(routes: ReadonlyMap<string, Answers>): readonly Sample[] {
  return [...routes].flatMap(([route, { byStatus }]) =>
    [...byStatus].map(([status, value]) => ({ labels: { route, status }, value })),
  );
}

function timesOf(routes: ReadonlyMap<string, Answers>): readonly Sample[] {
  const samples: Sample[] = [];
  for (const [route, { byBucket, seconds, count }] of routes) {
    let upTo = 0;
    for (const [place, here] of byBucket.entries()) {
      upTo += here;
      const le = LATENCY_BUCKETS_SECONDS[place] ?? "+Inf";
      samples.push({ suffix: "_bucket", labels: { le, route }, value: upTo });
    }
    samples.push({ suffix: "_sum", labels: { route }, value: seconds });
    samples.push({ suffix: "_count", labels: { route }, value: count });
  }
  return samples;
}
