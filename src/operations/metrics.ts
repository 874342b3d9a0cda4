// Prometheus metrics of the server. Labels have few values: a route id, never a path or an account.

import { usdNumber } from "../base/money/money.ts";
import type { Outcome, UsageRecord } from "../usage/usage.ts";
import { processFamilies, type ProcessMetricsDeps } from "./process-metrics.ts";
import { renderFamily, type Sample } from "./prometheus.ts";

export interface Metrics {
  readonly recordRequest: (route: string, status: number, ms: number) => void;
  readonly recordCall: (record: UsageRecord) => void;
  readonly render: () => string;
  /** Ends the measurement of the event loop. */
  readonly stop: () => void;
}

export interface MetricsDeps {
  readonly process: ProcessMetricsDeps;
  readonly version: string;
  readonly ledgerQueueDepth: () => number;
  readonly openCircuits: () => number;
  readonly requestBodyBytes: () => number;
  /** Absent where connections are not limited. */
  readonly connections?: (() => { readonly open: number; readonly closed: number }) | undefined;
  /** Spans sent to and dropped before the OTLP collector; absent without one. */
  readonly spanCounts?: (() => { readonly sent: number; readonly dropped: number }) | undefined;
}

export const METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

const LATENCY_BUCKETS_SECONDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
];

/** Requests of one route. */
interface RouteStats {
  readonly byStatus: Map<number, number>;
  /** Requests per latency bucket, not cumulative; the last one is +Inf. */
  readonly byBucket: number[];
  seconds: number;
  count: number;
}

export function createMetrics(deps: MetricsDeps): Metrics {
  const { version, ledgerQueueDepth, openCircuits, requestBodyBytes, connections, spanCounts } =
    deps;
  const routes = new Map<string, RouteStats>();
  const calls = createCallMetrics();
  return {
    recordRequest: (route, status, ms) => {
      let stats = routes.get(route);
      if (stats === undefined) routes.set(route, (stats = emptyStats()));
      // The clock may step back; a falling sum would look like a restart.
      addRequest(stats, status, Math.max(0, ms) / 1_000);
    },
    recordCall: calls.recordCall,
    stop: deps.process.eventLoop.stop,
    render: () =>
      [
        renderFamily(
          "postern_requests_total",
          "counter",
          "HTTP requests by route and status.",
          requestSamples(routes),
        ),
        renderFamily(
          "postern_request_seconds",
          "histogram",
          "Time from the arrival of a request to the start of its response, in seconds.",
          latencySamples(routes),
        ),
        ...calls.families(),
        renderFamily(
          "postern_open_circuits",
          "gauge",
          "Open circuit breakers: calls skip that model at that provider.",
          [{ value: openCircuits() }],
        ),
        renderFamily("postern_info", "gauge", "Version of the server.", [
          { labels: { version }, value: 1 },
        ]),
        renderFamily(
          "postern_ledger_queue",
          "gauge",
          "Operations waiting for the next commit of the ledger.",
          [{ value: ledgerQueueDepth() }],
        ),
        renderFamily(
          "postern_request_body_bytes",
          "gauge",
          "Bytes of request bodies in memory; above 512 MiB the gateway refuses requests.",
          [{ value: requestBodyBytes() }],
        ),
        ...(connections === undefined ? [] : connectionFamilies(connections())),
        ...(spanCounts === undefined ? [] : [spanFamily(spanCounts())]),
        ...processFamilies(deps.process),
      ].join("\n"),
  };
}

function connectionFamilies({
  open,
  closed,
}: {
  readonly open: number;
  readonly closed: number;
}): readonly string[] {
  return [
    renderFamily("postern_connections", "gauge", "Open TCP connections of clients.", [
      { value: open },
    ]),
    renderFamily(
      "postern_connections_closed_total",
      "counter",
      "Connections closed because their network had too many.",
      [{ value: closed }],
    ),
  ];
}

function spanFamily({
  sent,
  dropped,
}: {
  readonly sent: number;
  readonly dropped: number;
}): string {
  return renderFamily("postern_spans_total", "counter", "OpenTelemetry spans sent and dropped.", [
    { labels: { fate: "sent" }, value: sent },
    { labels: { fate: "dropped" }, value: dropped },
  ]);
}

