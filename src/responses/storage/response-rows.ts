// Queries of stored_response and stored_item. Every lookup filters by account, so ids of other accounts are not found, and
// by expiry, so expired rows are not found before they are deleted.

import type { JsonObject } from "../../base/json.ts";
import { toNano, usdNumber } from "../../base/money/money.ts";
import { type Reach, withinReach } from "../../http/reach.ts";
import {
  bytesOrNull,
  enumValue,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
  type Value,
  integer,
} from "../../store/db.ts";
import type { EncryptedResponse } from "./response-encryption.ts";

export const RESPONSE_STATUSES = [
  "queued",
  "in_progress",
  "completed",
  "incomplete",
  "failed",
  "cancelled",
] as const;
export type ResponseStatus = (typeof RESPONSE_STATUSES)[number];

export interface StoredResponse extends EncryptedResponse {
  readonly keyId: string;
  readonly previousId: string | null;
  readonly status: ResponseStatus;
  readonly background: boolean;
  /** The call's hold: while it exists, the call may still complete. That of a queued response is its batch. */
  readonly holdId: string;
  /** Provider, provider account and model that created its reasoning. */
  readonly origin: string | null;
  readonly bytes: number;
  readonly createdAt: number;
  readonly expiresAt: number;
}

const INSERT_COLUMNS = [
  "id:text",
  "account_id:text",
  "key_id:text",
  "previous_id:text",
  "status:text",
  "background:bigint",
  "hold_id:text",
  "origin:text",
  "bytes:bigint",
  "sealed_record:bytea",
  "sealed_input:text",
  "sealed_response:text",
  "data_key:text",
  "created_at:bigint",
  "expires_at:bigint",
] as const;

export function insertResponses(tx: Tx, records: readonly StoredResponse[]): Promise<void> {
  return tx.insertMany("stored_response", INSERT_COLUMNS, records.map(toValues));
}

function toValues(record: StoredResponse): readonly Value[] {
  return [
    record.id,
    record.accountId,
    record.keyId,
    record.previousId,
    record.status,
    record.background ? 1 : 0,
    record.holdId,
    record.origin,
    record.bytes,
    record.record,
    record.input,
    record.response,
    record.dataKey,
    record.createdAt,
    record.expiresAt,
  ];
}

/** Stores the result of a background response; false if it was canceled or deleted meanwhile. */
export async function finishResponse(
  tx: Tx,
  { id, accountId, status, input, response, dataKey, holdId, origin, bytes }: StoredResponse,
): Promise<boolean> {
  // 'failed' too: failOrphaned() may have failed a call that was still running.
  const updated = await tx.run(
    `update stored_response set status = ?, sealed_input = ?, sealed_response = ?, data_key = ?, hold_id = ?, origin = ?, bytes = ?
     where id = ? and account_id = ? and status in ('queued', 'in_progress', 'failed')`,
    [status, input, response, dataKey, holdId, origin, bytes, id, accountId],
  );
  return updated === 1;
}

/** A canceled response whose call was charged nevertheless has its usage. */
export async function linkUsage(
  tx: Tx,
  { id, accountId, holdId }: Pick<StoredResponse, "id" | "accountId" | "holdId">,
): Promise<void> {
  await tx.run(
    "update stored_response set hold_id = ? where id = ? and account_id = ? and status = 'cancelled'",
    [holdId, id, accountId],
  );
}

/** Fails or cancels a response that is queued or in progress; false if it has already ended. */
export async function stopResponse(
  tx: Tx,
  { id, accountId, status }: Pick<StoredResponse, "id" | "accountId" | "status">,
  response?: string,
): Promise<boolean> {
  const [set, params]: [string, Value[]] =
    response === undefined ? ["", []] : [", sealed_response = ?", [response]];
  const stopped = await tx.run(
    `update stored_response set status = ?${set} where id = ? and account_id = ? and status in ('queued', 'in_progress')`,
    [status, ...params, id, accountId],
  );
  return stopped === 1;
}

export interface StoredItem {
  readonly accountId: string;
  readonly id: string;
  readonly responseId: string;
}

/** A statement for PostgreSQL costs a round trip; SQLite keeps a statement for one row prepared. */
const ITEM_BATCH_MAX = { postgres: 500, sqlite: 1 } as const;

/** Indexes items by id. A reused id refers to the newer item. */
export async function insertItems(tx: Tx, items: readonly StoredItem[]): Promise<void> {
  const newest = [...new Map(items.map((item) => [`${item.accountId} ${item.id}`, item])).values()];
  const batchMax = ITEM_BATCH_MAX[tx.kind];
  for (let from = 0; from < newest.length; from += batchMax) {
    const batch = newest.slice(from, from + batchMax);
    await tx.run(
      `insert into stored_item (account_id, id, response_id) values ${batch.map(() => "(?, ?, ?)").join(", ")}
       on conflict (account_id, id) do update set response_id = excluded.response_id`,
      batch.flatMap(({ accountId, id, responseId }) => [accountId, id, responseId]),
    );
  }
}

