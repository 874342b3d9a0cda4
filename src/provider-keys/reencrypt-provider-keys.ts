// Rotation of the master secret: the data keys of provider keys.

import type { MasterSecret } from "../base/crypto/encryption.ts";
import { type Db, text } from "../store/db.ts";
import { type ReencryptedRows, reencryptRows } from "../store/reencrypt-rows.ts";
import { associatedData, deriveKek } from "./provider-key-encryption.ts";

export function reencryptProviderKeys(db: Db, master: MasterSecret): Promise<ReencryptedRows> {
  return reencryptRows(db, deriveKek(master), {
    page: async (reader, after, limit) => {
      const rows = await reader.all(
        `select id, account_id, provider, data_key from provider_key
         where id > ? and status <> 'deleted' order by id limit ?`,
        [after, limit],
      );
      return rows.map((row) => ({
        id: text(row, "id"),
        encrypted: text(row, "data_key"),
        associatedData: associatedData({
          id: text(row, "id"),
          accountId: text(row, "account_id"),
          provider: text(row, "provider"),
        }),
      }));
    },
    update: async (tx, row, encrypted) => {
      await tx.run("update provider_key set data_key = ? where id = ? and data_key = ?", [
        encrypted,
        row.id,
        row.encrypted,
      ]);
    },
  });
}
