// Caches the SQL of statements over a list of columns: building it for every batch would cost more than the batch's rows.

import type { Column } from "./db.ts";

type ColumnsStatement = (table: string, columns: readonly Column[], keyColumns?: number) => string;

/** The cache compares lists by identity, so `columns` must be a constant. */
export function cachePerColumns(
  write: (table: string, columns: readonly Column[], keyColumns: number) => string,
): ColumnsStatement {
  interface Cached {
    readonly table: string;
    readonly keyColumns: number;
    readonly sql: string;
  }
  const cache = new WeakMap<readonly Column[], Cached>();
  return (table, columns, keyColumns = 1) => {
    const cached = cache.get(columns);
    if (cached?.table === table && cached.keyColumns === keyColumns) return cached.sql;
    const sql = write(table, columns, keyColumns);
    cache.set(columns, { table, keyColumns, sql });
    return sql;
  };
}
