// Rotation of the master secret: the client secrets of identity providers.

import { deriveKey, type MasterSecret } from "../base/crypto/encryption.ts";
import { type Db, text } from "../store/db.ts";
import { type ReencryptedRows, reencryptRows } from "../store/reencrypt-rows.ts";
import { SECRET_PURPOSE, secretBinding } from "./connections.ts";

export function reencryptSsoSecrets(db: Db, master: MasterSecret): Promise<ReencryptedRows> {
  return reencryptRows(db, deriveKey(master, SECRET_PURPOSE), {
    page: async (reader, after, limit) => {
      const rows = await reader.all(
        "select id, account_id, sealed from sso_connection where id > ? and sealed is not null order by id limit ?",
        [after, limit],
      );
      return rows.map((row) => ({
        id: text(row, "id"),
        encrypted: text(row, "sealed"),
        associatedData: secretBinding(text(row, "account_id"), text(row, "id")),
      }));
    },
    update: async (tx, row, encrypted) => {
      await tx.run("update sso_connection set sealed = ? where id = ? and sealed = ?", [
        encrypted,
        row.id,
        row.encrypted,
      ]);
    },
  });
}
