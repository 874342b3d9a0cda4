// Readiness for a distributed PostgreSQL, part three: a transaction of money changes rows of one account, and a batch of calls of
// several accounts is nothing but the transactions of each.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import {
  applyBatch,
  type LedgerOperation,
  type LedgerOutcome,
} from "../../src/ledger/commit/batch.ts";
import { setFreeze } from "../../src/ledger/freezes.ts";
import { deposit, type Ledger } from "../../src/ledger/ledger.ts";
import { adjust } from "../../src/ledger/payments/adjustments.ts";
import {
  collectDebt,
  type PaymentMovement,
  postPayment,
  postReturn,
  writeOffDebt,
} from "../../src/ledger/payments/payments.ts";
import { releaseHolds } from "../../src/ledger/sweep.ts";
import { setBudgets } from "../../src/ledger/wallet-budgets.ts";
import { type Reader, text, textOrNull, type Tx } from "../../src/store/db.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { describeEachStore, openStore, type TestStore } from "../support/stores/stores.ts";
import { openAccount, promoDeposit, startLedger, usageRecord } from "./fixtures.ts";

const NOW = Date.UTC(2026, 10, 21, 12);
const ACCOUNTS = ["a", "b", "c"];

async function openAccounts(tx: Tx): Promise<void> {
  for (const id of ACCOUNTS) {
    await openAccount(tx, id, [`${id}.k`], NOW);
    await deposit(tx, promoDeposit(`${id}.start`, id, 100n, NOW));
  }
}

describe("a transaction of money", () => {
  let store: TestStore;
  let ledger: Ledger<UsageRecord>;
  beforeAll(async () => {
    store = await openStore("postgres");
    await store.db.write(openAccounts);
    ledger = await startLedger(store.db, "p", NOW);
    await store.db.write(recordChanges);
  });
  afterAll(() => store.close());
  beforeEach(() => store.db.write((tx) => tx.run("delete from changed_row")));

  let payments = 0;
  const movement = (
    accountId: string,
    kind: PaymentMovement["kind"],
    credit: bigint,
  ): PaymentMovement => ({
    id: `${accountId}.${kind}.${(payments += 1)}`,
    accountId,
    processor: "test",
    amounts: { credit, fee: 1n, tax: 2n, suspense: 0n, excess: 0n },
    kind,
    ref: "payment",
    now: NOW,
  });
  const writes: Readonly<Record<string, (tx: Tx, accountId: string) => Promise<unknown>>> = {
    "a deposit": (tx, id) => deposit(tx, promoDeposit(`${id}.more`, id, 50n, NOW)),
    "a payment": (tx, id) => postPayment(tx, movement(id, "purchase", 500n)),
    "a refund": (tx, id) => postReturn(tx, movement(id, "refund", 10n)),
    "a dispute": (tx, id) => postReturn(tx, movement(id, "dispute", 700n)),
    "a collected debt": async (tx, id) => {
      const bucket = "promo";
      await adjust(tx, {
        id: `${id}.add`,
        accountId: id,
        amount: 30n,
        bucket,
        reason: "test",
        now: NOW,
      });
      return collectDebt(tx, { id: `${id}.debt`, accountId: id, now: NOW });
    },
    "a debt that is written off": (tx, id) =>
      writeOffDebt(tx, { id: `${id}.off`, accountId: id, reason: "test", now: NOW }),
    "an adjustment": (tx, id) =>
      adjust(tx, { id: `${id}.give`, accountId: id, amount: 50n, reason: "test", now: NOW }),
    "a budget": (tx, id) => setBudgets(tx, id, { day: 1_000n }, NOW),
    "a freeze": async (tx, id) => {
      await setFreeze(tx, id, { at: NOW, reason: "test" });
      await setFreeze(tx, id, null);
    },
  };
  for (const [name, write] of Object.entries(writes))
    test(`changes rows of one account: ${name}`, async () => {
      for (const id of ACCOUNTS) await store.db.write((tx) => write(tx, id));
      expect(await readChanges(store.db)).toEqual(ACCOUNTS.map((id) => [id]));
    });

  test("changes rows of one account: a call", async () => {
    const call = { id: "a.call", accountId: "a", keyId: "a.k", now: NOW };
    await ledger.hold({ ...call, amount: 20n, expiresAt: NOW + 1_000 });
    await ledger.settle({ ...call, cost: 7n, record: record(call, 7n) });
    expect(await readChanges(store.db)).toEqual([["a"], ["a"]]);
  });

  test("changes rows of one account: a call that is settled after its hold was released", async () => {
    const call = { id: "b.call", accountId: "b", keyId: "b.k", now: NOW };
    await ledger.hold({ ...call, amount: 20n, expiresAt: NOW + 1_000 });
    const rows = await store.db.all("select id, account_id, key_id from hold");
    await store.db.write((tx) => releaseHolds(tx, NOW, rows));
    const settled = await ledger.settle({ ...call, cost: 7n, record: record(call, 7n) });
    expect(settled).toMatchObject({ status: "settled", late: true });
    expect(await readChanges(store.db)).toEqual([["b"], ["b"], ["b"]]);
  });
});

