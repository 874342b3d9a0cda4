// Envelope encryption of batches and files: each has a data key, wrapped by a key derived from the master secret. The associated
// data binds each ciphertext to its account, its batch or file, and its part.

import { randomBytes } from "node:crypto";
import {
  decrypt,
  type DerivedKey,
  deriveKey,
  encrypt,
  encryptBytes,
  type MasterSecret,
} from "../base/crypto/encryption.ts";
import { type Db, text } from "../store/db.ts";
import { type ReencryptedRows, reencryptRows } from "../store/reencrypt-rows.ts";

const DATA_KEY_BYTES = 32;

export interface EncryptedOwner {
  readonly id: string;
  readonly accountId: string;
}

type EncryptedPart = `request/${number}` | `result/${number}` | `part/${number}`;

/** Encrypts and decrypts the parts of one batch or file. */
export interface Sealer {
  readonly seal: (part: EncryptedPart, content: string) => Uint8Array;
  readonly open: (part: EncryptedPart, sealed: Uint8Array) => string;
}

export function deriveBatchKek(master: MasterSecret): DerivedKey {
  return deriveKey(master, "batch/v1");
}

export function createDataKey(kek: DerivedKey, owner: EncryptedOwner): string {
  return encrypt(kek, keyBinding(owner), randomBytes(DATA_KEY_BYTES).toString("base64"));
}

export function openSealer(kek: DerivedKey, owner: EncryptedOwner, dataKey: string): Sealer {
  const key: DerivedKey = [Buffer.from(decrypt(kek, keyBinding(owner), dataKey), "base64")];
  const binding = (part: EncryptedPart): string =>
    `batch/v1|${owner.accountId}|${owner.id}|${part}`;
  return {
    seal: (part, content) => encryptBytes(key, binding(part), content),
    open: (part, sealed) => decrypt(key, binding(part), sealed),
  };
}

function keyBinding({ id, accountId }: EncryptedOwner): string {
  return `batch/v1|${accountId}|${id}|key`;
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
        const associatedData = keyBinding({ id, accountId: text(row, "account_id") });
        return { id, encrypted: text(row, "data_key"), associatedData };
      });
    },
    update: async (tx, row, encrypted) => {
      await tx.run(`${update} where id = ? and data_key = ?`, [encrypted, row.id, row.encrypted]);
    },
  });
}
