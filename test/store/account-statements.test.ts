// Readiness for a distributed PostgreSQL, part two: a statement on rows that grow with calls names the account, so that the
// engine finds the node of the rows, or is listed here with the reason. Also finds joins that no primary key serves.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { deposit } from "../../src/ledger/ledger.ts";
import { releaseHolds } from "../../src/ledger/sweep.ts";
import { text } from "../../src/store/db.ts";
import { openPostgres } from "../../src/store/postgres.ts";
import { openAccount, promoDeposit, startLedger, usageRecord } from "../ledger/fixtures.ts";
import { filesUnder } from "../support/source/source-files.ts";
import { openStore, type TestStore } from "../support/stores/stores.ts";

// The first test starts PostgreSQL, possibly on a busy machine.

const TABLES =
  "wallet|spender|hold|swept_hold|transfer|usage_record|usage_rollup|usage_archive|ledger_checkpoint";

/** Statements without an account, by file and table. */
const WITHOUT_ACCOUNT: Readonly<Record<string, string>> = {
  "src/ledger/sweep.ts swept_hold": "deletes old rows of all accounts",
  "src/ledger/ledger.ts hold": "restores the processes of all holds",
  "src/ledger/liveness.ts hold": "finds dead processes with holds in any account",
  "src/operator/system/grant-figures.ts wallet": "counts over all accounts",
  "src/usage/usage-of-account.ts usage_record": "the callers pass the condition on the account",
  "src/commands/move.ts wallet": "sums over all accounts",
  "src/commands/move.ts transfer": "sums over all accounts",
};
/** A verification reads everything. */
const VERIFICATION = "src/verification/";
/** Conditions that are joined elsewhere begin with the account; column lists contain it. */
const NAMED_ELSEWHERE = /where \$\{(?:range\.)?where\}|\$\{UPSERT_COLUMNS/;

const TEXT = /`[^`]*`|"[^"\n]*"/g;
const STATEMENT = new RegExp(`\\b(?:from|join|update|into)\\s+(${TABLES})\\b`);
/** Bulk statements: the table, and the first column of the key or the constant with the columns. */
const BULK = new RegExp(
  `\\b(?:lockMany|readMany|deleteMany|updateMany|lockByKey|deleteByKey)\\(\\s*"(${TABLES})",\\s*"?(\\w+)`,
  "g",
);
/** Lists of columns whose first one is the account. The statements that they become are tested below. */
const ACCOUNT_COLUMNS = /^(?:WALLET|KEY_SPEND|HOLD_AMOUNT)_/;

function statementsWithoutAccount(): readonly string[] {
  const found = new Set<string>();
  for (const { path, text } of filesUnder("src")) {
    if (path.startsWith(VERIFICATION)) continue;
    for (const [sql] of text.matchAll(TEXT)) {
      const table = STATEMENT.exec(sql)?.[1];
      const isStatement = /^[`"]\s*(?:select|update|delete|insert|with)\b/.test(sql);
      if (table === undefined || !isStatement) continue;
      if (!sql.includes("account_id") && !NAMED_ELSEWHERE.test(sql)) found.add(`${path} ${table}`);
    }
    for (const [, table, key = ""] of text.matchAll(BULK))
      if (key !== "account_id" && !ACCOUNT_COLUMNS.test(key))
        found.add(`${path} ${table} by ${key}`);
  }
  return [...found];
}

test("statements on rows that grow with calls name the account, or are listed with a reason", () => {
  expect(statementsWithoutAccount().toSorted()).toEqual(Object.keys(WITHOUT_ACCOUNT).toSorted());
});

describe("the statements that PostgreSQL gets", () => {
  const NOW = Date.UTC(2026, 10, 21, 12);
  const CALLS = ["a", "b"].map((accountId) => ({
    id: `${accountId}.call`,
    accountId,
    keyId: `${accountId}.k`,
    now: NOW,
  }));
  const ON_TABLE = new RegExp(`\\b(?:from|join|update|into)\\s+(${TABLES})\\b`);
  const HAS_ACCOUNT =
    /\baccount_id = (?:any\()?(?:\$\d|fresh\.account_id)|^insert into \w+ \([^)]*\baccount_id\b/;
  let store: TestStore;
  beforeAll(async () => {
    store = await openStore("postgres");
  });
  afterAll(() => store.close());

  test("compare the account when the ledger holds, raises, settles, releases and settles late", async () => {
    const db = openPostgres(store.location.address, { poolSize: 1 });
    await db.write(async (tx) => {
      for (const { accountId, keyId } of CALLS) {
        await openAccount(tx, accountId, [keyId], NOW);
        await deposit(tx, promoDeposit(`${accountId}.start`, accountId, 1_000n, NOW));
      }
    });
    const ledger = await startLedger(store.db, "p", NOW, { db });
    const requests = CALLS.map((call) => ({ ...call, amount: 9n, expiresAt: NOW + 1_000 }));
    const settlements = CALLS.map((call) => ({
      ...call,
      cost: 5n,
      record: usageRecord({ ...call, cost: 5n, createdAt: NOW }),
    }));
    await Promise.all(requests.map(ledger.hold));
    for (const { status } of await Promise.all(
      CALLS.map((call) => ledger.raise({ ...call, amount: 10n })),
    ))
      expect(status).toBe("raised");
    const holds = await store.db.all("select id, account_id, key_id from hold");
    expect(await db.write((tx) => releaseHolds(tx, NOW, holds))).toBe(2);
    for (const { status } of await Promise.all(settlements.map(ledger.settle)))
      expect(status).toBe("settled");
    const rows = await db.all("select statement from pg_prepared_statements");
    const statements = rows.map((row) => text(row, "statement"));
    const onTables = statements.filter((sql) => ON_TABLE.test(sql));
    for (const sql of [
      /^select .* from wallet/,
      /^select .* from spender/,
      /^select .* from hold/,
      /^select .* from swept_hold/,
      /^update wallet/,
      /^update spender/,
      /^insert into hold/,
      /^delete from hold/,
      /^delete from swept_hold/,
      /^insert into swept_hold/,
      /^insert into usage_record/,
    ])
      expect([String(sql), onTables.some((statement) => sql.test(statement))]).toEqual([
        String(sql),
        true,
      ]);
    expect(onTables.filter((sql) => !HAS_ACCOUNT.test(sql))).toEqual([]);
    await db.close();
  });
});
