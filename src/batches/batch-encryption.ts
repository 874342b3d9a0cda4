// Envelope encryption of batches and files: each has a data key.

import { type DerivedKey, deriveKey, type MasterSecret } from "../base/crypto/encryption.ts";
import * as sealer from "../base/crypto/sealer.ts";
import { type Db, text } from "../store/db.ts";
import { type ReencryptedRows, reencryptRows } from "../store/reencrypt-rows.ts";

const PURPOSE = "batch/v1";

export interface EncryptedOwner {
  readonly id: string;
  readonly accountId: string;
}

type EncryptedPart = `request/${number}` | `result/${number}` | `part/${number}`;

/** Encrypts and decrypts the parts of one batch or file. */
export type Sealer = sealer.Sealer<EncryptedPart>;

export function deriveBatchKek(master: MasterSecret): DerivedKey {
  return deriveKey(master, PURPOSE);
}

export function createDataKey(kek: DerivedKey, owner: EncryptedOwner): string {
  return sealer.createDataKey(kek, recordOf(owner));
}

export function openSealer(kek: DerivedKey, owner: EncryptedOwner, dataKey: string): Sealer {
  return sealer.openSealer(kek, recordOf(owner), dataKey);
}

function recordOf({ id, accountId }: EncryptedOwner): sealer.SealedRecord {
  return { purpose: PURPOSE, id, accountId };
}

/** For the rotation of the master secret. */
export async function reencryptBatches(db: Db, master: MasterSecret): Promise<ReencryptedRows> {
  const batches = await reencryptTable(db, master, "batch");
  const files = await reencryptTable(db, master, "stored_file");
  return {
    read: batches.read + files.read,
    moved: batches.moved + files.moved,
    unreadable: [...batches.unreadable, ...files.unreadable],
  };
}

function reencryptTable(
  db: Db,
  master: MasterSecret,
  table: "batch" | "stored_file",
): Promise<ReencryptedRows> {
  const [select, update] =
    table === "batch"
      ? [
          "select id, account_id, data_key from batch where data_key <> ''",
          "update batch set data_key = ?",
        ]
      : [
          "select id, account_id, data_key from stored_file where data_key <> ''",
          "update stored_file set data_key = ?",
        ];
  return reencryptRows(db, deriveBatchKek(master), {
    page: async (reader, after, limit) => {
      const rows = await reader.all(`${select} and id > ? order by id limit ?`, [after, limit]);
      return rows.map((row) => {
        const id = text(row, "id");
        const owner = { id, accountId: text(row, "account_id") };
        const associatedData = sealer.dataKeyBinding(recordOf(owner));
        return { id, encrypted: text(row, "data_key"), associatedData };
      });
    },
    update: async (tx, row, encrypted) => {
      await tx.run(`${update} where id = ? and data_key = ?`, [encrypted, row.id, row.encrypted]);
    },
  });
}
