// Readiness for a distributed PostgreSQL, part two: a statement on rows that grow with calls names the account, so that one node
// can run it, or is listed here with the reason. Also finds joins that no primary key serves.

import { expect, test } from "bun:test";
import { filesUnder } from "../support/source/source-files.ts";

const TABLES =
  "wallet|spender|hold|swept_hold|transfer|usage_record|usage_rollup|usage_archive|ledger_checkpoint";

/** Statements without an account, by file and table. */
const WITHOUT_ACCOUNT: Readonly<Record<string, string>> = {
  "src/ledger/commit/lock-rows.ts spender by key_id":
    "a batch of several accounts; the ids of keys and holds are unique",
  "src/ledger/commit/lock-rows.ts hold by id": "a batch of several accounts",
  "src/ledger/commit/lock-rows.ts swept_hold by id": "a batch of several accounts",
  "src/ledger/commit/batch.ts swept_hold by id": "a batch of several accounts",
  "src/ledger/commit/hold-buffer.ts spender by key_id": "only on SQLite",
  "src/ledger/rows.ts spender by KEY_SPEND_COLUMNS": "a batch of several accounts",
  "src/ledger/sweep.ts spender by key_id": "releases holds of dead processes in all accounts",
  "src/ledger/sweep.ts hold by id": "releases holds of dead processes in all accounts",
  "src/ledger/sweep.ts swept_hold": "deletes old rows of all accounts",
  "src/ledger/ledger.ts hold": "restores the processes of all holds",
  "src/ledger/liveness.ts hold": "finds dead processes with holds in any account",
  "src/keys/delegation.ts spender by key_id": "locks one key by its unique id",
  "src/accounts/member-keys.ts spender by key_id": "locks keys by their unique ids",
  "src/operator/report/balance-differences.ts wallet": "sums over all accounts",
  "src/operator/system/grant-figures.ts wallet": "counts over all accounts",
  "src/store/usage-of-account.ts usage_record": "the callers pass the condition on the account",
  "src/usage/usage-segments.ts usage_record": "only on SQLite",
  "src/usage/rollup/verify-charges.ts usage_record": "sums over all accounts",
  "src/commands/move.ts wallet": "sums over all accounts",
  "src/commands/move.ts transfer": "sums over all accounts",
};
/** A verification reads everything. */
const VERIFICATION = "src/ledger/verify/";
/** Conditions that are joined elsewhere begin with the account; column lists contain it. */
const NAMED_ELSEWHERE = /where \$\{(?:range\.)?where\}|\$\{UPSERT_COLUMNS/;

const TEXT = /`[^`]*`|"[^"\n]*"/g;
const STATEMENT = new RegExp(`\\b(?:from|join|update|into)\\s+(${TABLES})\\b`);
/** Bulk statements: the table, and the key or the constant with the columns, whose first one is the key. */
const BULK = new RegExp(
  `\\b(?:lockMany|readMany|deleteMany|updateMany|lockByKey|deleteByKey)\\(\\s*"(${TABLES})",\\s*"?(\\w+)`,
  "g",
);

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
      if (key !== "account_id" && !key.startsWith("WALLET_"))
        found.add(`${path} ${table} by ${key}`);
  }
  return [...found];
}

test("statements on rows that grow with calls name the account, or are listed with a reason", () => {
  expect(statementsWithoutAccount().toSorted()).toEqual(Object.keys(WITHOUT_ACCOUNT).toSorted());
});
