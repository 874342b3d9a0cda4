// Rotation of the master secret: the headers of audit log streams.

import { deriveKey, type MasterSecret } from "../base/crypto/encryption.ts";
import { type Db, text } from "../store/db.ts";
import { type ReencryptedRows, reencryptRows } from "../store/reencrypt-rows.ts";
import { HEADER_PURPOSE, headerBinding } from "./audit-stream-rows.ts";

export function reencryptStreams(db: Db, master: MasterSecret): Promise<ReencryptedRows> {
  return reencryptRows(db, deriveKey(master, HEADER_PURPOSE), {
    page: async (reader, after, limit) => {
      const rows = await reader.all(
        `select account_id, sealed from audit_stream
         where account_id > ? and sealed is not null order by account_id limit ?`,
        [after, limit],
      );
      return rows.map((row) => ({
        id: text(row, "account_id"),
        encrypted: text(row, "sealed"),
        associatedData: headerBinding(text(row, "account_id")),
      }));
    },
    update: async (tx, row, encrypted) => {
      await tx.run("update audit_stream set sealed = ? where account_id = ? and sealed = ?", [
        encrypted,
        row.id,
        row.encrypted,
      ]);
    },
  });
}
