// Queries of `batch`. Lookups for callers filter by account, so ids of other accounts are not found.

import { isObject, type JsonObject } from "../base/json.ts";
import { type Nano, toNano } from "../base/money/money.ts";
import { maxId, type PageRequest } from "../base/pagination.ts";
import { DAY_MS, MINUTE_MS } from "../base/time.ts";
import { type Reach, withinReach } from "../http/reach.ts";
import {
  enumValue,
  integer,
  integerOrNull,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
} from "../store/db.ts";

/** How long batches and files are stored, from their creation. */
export const RESULTS_RETENTION_MS = 30 * DAY_MS;

export const BATCH_STATUSES = [
  "validating",
  "in_progress",
  "canceling",
  "completed",
  "expired",
  "canceled",
] as const;
export type BatchStatus = (typeof BATCH_STATUSES)[number];

export const BATCH_FORMS = ["openai", "messages"] as const;
/** The API that created a batch. */
export type BatchForm = (typeof BATCH_FORMS)[number];

export interface ItemCounts {
  readonly succeeded: number;
  readonly errored: number;
  readonly canceled: number;
  readonly expired: number;
}

export interface Batch extends ItemCounts {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
  readonly form: BatchForm;
  readonly endpoint: string;
  readonly status: BatchStatus;
  /** Null if the gateway runs it. */
  readonly provider: string | null;
  readonly requests: number;
  readonly bytes: number;
  /** Headers of its calls. */
  readonly headers: Readonly<Record<string, string>>;
  readonly metadata: JsonObject | null;
  readonly inputFileId: string | null;
  /** Set if its only item completes a background response: the API does not show the batch then. */
  readonly responseId: string | null;
  /** Of the request of that response, as it was received. */
  readonly requestSha256: string | null;
  readonly outputFileId: string | null;
  readonly errorFileId: string | null;
  readonly dataKey: string;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly expiresAt: number;
  readonly cancelAt: number | null;
  readonly endedAt: number | null;
  /** The cost of the items that have ended. */
  readonly cost: Nano;
}

type NewBatch = Pick<
  Batch,
  | "id"
  | "accountId"
  | "keyId"
  | "form"
  | "endpoint"
  | "headers"
  | "metadata"
  | "inputFileId"
  | "responseId"
  | "requestSha256"
  | "dataKey"
  | "createdAt"
  | "expiresAt"
>;

/** Inserts a batch whose items follow. */
export async function insertBatch(tx: Tx, batch: NewBatch): Promise<void> {
  const { id, accountId, keyId, form, endpoint, metadata, inputFileId, dataKey } = batch;
  await tx.run(
    `insert into batch (id, account_id, key_id, form, endpoint, status, requests, bytes, headers, metadata, input_file_id,
       response_id, request_sha256, data_key, created_at, expires_at, succeeded, errored, canceled, expired, cost)
     values (?, ?, ?, ?, ?, 'validating', 0, 0, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0)`,
    [
      id,
      accountId,
      keyId,
      form,
      endpoint,
      JSON.stringify(batch.headers),
      metadata === null ? null : JSON.stringify(metadata),
      inputFileId,
      batch.responseId,
      batch.requestSha256,
      dataKey,
      batch.createdAt,
      batch.expiresAt,
    ],
  );
}

/** What a batch whose items follow stores so far. */
export async function setBatchBytes(tx: Tx, id: string, bytes: number): Promise<void> {
  await tx.run("update batch set bytes = ? where id = ?", [bytes, id]);
}

/** Waits for a start that is still being committed. */
export async function isStarted(tx: Tx, id: string): Promise<boolean> {
  const [row] = await tx.lockMany("batch", "id", [id], "status");
  return row?.["status"] !== "validating";
}

/** Deletes a batch that was not started. */
export async function discardBatch(tx: Tx, id: string): Promise<void> {
  const discarded = await tx.run("delete from batch where id = ? and status = 'validating'", [id]);
  if (discarded === 1) await deleteBatch(tx, id);
}