function record(call: { id: string; accountId: string; keyId: string }, cost: bigint): UsageRecord {
  return usageRecord({ ...call, cost, createdAt: NOW });
}

/** Triggers record the account of each row that a transaction writes, and the table of rows that have none. */
async function recordChanges(tx: Tx): Promise<void> {
  const tables = await tx.all(
    "select table_name from information_schema.tables where table_schema = current_schema() and table_type = 'BASE TABLE'",
  );
  await tx.run("create table changed_row (at_transaction bigint, account_id text, name text)");
  await tx.run(`create function record_change() returns trigger language plpgsql as $$
    begin
      insert into changed_row
        values (txid_current(), to_jsonb(coalesce(new, old)) ->> 'account_id', tg_table_name);
      return null;
    end $$`);
  for (const row of tables)
    await tx.run(
      `create trigger record_change after insert or update or delete on ${text(row, "table_name")} for each row execute function record_change()`,
    );
}

/** What each transaction changed: accounts, and tables without an account. */
async function readChanges(reader: Reader): Promise<readonly (readonly string[])[]> {
  const rows = await reader.all(
    "select distinct at_transaction, account_id, name from changed_row order by at_transaction, name",
  );
  const changes = Map.groupBy(rows, (row) => String(row["at_transaction"]));
  return [...changes.values()].map((ofOne) => {
    const accounts = ofOne.map((row) => textOrNull(row, "account_id") ?? text(row, "name"));
    return [...new Set(accounts)];
  });
}

interface OperationPlan {
  readonly account: number;
  readonly kind: "hold" | "raise" | "settle";
  readonly amount: number;
}

const BATCHES = fc.array(
  fc.array(
    fc.record({
      account: fc.nat(ACCOUNTS.length - 1),
      kind: fc.constantFrom("hold" as const, "raise" as const, "settle" as const),
      amount: fc.nat(60),
    }),
    { minLength: 1, maxLength: 20 },
  ),
  { minLength: 3, maxLength: 6 },
);
interface BatchResult {
  readonly outcomes: readonly LedgerOutcome[];
  readonly rows: readonly string[];
}

/** Runs first, so that both happen with every seed. */
const REJECTED_AND_SETTLED: OperationPlan[] = [
  { account: 0, kind: "hold", amount: 60 },
  { account: 0, kind: "hold", amount: 60 },
  { account: 0, kind: "raise", amount: 59 },
  { account: 0, kind: "raise", amount: 70 },
  { account: 0, kind: "settle", amount: 20 },
];
const ROLLED_BACK = new Error("rolled back");
const TABLES = ["wallet", "spender", "hold", "swept_hold", "transfer", "usage_record"];

/** For a batch that is a part of its transaction. */
function uncommitted(tx: Tx): Tx {
  return { ...tx, sendCommit: () => {} };
}

