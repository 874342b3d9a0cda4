// Export of spans to a collector that is slow, unavailable or rejects them.

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { assert, boolean, property, string, stringMatching } from "fast-check";
import { secret } from "../../src/base/crypto/secret.ts";
import { createLog } from "../../src/base/log.ts";
import { parseTraceParent } from "../../src/base/network/trace-parent.ts";
import type { Config } from "../../src/config/config.ts";
import { createJobs } from "../../src/server/jobs.ts";
import type { Services } from "../../src/server/services.ts";
import { createTelemetry, type Telemetry } from "../../src/telemetry/telemetry.ts";
import { usageRecord } from "../ledger/fixtures.ts";
import { type FakeCollector, startFakeCollector, acceptedResponse } from "./fake-collector.ts";

const RECORD = usageRecord({
  id: "req_01kah5t3mq7d2c9w4e6r8t0yax",
  accountId: "acct_01kah5t3mq7d2c9w4e6r8t0yax",
  keyId: "key_01kah5t3mq7d2c9w4e6r8t0yax",
  createdAt: 1_800_000_000_000,
  model: "openai/gpt-5-mini",
  provider: "openai",
  cost: 1_500n,
});

let collector: FakeCollector;
let logged: string[];
let telemetry: Telemetry;
beforeEach(() => {
  collector = startFakeCollector();
  logged = [];
  telemetry = openTelemetry();
});
afterEach(async () => {
  await collector.stop();
});

function openTelemetry(shutdownTimeoutMs?: number): Telemetry {
  return createTelemetry({
    url: `${collector.url}/v1/traces`,
    headers: { "api-key": secret("hidden") },
    shouldContinueTraces: true,
    resource: { serviceName: "postern", version: "1", instance: "one" },
    log: createLog({
      level: "warn",
      isPretty: false,
      now: Date.now,
      write: (line) => logged.push(line),
    }),
    ...(shutdownTimeoutMs === undefined ? {} : { shutdownTimeoutMs }),
  });
}

function recordCalls(times = 1): void {
  for (let count = 0; count < times; count++)
    telemetry.recordCall({ record: RECORD, requestedModel: "gpt-5-mini" }, new Headers());
}

describe("spans", () => {
  test("are sent in batches of 512", async () => {
    recordCalls(600);
    await telemetry.flush();
    await telemetry.shutdown();
    expect(collector.spans()).toHaveLength(600);
    expect(collector.bodies).toHaveLength(2);
    expect(telemetry.counts()).toEqual({ sent: 600, dropped: 0 });
  });

  test("are queued while the collector is unavailable", async () => {
    collector.respond = () => new Response(null, { status: 503 });
    recordCalls(3);
    await telemetry.flush();
    expect(telemetry.counts()).toEqual({ sent: 0, dropped: 0 });
    collector.respond = acceptedResponse;
    await telemetry.shutdown();
    expect(telemetry.counts()).toEqual({ sent: 3, dropped: 0 });
  });

  test("are not sent before retry-after", async () => {
    collector.respond = () => new Response(null, { status: 429, headers: { "retry-after": "30" } });
    recordCalls();
    await telemetry.flush();
    await telemetry.flush();
    expect(collector.bodies).toHaveLength(1);
  });

  test("are dropped and counted if the collector rejects the export, which is logged once", async () => {
    collector.respond = () => new Response("unauthorized", { status: 401 });
    recordCalls(2);
    await telemetry.flush();
    recordCalls();
    await telemetry.flush();
    expect(telemetry.counts()).toEqual({ sent: 0, dropped: 3 });
    expect(logged).toHaveLength(1);
    expect(logged[0]).toContain("status 401");
    expect(logged[0]).not.toContain("hidden");
  });

  test("count as dropped if the collector rejects a part of them", async () => {
    collector.respond = () =>
      Response.json({ partialSuccess: { rejectedSpans: "2", errorMessage: "too old" } });
    recordCalls(5);
    await telemetry.flush();
    expect(telemetry.counts()).toEqual({ sent: 3, dropped: 2 });
  });

  test("are dropped above a queue of 4,096", async () => {
    collector.respond = () => new Response(null, { status: 503 });
    recordCalls(4_100);
    expect(telemetry.counts().dropped).toBe(4);
  });

  test("do not block shutdown if the collector does not respond", async () => {
    const response = Promise.withResolvers<Response>();
    collector.respond = () => response.promise;
    telemetry = openTelemetry(20);
    recordCalls();
    await telemetry.shutdown();
    expect(telemetry.counts()).toEqual({ sent: 0, dropped: 1 });
    response.resolve(acceptedResponse());
  });

  test("are not awaited by the export job", async () => {
    const response = Promise.withResolvers<Response>();
    collector.respond = () => response.promise;
    recordCalls();
    // The other jobs are created and never run, so their services are not needed.
    const unused = {};
    const services = {
      core: { keys: unused, refusedCalls: unused, db: { kind: "sqlite" } },
      modelCalls: { inference: unused, providerKeys: unused, responses: unused, telemetry },
      deliveryWorker: unused,
      auditStreamWorker: unused,
      sinkWorker: unused,
      sso: unused,
      ledgerProofs: unused,
      billing: unused,
      emailWorker: unused,
      operatorAlerts: unused,
      agentPayments: { jobs: [] },
      batches: unused,
      batchRunner: unused,
    } as unknown as Services;
    const options = {
      log: createLog({ level: "error", isPretty: false, now: Date.now, write: () => {} }),
      now: Date.now,
      onFatal: () => {},
    };
    const jobs = createJobs({ processName: "test" } as Config, options, services);
    await jobs.find(({ name }) => name === "export telemetry")?.run();
    expect(telemetry.counts()).toEqual({ sent: 0, dropped: 0 });
    response.resolve(acceptedResponse());
    await telemetry.shutdown();
    expect(telemetry.counts()).toEqual({ sent: 1, dropped: 0 });
  });
});

describe("parseTraceParent", () => {
  const hex = (length: number) =>
    stringMatching(new RegExp(`^[0-9a-f]{${length}}$`)).filter((text) => !/^0*$/.test(text));

  test("parses ids and the sampled flag, also of later versions", () => {
    assert(
      property(hex(32), hex(16), boolean(), (traceId, spanId, isSampled) => {
        const flags = isSampled ? "01" : "00";
        const expected = { traceId, spanId, isSampled };
        expect(parseTraceParent(`00-${traceId}-${spanId}-${flags}`)).toEqual(expected);
        expect(parseTraceParent(`01-${traceId}-${spanId}-${flags}-more`)).toEqual(expected);
        expect(parseTraceParent(`ff-${traceId}-${spanId}-${flags}`)).toBeUndefined();
      }),
    );
  });

  test("ignores invalid headers", () => {
    assert(
      property(string(), (text) => {
        expect(parseTraceParent(text)).toBeUndefined();
      }),
    );
    expect(parseTraceParent(null)).toBeUndefined();
    expect(parseTraceParent(`00-${"A".repeat(32)}-${"b".repeat(16)}-01`)).toBeUndefined();
  });
});