/** False if the batch was started, or deleted, before. */
export async function startBatch(
  tx: Tx,
  { id, requests, bytes, provider }: Pick<Batch, "id" | "requests" | "bytes" | "provider">,
  now: number,
): Promise<boolean> {
  const started = await tx.run(
    "update batch set status = 'in_progress', started_at = ?, due_at = ?, requests = ?, bytes = ?, provider = ? where id = ? and status = 'validating'",
    [now, now, requests, bytes, provider, id],
  );
  return started === 1;
}

/** False if it has ended or is being canceled. */
export async function cancelBatch(
  tx: Tx,
  { id, accountId }: Pick<Batch, "id" | "accountId">,
  now: number,
): Promise<boolean> {
  const changed = await tx.run(
    "update batch set status = 'canceling', cancel_at = ?, due_at = ? where id = ? and account_id = ? and status = 'in_progress'",
    [now, now, id, accountId],
  );
  return changed === 1;
}

export async function findBatch(
  reader: Reader,
  reach: Reach,
  id: string,
): Promise<Batch | undefined> {
  const { sql, values } = withinReach(reach);
  const row = await reader.get(
    `select * from batch where id = ? and ${sql} and status <> 'validating' and response_id is null`,
    [id, ...values],
  );
  return row && withLiveCounts(reader, toBatch(row));
}

export interface BatchPage extends PageRequest {
  /** Newest first, before this id; with `after`, oldest first, and after it. */
  readonly after?: string | undefined;
}

/** Up to `limit + 1` batches. */
export async function listBatches(
  reader: Reader,
  reach: Reach,
  { limit, cursor, after }: BatchPage,
): Promise<readonly Batch[]> {
  const condition = after === undefined ? "id < ? order by id desc" : "id > ? order by id";
  const { sql, values } = withinReach(reach);
  const rows = await reader.all(
    `select * from batch where ${sql} and status <> 'validating' and response_id is null and ${condition} limit ?`,
    [...values, after ?? cursor ?? maxId("batch"), limit + 1],
  );
  return Promise.all(rows.map((row) => withLiveCounts(reader, toBatch(row))));
}

/** Reads an index only: the rows of items are large. */
export const LIVE_COUNTS =
  "select status, count(*) as items, cast(sum(cost) as bigint) as cost from batch_item where batch_id = ? group by status";

/** Until a batch has ended, its items are counted. */
async function withLiveCounts(reader: Reader, batch: Batch): Promise<Batch> {
  if (batch.endedAt !== null) return batch;
  const rows = await reader.all(LIVE_COUNTS, [batch.id]);
  const countOf = (status: string): number => {
    const row = rows.find((one) => one["status"] === status);
    return row === undefined ? 0 : integer(row, "items");
  };
  return {
    ...batch,
    succeeded: countOf("succeeded"),
    errored: countOf("errored"),
    canceled: countOf("canceled"),
    expired: countOf("expired"),
    cost: rows.reduce((sum, row) => sum + toNano(row["cost"]), 0n),
  };
}

/** The longest time for which a batch is left alone. A later `due_at` is from a clock that was set back since. */
export const WAIT_MAX_MS = 5 * MINUTE_MS;

export interface WaitingFilter {
  readonly limit: number;
  /** How many batches of an account this process runs already. */
  readonly running: ReadonlyMap<string, number>;
  /** The most that it may run. */
  readonly perAccount: number;
  readonly now: number;
}

/**
 * Batches that wait for a process: the first ones of accounts of which it runs none, then the second ones and the first ones of
 * accounts of which it runs one, and so on. The first of an account is the one that is due for the longest time.
 */
