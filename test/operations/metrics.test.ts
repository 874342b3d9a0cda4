import { describe, expect, test } from "bun:test";
import { HOUR_MS } from "../../src/base/time.ts";
import { createMetrics, type Metrics } from "../../src/operations/metrics.ts";
import { watchEventLoop } from "../../src/operations/process-metrics.ts";
import { usageRecord } from "../ledger/fixtures.ts";

const RECORD = usageRecord({
  id: "req_1",
  accountId: "acct_1",
  keyId: "key_1",
  createdAt: 1_800_000_000_000,
  provider: "openai",
  cost: 0n,
});

const newMetrics = (version = "1.2.3"): Metrics =>
  createMetrics({
    version,
    ledgerQueueDepth: () => 7,
    openCircuits: () => 2,
    requestBodyBytes: () => 9,
    process: {
      openFiles: { max: 1_024, count: () => 20 },
      databasePool: () => ({ max: 10, busy: 10, waiting: 3 }),
      eventLoop: { delay: () => 0.25, stop: () => {} },
      jobRuns: new Map([
        [
          "sweep",
          { intervalMs: 10_000, failures: 2, succeededAt: 1_800_000_000_000, last: undefined },
        ],
        ["archive", { intervalMs: 3_600_000, failures: 0, last: undefined }],
      ]),
    },
  });
const linesOf = (metrics: Metrics, name: string): readonly string[] =>
  metrics
    .render()
    .split("\n")
    .filter((line) => line.startsWith(name));