const COLUMNS =
  "id, account_id, key_id, previous_id, status, background, hold_id, origin, bytes, sealed_record, sealed_input, sealed_response, data_key, created_at, expires_at";

export async function findResponse(
  reader: Reader,
  reach: Reach,
  id: string,
  now: number,
): Promise<StoredResponse | undefined> {
  const { sql, values } = withinReach(reach);
  const row = await reader.get(
    `select ${COLUMNS} from stored_response where id = ? and ${sql} and expires_at > ?`,
    [id, ...values, now],
  );
  return row && toStoredResponse(row);
}

/** Without what it contains, which can have megabytes; undefined if it was deleted. */
export async function findStatus(
  reader: Reader,
  { id, accountId }: Pick<StoredResponse, "id" | "accountId">,
  now: number,
): Promise<ResponseStatus | undefined> {
  const row = await reader.get(
    "select status from stored_response where id = ? and account_id = ? and expires_at > ?",
    [id, accountId, now],
  );
  return row && enumValue(row, "status", RESPONSE_STATUSES);
}

/** The usage and cost of a call in this API's format; undefined if there is none yet. */
export async function findUsage(
  reader: Reader,
  { accountId, holdId }: StoredResponse,
): Promise<JsonObject | undefined> {
  const row = await reader.get(
    `select input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost_nano
     from usage_record where id = ? and account_id = ? and input_tokens + output_tokens + cost_nano > 0`,
    [holdId, accountId],
  );
  if (row === undefined) return undefined;
  const input = integer(row, "input_tokens");
  const output = integer(row, "output_tokens");
  return {
    input_tokens: input,
    input_tokens_details: {
      cached_tokens: integer(row, "cache_read_tokens"),
      cache_write_tokens: integer(row, "cache_write_tokens"),
    },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: integer(row, "reasoning_tokens") },
    total_tokens: input + output,
    cost: usdNumber(toNano(row["cost_nano"])),
  };
}

export interface ChainRequest {
  readonly reach: Reach;
  readonly id: string;
  readonly now: number;
  readonly maxLength: number;
}

/** A response and its predecessors, oldest first, up to the first missing one. */
export async function findChain(
  reader: Reader,
  { reach, id, now, maxLength }: ChainRequest,
): Promise<readonly StoredResponse[]> {
  const columns = COLUMNS.split(", ")
    .map((column) => `r.${column}`)
    .join(", ");
  const first = withinReach(reach);
  const earlier = withinReach(reach, "r.");
  const rows = await reader.all(
    `with recursive chain (id, previous_id, place) as (
       select id, previous_id, 0 from stored_response where id = ? and ${first.sql} and expires_at > ?
       union all
       select r.id, r.previous_id, chain.place + 1 from chain
       join stored_response r on r.id = chain.previous_id
       where ${earlier.sql} and r.expires_at > ? and chain.place < ?)
     select ${columns} from chain join stored_response r on r.id = chain.id order by chain.place desc`,
    [id, ...first.values, now, ...earlier.values, now, maxLength],
  );
  return rows.map(toStoredResponse);
}

export interface ItemRequest {
  readonly itemIds: readonly string[];
  /** Responses whose input has some of them. */
  readonly responseIds: readonly string[];
  readonly now: number;
  readonly maxBytes: number;
}

function placeholders(values: readonly unknown[]): string {
  return values.map(() => "?").join(", ");
}

/** The responses that contain these items; undefined if they are larger than `maxBytes` in total. */
export async function findResponsesByItems(
  reader: Reader,
  reach: Reach,
  { itemIds, responseIds, now, maxBytes }: ItemRequest,
): Promise<readonly StoredResponse[] | undefined> {
  const { sql, values } = withinReach(reach);
  const matching = `from stored_response where ${sql} and expires_at > ? and (id in
    (select response_id from stored_item where account_id = ? and id in (${placeholders(itemIds)}))
    ${responseIds.length === 0 ? "" : `or id in (${placeholders(responseIds)})`})`;
  const params = [...values, now, reach.accountId, ...itemIds, ...responseIds];
  const sum = await reader.get(
    `select cast(coalesce(sum(bytes), 0) as bigint) as bytes ${matching}`,
    params,
  );
  if (sum !== undefined && integer(sum, "bytes") > maxBytes) return undefined;
  return (await reader.all(`select ${COLUMNS} ${matching}`, params)).map(toStoredResponse);
}

