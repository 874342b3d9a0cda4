// Caches the SQL of statements over a list of columns: building it for every batch would cost more than the batch's rows.

import type { Column } from "./db.ts";

/** The cache compares lists by identity, so `columns` must be a constant. */
export function cachePerColumns(
  write: (table: string, columns: readonly Column[]) => string,
): (table: string, columns: readonly Column[]) => string {
  const cache = new WeakMap<readonly Column[], { readonly table: string; readonly sql: string }>();
  return (table, columns) => {
    const cached = cache.get(columns);
    if (cached?.table === table) return cached.sql;
    const sql = write(table, columns);
    cache.set(columns, { table, sql });
    return sql;
  };
}
