// Rotation of the master secret: the signing secrets of webhooks.

import { deriveKey, type MasterSecret } from "../base/crypto/encryption.ts";
import { type Db, text } from "../store/db.ts";
import { type ReencryptedRows, reencryptRows } from "../store/reencrypt-rows.ts";
import { SECRET_PURPOSE, secretBinding } from "./webhook-rows.ts";

export async function reencryptWebhooks(db: Db, master: MasterSecret): Promise<ReencryptedRows> {
  const current = await reencryptColumn(db, master, "sealed");
  const former = await reencryptColumn(db, master, "former_sealed");
  return {
    read: current.read,
    moved: current.moved + former.moved,
    unreadable: [...current.unreadable, ...former.unreadable],
  };
}

function reencryptColumn(
  db: Db,
  master: MasterSecret,
  column: "sealed" | "former_sealed",
): Promise<ReencryptedRows> {
  return reencryptRows(db, deriveKey(master, SECRET_PURPOSE), {
    page: async (reader, after, limit) => {
      const rows = await reader.all(
        `select id, account_id, ${column} as encrypted from webhook
         where id > ? and ${column} is not null order by id limit ?`,
        [after, limit],
      );
      return rows.map((row) => ({
        id: text(row, "id"),
        encrypted: text(row, "encrypted"),
        associatedData: secretBinding(text(row, "account_id"), text(row, "id")),
      }));
    },
    update: async (tx, row, encrypted) => {
      await tx.run(`update webhook set ${column} = ? where id = ? and ${column} = ?`, [
        encrypted,
        row.id,
        row.encrypted,
      ]);
    },
  });
}
