// The statements of a batch: one for each table and kind of access, whatever the number of its calls and accounts.

import { afterAll, expect, test } from "bun:test";
import { deposit, type Ledger } from "../../../src/ledger/ledger.ts";
import type { Db, Tx } from "../../../src/store/db.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import type { UsageRecord } from "../../../src/usage/usage.ts";
import { startFaultyProxy } from "../../support/faulty-proxy.ts";
import { openStore } from "../../support/stores/stores.ts";
import { openAccount, promoDeposit, startLedger, usageRecord } from "../fixtures.ts";

const NOW = Date.UTC(2026, 10, 21, 12);
const ACCOUNTS = Array.from({ length: 20 }, (_, index) => `a${index}`);

const store = await openStore("postgres");
await store.db.write(async (tx) => {
  for (const accountId of ACCOUNTS) {
    await openAccount(tx, accountId, [`${accountId}.k`], NOW);
    await deposit(tx, promoDeposit(`${accountId}.start`, accountId, 1_000n, NOW));
  }
});
afterAll(() => store.close());

/** Adds the statements of the bulk methods and the other ones to `statements`. */
function recorded(db: Db, statements: string[]): Db {
  const note = <T>(statement: string, result: T): T => {
    statements.push(statement);
    return result;
  };
  const wrap = (tx: Tx): Tx => ({
    ...tx,
    all: (sql, params) => note(sql, tx.all(sql, params)),
    get: (sql, params) => note(sql, tx.get(sql, params)),
    run: (sql, params) => note(sql, tx.run(sql, params)),
    insertMany: (table, ...rest) => note(`insert ${table}`, tx.insertMany(table, ...rest)),
    updateMany: (table, ...rest) => note(`update ${table}`, tx.updateMany(table, ...rest)),
    deleteMany: (table, ...rest) => note(`delete ${table}`, tx.deleteMany(table, ...rest)),
    lockMany: (table, ...rest) => note(`lock ${table}`, tx.lockMany(table, ...rest)),
    readMany: (table, ...rest) => note(`read ${table}`, tx.readMany(table, ...rest)),
  });
  return { ...db, write: (work) => db.write((tx) => work(wrap(tx))) };
}

interface Call {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
  readonly now: number;
}

function callsOf(name: string): readonly Call[] {
  return ACCOUNTS.map((accountId) => ({
    id: `${accountId}.${name}`,
    accountId,
    keyId: `${accountId}.k`,
    now: NOW,
  }));
}

async function hold(ledger: Ledger<UsageRecord>, calls: readonly Call[]): Promise<void> {
  const requests = calls.map((call) => ({ ...call, amount: 9n, expiresAt: NOW + 1_000 }));
  await Promise.all(requests.map(ledger.hold));
}

async function settle(ledger: Ledger<UsageRecord>, calls: readonly Call[]): Promise<void> {
  const requests = calls.map((call) => {
    const record = usageRecord({ ...call, cost: 5n, createdAt: NOW });
    return { ...call, cost: 5n, record };
  });
  await Promise.all(requests.map(ledger.settle));
}

test("a batch runs one statement for each table and kind of access", async () => {
  const statements: string[] = [];
  const ledger = await startLedger(store.db, "p", NOW, { db: recorded(store.db, statements) });
  const calls = callsOf("call");
  await hold(ledger, calls);
  expect(statements.splice(0)).toEqual([
    "lock wallet",
    "lock spender",
    "lock hold",
    "lock swept_hold",
    "read api_key",
    "update wallet",
    "update spender",
    "insert hold",
  ]);
  await settle(ledger, calls);
  expect(statements).toEqual([
    "lock wallet",
    "lock spender",
    "delete hold",
    "lock swept_hold",
    "read api_key",
    "update wallet",
    "update spender",
    "insert usage_record",
    "insert usage_pending",
  ]);
});

test("a batch takes two round trips: locks, then writes and their commit", async () => {
  const proxy = await startFaultyProxy(store.location.address);
  const db = openPostgres(proxy.url, { poolSize: 1 });
  const ledger = await startLedger(store.db, "proxied", NOW, { db });
  // The first statements of a connection are prepared.
  await hold(ledger, callsOf("first"));
  await settle(ledger, callsOf("first"));
  // Longer than it takes the client to send all statements of a trip.
  proxy.delay(50);
  for (const operation of [hold, settle]) {
    const before = proxy.roundTrips();
    await operation(ledger, callsOf("second"));
    expect(proxy.roundTrips() - before).toBe(2);
  }
  await db.close();
  proxy.stop();
});
