// The status page of a real gateway: incidents of the operator, and 90 days of availability and latency from its own calls.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { newId } from "../../src/base/id.ts";
import { DAY_MS, MINUTE_MS, utcDay } from "../../src/base/time.ts";
import { newFormToken } from "../../src/idempotency/form-submission.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import { rollUpUsage } from "../../src/usage/rollup/roll-up.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { usageRecord } from "../ledger/fixtures.ts";
import {
  fetchPage,
  type OperatorHarness,
  type OperatorSession,
  signInOperator,
  startOperatorHarness,
} from "../operator/harness.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { describeEachStore } from "../support/stores/stores.ts";

interface Figures {
  readonly uptime: number | null;
  readonly latency_ms: number | null;
}

interface Status {
  readonly state: string;
  readonly incidents: readonly {
    readonly id: string;
    readonly state: string;
    readonly updates: readonly { readonly message: string }[];
  }[];
  readonly providers: readonly (Figures & {
    readonly id: string;
    readonly name: string;
    readonly state: string | null;
    readonly days: readonly (Figures & { readonly day: string })[];
    readonly models: readonly (Figures & { readonly id: string })[];
  })[];
}

describeEachStore((kind) => {
  let harness: OperatorHarness;
  let session: OperatorSession;
  beforeAll(async () => {
    harness = await startOperatorHarness(kind);
    // Noon, so that no test passes midnight.
    harness.clock.now += 2 * DAY_MS - (harness.clock.now % DAY_MS) - DAY_MS / 2;
    session = await signInOperator(harness);
  });
  afterAll(() => harness.gateway.stop());

  const readStatus = async (): Promise<Status> => {
    // The figures are read at most once a minute.
    harness.clock.now += MINUTE_MS;
    const response = await fetch(`${harness.gateway.url}/v1/status`);
    expectStatus("getStatus", 200, response);
    const headers = { "if-none-match": response.headers.get("etag") ?? "" };
    const again = await fetch(`${harness.gateway.url}/v1/status`, { headers });
    expectStatus("getStatus", 304, again);
    // Safe because the route's schema is this type.
    return (await response.json()) as Status;
  };
  const insert = async (records: readonly UsageRecord[]): Promise<void> => {
    const { db } = harness.gateway.server;
    await db.write((tx) => insertUsage(tx, records));
    await rollUpUsage(db);
  };
  const record = (daysAgo: number, fields: Partial<UsageRecord>): UsageRecord => {
    const createdAt = harness.clock.now - daysAgo * DAY_MS;
    return usageRecord({
      id: newId("req", createdAt),
      accountId: "acct_1",
      keyId: "key_1",
      cost: 0n,
      createdAt,
      provider: "openai",
      model: "openai/gpt-5-mini",
      latencyMs: 700,
      attempts: [{ provider: "openai", model: "openai/gpt-5-mini", status: 200, ms: 700 }],
      ...fields,
    });
  };
  const failed: Partial<UsageRecord> = {
    outcome: "upstream_error",
    status: 502,
    attempts: [{ provider: "openai", model: "openai/gpt-5-mini", status: 500, ms: 5 }],
  };
  const post = (form: Readonly<Record<string, string>>) =>
    fetchPage(harness, "/operator/incidents", session, {
      form: {
        csrf: session.csrf,
        form: newFormToken(),
        incident: "",
        title: "Slow <replies>",
        impact: "degraded",
        state: "investigating",
        message: "We look into it.",
        ...form,
      },
    });

  test("shows availability and latency of 90 days, without days of few calls", async () => {
    const several = (count: number, daysAgo: number, fields: Partial<UsageRecord> = {}) =>
      Array.from({ length: count }, () => record(daysAgo, fields));
    await insert([
      ...several(9, 40),
      ...several(1, 40, failed),
      ...several(4, 10),
      ...several(6, 1),
      ...several(30, 95, failed),
    ]);
    const { state, providers } = await readStatus();
    expect(state).toBe("operational");
    const [provider] = providers;
    expect(provider).toMatchObject({ id: "openai", name: "OpenAI", state: "operational" });
    expect(provider?.days).toHaveLength(90);
    const dayOf = (daysAgo: number) =>
      provider?.days.find(({ day }) => day === utcDay(harness.clock.now - daysAgo * DAY_MS));
    expect(dayOf(40)).toMatchObject({ uptime: 0.9 });
    expect(dayOf(10)).toMatchObject({ uptime: null, latency_ms: null });
    expect(dayOf(1)).toMatchObject({ uptime: 1 });
    expect(dayOf(1)?.latency_ms).toBeGreaterThan(500);
    expect(provider?.uptime).toBe(0.95);
    expect(provider?.models).toMatchObject([{ id: "openai/gpt-5-mini", uptime: 0.95 }]);
    const html = await (await fetch(`${harness.gateway.url}/status`)).text();
    expect(html).toContain("95.00% uptime");
    expect(html).toMatch(/aria-label="OpenAI, median latency by day, up to ~?\d+ ms"/);
    expect(html).toContain("No open incidents.");
  });

  test("shows new calls of today within a minute", async () => {
    await insert(Array.from({ length: 6 }, () => record(0, failed)));
    const [provider] = (await readStatus()).providers;
    expect(provider?.state).toBe("degraded");
  });

  test("shows incidents that an operator posts, also in the feed, and records them", async () => {
    expect(await post({})).toMatchObject({ status: 303 });
    const opened = await readStatus();
    expect(opened).toMatchObject({ state: "incident", incidents: [{ state: "investigating" }] });
    const id = opened.incidents[0]?.id ?? "";
    const resolved = await post({ incident: id, state: "resolved", message: "Fixed." });
    expect(resolved).toMatchObject({ status: 303 });
    const { state, incidents } = await readStatus();
    expect(state).toBe("operational");
    expect(incidents).toMatchObject([
      { id, state: "resolved", updates: [{ message: "Fixed." }, { message: "We look into it." }] },
    ]);
    const html = await (await fetch(`${harness.gateway.url}/status`)).text();
    expect(html).toContain("Slow &lt;replies&gt;");
    const feed = await fetch(`${harness.gateway.url}/status/feed.atom`);
    expect(feed.headers.get("content-type")).toBe("application/atom+xml; charset=utf-8");
    const xml = await feed.text();
    expect(xml.match(/<entry>/g)).toHaveLength(2);
    expect(xml).toContain("<title>Resolved: Slow &lt;replies&gt;</title>");
    const audit = await fetchPage(harness, "/operator/audit?action=incident.posted", session);
    expect(audit.text.match(/incident\.posted/g)?.length).toBeGreaterThan(2);
  });

  test("refuses an update without a text, and of an incident that does not exist", async () => {
    const empty = await post({ message: " " });
    expect(empty.status).toBe(400);
    expect(empty.text).toContain("message");
    expect(empty.text).toContain("Slow &lt;replies&gt;");
    const unknown = await post({ incident: newId("inc", harness.clock.now) });
    expect(unknown.status).toBe(400);
    expect(unknown.text).toContain("This incident does not exist");
    expect((await readStatus()).incidents).toHaveLength(1);
  });

  test("is not for others to write", async () => {
    const { status } = await fetchPage(harness, "/operator/incidents", undefined, {
      form: { title: "x" },
    });
    expect(status).not.toBe(200);
    expect((await readStatus()).incidents).toHaveLength(1);
  });
});
