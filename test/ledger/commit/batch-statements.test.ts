// The statements of a batch: one for each table and kind of access, whatever the number of its calls and accounts.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { deposit } from "../../../src/ledger/ledger.ts";
import type { Db, Tx } from "../../../src/store/db.ts";
import { openStore, type TestStore } from "../../support/stores/stores.ts";
import { openAccount, promoDeposit, startLedger, usageRecord } from "../fixtures.ts";

// The first test starts PostgreSQL, possibly on a busy machine.
setDefaultTimeout(120_000);

const NOW = Date.UTC(2026, 10, 21, 12);
const ACCOUNTS = Array.from({ length: 20 }, (_, index) => `a${index}`);

let store: TestStore;
beforeAll(async () => {
  store = await openStore("postgres");
  await store.db.write(async (tx) => {
    for (const accountId of ACCOUNTS) {
      await openAccount(tx, accountId, [`${accountId}.k`], NOW);
      await deposit(tx, promoDeposit(`${accountId}.start`, accountId, 1_000n, NOW));
    }
  });
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

test("a batch runs one statement for each table and kind of access", async () => {
  const statements: string[] = [];
  const ledger = await startLedger(store.db, "p", NOW, { db: recorded(store.db, statements) });
  const calls = ACCOUNTS.map((accountId) => ({
    id: `${accountId}.call`,
    accountId,
    keyId: `${accountId}.k`,
    now: NOW,
  }));
  await Promise.all(
    calls.map((call) => ledger.hold({ ...call, amount: 9n, expiresAt: NOW + 1_000 })),
  );
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
  await Promise.all(
    calls.map((call) => {
      const record = usageRecord({ ...call, cost: 5n, createdAt: NOW });
      return ledger.settle({ ...call, cost: 5n, record });
    }),
  );
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
