// Rotation of the master secret: the data keys of stored responses.

import type { MasterSecret } from "../../base/crypto/encryption.ts";
import { type Db, integer, text } from "../../store/db.ts";
import { type ReencryptedRows, reencryptRows } from "../../store/reencrypt-rows.ts";
import { dataKeyBinding, deriveKek, toKekVersion } from "./response-encryption.ts";

export function reencryptResponses(db: Db, master: MasterSecret): Promise<ReencryptedRows> {
  return reencryptRows(db, deriveKek(master), {
    page: async (reader, after, limit) => {
      const rows = await reader.all(
        "select id, account_id, data_key, kek_version from stored_response where id > ? order by id limit ?",
        [after, limit],
      );
      return rows.map((row) => {
        const id = text(row, "id");
        const binding = { id, accountId: text(row, "account_id") };
        return {
          id,
          encrypted: text(row, "data_key"),
          associatedData: dataKeyBinding(binding, toKekVersion(integer(row, "kek_version"))),
        };
      });
    },
    update: async (tx, row, encrypted) => {
      await tx.run("update stored_response set data_key = ? where id = ? and data_key = ?", [
        encrypted,
        row.id,
        row.encrypted,
      ]);
    },
  });
}