export async function findWaiting(
  reader: Reader,
  by: "gateway" | "provider",
  { limit, running, perAccount, now }: WaitingFilter,
): Promise<readonly Pick<Batch, "id" | "accountId">[]> {
  const accounts = [...running];
  const ofAccount =
    accounts.length === 0
      ? "0"
      : `case account_id ${accounts.map(() => "when ? then cast(? as bigint)").join(" ")} else 0 end`;
  const rows = await reader.all(
    `select id, account_id from (
       select id, account_id, due_at, ${ofAccount} + row_number() over (partition by account_id order by due_at, id) as turn from batch
       where ended_at is null and process is null and status in ('in_progress', 'canceling')
         and (due_at <= ? or due_at > ?) and provider is ${by === "gateway" ? "null" : "not null"}
     ) as waiting where turn <= ? order by turn, due_at, id limit ?`,
    [...accounts.flat(), now, now + WAIT_MAX_MS, perAccount, limit],
  );
  return rows.map((row) => ({ id: text(row, "id"), accountId: text(row, "account_id") }));
}

export interface BatchOwner {
  readonly process: string;
  readonly epoch: number;
}

/** Undefined if another process was faster. */
export async function claimBatch(
  tx: Tx,
  id: string,
  { process, epoch }: BatchOwner,
): Promise<Batch | undefined> {
  const claimed = await tx.run(
    "update batch set process = ?, epoch = ? where id = ? and process is null and ended_at is null",
    [process, epoch, id],
  );
  if (claimed === 0) return undefined;
  const row = await tx.get("select * from batch where id = ?", [id]);
  return row && toBatch(row);
}

/** What a running batch must know again: undefined if this process does not run it any more. */
export async function readOwned(
  reader: Reader,
  id: string,
  { process, epoch }: BatchOwner,
): Promise<Pick<Batch, "status"> | undefined> {
  const row = await reader.get(
    "select status from batch where id = ? and process = ? and epoch = ? and ended_at is null",
    [id, process, epoch],
  );
  return row && { status: enumValue(row, "status", BATCH_STATUSES) };
}

/** Another process, or the next start, continues the batches of this one. */
export async function releaseBatches(tx: Tx, { process, epoch }: BatchOwner): Promise<void> {
  await tx.run(
    "update batch set process = null, epoch = null where process = ? and epoch <= ? and ended_at is null",
    [process, epoch],
  );
}

/** It is run again from its first pending item, by any process, from `dueAt` on. If it is being canceled, at once. */
export async function releaseBatch(
  tx: Tx,
  id: string,
  { process, epoch }: BatchOwner,
  dueAt: number,
): Promise<void> {
  // Waits for a claim that is still being committed.
  await tx.lockMany("batch", "id", [id]);
  await tx.run(
    `update batch set process = null, epoch = null, due_at = case when status = 'canceling' then due_at else ? end
     where id = ? and process = ? and epoch = ? and ended_at is null`,
    [dueAt, id, process, epoch],
  );
}

/** The batches of processes, for the sweep of dead ones. */
export const runningBatches = {
  findProcesses: async (reader: Reader): Promise<readonly string[]> => {
    const rows = await reader.all(
      "select distinct process from batch where ended_at is null and process is not null",
    );
    return rows.map((row) => text(row, "process"));
  },
  release: async (
    tx: Tx,
    processes: readonly { readonly name: string; readonly epoch: number }[],
  ): Promise<void> => {
    for (const { name: process, epoch } of processes) await releaseBatches(tx, { process, epoch });
  },
};

export interface EndedBatch extends ItemCounts, BatchOwner {
  readonly id: string;
  readonly status: BatchStatus;
  readonly bytes: number;
  readonly cost: Nano;
  readonly outputFileId: string | null;
  readonly errorFileId: string | null;
}

/** False if this process does not run it any more. */
export async function endBatch(tx: Tx, batch: EndedBatch, now: number): Promise<boolean> {
  const { id, status, succeeded, errored, canceled, expired, cost, bytes } = batch;
  const ended = await tx.run(
    `update batch set status = ?, ended_at = ?, succeeded = ?, errored = ?, canceled = ?, expired = ?, cost = ?, bytes = ?,
       output_file_id = ?, error_file_id = ?, process = null, epoch = null
     where id = ? and process = ? and epoch = ? and ended_at is null`,
    [
      status,
      now,
      succeeded,
      errored,
      canceled,
      expired,
      cost,
      bytes,
      batch.outputFileId,
      batch.errorFileId,
      id,
      batch.process,
      batch.epoch,
    ],
  );
  return ended === 1;
}

