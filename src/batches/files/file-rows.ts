// Queries of `stored_file` and `stored_file_part`. Lookups filter by account and by expiry.

import { maxId } from "../../base/pagination.ts";
import { type Reach, withinReach } from "../../http/reach.ts";
import {
  bytesOrNull,
  enumValue,
  integer,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
} from "../../store/db.ts";

export const FILE_PURPOSES = ["batch", "batch_output"] as const;
export type FilePurpose = (typeof FILE_PURPOSES)[number];

export interface StoredFile {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
  readonly purpose: FilePurpose;
  readonly filename: string;
  readonly bytes: number;
  /** Set for a file with the results of a batch, which are read from its items. */
  readonly batchId: string | null;
  readonly dataKey: string;
  readonly createdAt: number;
  readonly expiresAt: number;
}

type NewFile = Omit<StoredFile, "purpose" | "bytes" | "batchId">;

/** Inserts a file whose parts follow. It is not visible yet. */
export async function insertFile(tx: Tx, file: NewFile): Promise<void> {
  await insert(tx, { ...file, purpose: "batch", bytes: 0, batchId: null }, null);
}

export async function insertOutputFile(
  tx: Tx,
  file: Omit<StoredFile, "purpose" | "dataKey">,
): Promise<void> {
  // Its content is encrypted with the key of its batch.
  await insert(tx, { ...file, purpose: "batch_output", dataKey: "" }, 0);
}

async function insert(tx: Tx, file: StoredFile, parts: number | null): Promise<void> {
  await tx.run(
    `insert into stored_file (id, account_id, key_id, purpose, filename, bytes, parts, batch_id, data_key, created_at, expires_at)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    [
      file.id,
      file.accountId,
      file.keyId,
      file.purpose,
      file.filename,
      file.bytes,
      parts,
      file.batchId,
      file.dataKey,
      file.createdAt,
      file.expiresAt,
    ],
  );
}

export async function insertFilePart(
  tx: Tx,
  {
    fileId,
    part,
    sealed,
  }: { readonly fileId: string; readonly part: number; readonly sealed: Uint8Array },
): Promise<void> {
  await tx.run("insert into stored_file_part (file_id, part, sealed) values (?, ?, ?)", [
    fileId,
    part,
    sealed,
  ]);
}

/** Makes the file visible. */
export async function completeFile(
  tx: Tx,
  { id, filename, bytes, expiresAt, parts }: StoredFile & { readonly parts: number },
): Promise<void> {
  await tx.run(
    "update stored_file set filename = ?, bytes = ?, expires_at = ?, parts = ? where id = ?",
    [filename, bytes, expiresAt, parts, id],
  );
}

export async function readFilePart(
  reader: Reader,
  fileId: string,
  part: number,
): Promise<Uint8Array | undefined> {
  const row = await reader.get(
    "select sealed from stored_file_part where file_id = ? and part = ?",
    [fileId, part],
  );
  return row && (bytesOrNull(row, "sealed") ?? undefined);
}

export async function findFile(
  reader: Reader,
  reach: Reach,
  id: string,
  now: number,
): Promise<StoredFile | undefined> {
  const { sql, values } = withinReach(reach);
  const row = await reader.get(
    `select * from stored_file where id = ? and ${sql} and parts is not null and expires_at > ?`,
    [id, ...values, now],
  );
  return row && toStoredFile(row);
}

export interface FileFilter {
  readonly limit: number;
  readonly after: string | undefined;
  readonly order: "asc" | "desc";
  readonly purpose: FilePurpose | undefined;
}

/** Up to `limit + 1` files. */
export async function listFiles(
  reader: Reader,
  reach: Reach,
  { limit, after, order, purpose }: FileFilter,
  now: number,
): Promise<readonly StoredFile[]> {
  const isDescending = order === "desc";
  const position = after ?? (isDescending ? maxId("file") : "");
  const ofPurpose = purpose === undefined ? "" : " and purpose = ?";
  const { sql, values } = withinReach(reach);
  const rows = await reader.all(
    `select * from stored_file where ${sql} and parts is not null and expires_at > ?${ofPurpose}
     and id ${isDescending ? "<" : ">"} ? order by id ${isDescending ? "desc" : "asc"} limit ?`,
    [...values, now, ...(purpose === undefined ? [] : [purpose]), position, limit + 1],
  );
  return rows.map(toStoredFile);
}

/** What the uploaded files of an account take, also those that are being uploaded. */
export async function readFileUse(
  reader: Reader,
  accountId: string,
): Promise<{ readonly files: number; readonly bytes: number }> {
  const row = await reader.get(
    `select count(*) as files, cast(coalesce(sum(bytes), 0) as bigint) as bytes from stored_file
     where account_id = ? and batch_id is null`,
    [accountId],
  );
  if (row === undefined) return { files: 0, bytes: 0 };
  return { files: integer(row, "files"), bytes: integer(row, "bytes") };
}

export async function deleteFile(tx: Tx, id: string): Promise<void> {
  await tx.run("delete from stored_file_part where file_id = ?", [id]);
  await tx.run("delete from stored_file where id = ?", [id]);
}

/** Also uploads that were not completed. */
export async function findExpiredFiles(
  reader: Reader,
  now: number,
  limit: number,
): Promise<readonly string[]> {
  const rows = await reader.all("select id from stored_file where expires_at <= ? limit ?", [
    now,
    limit,
  ]);
  return rows.map((row) => text(row, "id"));
}

function toStoredFile(row: Row): StoredFile {
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    keyId: text(row, "key_id"),
    purpose: enumValue(row, "purpose", FILE_PURPOSES),
    filename: text(row, "filename"),
    bytes: integer(row, "bytes"),
    batchId: textOrNull(row, "batch_id"),
    dataKey: text(row, "data_key"),
    createdAt: integer(row, "created_at"),
    expiresAt: integer(row, "expires_at"),
  };
}
