// Runs work before the statements of a transaction that concern the ledger's cached rows. A statement names every table
// that it reads or changes, because the schema has no views, triggers or foreign keys.

import { memoize } from "../../base/memoize.ts";
import type { Column, Tx } from "../../store/db.ts";

const STATEMENTS_MAX = 1_000;

/** Whether a statement reads rows that buffered holds change. */
export const readsHolds = memoize(
  (sql: string) => /\b(hold|wallet|spender|agent_session)\b/i.test(sql),
  STATEMENTS_MAX,
);

/** Whether a statement may also change rows that are cached. */
const mayChangeCachedRows = memoize(
  (sql: string) => readsHolds(sql) || /\bapi_key\b/i.test(sql),
  STATEMENTS_MAX,
);

/** Columns of `api_key` on which no hold rests, and which are written for all keys that were used. */
const LAST_USES: ReadonlySet<Column> = new Set([
  "id:text",
  "last_used_at:bigint",
  "former_last_used_at:bigint",
]);

/** Waits for `prepare` before each statement that reads or changes rows of the ledger. */
export function prepareLedgerStatements(tx: Tx, prepare: () => Promise<void>): Tx {
  const after = <T>(sql: string, statement: () => Promise<T>): Promise<T> =>
    mayChangeCachedRows(sql) ? prepare().then(statement) : statement();
  return {
    kind: tx.kind,
    all: (sql, params) => after(sql, () => tx.all(sql, params)),
    get: (sql, params) => after(sql, () => tx.get(sql, params)),
    run: (sql, params) => after(sql, () => tx.run(sql, params)),
    insertMany: (table, columns, rows) => after(table, () => tx.insertMany(table, columns, rows)),
    updateMany: (table, columns, rows, keyColumns) => {
      const update = (): Promise<void> => tx.updateMany(table, columns, rows, keyColumns);
      const isOfLastUses = table === "api_key" && columns.every((column) => LAST_USES.has(column));
      return isOfLastUses ? update() : after(table, update);
    },
    deleteMany: (table, key, keys) => after(table, () => tx.deleteMany(table, key, keys)),
    lockMany: (table, key, keys, columns) =>
      after(table, () => tx.lockMany(table, key, keys, columns)),
    readMany: (table, key, keys, columns) =>
      after(table, () => tx.readMany(table, key, keys, columns)),
    afterCommit: (work) => tx.afterCommit(work),
  };
}