export async function deleteBatch(tx: Tx, id: string): Promise<void> {
  // Found by id: `stored_file` has no index by batch.
  const files = ["output_file_id", "error_file_id"].map(
    (column) => `select ${column} from batch where id = ?`,
  );
  await tx.run(`delete from stored_file where id in (${files.join(" union all ")})`, [id, id]);
  await tx.run("delete from provider_batch where batch_id = ?", [id]);
  await tx.run("delete from batch_item where batch_id = ?", [id]);
  await tx.run("delete from batch where id = ?", [id]);
}

/** Batches that ended, or were never started, and are older than this. */
export async function findOldBatches(
  reader: Reader,
  {
    endedBefore,
    validatingBefore,
  }: { readonly endedBefore: number; readonly validatingBefore: number },
  limit: number,
): Promise<readonly string[]> {
  // Each is read from an index: with `or`, the batches of the last month would be read.
  const ended = await reader.all(
    "select id from batch where created_at < ? and ended_at is not null limit ?",
    [endedBefore, limit],
  );
  const validating = await reader.all(
    "select id from batch where ended_at is null and status = 'validating' and created_at < ? limit ?",
    [validatingBefore, limit],
  );
  return [...ended, ...validating].map((row) => text(row, "id")).slice(0, limit);
}

interface BatchUse {
  readonly unfinished: number;
  /** What all batches of the account store. */
  readonly bytes: number;
  /** Without those of batches that are being created. */
  readonly startedBytes: number;
}

export async function readBatchUse(reader: Reader, accountId: string): Promise<BatchUse> {
  const row = await reader.get(
    `select count(case when ended_at is null and status <> 'validating' then 1 end) as unfinished,
       cast(coalesce(sum(bytes), 0) as bigint) as bytes,
       cast(coalesce(sum(case when status <> 'validating' then bytes end), 0) as bigint) as started_bytes
       from batch where account_id = ?`,
    [accountId],
  );
  if (row === undefined) return { unfinished: 0, bytes: 0, startedBytes: 0 };
  return {
    unfinished: integer(row, "unfinished"),
    bytes: integer(row, "bytes"),
    startedBytes: integer(row, "started_bytes"),
  };
}

function toBatch(row: Row): Batch {
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    keyId: text(row, "key_id"),
    form: enumValue(row, "form", BATCH_FORMS),
    endpoint: text(row, "endpoint"),
    status: enumValue(row, "status", BATCH_STATUSES),
    provider: textOrNull(row, "provider"),
    requests: integer(row, "requests"),
    bytes: integer(row, "bytes"),
    headers: toHeaders(text(row, "headers")),
    metadata: toMetadata(textOrNull(row, "metadata")),
    inputFileId: textOrNull(row, "input_file_id"),
    responseId: textOrNull(row, "response_id"),
    requestSha256: textOrNull(row, "request_sha256"),
    outputFileId: textOrNull(row, "output_file_id"),
    errorFileId: textOrNull(row, "error_file_id"),
    dataKey: text(row, "data_key"),
    createdAt: integer(row, "created_at"),
    startedAt: integerOrNull(row, "started_at"),
    expiresAt: integer(row, "expires_at"),
    cancelAt: integerOrNull(row, "cancel_at"),
    endedAt: integerOrNull(row, "ended_at"),
    succeeded: integer(row, "succeeded"),
    errored: integer(row, "errored"),
    canceled: integer(row, "canceled"),
    expired: integer(row, "expired"),
    cost: toNano(row["cost"]),
  };
}

function toHeaders(json: string): Readonly<Record<string, string>> {
  const entries: readonly [string, unknown][] = Object.entries(toMetadata(json) ?? {});
  return Object.fromEntries(
    entries.flatMap(([name, value]) => (typeof value === "string" ? [[name, value]] : [])),
  );
}

function toMetadata(json: string | null): JsonObject | null {
  const value: unknown = json === null ? null : JSON.parse(json);
  return isObject(value) ? value : null;
}
