// Rotation of the master secret: the secrets of sinks.

import { deriveKey, type MasterSecret } from "../base/crypto/encryption.ts";
import { type Db, text } from "../store/db.ts";
import { type ReencryptedRows, reencryptRows } from "../store/reencrypt-rows.ts";
import { SINK_PURPOSE, sinkBinding } from "./sinks.ts";

export function reencryptSinks(db: Db, master: MasterSecret): Promise<ReencryptedRows> {
  return reencryptRows(db, deriveKey(master, SINK_PURPOSE), {
    page: async (reader, after, limit) => {
      const rows = await reader.all(
        `select account_id, name, sealed from sink where account_id || '/' || name > ? and sealed is not null
         order by account_id || '/' || name limit ?`,
        [after, limit],
      );
      return rows.map((row) => {
        const [accountId, name] = [text(row, "account_id"), text(row, "name")];
        return {
          id: `${accountId}/${name}`,
          encrypted: text(row, "sealed"),
          associatedData: sinkBinding(accountId, name),
        };
      });
    },
    update: async (tx, { id, encrypted: before }, encrypted) => {
      const [accountId = "", name = ""] = id.split("/");
      await tx.run("update sink set sealed = ? where account_id = ? and name = ? and sealed = ?", [
        encrypted,
        accountId,
        name,
        before,
      ]);
    },
  });
}
