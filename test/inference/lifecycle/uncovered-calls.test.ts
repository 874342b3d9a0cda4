// Calls whose hold was swept, and whose credits were spent, before their settlement: the caller is refused, and nothing is
// kept for a repetition.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { adjust } from "../../../src/ledger/payments/adjustments.ts";
import { verifyLedger } from "../../../src/verification/verify.ts";
import { sweepAsDead } from "../../ledger/fixtures.ts";
import { eventually } from "../../support/eventually.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import { type GatedSimulator, startGatedSimulator } from "../support/gated-simulator.ts";
import {
  type Api,
  bodyOf,
  grantCredits,
  type Json,
  postCall,
  readWallet,
  USD,
  usageRecordsOf,
  withHeaders,
} from "../support/harness.ts";

const REFUSAL = "suspended during the call";

describe.each(STORE_KINDS)("a call whose credits others have spent, on %s", (store) => {
  let gate: GatedSimulator;
  let gateway: Gateway;
  beforeAll(async () => {
    gate = startGatedSimulator();
    gateway = await startGateway({ store, env: { SIM_BASE_URL: gate.url } });
  });
  afterAll(async () => {
    await gateway.stop();
    await gate.stop();
  });

  /** Sweeps the hold of the call that waits at the provider, takes all credits, and lets the provider reply. */
  async function loseHold({ id }: TestAccount): Promise<void> {
    const { db } = gateway.server;
    await eventually(() => gate.waiting() === 1);
    await eventually(async () => (await sweepAsDead(db, Date.now())) === 1);
    const { promo, paid } = await readWallet(db, id);
    const amount = -(promo + paid);
    await db.write((tx) =>
      adjust(tx, { id: `spent.${id}`, accountId: id, amount, reason: "test", now: Date.now() }),
    );
    gate.open();
  }

  async function readRecord(account: TestAccount): Promise<unknown> {
    const [row] = await usageRecordsOf(gateway.server.db, account.id);
    const numbers = { cost: Number(row?.["cost_nano"]), tokens: Number(row?.["output_tokens"]) };
    return { outcome: row?.["outcome"], ...numbers };
  }
  const rowsOf = (table: string, { id }: TestAccount) =>
    gateway.server.db.all(`select * from ${table} where account_id = ?`, [id]);

  async function keyedAccount(): Promise<TestAccount> {
    gate.close();
    return withHeaders(await registerAccount(gateway), { "idempotency-key": "once" });
  }

  const whole: readonly Api[] = ["chat", "messages", "responses", "embeddings"];
  for (const api of whole)
    test(`is refused, not charged, and runs again with its key: ${api}`, async () => {
      const { db } = gateway.server;
      const account = await keyedAccount();
      const body = bodyOf(api, "[[sim: tokens=20]] once");
      const pending = postCall(gateway, account, api, body);
      await loseHold(account);
      const refused = await pending;
      expect([refused.status, (await refused.text()).includes(REFUSAL)]).toEqual([503, true]);
      expect(await readRecord(account)).toEqual({ outcome: "shut_down", cost: 0, tokens: 0 });
      expect(await rowsOf("stored_response", account)).toEqual([]);

      expect((await postCall(gateway, account, api, body)).status).toBe(402);
      await grantCredits(gateway, account, USD);
      const again = await postCall(gateway, account, api, body);
      expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([200, null]);
      const [, second] = await usageRecordsOf(db, account.id);
      const { promo, paid, held } = await readWallet(db, account.id);
      expect([promo + paid, held]).toEqual([USD - BigInt(String(second?.["cost_nano"])), 0n]);
      expect((await verifyLedger(db)).problems).toEqual([]);
    });

  const streamed: readonly Api[] = ["chat", "messages", "responses"];
  for (const api of streamed)
    test(`ends a stream with an error, and runs again with its key: ${api}`, async () => {
      const { db } = gateway.server;
      const account = await keyedAccount();
      const body = bodyOf(api, "[[sim: tokens=20]] once", { stream: true });
      const pending = postCall(gateway, account, api, body);
      await loseHold(account);
      const text = await (await pending).text();
      expect(text).toContain(REFUSAL);
      expect(text).not.toMatch(/\[DONE\]|message_stop|response\.completed/);
      expect(await readRecord(account)).toMatchObject({ outcome: "shut_down", tokens: 20 });
      expect(await rowsOf("stored_response", account)).toEqual([]);

      expect((await postCall(gateway, account, api, body)).status).toBe(402);
      await grantCredits(gateway, account, USD);
      const again = await postCall(gateway, account, api, body);
      expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([200, null]);
      await again.text();
      expect((await verifyLedger(db)).problems).toEqual([]);
    });

  test("fails a background response", async () => {
    const account = await keyedAccount();
    const body = bodyOf("responses", "[[sim: tokens=20]] once", { background: true });
    const { id } = (await (await postCall(gateway, account, "responses", body)).json()) as Json;
    await loseHold(account);
    const read = async (): Promise<Json> => {
      const url = `${gateway.url}/v1/responses/${String(id)}`;
      return (await (await fetch(url, { headers: account.headers })).json()) as Json;
    };
    await eventually(async () => (await read())["status"] !== "in_progress");
    const { status, output, error } = await read();
    expect([status, output]).toEqual(["failed", []]);
    expect(JSON.stringify(error)).toContain(REFUSAL);
  });
});
