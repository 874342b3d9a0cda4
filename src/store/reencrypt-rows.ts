// Moves encrypted columns from the previous master secret to the current one, page by page, while the gateway runs.

import { type DerivedKey, type MasterSecret, reencrypt } from "../base/crypto/encryption.ts";
import { type Db, type Row, text } from "./db.ts";

const PAGE_ROWS = 200;

/** A column whose values are encrypted; null or empty for none. */
export interface EncryptedColumn {
  readonly table: string;
  readonly column: string;
  /** The columns of the primary key, all of them texts. Pages are ordered by them. */
  readonly key: readonly string[];
  /** Further columns that `associatedData` reads. */
  readonly reads: readonly string[];
  readonly deriveKey: (master: MasterSecret) => DerivedKey;
  readonly associatedData: (row: Row) => string;
}

export interface ReencryptedRows {
  readonly read: number;
  readonly moved: number;
  /** Keys of rows that neither secret decrypts. */
  readonly unreadable: readonly string[];
}

/** A value is changed only if it is still the one that was read. */
export async function reencryptRows(
  db: Db,
  master: MasterSecret,
  { table, column, key, reads, deriveKey, associatedData }: EncryptedColumn,
): Promise<ReencryptedRows> {
  const keys = deriveKey(master);
  const names = key.join(", ");
  const values = key.map(() => "?").join(", ");
  const select = `select ${[...key, ...reads, column].join(", ")} from ${table}
    where (${names}) > (${values}) and ${column} <> '' order by ${names} limit ${PAGE_ROWS}`;
  const update = `update ${table} set ${column} = ? where (${names}) = (${values}) and ${column} = ?`;
  const total = { read: 0, moved: 0, unreadable: Array.of<string>() };
  for (let after = key.map(() => ""); ;) {
    const rows = await db.all(select, after);
    const changes: (readonly string[])[] = [];
    for (const row of rows) {
      after = key.map((name) => text(row, name));
      const encrypted = text(row, column);
      const result = tryReencrypt(keys, associatedData(row), encrypted);
      if (result === "unreadable") total.unreadable.push(after.join("/"));
      else if (result !== undefined) changes.push([result.encrypted, ...after, encrypted]);
    }
    if (changes.length > 0)
      await db.write(async (tx) => {
        for (const change of changes) await tx.run(update, change);
      });
    total.read += rows.length;
    total.moved += changes.length;
    if (rows.length < PAGE_ROWS) return total;
  }
}

function tryReencrypt(
  keys: DerivedKey,
  associatedData: string,
  encrypted: string,
): "unreadable" | { readonly encrypted: string } | undefined {
  try {
    const moved = reencrypt(keys, associatedData, encrypted);
    return moved === undefined ? undefined : { encrypted: moved };
  } catch {
    return "unreadable";
  }
}
