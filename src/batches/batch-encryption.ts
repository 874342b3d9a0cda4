// Envelope encryption of batches and files: each has a data key.

import { type DerivedKey, deriveKey, type MasterSecret } from "../base/crypto/encryption.ts";
import * as sealer from "../base/crypto/sealer.ts";
import { text } from "../store/db.ts";
import type { EncryptedColumn } from "../store/reencrypt-rows.ts";

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
export function batchDataKeys(table: "batch" | "stored_file"): EncryptedColumn {
  return {
    table,
    column: "data_key",
    key: ["id"],
    reads: ["account_id"],
    deriveKey: deriveBatchKek,
    associatedData: (row) =>
      sealer.dataKeyBinding(recordOf({ id: text(row, "id"), accountId: text(row, "account_id") })),
  };
}
