// PostgreSQL is stopped while calls are open, and started again: nothing delivered is free, and nothing refused is charged.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { integer, type Row } from "../../../src/store/db.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { verifyLedger } from "../../../src/verification/verify.ts";
import { eventually } from "../../support/eventually.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { type OwnPostgres, startOwnPostgres } from "../../support/stores/own-postgres.ts";
import { type GatedSimulator, startGatedSimulator } from "../support/gated-simulator.ts";
import {
  bodyOf,
  countOpenHolds,
  errorOf,
  isCompleteStream,
  postCall,
  STREAMED_APIS,
  usageRecordsOf,
  withHeaders,
} from "../support/harness.ts";

/** Shorter than the ten seconds of production, which do the same. */
const STORE_WAIT_MS = 400;
/** Longer than the lease of a process on its holds. */
const LEASE_OVER_MS = 40_000;

describe("while PostgreSQL is away", () => {
  let postgres: OwnPostgres;
  let gate: GatedSimulator;
  let gateway: Gateway;
  let account: TestAccount;
  let aheadMs = 0;
  beforeAll(async () => {
    postgres = await startOwnPostgres();
    const db = openPostgres(postgres.url);
    await migrate(db, Date.now());
    await db.close();
    gate = startGatedSimulator();
    gateway = await startGateway({
      databaseUrl: postgres.url,
      env: { SIM_BASE_URL: gate.url },
      now: () => Date.now() + aheadMs,
      storeWaitMs: STORE_WAIT_MS,
    });
  });
  beforeEach(async () => {
    gate.open();
    // A call after the end of the lease renews it.
    const other = await registerAccount(gateway);
    await (await postCall(gateway, other, "chat", bodyOf("chat", "renew"))).text();
    account = await registerAccount(gateway);
  });
  afterAll(async () => {
    await gateway.stop();
    await gate.stop();
    postgres.stop();
  });

  /** The record of the account's only call, once the store is back. */
  async function settledRecord(): Promise<Row> {
    await postgres.resume();
    const { db } = gateway.server;
    const records = await eventually(async () => {
      const found = await usageRecordsOf(db, account.id).catch(() => []);
      return found.length > 0 ? found : undefined;
    });
    await eventually(async () => (await countOpenHolds(db)) === 0);
    expect(records).toHaveLength(1);
    expect((await verifyLedger(db)).problems).toEqual([]);
    const [record] = records;
    if (record === undefined) throw new Error("no record");
    return record;
  }

  for (const api of STREAMED_APIS)
    test(`a ${api} stream that is open ends with an error event, and what was relayed is charged`, async () => {
      const prompt = "[[sim: chunks=400 pace=50 tokens=400]] go on";
      const response = await postCall(
        gateway,
        account,
        api,
        bodyOf(api, prompt, { stream: true, ...(api === "responses" ? { store: false } : {}) }),
      );
      const reader = response.body?.getReader();
      await reader?.read();
      await postgres.pause();
      aheadMs += LEASE_OVER_MS;
      let text = "";
      for (;;) {
        const part = await reader?.read();
        if (part?.value === undefined) break;
        text += new TextDecoder().decode(part.value);
      }
      expect(isCompleteStream(api, text)).toBe(false);
      expect(text).toContain("The gateway's database was unavailable during the call");
      expect(text).toContain(api === "chat" ? 'data: {"error":' : "event: error");
      const record = await settledRecord();
      expect(record["outcome"]).toBe("shut_down");
      expect(integer(record, "output_tokens")).toBeLessThan(200);
      expect(Number(record["cost_nano"])).toBeGreaterThan(0);
    });

  test("a stream that the provider completes ends with an error event and is charged later, once", async () => {
    gate.close();
    const keyed = withHeaders(account, { "idempotency-key": "outage" });
    const body = bodyOf("chat", "[[sim: tokens=20]] once", { stream: true });
    const pending = postCall(gateway, keyed, "chat", body);
    await eventually(() => gate.waiting() === 1);
    await postgres.pause();
    gate.open();
    const text = await (await pending).text();
    expect(isCompleteStream("chat", text)).toBe(false);
    expect(text).toContain("The gateway's database was unavailable during the call");
    const { ledger } = gateway.server;
    expect(ledger.deferredSettlements().map(({ accountId }) => accountId)).toEqual([account.id]);
    const record = await settledRecord();
    await eventually(() => ledger.deferredSettlements().length === 0);
    expect(record["outcome"]).toBe("completed");
    expect(integer(record, "output_tokens")).toBe(20);
    const repeated = await postCall(gateway, keyed, "chat", body);
    expect(isCompleteStream("chat", await repeated.text())).toBe(true);
    expect(await usageRecordsOf(gateway.server.db, account.id)).toHaveLength(1);
  });

  for (const isLeaseOver of [false, true])
    test(`a whole reply is refused and costs nothing, ${isLeaseOver ? "after" : "within"} the lease`, async () => {
      gate.close();
      const pending = postCall(gateway, account, "chat", bodyOf("chat", "[[sim: tokens=20]] once"));
      await eventually(() => gate.waiting() === 1);
      await postgres.pause();
      if (isLeaseOver) aheadMs += LEASE_OVER_MS;
      gate.open();
      const response = await pending;
      expect(response.status).toBe(503);
      expect(response.headers.get("retry-after")).toBe("1");
      expect(String(errorOf(await response.json())["message"])).toContain(
        "database was unavailable",
      );
      const record = await settledRecord();
      expect(record).toMatchObject({ outcome: "shut_down", status: 503n, cost_nano: 0n });
    });

  test("a background response is stored and charged once the store is back", async () => {
    gate.close();
    const body = bodyOf("responses", "[[sim: tokens=20]] later", { background: true });
    const accepted = await postCall(gateway, account, "responses", body);
    const { id } = (await accepted.json()) as { id: string };
    await eventually(() => gate.waiting() === 1);
    await postgres.pause();
    gate.open();
    await eventually(() =>
      gateway.logLines.some((line) => line.includes("settlement of a call is retried")),
    );
    expect(await settledRecord()).toMatchObject({ outcome: "completed" });
    await eventually(async () => {
      const found = await fetch(`${gateway.url}/v1/responses/${id}`, { headers: account.headers });
      return ((await found.json()) as { status: string }).status === "completed";
    });
  });

  test("a call whose provider fails gets the provider's error", async () => {
    gate.close();
    const pending = postCall(gateway, account, "chat", bodyOf("chat", "[[sim: status=400]] no"));
    await eventually(() => gate.waiting() === 1);
    await postgres.pause();
    gate.open();
    expect((await pending).status).toBe(400);
    expect(await settledRecord()).toMatchObject({ outcome: "upstream_error", cost_nano: 0n });
  });
});
