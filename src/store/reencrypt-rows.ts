// Moves encrypted columns from the previous master secret to the current one, page by page, while the gateway runs.

import { type DerivedKey, reencrypt } from "../base/crypto/encryption.ts";
import type { Db, Reader, Tx } from "./db.ts";

const PAGE_ROWS = 200;

interface EncryptedColumn {
  /** The id of the row, by which pages are ordered. */
  readonly id: string;
  readonly encrypted: string;
  readonly associatedData: string;
}

export interface ReencryptedRows {
  readonly read: number;
  readonly moved: number;
  /** Ids of rows that neither secret decrypts. */
  readonly unreadable: readonly string[];
}

export interface EncryptedTable {
  readonly page: (
    reader: Reader,
    after: string,
    limit: number,
  ) => Promise<readonly EncryptedColumn[]>;
  /** Changes the column only if it still has the value that was read. */
  readonly update: (tx: Tx, row: EncryptedColumn, encrypted: string) => Promise<void>;
}

export async function reencryptRows(
  db: Db,
  keys: DerivedKey,
  { page, update }: EncryptedTable,
): Promise<ReencryptedRows> {
  let read = 0;
  let moved = 0;
  const unreadable: string[] = [];
  for (let after = ""; ;) {
    const rows = await page(db, after, PAGE_ROWS);
    const changes: (readonly [EncryptedColumn, string])[] = [];
    for (const row of rows) {
      const result = tryReencrypt(keys, row);
      if (result === "unreadable") unreadable.push(row.id);
      else if (result !== "current") changes.push([row, result.encrypted]);
    }
    if (changes.length > 0)
      await db.write(async (tx) => {
        for (const [row, encrypted] of changes) await update(tx, row, encrypted);
      });
    read += rows.length;
    moved += changes.length;
    const last = rows.at(-1);
    if (last === undefined || rows.length < PAGE_ROWS) return { read, moved, unreadable };
    after = last.id;
  }
}

function tryReencrypt(
  keys: DerivedKey,
  { associatedData, encrypted }: EncryptedColumn,
): "current" | "unreadable" | { readonly encrypted: string } {
  try {
    const moved = reencrypt(keys, associatedData, encrypted);
    return moved === undefined ? "current" : { encrypted: moved };
  } catch {
    return "unreadable";
  }
}
