// A distributed store has no snapshot of all nodes, and some checks join rows of nodes with rows of the coordinator. So the
// verification copies the rows of some accounts into temporary tables of the same names, and checks these.

import { lockAllWallets } from "../ledger/ledger-rows.ts";
import { allowLongStatements, type Db, text, type Tx } from "../store/db.ts";
import { type AccountRange, rangeCondition } from "./account-range.ts";

const COPIED_TABLES = [
  "wallet",
  "spender",
  "hold",
  "swept_hold",
  "agent_session",
  "transfer",
  "usage_record",
  "usage_archive",
] as const;

export interface CopyOptions {
  readonly range: AccountRange;
  /** Whether calls wait: without it, a call that is settled between two copies looks like a difference. */
  readonly isLocked: boolean;
}

export function withLedgerCopy<T>(
  db: Db,
  { range, isLocked }: CopyOptions,
  work: (tx: Tx) => Promise<T>,
): Promise<T> {
  return db.write(async (tx) => {
    await allowLongStatements(tx);
    if (isLocked) await lockAllWallets(tx);
    const row = await tx.get("select current_schema() as schema");
    const schema = row === undefined ? "public" : text(row, "schema");
    const { sql, params } = rangeCondition("account_id", range);
    for (const table of COPIED_TABLES) {
      await tx.run(`create temp table ${table} (like ${schema}.${table}) on commit drop`);
      await tx.run(
        `insert into pg_temp.${table} select * from ${schema}.${table} where ${sql}`,
        params,
      );
    }
    return work(tx);
  });
}
