// What is counted for Prometheus. Labels have few values: a route's name, never a path or an account.

import { Counter, Gauge, Histogram, Registry } from "prom-client";

const LATENCY_BUCKETS_SECONDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
];

export interface Metrics {
  readonly request: (route: string, status: number, ms: number) => void;
  readonly text: () => Promise<string>;
  readonly registry: Registry;
}

export interface MetricsParts {
  readonly version: string;
  readonly ledgerDepth: () => number;
}

export function createMetrics({ version, ledgerDepth }: MetricsParts): Metrics {
  const registry = new Registry();
  const requests = new Counter({
    name: "postern_requests_total",
    help: "Requests answered.",
    labelNames: ["route", "status"],
    registers: [registry],
  });
  const seconds = new Histogram({
    name: "postern_request_seconds",
    help: "Time from a request's arrival to the start of its answer.",
    labelNames: ["route"],
    buckets: LATENCY_BUCKETS_SECONDS,
    registers: [registry],
  });
  new Gauge({
    name: "postern_info",
    help: "The version that runs.",
    labelNames: ["version"],
    registers: [registry],
  }).set({ version }, 1);
  measured(
    registry,
    "postern_ledger_queue",
    "Operations that wait for the ledger's next commit.",
    ledgerDepth,
  );
  measured(registry, "process_resident_memory_bytes", "Resident memory.", () =>
    process.memoryUsage.rss(),
  );
  measured(registry, "process_cpu_seconds_total", "CPU time, user and system.", () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
  // Label sets are resolved once each: a look-up by object costs more than the rest of the counting.
  const counters = new Map<string, { inc: () => void }>();
  const timers = new Map<string, { observe: (value: number) => void }>();
  return {
    registry,
    text: () => registry.metrics(),
    request: (route, status, ms) => {
      const key = `${route} ${status}`;
      const counter = counters.get(key) ?? requests.labels(route, String(status));
      counters.set(key, counter);
      counter.inc();
      const timer = timers.get(route) ?? seconds.labels(route);
      timers.set(route, timer);
      timer.observe(ms / 1_000);
    },
  };
}

function measured(registry: Registry, name: string, help: string, measure: () => number): void {
  const gauge = new Gauge({
    name,
    help,
    registers: [registry],
    collect: () => {
      gauge.set(measure());
    },
  });
}