export async function deleteResponse(tx: Tx, accountId: string, id: string): Promise<boolean> {
  const deleted = await tx.run("delete from stored_response where id = ? and account_id = ?", [
    id,
    accountId,
  ]);
  if (deleted === 1) await deleteResponses(tx, [id]);
  return deleted === 1;
}

export interface StorageUsage {
  readonly responses: number;
  readonly bytes: number;
}

export async function accountStorageUsage(
  reader: Reader,
  accountId: string,
): Promise<StorageUsage> {
  const row = await reader.get(
    "select count(*) as responses, cast(coalesce(sum(bytes), 0) as bigint) as bytes from stored_response where account_id = ?",
    [accountId],
  );
  return row === undefined
    ? { responses: 0, bytes: 0 }
    : { responses: integer(row, "responses"), bytes: integer(row, "bytes") };
}

/** Deletes up to `limit` responses of the account that have ended, oldest first. */
export async function deleteOldest(
  tx: Tx,
  accountId: string,
  limit: number,
): Promise<StorageUsage> {
  const rows = await tx.all(
    `select id, bytes from stored_response where account_id = ? and status not in ('queued', 'in_progress')
     order by created_at limit ?`,
    [accountId, limit],
  );
  await deleteResponses(
    tx,
    rows.map((row) => text(row, "id")),
  );
  return {
    responses: rows.length,
    bytes: rows.reduce((sum, row) => sum + integer(row, "bytes"), 0),
  };
}

async function deleteResponses(tx: Tx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await tx.deleteMany("stored_item", "response_id", ids);
  await tx.deleteMany("stored_stream", "response_id", ids);
  await tx.deleteMany("stored_response", "id", ids);
}

export type QueuedResponse = Pick<StoredResponse, "accountId" | "holdId">;

export interface Expiry {
  readonly now: number;
  readonly limit: number;
  /** Called for a queued response, whose account may have changed what it stores: else it would be charged and could not be read. */
  readonly cancel: (tx: Tx, response: QueuedResponse) => Promise<void>;
}

/** Deletes up to `limit` expired responses and returns their number. */
export async function deleteExpired(tx: Tx, { now, limit, cancel }: Expiry): Promise<number> {
  const rows = await tx.all(
    "select id, account_id, hold_id, status from stored_response where expires_at <= ? order by expires_at limit ?",
    [now, limit],
  );
  for (const row of rows.filter(({ status }) => status === "queued"))
    await cancel(tx, { accountId: text(row, "account_id"), holdId: text(row, "hold_id") });
  await deleteResponses(
    tx,
    rows.map((row) => text(row, "id")),
  );
  return rows.length;
}

/** Fails responses in progress without a hold, and returns them: their process died. */
export async function failOrphaned(
  tx: Tx,
  startedBefore: number,
): Promise<readonly Pick<StoredResponse, "id" | "accountId">[]> {
  const rows = await tx.all(
    "select id, account_id, hold_id from stored_response where status = 'in_progress' and created_at < ?",
    [startedBefore],
  );
  const keys = rows.map((row) => [text(row, "account_id"), text(row, "hold_id")] as const);
  const held = new Set(
    (await tx.readMany("hold", "account_id, id", keys, "id")).map((row) => text(row, "id")),
  );
  const failed: Pick<StoredResponse, "id" | "accountId">[] = [];
  for (const row of rows.filter((response) => !held.has(text(response, "hold_id")))) {
    const id = text(row, "id");
    const updated = await tx.run(
      "update stored_response set status = 'failed' where id = ? and status = 'in_progress'",
      [id],
    );
    if (updated === 1) failed.push({ id, accountId: text(row, "account_id") });
  }
  return failed;
}

/** The ids that are neither canceled nor deleted. */
export async function findNotCanceled(
  reader: Reader,
  ids: readonly string[],
): Promise<ReadonlySet<string>> {
  if (ids.length === 0) return new Set();
  const rows = await reader.all(
    `select id from stored_response where status <> 'cancelled' and id in (${ids.map(() => "?").join(", ")})`,
    ids,
  );
  return new Set(rows.map((row) => text(row, "id")));
}

function toStoredResponse(row: Row): StoredResponse {
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    keyId: text(row, "key_id"),
    previousId: textOrNull(row, "previous_id"),
    status: enumValue(row, "status", RESPONSE_STATUSES),
    background: integer(row, "background") === 1,
    holdId: text(row, "hold_id"),
    origin: textOrNull(row, "origin"),
    bytes: integer(row, "bytes"),
    record: bytesOrNull(row, "sealed_record"),
    input: text(row, "sealed_input"),
    response: text(row, "sealed_response"),
    dataKey: text(row, "data_key"),
    createdAt: integer(row, "created_at"),
    expiresAt: integer(row, "expires_at"),
  };
}
