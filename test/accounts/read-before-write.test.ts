// What a transaction reads before it writes, such as the number of rows below a limit, holds for transactions at the same time.

import { describe, expect, test } from "bun:test";
import { createAccount } from "../../src/accounts/accounts.ts";
import { changeBillingDetails, readBillingDetails } from "../../src/accounts/billing-details.ts";
import { secret } from "../../src/base/crypto/secret.ts";
import { Fault } from "../../src/base/fault.ts";
import { createInvoice } from "../../src/billing/invoices/invoices.ts";
import { trackPayment } from "../../src/billing/payments/checkouts.ts";
import type { PaymentDeps } from "../../src/billing/payments/payment-facts.ts";
import type { HostedProcessor } from "../../src/billing/payments/payment-processor.ts";
import { addBlock } from "../../src/controls/blocks.ts";
import {
  deleteOldSessions,
  deleteSessionsBeyond,
  markSessionStopped,
} from "../../src/ledger/session-rows.ts";
import { requestChange } from "../../src/operator/accounts/change-requests.ts";
import { addServiceLevel } from "../../src/service-levels/service-levels.ts";
import type { Db, Tx } from "../../src/store/db.ts";
import { createWebhooks } from "../../src/webhooks/webhooks.ts";
import { actIn } from "../support/act.ts";
import { eventually } from "../support/eventually.ts";
import { openStore, STORE_KINDS } from "../support/stores/stores.ts";
import { writeAtOnce } from "../support/stores/write-at-once.ts";

const NOW = Date.parse("2026-11-29T12:00:00Z");
const OPERATOR = { operator: "olivia@gateway.example", network: null, now: NOW };
const CREDITS = 10_000_000;
const ACCOUNT = { email: null, network: "192.0.2.0/24", startingCredit: 0n, now: NOW };

const { add: addWebhook } = createWebhooks({
  master: secret("a master secret that only these tests know"),
  allowLoopback: false,
});

interface Limit {
  readonly table: string;
  readonly max: number;
  /** Rows that exist already. */
  readonly before: number;
  readonly atOnce: number;
  readonly add: (tx: Tx, accountId: string, index: number) => Promise<unknown>;
}

const LIMITS: Readonly<Record<string, Limit>> = {
  "webhooks of an account": {
    table: "webhook",
    max: 10,
    before: 0,
    atOnce: 12,
    add: (tx, accountId, index) =>
      addWebhook(tx, actIn(accountId, NOW), { url: `https://hooks.example/${index}` }),
  },
  "open invoices of an account": {
    table: "invoice",
    max: 100,
    before: 98,
    atOnce: 6,
    add: (tx, accountId) => createInvoice(tx, actIn(accountId, NOW), CREDITS),
  },
  "blocked networks": {
    table: "operator_block",
    max: 1_000,
    before: 998,
    atOnce: 6,
    add: (tx, _, index) =>
      addBlock(tx, OPERATOR, {
        kind: "network",
        value: `203.${Math.floor(index / 250)}.${index % 250}.0/24`,
        reason: "a test",
      }),
  },
  "changes that wait for a second operator": {
    table: "operator_request",
    max: 100,
    before: 98,
    atOnce: 6,
    add: (tx, accountId, index) =>
      requestChange(tx, OPERATOR, { accountId, fields: { do: "grant", usd: String(index) } }),
  },
  "service levels with the same terms": {
    table: "service_level",
    max: 1,
    before: 0,
    atOnce: 4,
    add: (tx) =>
      addServiceLevel(tx, OPERATOR, {
        model: "sim/echo",
        metric: "availability",
        target: 999_000,
        period: "day",
        creditPercent: 10,
        cap: 1_000_000_000n,
      }),
  },
};