describeEachStore((kind, open) => {
  test(`a batch on ${kind} decides and writes what the batches of its accounts would`, async () => {
    const store = await open();
    const { db } = store;
    await db.write(openAccounts);
    const context = { process: "p", epoch: 1, writeRecords: insertUsage };
    let run = 0;
    let [settled, rejected] = [0, 0];
    const property = fc.asyncProperty(BATCHES, async (plans) => {
      run += 1;
      const open = new Map(ACCOUNTS.map((id): [string, string[]] => [id, []]));
      for (const [batch, plan] of plans.entries()) {
        const operations = plan.map((one, index) =>
          toOperation(one, `${run}.${batch}.${index}`, open),
        );
        const together = await runAndRollBack(operations);
        const apart = await db.write(async (tx) => {
          const outcomes = new Map<unknown, LedgerOutcome>();
          for (const own of Map.groupBy(operations, accountOf).values()) {
            const applied = await applyBatch(uncommitted(tx), own, context);
            applied.outcomes.forEach((outcome, index) => outcomes.set(own[index], outcome));
          }
          return {
            outcomes: operations.flatMap((operation) => outcomes.get(operation) ?? []),
            rows: await readRows(tx),
          };
        });
        expect(together).toEqual(apart);
        for (const { status } of together.outcomes) {
          settled += status === "settled" ? 1 : 0;
          rejected += status === "insufficient_credits" ? 1 : 0;
        }
        await releaseSome(batch);
      }
    });
    const runAndRollBack = async (operations: readonly LedgerOperation<UsageRecord>[]) => {
      let result: BatchResult | undefined;
      const rolledBack = db.write(async (tx) => {
        const { outcomes } = await applyBatch(uncommitted(tx), operations, context);
        result = { outcomes, rows: await readRows(tx) };
        throw ROLLED_BACK;
      });
      expect(await rolledBack.catch((error: unknown) => error)).toBe(ROLLED_BACK);
      if (result === undefined) throw new Error("the batch was not applied");
      return result;
    };
    /** Their settlements are late. */
    const releaseSome = async (batch: number): Promise<void> => {
      const rows = await db.all("select id, account_id, key_id from hold order by id limit 3");
      await db.write((tx) => releaseHolds(tx, NOW, batch % 2 === 0 ? rows : []));
      await db.write(async (tx) => {
        for (const id of ACCOUNTS)
          await deposit(tx, promoDeposit(`${id}.${run}.${batch}`, id, 40n, NOW));
      });
    };
    await fc.assert(property, { numRuns: 20, examples: [[[REJECTED_AND_SETTLED]]] });
    expect(settled).toBeGreaterThan(0);
    expect(rejected).toBeGreaterThan(0);
    expect((await verifyLedger(db)).problems).toEqual([]);
    await store.close();
  });
});

/** A settlement, or a raise, is of the oldest open hold of the account, or of an unknown one. */
function toOperation(
  { account, kind, amount }: OperationPlan,
  name: string,
  open: ReadonlyMap<string, string[]>,
): LedgerOperation<UsageRecord> {
  const accountId = ACCOUNTS[account] ?? "";
  const ids = open.get(accountId);
  const oldest = kind === "settle" ? ids?.shift() : kind === "raise" ? ids?.[0] : undefined;
  const id = oldest ?? `${accountId}.${name}`;
  if (kind === "hold") ids?.push(id);
  const call = { id, accountId, keyId: `${accountId}.k`, now: NOW };
  if (kind === "hold")
    return { kind, request: { ...call, amount: BigInt(amount), expiresAt: NOW + 1_000 } };
  const cost = BigInt(amount);
  if (kind === "raise") return { kind, request: { ...call, amount: cost } };
  return { kind, request: { ...call, cost, record: record(call, cost) } };
}

function accountOf({ request }: LedgerOperation<UsageRecord>): string {
  return request.accountId;
}

/** All columns as text, because PostgreSQL returns integers as bigints. */
async function readRows(reader: Reader): Promise<readonly string[]> {
  const rows: string[] = [];
  for (const table of TABLES)
    for (const row of await reader.all(`select * from ${table}`))
      rows.push(`${table} ${Object.values(row).map(String).join(" ")}`);
  return rows.sort();
}
