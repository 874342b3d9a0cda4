// How spans reach a collector that is slow, away, full, or of another opinion.

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { assert, boolean, property, string, stringMatching } from "fast-check";
import { createLog } from "../../src/base/log.ts";
import { secret } from "../../src/base/secret.ts";
import type { Config } from "../../src/config/config.ts";
import { parseTraceParent } from "../../src/telemetry/span.ts";
import { createTelemetry, type Telemetry } from "../../src/telemetry/telemetry.ts";
import { createJobs } from "../../src/server/jobs.ts";
import type { Services } from "../../src/server/services.ts";
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
  test("are sent together, in batches of 512", async () => {
    recordCalls(600);
    await telemetry.flush();
    await telemetry.shutdown();
    expect(collector.spans()).toHaveLength(600);
    expect(collector.bodies).toHaveLength(2);
    expect(telemetry.counts()).toEqual({ sent: 600, dropped: 0 });
  });

  test("are kept while the collector is away, and sent when it is back", async () => {
    collector.respond = () => new Response(null, { status: 503 });
    recordCalls(3);
    await telemetry.flush();
    expect(telemetry.counts()).toEqual({ sent: 0, dropped: 0 });
    collector.respond = acceptedResponse;
    await telemetry.shutdown();
    expect(telemetry.counts()).toEqual({ sent: 3, dropped: 0 });
  });

  test("wait as long as a collector asks them to", async () => {
    collector.respond = () => new Response(null, { status: 429, headers: { "retry-after": "30" } });
    recordCalls();
    await telemetry.flush();
    await telemetry.flush();
    expect(collector.bodies).toHaveLength(1);
  });

  test("that are refused are let go of and counted, and the log says so once", async () => {
    collector.respond = () => new Response("who are you?", { status: 401 });
    recordCalls(2);
    await telemetry.flush();
    recordCalls();
    await telemetry.flush();
    expect(telemetry.counts()).toEqual({ sent: 0, dropped: 3 });
    expect(logged).toHaveLength(1);
    expect(logged[0]).toContain("status 401");
    expect(logged[0]).not.toContain("hidden");
  });

  test("of which a part is rejected are counted as such", async () => {
    collector.respond = () =>
      Response.json({ partialSuccess: { rejectedSpans: "2", errorMessage: "too old" } });
    recordCalls(5);
    await telemetry.flush();
    expect(telemetry.counts()).toEqual({ sent: 3, dropped: 2 });
  });

  test("beyond 4,096 that wait are dropped", async () => {
    collector.respond = () => new Response(null, { status: 503 });
    recordCalls(4_100);
    expect(telemetry.counts().dropped).toBe(4);
  });

  test("do not hold a shutdown up where the collector is silent", async () => {
    const silence = Promise.withResolvers<Response>();
    collector.respond = () => silence.promise;
    telemetry = openTelemetry(20);
    recordCalls();
    const began = performance.now();
    await telemetry.shutdown();
    expect(performance.now() - began).toBeLessThan(1_000);
    expect(telemetry.counts()).toEqual({ sent: 0, dropped: 1 });
    silence.resolve(acceptedResponse());
  });

  test("is not awaited by the export job", async () => {
    const silence = Promise.withResolvers<Response>();
    collector.respond = () => silence.promise;
    recordCalls();
    // The other jobs are created and never run, so their services are not needed.
    const unused = {};
    const services = {
      core: { keys: unused },
      modelCalls: { providerKeys: unused, responses: unused, telemetry },
      deliveryWorker: unused,
      billing: unused,
    } as unknown as Services;
    const options = {
      log: createLog({ level: "error", isPretty: false, now: Date.now, write: () => {} }),
      now: Date.now,
      onFatal: () => {},
    };
    const jobs = createJobs({ processName: "test" } as Config, options, services);
    const run = jobs.find(({ name }) => name === "export telemetry")?.run();
    const first = await Promise.race([run?.then(() => "the job"), timeout()]);
    expect(first).toBe("the job");
    silence.resolve(acceptedResponse());
    await telemetry.shutdown();
    expect(telemetry.counts()).toEqual({ sent: 1, dropped: 0 });
  });
});

/** Long enough for the collector's silence to be noticed. */
function timeout(): Promise<string> {
  return Bun.sleep(200).then(() => "the silence");
}

describe("a traceparent", () => {
  const hex = (length: number) =>
    stringMatching(new RegExp(`^[0-9a-f]{${length}}$`)).filter((text) => !/^0*$/.test(text));

  test("is read for what it says, also by later versions with more in it", () => {
    assert(
      property(hex(32), hex(16), boolean(), (traceId, spanId, isSampled) => {
        const flags = isSampled ? "01" : "00";
        const read = { traceId, spanId, isSampled };
        expect(parseTraceParent(`00-${traceId}-${spanId}-${flags}`)).toEqual(read);
        expect(parseTraceParent(`01-${traceId}-${spanId}-${flags}-more`)).toEqual(read);
        expect(parseTraceParent(`ff-${traceId}-${spanId}-${flags}`)).toBeUndefined();
      }),
    );
  });

  test("that is anything else is as good as none", () => {
    assert(
      property(string(), (text) => {
        expect(parseTraceParent(text)).toBeUndefined();
      }),
    );
    expect(parseTraceParent(null)).toBeUndefined();
    expect(parseTraceParent(`00-${"A".repeat(32)}-${"b".repeat(16)}-01`)).toBeUndefined();
  });
});