describe("the metrics", () => {
  test("have help and type lines before the samples of each family", () => {
    const text = newMetrics().render();
    const kinds = [...text.matchAll(/^# HELP (\w+) .+\n# TYPE \1 (counter|gauge|histogram)$/gm)];
    expect(kinds.map(([, name, kind]) => `${name} ${kind}`)).toEqual([
      "postern_requests_total counter",
      "postern_request_seconds histogram",
      "postern_calls_total counter",
      "postern_call_tokens_total counter",
      "postern_call_charges_usd_total counter",
      "postern_open_circuits gauge",
      "postern_info gauge",
      "postern_ledger_queue gauge",
      "postern_request_body_bytes gauge",
      "process_start_time_seconds gauge",
      "process_open_fds gauge",
      "process_max_fds gauge",
      "process_resident_memory_bytes gauge",
      "process_cpu_seconds_total counter",
      "postern_event_loop_delay_seconds gauge",
      "postern_database_connections gauge",
      "postern_database_connections_max gauge",
      "postern_job_last_success_timestamp_seconds gauge",
      "postern_job_interval_seconds gauge",
      "postern_job_failures_total counter",
    ]);
    expect(text).toEndWith("\n");
  });

  test("consist of comments, samples and empty lines", () => {
    const metrics = newMetrics();
    metrics.recordRequest("readBalance", 200, 3.25);
    const sample = /^[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [\d.e+-]+$/;
    for (const line of metrics.render().split("\n"))
      expect(line === "" || line.startsWith("# ") || sample.test(line)).toBe(true);
  });

  test("tell when the process started and its jobs succeeded, and what is scarce", () => {
    const metrics = newMetrics();
    const started = Number(linesOf(metrics, "process_start_time_seconds")[0]?.split(" ")[1]);
    expect(Math.abs(started - (Date.now() / 1_000 - process.uptime()))).toBeLessThan(60);
    expect(linesOf(metrics, "process_open_fds")).toEqual(["process_open_fds 20"]);
    expect(linesOf(metrics, "postern_event_loop_delay_seconds")).toEqual([
      "postern_event_loop_delay_seconds 0.25",
    ]);
    expect(linesOf(metrics, "postern_database_connections")).toEqual([
      'postern_database_connections{state="busy"} 10',
      'postern_database_connections{state="waiting"} 3',
      "postern_database_connections_max 10",
    ]);
    expect(linesOf(metrics, "postern_job_")).toEqual([
      'postern_job_last_success_timestamp_seconds{job="sweep"} 1800000000',
      'postern_job_last_success_timestamp_seconds{job="archive"} 0',
      'postern_job_interval_seconds{job="sweep"} 10',
      'postern_job_interval_seconds{job="archive"} 3600',
      'postern_job_failures_total{job="sweep"} 2',
      'postern_job_failures_total{job="archive"} 0',
    ]);
  });

  test("measure the event loop while it is blocked", () => {
    let now = 0;
    const { delay, stop } = watchEventLoop(() => now);
    expect(delay()).toBe(0);
    now += 3_500;
    expect(delay()).toBe(3);
    stop();
  });

  test("do not decrease when the clock steps back", () => {
    const metrics = newMetrics();
    metrics.recordRequest("readBalance", 200, 2_000);
    metrics.recordRequest("readBalance", 200, -HOUR_MS);
    expect(linesOf(metrics, "postern_request_seconds_sum")).toEqual([
      'postern_request_seconds_sum{route="readBalance"} 2',
    ]);
  });

  test("count requests by route and status", () => {
    const metrics = newMetrics();
    for (const status of [200, 200, 404]) metrics.recordRequest("readBalance", status, 1);
    metrics.recordRequest("none", 404, 1);
    expect(linesOf(metrics, "postern_requests_total")).toEqual([
      'postern_requests_total{route="readBalance",status="200"} 2',
      'postern_requests_total{route="readBalance",status="404"} 1',
      'postern_requests_total{route="none",status="404"} 1',
    ]);
  });

  test("sum model calls by provider and model, exact to the nano-dollar", () => {
    const metrics = newMetrics();
    metrics.recordCall({ ...RECORD, cost: 5_000_000_001n });
    metrics.recordCall({ ...RECORD, cost: 2n });
    metrics.recordCall({
      ...RECORD,
      outcome: "upstream_error",
      inputTokens: 0,
      outputTokens: 0,
      cost: 0n,
    });
    metrics.recordCall({ ...RECORD, provider: "groq", cost: 0n });
    expect(linesOf(metrics, "postern_call")).toEqual([
      'postern_calls_total{provider="openai",model="sim/steady",outcome="completed"} 2',
      'postern_calls_total{provider="openai",model="sim/steady",outcome="upstream_error"} 1',
      'postern_calls_total{provider="groq",model="sim/steady",outcome="completed"} 1',
      'postern_call_tokens_total{provider="openai",model="sim/steady",kind="input"} 20',
      'postern_call_tokens_total{provider="openai",model="sim/steady",kind="output"} 10',
      'postern_call_tokens_total{provider="groq",model="sim/steady",kind="input"} 10',
      'postern_call_tokens_total{provider="groq",model="sim/steady",kind="output"} 5',
      'postern_call_charges_usd_total{provider="openai",model="sim/steady"} 5.000000003',
      'postern_call_charges_usd_total{provider="groq",model="sim/steady"} 0',
    ]);
    expect(linesOf(metrics, "postern_open_circuits")).toEqual(["postern_open_circuits 2"]);
  });

  test("count models beyond the first 500 as one", () => {
    const metrics = newMetrics();
    for (let index = 0; index < 502; index += 1)
      metrics.recordCall({ ...RECORD, model: `model-${index}` });
    const lines = linesOf(metrics, "postern_calls_total");
    expect(lines).toHaveLength(501);
    expect(lines.at(-1)).toBe(
      'postern_calls_total{provider="openai",model="other",outcome="completed"} 2',
    );
  });

  test("have cumulative latency buckets", () => {
    const metrics = newMetrics();
    for (const ms of [0, 1, 2.5, 2.6, 300_000, 300_001]) metrics.recordRequest("r", 200, ms);
    const counts = new Map(
      linesOf(metrics, "postern_request_seconds_bucket").map((line) => {
        const [, le, count] = /le="([^"]+)",route="r"\} (\d+)$/.exec(line) ?? [];
        return [le, Number(count)];
      }),
    );
    expect(counts.size).toBe(17);
    expect([...counts.values()]).toEqual([...counts.values()].toSorted((a, b) => a - b));
    for (const [le, count] of [
      ["0.001", 2],
      ["0.0025", 3],
      ["0.005", 4],
      ["60", 4],
      ["300", 5],
      ["+Inf", 6],
    ] as const)
      expect([le, counts.get(le)]).toEqual([le, count]);
    expect(linesOf(metrics, "postern_request_seconds_sum")).toEqual([
      `postern_request_seconds_sum{route="r"} ${0.001 + 0.0025 + 0.0026 + 300 + 300.001}`,
    ]);
    expect(linesOf(metrics, "postern_request_seconds_count")).toEqual([
      'postern_request_seconds_count{route="r"} 6',
    ]);
  });

  test("read gauges when rendered, and escape labels", () => {
    const metrics = newMetrics('1"\\\n');
    expect(linesOf(metrics, "postern_info")).toEqual([
      String.raw`postern_info{version="1\"\\\n"} 1`,
    ]);
    expect(linesOf(metrics, "postern_ledger_queue")).toEqual(["postern_ledger_queue 7"]);
    const resident = Number(linesOf(metrics, "process_resident_memory_bytes")[0]?.split(" ")[1]);
    expect(resident).toBeGreaterThan(1_000_000);
    expect(linesOf(metrics, "process_cpu_seconds_total")[0]).toMatch(/ \d+\.\d+$/);
  });
});
