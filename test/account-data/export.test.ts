// The export of an account through the API: complete, without secrets, and only the caller's own records.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createExports } from "../../src/account-data/export-stream.ts";
import { exportLines } from "../../src/account-data/export.ts";
import { newId } from "../../src/base/id.ts";
import { createLog } from "../../src/base/log.ts";
import type { Reader, Row } from "../../src/store/db.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { usageRecord } from "../ledger/fixtures.ts";
import { eventually } from "../support/eventually.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

const BILLING = {
  links: {
    urlFor: (id: string) => id,
    receiptPath: (id: string) => `/pay/${id}/receipt`,
    verifyToken: () => undefined,
  },
  baseUrl: "https://gateway.example",
  paymentOptions: { hasPage: true, acceptsX402: false, acceptsMpp: false, minUsd: 1 },
};

const PROVIDER_KEY = "sk-canary-0123456789abcdefghij-9fQz";
const MANY_CALLS = 1_500;
const NANO_PER_USD = 1e9;
const SLOW_ROW_MS = 0.5;
const HOLD_MAX_MS = 20;

interface Line {
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
}

describe.each([...STORE_KINDS])("GET /v1/account/export on %s", (store) => {
  let gateway: Gateway;
  let alice: TestAccount;
  let bob: TestAccount;
  beforeAll(async () => {
    gateway = await startGateway({ store, providers: ["sim", "openai"] });
    [alice, bob] = [await registerAccount(gateway), await registerAccount(gateway)];
  });
  afterAll(() => gateway.stop());

  const call = async (account: TestAccount, method: string, path: string, body?: unknown) => {
    const response = await fetch(gateway.url + path, {
      method,
      headers: account.headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, text: await response.text(), headers: response.headers };
  };
  const exportOf = async (account: TestAccount): Promise<readonly Line[]> => {
    const response = await call(account, "GET", "/v1/account/export");
    expectStatus("exportAccount", 200, response);
    expect(response.headers.get("content-type")).toBe("application/x-ndjson");
    return response.text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Line);
  };

  test("has every kind of record and no secret", async () => {
    await call(alice, "POST", "/v1/keys", { name: "ci" });
    await call(alice, "POST", "/v1/provider-keys", { provider: "openai", api_key: PROVIDER_KEY });
    const hook = await call(alice, "POST", "/v1/webhooks", {
      url: "http://127.0.0.1:9/",
      events: ["*"],
    });
    await call(alice, "POST", "/v1/billing/invoice", { amount_usd: 10 });
    await call(alice, "PATCH", "/v1/account/budgets", { daily_usd: 3 });
    const completion = await call(alice, "POST", "/v1/chat/completions", {
      model: "sim/echo",
      messages: [{ role: "user", content: "Hello" }],
      max_tokens: 10,
    });
    expect(completion.status).toBe(200);
    for (const session of ["s1", "s2", "s3"])
      await fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: { ...alice.headers, "x-postern-session": session },
        body: JSON.stringify({ model: "sim/echo", messages: [{ role: "user", content: "a" }] }),
      });
    const lines = await exportOf(alice);
    const ofType = (type: string) =>
      lines.filter((line) => line.type === type).map(({ data }) => data);
    expect(ofType("account")).toMatchObject([
      { id: alice.id, budgets: { daily: { limit_usd: 3 } } },
    ]);
    expect(ofType("key").map((key) => key["name"])).toEqual(["ci", null]);
    expect(ofType("provider_key")).toMatchObject([{ provider: "openai" }]);
    expect(ofType("webhook")).toMatchObject([{ url: "http://127.0.0.1:9/" }]);
    expect(ofType("invoice")).toMatchObject([{ amount_usd: 10, status: "open" }]);
    expect(ofType("usage").map(({ model }) => model)).toEqual(Array(4).fill("sim/echo"));
    expect(new Set(ofType("agent_session").map(({ id }) => id))).toEqual(
      new Set(["s1", "s2", "s3"]),
    );
    expect(ofType("agent_session")[0]).toMatchObject({ object: "session", calls: 1 });
    expect(
      ofType("transfer")
        .map((transfer) => transfer["kind"])
        .toSorted((a, b) => String(a).localeCompare(String(b))),
    ).toEqual(["grant", ...Array<string>(4).fill("usage")]);
    expect(ofType("audit_entry").length).toBeGreaterThan(4);
    expect(lines.at(-1)).toEqual({ type: "end", data: { records: lines.length - 1 } });
    const text = JSON.stringify(lines);
    expect(text).not.toContain("canary");
    expect(text).not.toContain(alice.key);
    expect(text).not.toContain(String(JSON.parse(hook.text).secret));
  });

  test("has transfers that add up to the balance, and moves no money", async () => {
    const { db } = gateway.server;
    const wallets = () => db.all("select * from wallet order by account_id");
    const before = await wallets();
    const lines = await exportOf(alice);
    const balance = lines.find(({ type }) => type === "account")?.data["balance"];
    const transfers = lines.filter(({ type }) => type === "transfer").map(({ data }) => data);
    const nanos = transfers.map(({ amount_usd: usd, to }) => {
      const nano = Math.round(Number(usd) * NANO_PER_USD);
      return to === `${alice.id}:promo` ? nano : -nano;
    });
    const sum = nanos.reduce((total, nano) => total + nano, 0);
    expect(balance).toMatchObject({ promotional_usd: String(sum / NANO_PER_USD), owed_usd: "0" });
    expect(await wallets()).toEqual(before);
    expect((await verifyLedger(db)).problems).toEqual([]);
  });

  test("has nothing of another account", async () => {
    const text = JSON.stringify(await exportOf(bob));
    expect(text).toContain(bob.id);
    expect(text).not.toContain(alice.id);
    for (const { data } of await exportOf(alice))
      for (const id of [data["id"], data["key_id"]].filter((value) => typeof value === "string"))
        expect(text).not.toContain(`"${id}"`);
  });

  test("reads page by page, while other requests are answered", async () => {
    const now = Date.now();
    const records = Array.from({ length: MANY_CALLS }, () =>
      usageRecord({
        id: newId("req", now),
        accountId: bob.id,
        keyId: "k",
        cost: 0n,
        createdAt: now,
      }),
    );
    await gateway.server.db.write((tx) => insertUsage(tx, records));
    const [lines, during] = await Promise.all([exportOf(bob), call(bob, "GET", "/v1/account")]);
    expect(during.status).toBe(200);
    expect(
      new Set(lines.filter(({ type }) => type === "usage").map(({ data }) => data["id"])).size,
    ).toBe(MANY_CALLS);
  });

  test("occupies the event loop for at most 20 ms at a time on a slow machine, and half of the time", async () => {
    let busyMs = 0;
    const readSlowly = (row: Row): Row =>
      Object.defineProperty({ ...row }, "id", {
        get: () => {
          busyMs += SLOW_ROW_MS;
          return row["id"];
        },
      });
    const { db } = gateway.server;
    const context = {
      db: {
        kind: db.kind,
        all: async (sql, params) => (await db.all(sql, params)).map(readSlowly),
        get: (sql, params) => db.get(sql, params),
      } satisfies Reader,
      accountId: bob.id,
      now: Date.now(),
      billing: BILLING,
      monotonicNow: () => busyMs,
    };
    let longestMs = 0;
    let turnAt = busyMs;
    let isRunning = true;
    const turn = (): void => {
      longestMs = Math.max(longestMs, busyMs - turnAt);
      turnAt = busyMs;
      if (isRunning) setImmediate(turn);
    };
    setImmediate(turn);
    const beganAt = performance.now();
    let lines = 0;
    for await (const page of exportLines(context)) lines += page.split("\n").length - 1;
    const elapsedMs = performance.now() - beganAt;
    isRunning = false;
    expect(lines).toBeGreaterThan(MANY_CALLS);
    expect(busyMs).toBeGreaterThan(MANY_CALLS * SLOW_ROW_MS);
    expect(longestMs).toBeLessThan(HOLD_MAX_MS);
    // The work of a slow row takes no time here, so what has elapsed are the pauses.
    expect(elapsedMs).toBeGreaterThan(busyMs * 0.9);
  });

  test("runs once at a time for an account, until it is read or canceled", async () => {
    const { db } = gateway.server;
    const log = createLog({ level: "error", isPretty: false, now: Date.now, write: () => {} });
    const start = createExports(log);
    const context = { db, accountId: bob.id, now: Date.now(), billing: BILLING };
    const first = start(context);
    expect(() => start(context)).toThrow("an export of the account is running");
    await start({ ...context, accountId: alice.id }).text();
    await first.body?.cancel();
    expect(await start(context).text()).toContain('"type":"end"');
    expect(await start(context).text()).toContain('"type":"end"');
  });

  test("logs no error if the client leaves while a page is read", async () => {
    const { headers } = alice;
    for (let count = 0; count < 20; count++) {
      const leaving = new AbortController();
      const { signal } = leaving;
      const response = await fetch(`${gateway.url}/v1/account/export`, { headers, signal });
      const reader = response.body?.getReader();
      await reader?.read();
      leaving.abort();
      await eventually(async () => (await call(alice, "GET", "/v1/account/export")).status === 200);
    }
    expect(gateway.logLines.filter((line) => line.includes('"level":"error"'))).toEqual([]);
  });

  test("rejects two different keys", async () => {
    const headers = { ...alice.headers, "x-api-key": bob.key };
    const response = await fetch(`${gateway.url}/v1/account/export`, { headers });
    expectStatus("exportAccount", 400, response);
  });

  test("needs the scope account:export, which no limited key has", async () => {
    const limited = JSON.parse((await call(alice, "POST", "/v1/keys", { limit_usd: 1 })).text);
    const headers = { authorization: `Bearer ${String(limited.api_key)}` };
    const response = await fetch(`${gateway.url}/v1/account/export`, { headers });
    expectStatus("exportAccount", 403, response);
    expect(await response.text()).toContain("account:export");
  });
});
