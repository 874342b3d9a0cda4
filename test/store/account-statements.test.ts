// Statements on the tables that a distributed PostgreSQL places by account: each names the account, so that the engine finds the
// node of the rows, or is listed here with the reason. None names a table that is elsewhere.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { secret } from "../../src/base/crypto/secret.ts";
import { createIdempotency } from "../../src/idempotency/idempotency.ts";
import { deposit } from "../../src/ledger/ledger.ts";
import { readLeaseStates, recallLeases } from "../../src/ledger/recall-leases.ts";
import { releaseHolds } from "../../src/ledger/sweep.ts";
import { text } from "../../src/store/db.ts";
import { DISTRIBUTED_TABLES } from "../../src/store/distribution.ts";
import { openPostgres } from "../../src/store/postgres.ts";
import { openAccount, promoDeposit, startLedger, usageRecord } from "../ledger/fixtures.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { filesUnder } from "../support/source/source-files.ts";
import { schemaTables } from "../support/source/table-law.ts";
import { openStore, type TestStore } from "../support/stores/stores.ts";

const TABLES = DISTRIBUTED_TABLES.join("|");

/** Statements without an account, by file and table: Citus sends them to all shards. */
const WITHOUT_ACCOUNT: Readonly<Record<string, string>> = {
  "src/account-data/erasure.ts wallet": "an hourly job finds closed accounts",
  "src/billing/top-up/top-up-worker.ts wallet": "a job finds balances below their thresholds",
  "src/commands/move.ts transfer": "sums over all accounts",
  "src/commands/move.ts wallet": "sums over all accounts",
  "src/idempotency/idempotency.ts idempotent_answer":
    "jobs find the records of dead processes and delete old ones",
  "src/ledger-proofs/day-entries.ts wallet": "a daily job reads all accounts",
  "src/ledger/hold-owners.ts hold": "a job finds the processes of holds in any account",
  "src/ledger/payments/payments.ts wallet": "a job finds debts that can be paid",
  "src/ledger/recall-leases.ts hold":
    "a poll of the leases of a process; if a node is down, its holds are decided by the ledger",
  "src/ledger/reconcile.ts hold": "a job reads the holds of this process",
  "src/ledger/session-rows.ts agent_session": "jobs find stopped sessions and delete old ones",
  "src/ledger/sweep.ts hold": "a job finds the holds of dead processes",
  "src/ledger/sweep.ts swept_hold": "a job deletes old rows",
  "src/operator/accounts/account-list.ts wallet": "operators filter accounts by a rare state",
  "src/operator/system/grant-figures.ts transfer": "a page for operators",
  "src/operator/system/grant-figures.ts wallet": "a page for operators",
  "src/operator/system/queues.ts hold": "a page for operators",
  "src/operator/system/queues.ts usage_pending": "a page for operators",
  "src/service-levels/evaluate-levels.ts usage_rollup": "a job finds the callers of a model",
  "src/usage/archive/archive-usage.ts usage_pending": "an hourly job",
  "src/usage/archive/archive-usage.ts usage_record": "an hourly job",
  "src/usage/refused-calls.ts refused_call": "a job deletes old rows",
  "src/usage/rollup/charge-hours.ts usage_pending": "sums over all accounts, for reports",
  "src/usage/rollup/roll-up.ts usage_pending": "a job finds the accounts with queued usage",
  "src/usage/session-usage.ts session_usage": "a job deletes old rows",
  "src/usage/usage-of-account.ts usage_record": "its first condition is the account",
};
/** A verification reads everything, on a distributed store from copies of the rows. */
const VERIFICATION = "src/verification/";
const COMPARES_ACCOUNT = /\baccount_id =|\binsert into \w+\s+\([^)]*\baccount_id\b/g;
/** Conditions that are joined elsewhere begin with the account; column lists contain it. */
const NAMED_ELSEWHERE =
  /where \$\{(?:range\.)?where\}|\$\{UPSERT_COLUMNS|\$\{ofAccount\}|\$\{OF_ACCOUNT\}/;

/** A part that Citus runs first, whose rows it then joins. */
const RUN_FIRST = /\b\w+ as materialized (\((?:[^()]|\([^()]*\))*\))/g;
const OTHER_TABLES = schemaTables()
  .filter((table) => !DISTRIBUTED_TABLES.includes(table))
  .join("|");

const TEXT = /`[^`]*`|"[^"\n]*"/g;
const STATEMENT = new RegExp(`\\b(?:from|join|update|into)\\s+(${TABLES})\\b`, "g");
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
      const tables = [...sql.matchAll(STATEMENT)].map(([, name]) => name);
      if (NAMED_ELSEWHERE.test(sql)) continue;
      // Once for each table, also in subqueries and joins.
      if ([...sql.matchAll(COMPARES_ACCOUNT)].length < tables.length)
        found.add(`${path} ${tables[0]}`);
    }
    for (const [, table, key = ""] of text.matchAll(BULK))
      if (key !== "account_id" && !ACCOUNT_COLUMNS.test(key))
        found.add(`${path} ${table} by ${key}`);
  }
  return [...found];
}

function statementsOnBoth(): readonly string[] {
  const found = new Set<string>();
  const names = (sql: string, tables: string): boolean =>
    new RegExp(`\\b(?:(?:from|join|update|into)\\s+(?:${tables})\\b|(?:${tables})\\.\\w)`).test(
      sql,
    );
  for (const { path, text } of filesUnder("src")) {
    if (path.startsWith(VERIFICATION)) continue;
    for (const [sql] of text.replaceAll(/^\s*\/\/.*$/gm, "").matchAll(TEXT)) {
      const first = [...sql.matchAll(RUN_FIRST)].map(([, body = ""]) => body);
      for (const part of [...first, sql.replaceAll(RUN_FIRST, "")])
        if (names(part, TABLES) && names(part, OTHER_TABLES)) found.add(path);
    }
  }
  return [...found];
}

test("statements on distributed tables name no other table", () => {
  expect(statementsOnBoth()).toEqual([]);
});

test("statements on rows that grow with calls name the account, or are listed with a reason", () => {
  expect(statementsWithoutAccount().toSorted()).toEqual(Object.keys(WITHOUT_ACCOUNT).toSorted());
});

describe("the statements that PostgreSQL gets", () => {
  const NOW = Date.UTC(2026, 10, 21, 12);
  const idempotency = createIdempotency(secret("the master secret of this test"));
  const CALLS = ["a", "b"].map((accountId) => ({
    id: `${accountId}.call`,
    accountId,
    keyId: `${accountId}.k`,
    now: NOW,
  }));
  const ON_TABLE = new RegExp(`\\b(?:from|join|update|into)\\s+(${TABLES})\\b`);
  const HAS_ACCOUNT =
    /\baccount_id (?:= (?:any\()?(?:\$\d|fresh\.account_id)|in \(\$\d)|^insert into \w+ \([^)]*\baccount_id\b/;
  let store: TestStore;
  beforeAll(async () => {
    store = await openStore("postgres");
  });
  afterAll(() => store.close());

  test("compare the account when the ledger holds, raises, settles, releases and settles late, and a call is repeated", async () => {
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
    const keyOfCall = {
      accountId: "a",
      scope: "chat",
      key: "repeated",
      body: "{}",
      now: NOW,
      holdId: "a.call",
    };
    await db.write((tx) => idempotency.begin(tx, keyOfCall));
    const repetition = db.write((tx) => idempotency.begin(tx, keyOfCall));
    expect(await rejectionMessage(repetition)).toContain("still running");
    await db.write((tx) => idempotency.finish(tx, keyOfCall, { status: 200, body: "{}" }));
    expect(await db.write((tx) => idempotency.begin(tx, keyOfCall))).toMatchObject({ body: "{}" });
    await db.write((tx) => idempotency.release(tx, keyOfCall));
    await db.write((tx) => recallLeases(tx, "a"));
    await readLeaseStates(db, [["a", ["a.call"]]]);
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
      /^select id from swept_hold/,
      /^update hold set lease/,
      /^select id, lease from hold/,
      /^update wallet/,
      /^update spender/,
      /^insert into hold/,
      /^delete from hold/,
      /^delete from swept_hold/,
      /^insert into swept_hold/,
      /^insert into usage_record/,
      /^insert into idempotent_answer/,
      /^select .* from idempotent_answer/,
      /^update idempotent_answer/,
      /^delete from idempotent_answer/,
    ])
      expect([String(sql), onTables.some((statement) => sql.test(statement))]).toEqual([
        String(sql),
        true,
      ]);
    expect(onTables.filter((sql) => !HAS_ACCOUNT.test(sql))).toEqual([]);
    await db.close();
  });
});