function emptyStats(): RouteStats {
  const byBucket = Array.from({ length: LATENCY_BUCKETS_SECONDS.length + 1 }, () => 0);
  return { byStatus: new Map(), byBucket, seconds: 0, count: 0 };
}

function addRequest(stats: RouteStats, status: number, seconds: number): void {
  stats.byStatus.set(status, (stats.byStatus.get(status) ?? 0) + 1);
  let bucket = 0;
  while (seconds > (LATENCY_BUCKETS_SECONDS[bucket] ?? Number.POSITIVE_INFINITY)) bucket++;
  stats.byBucket[bucket] = (stats.byBucket[bucket] ?? 0) + 1;
  stats.seconds += seconds;
  stats.count++;
}

function requestSamples(routes: ReadonlyMap<string, RouteStats>): readonly Sample[] {
  return [...routes].flatMap(([route, { byStatus }]) =>
    [...byStatus].map(([status, value]) => ({ labels: { route, status }, value })),
  );
}

function latencySamples(routes: ReadonlyMap<string, RouteStats>): readonly Sample[] {
  const samples: Sample[] = [];
  for (const [route, { byBucket, seconds, count }] of routes) {
    let cumulative = 0;
    for (const [bucket, bucketCount] of byBucket.entries()) {
      cumulative += bucketCount;
      const le = LATENCY_BUCKETS_SECONDS[bucket] ?? "+Inf";
      samples.push({ suffix: "_bucket", labels: { le, route }, value: cumulative });
    }
    samples.push({ suffix: "_sum", labels: { route }, value: seconds });
    samples.push({ suffix: "_count", labels: { route }, value: count });
  }
  return samples;
}

// Metrics of model calls by provider and model: outcomes, tokens and charges.

interface CallMetrics {
  readonly recordCall: (record: UsageRecord) => void;
  readonly families: () => readonly string[];
}

/** More models than this share the label value `other`, so that the metrics stay small. */
const MODELS_MAX = 500;
const OTHER_MODEL = "other";

interface CallTotals {
  readonly provider: string;
  readonly model: string;
  readonly byOutcome: Map<Outcome, number>;
  inputTokens: number;
  outputTokens: number;
  charged: bigint;
}

function createCallMetrics(): CallMetrics {
  const byModel = new Map<string, CallTotals>();
  const totalsOf = (provider: string, model: string): CallTotals => {
    const key = `${provider} ${model}`;
    const known = byModel.get(key);
    if (known !== undefined) return known;
    if (byModel.size >= MODELS_MAX && model !== OTHER_MODEL) return totalsOf(provider, OTHER_MODEL);
    const totals = emptyTotals(provider, model);
    byModel.set(key, totals);
    return totals;
  };
  const samples = (toSamples: (totals: CallTotals) => readonly Sample[]): readonly Sample[] =>
    [...byModel.values()].flatMap((totals) =>
      toSamples(totals).map(({ labels, value }) => ({
        labels: { provider: totals.provider, model: totals.model, ...labels },
        value,
      })),
    );
  return {
    recordCall: ({ provider, model, outcome, inputTokens, outputTokens, cost }) => {
      const totals = totalsOf(provider, model);
      totals.byOutcome.set(outcome, (totals.byOutcome.get(outcome) ?? 0) + 1);
      totals.inputTokens += inputTokens;
      totals.outputTokens += outputTokens;
      totals.charged += cost;
    },
    families: () => [
      renderFamily(
        "postern_calls_total",
        "counter",
        "Model calls with a hold, by outcome.",
        samples(({ byOutcome }) =>
          [...byOutcome].map(([outcome, value]) => ({ labels: { outcome }, value })),
        ),
      ),
      renderFamily(
        "postern_call_tokens_total",
        "counter",
        "Tokens of model calls. Cached tokens count as input, reasoning tokens as output.",
        samples((totals) => [
          { labels: { kind: "input" }, value: totals.inputTokens },
          { labels: { kind: "output" }, value: totals.outputTokens },
        ]),
      ),
      renderFamily(
        "postern_call_charges_usd_total",
        "counter",
        "US dollars charged for model calls. Calls with callers' own provider keys are free.",
        samples(({ charged }) => [{ value: usdNumber(charged) }]),
      ),
    ],
  };
}

function emptyTotals(provider: string, model: string): CallTotals {
  return { provider, model, byOutcome: new Map(), inputTokens: 0, outputTokens: 0, charged: 0n };
}