describe.each(STORE_KINDS)("on %s", (kind) => {
  for (const [name, { table, max, before, atOnce, add }] of Object.entries(LIMITS))
    test(`${atOnce} transactions at once do not exceed the limit of ${name}`, async () => {
      const store = await openStore(kind);
      const { db } = store;
      const accountId = await db.write(async (tx) => {
        const { id } = await createAccount(tx, ACCOUNT);
        for (let index = 0; index < before; index++) await add(tx, id, atOnce + index);
        return id;
      });
      const ended = await writeAtOnce(store, atOnce, (tx, index) => add(tx, accountId, index));
      const refusals = ended.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
      const row = await db.get(`select count(*) as count from ${table}`);
      expect(Number(row?.["count"])).toBe(max);
      expect(refusals).toHaveLength(atOnce - (max - before));
      for (const refusal of refusals) {
        expect(refusal).toBeInstanceOf(Fault);
        expect(refusal).toMatchObject({ code: "conflict" });
      }
      await store.close();
    });

  test("changes of billing details at once keep the fields of each other", async () => {
    const store = await openStore(kind);
    const { id: accountId } = await store.db.write((tx) => createAccount(tx, ACCOUNT));
    const fields = { name: "Acme", address: "1 Road", tax_id: "DE1", po_number: "7" };
    const ended = await writeAtOnce(store, 4, (tx, index) =>
      changeBillingDetails(
        tx,
        actIn(accountId, NOW),
        Object.fromEntries(Object.entries(fields).slice(index, index + 1)),
      ),
    );
    expect(ended.map(({ status }) => status)).toEqual(Array(4).fill("fulfilled"));
    expect(await readBillingDetails(store.db, accountId)).toMatchObject(fields);
    await store.close();
  });

  test("all payments of an invoice that are tracked at once are stored", async () => {
    const store = await openStore(kind);
    const { id: invoiceId } = await store.db.write(async (tx) => {
      const { id } = await createAccount(tx, ACCOUNT);
      return createInvoice(tx, actIn(id, NOW), CREDITS);
    });
    const ended = await writeAtOnce(store, 4, (tx, index) => {
      const db: Db = { ...store.db, write: (work) => work(tx) };
      // Safe because only these are used.
      const [deps, processor] = [{ db } as PaymentDeps, { id: "stripe" } as HostedProcessor];
      return trackPayment(deps, processor, { invoiceId, ref: `pi_${index}`, now: NOW });
    });
    expect(ended.map(({ status }) => status)).toEqual(Array(4).fill("fulfilled"));
    const rows = await store.db.all("select ref from checkout order by ref");
    expect(rows.map(({ ref }) => ref)).toEqual(["pi_0", "pi_1", "pi_2", "pi_3"]);
    await store.close();
  });

  test.each<[string, (tx: Tx, accountId: string) => Promise<number>]>([
    ["old", (tx) => deleteOldSessions(tx, NOW, 10)],
    ["many", (tx, accountId) => deleteSessionsBeyond(tx, accountId, { max: 0, limit: 10 })],
  ])("a session that is stopped while %s ones are deleted is kept", async (_, deleteSessions) => {
    const store = await openStore(kind);
    const { db } = store;
    const accountId = await db.write(async (tx) => {
      const { id } = await createAccount(tx, ACCOUNT);
      await tx.run(
        "insert into agent_session (account_id, id, key_id, created_at, last_call_at, held, spent) values (?, 'task', 'key', 1, 1, 0, 0)",
        [id],
      );
      return id;
    });
    let deleting: Promise<number> | undefined;
    await db.write(async (tx) => {
      await markSessionStopped(tx, accountId, "task", NOW);
      deleting = db.write((other) => deleteSessions(other, accountId));
      // SQLite has one writer: there, the deletion begins afterwards.
      if (kind === "postgres") await eventually(() => isWaiting(db));
    });
    expect(await deleting).toBe(0);
    expect(await db.all("select id from agent_session")).toHaveLength(1);
    await store.close();
  });
});

async function isWaiting(db: Db): Promise<boolean> {
  // Citus waits on the worker.
  const view = db.isDistributed === true ? "citus_stat_activity" : "pg_stat_activity";
  const row = await db.get(
    `select count(*) as waiting from ${view} where wait_event_type = 'Lock' and datname = current_database()`,
  );
  return Number(row?.["waiting"]) > 0;
}
