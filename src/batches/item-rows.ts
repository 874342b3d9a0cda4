// Queries of `batch_item`. An item ends once: every statement that ends one requires that it is pending.

import { Fault } from "../base/fault.ts";
import { type Nano, toNano } from "../base/money/money.ts";
import type { ItemSettlement } from "../inference/lifecycle/batch-item.ts";
import {
  bytesOrNull,
  enumValue,
  integer,
  integerOrNull,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
} from "../store/db.ts";

export const ITEM_STATUSES = ["pending", "succeeded", "errored", "canceled", "expired"] as const;
export type ItemStatus = (typeof ITEM_STATUSES)[number];

export interface NewItem {
  readonly position: number;
  readonly customId: string;
  readonly status: "pending" | "errored";
  readonly share: Nano;
  readonly httpStatus: number | null;
  readonly sealedRequest: Uint8Array | null;
  readonly sealedResult: Uint8Array | null;
  /** Set if a provider can run it. */
  readonly inBatch: {
    readonly target: string;
    readonly share: Nano;
    /** The provider and the key there. */
    readonly runner: string;
  } | null;
}

const COLUMNS = [
  "batch_id:text",
  "position:bigint",
  "custom_id:text",
  "status:text",
  "share:bigint",
  "cost:bigint",
  "http_status:bigint",
  "sealed_request:bytea",
  "sealed_result:bytea",
  "target:text",
  "batch_share:bigint",
] as const;

export function insertItems(tx: Tx, batchId: string, items: readonly NewItem[]): Promise<void> {
  return tx.insertMany(
    "batch_item",
    COLUMNS,
    items.map((item) => [
      batchId,
      item.position,
      item.customId,
      item.status,
      item.share,
      0,
      item.httpStatus,
      item.sealedRequest,
      item.sealedResult,
      item.inBatch?.target ?? null,
      item.inBatch?.share ?? null,
    ]),
  );
}

/** What the row of an item takes besides its request and its result, about. */
export const ITEM_ROW_BYTES = 512;

/** The most bytes of the requests, or results, of a page. */
export const PAGE_MAX_BYTES = 8 * 1_048_576;

/** The last position of a page that is no larger than this; one item may be. Undefined without rows. */
function lastPosition(rows: readonly Row[]): number | undefined {
  let bytes = 0;
  const end = rows.findIndex((row, index) => {
    bytes += integer(row, "bytes");
    return index > 0 && bytes > PAGE_MAX_BYTES;
  });
  const last = rows.at(end === -1 ? -1 : end - 1);
  return last && integer(last, "position");
}

export interface PendingItem {
  readonly position: number;
  readonly share: Nano;
  /** How often its provider has failed. */
  readonly failures: number;
  readonly sealedRequest: Uint8Array;
}

export interface PendingPage {
  readonly after: number;
  readonly limit: number;
  /** Only the items of a batch at a provider. */
  readonly providerBatchId?: string;
}

/** May have fewer items than `limit` although others follow. */
export async function readPending(
  reader: Reader,
  batchId: string,
  { after, limit, providerBatchId }: PendingPage,
): Promise<readonly PendingItem[]> {
  const ofProvider = providerBatchId === undefined ? "" : " and provider_batch_id = ?";
  const where = `where batch_id = ? and status = 'pending' and position > ?${ofProvider}`;
  const values = [batchId, after, ...(providerBatchId === undefined ? [] : [providerBatchId])];
  const sizes = await reader.all(
    `select position, coalesce(length(sealed_request), 0) as bytes from batch_item ${where} order by position limit ?`,
    [...values, limit],
  );
  const last = lastPosition(sizes);
  if (last === undefined) return [];
  const rows = await reader.all(
    `select position, share, failures, sealed_request from batch_item ${where} and position <= ? order by position`,
    [...values, last],
  );
  return rows.map((row) => toPendingItem(batchId, row));
}

function toPendingItem(batchId: string, row: Row): PendingItem {
  const sealedRequest = bytesOrNull(row, "sealed_request");
  if (sealedRequest === null) throw new Error(`an item of ${batchId} has no request`);
  return {
    position: integer(row, "position"),
    share: toNano(row["share"]),
    failures: integer(row, "failures"),
    sealedRequest,
  };
}

/** An item of a batch at a provider; undefined if it has ended. */
export async function findPending(
  reader: Reader,
  { id, batchId }: { readonly id: string; readonly batchId: string },
  position: number,
): Promise<PendingItem | undefined> {
  const row = await reader.get(
    `select position, share, failures, sealed_request from batch_item
     where batch_id = ? and position = ? and status = 'pending' and provider_batch_id = ?`,
    [batchId, position, id],
  );
  return row && toPendingItem(batchId, row);
}

export async function isPending(
  reader: Reader,
  batchId: string,
  position: number,
): Promise<boolean> {
  const row = await reader.get(
    "select 1 as pending from batch_item where batch_id = ? and position = ? and status = 'pending'",
    [batchId, position],
  );
  return row !== undefined;
}

/** Counts a failure of the item's provider. False if the item has ended. */
export async function countFailure(tx: Tx, batchId: string, position: number): Promise<boolean> {
  const counted = await tx.run(
    "update batch_item set failures = failures + 1 where batch_id = ? and position = ? and status = 'pending'",
    [batchId, position],
  );
  return counted === 1;
}

/**
 * Ends items in the transaction of their charges. Throws if an item has ended already, so that the call is not charged: another
 * process has run it.
 */
export async function settleItems(tx: Tx, items: readonly ItemSettlement[]): Promise<void> {
  for (const item of items)
    if (!(await endItem(tx, item)))
      throw new Fault("overloaded", `item ${item.position} of ${item.batchId} has ended already`);
}

/** False if the item has ended already. */
export async function endItem(
  tx: Tx,
  { batchId, position, status, httpStatus, cost, requestId, sealedResult }: ItemSettlement,
): Promise<boolean> {
  const ended = await tx.run(
    `update batch_item set status = ?, http_status = ?, cost = ?, request_id = ?, sealed_result = ?, sealed_request = null
     where batch_id = ? and position = ? and status = 'pending'`,
    [status, httpStatus, cost, requestId, sealedResult, batchId, position],
  );
  return ended === 1;
}

type NotRun = "canceled" | "expired";

/** Ends the items that were not run. */
export async function endPending(tx: Tx, batchId: string, status: NotRun): Promise<void> {
  await endPendingUpTo(tx, batchId, status, Number.MAX_SAFE_INTEGER);
}

/** Ends some of the items that were not run. False if there is none. */
export async function endSomePending(tx: Tx, batchId: string, status: NotRun): Promise<boolean> {
  const last = lastPosition(await readPendingSizes(tx, batchId));
  if (last !== undefined) await endPendingUpTo(tx, batchId, status, last);
  return last !== undefined;
}

async function endPendingUpTo(
  tx: Tx,
  batchId: string,
  status: NotRun,
  position: number,
): Promise<void> {
  await tx.run(
    "update batch_item set status = ?, sealed_request = null where batch_id = ? and status = 'pending' and position <= ?",
    [status, batchId, position],
  );
}

function readPendingSizes(reader: Reader, batchId: string): Promise<readonly Row[]> {
  return reader.all(
    `select position, coalesce(length(sealed_request), 0) as bytes from batch_item
     where batch_id = ? and status = 'pending' order by position limit ${CLEARED_ITEMS}`,
    [batchId],
  );
}

/** Deletes some items. False if there is none. */
export async function deleteSomeItems(tx: Tx, batchId: string): Promise<boolean> {
  const sizes = await tx.all(
    `select position, coalesce(length(sealed_request), 0) + coalesce(length(sealed_result), 0) as bytes from batch_item
     where batch_id = ? order by position limit ${CLEARED_ITEMS}`,
    [batchId],
  );
  const last = lastPosition(sizes);
  if (last === undefined) return false;
  await tx.run("delete from batch_item where batch_id = ? and position <= ?", [batchId, last]);
  return true;
}

/** Items whose requests or results one transaction clears, up to `PAGE_MAX_BYTES`: SQLite reads all pages that it frees. */
const CLEARED_ITEMS = 500;

export interface ItemSum {
  readonly status: ItemStatus;
  readonly items: number;
  readonly cost: Nano;
  readonly bytes: number;
}

export async function sumItems(reader: Reader, batchId: string): Promise<readonly ItemSum[]> {
  const rows = await reader.all(
    `select status, count(*) as items, cast(sum(cost) as bigint) as cost, cast(coalesce(sum(length(sealed_result)), 0) as bigint) as bytes
     from batch_item where batch_id = ? group by status`,
    [batchId],
  );
  return rows.map((row) => ({
    status: enumValue(row, "status", ITEM_STATUSES),
    items: integer(row, "items"),
    cost: toNano(row["cost"]),
    bytes: integer(row, "bytes"),
  }));
}

/** How many items from the first one on this amount covers. */
export async function countCovered(
  reader: Reader,
  { id, provider }: { readonly id: string; readonly provider: string | null },
  amount: Nano,
): Promise<number> {
  const share = provider === null ? "share" : "coalesce(batch_share, 0)";
  const rows = await reader.all(
    `select ${share} as share from batch_item where batch_id = ? order by position`,
    [id],
  );
  let left = amount;
  const first = rows.findIndex((row) => (left -= toNano(row["share"])) < 0n);
  return first === -1 ? rows.length : first;
}

export interface EndedItem {
  readonly position: number;
  readonly customId: string;
  readonly status: ItemStatus;
  readonly httpStatus: number | null;
  readonly requestId: string | null;
  readonly sealedResult: Uint8Array | null;
}

/** A page of the items of an ended batch, in the order of its requests. May have fewer items than `limit` although others follow. */
export async function readResults(
  reader: Reader,
  batchId: string,
  { after, limit }: { readonly after: number; readonly limit: number },
): Promise<readonly EndedItem[]> {
  const sizes = await reader.all(
    `select position, coalesce(length(sealed_result), 0) as bytes from batch_item
     where batch_id = ? and position > ? order by position limit ?`,
    [batchId, after, limit],
  );
  const last = lastPosition(sizes);
  if (last === undefined) return [];
  const rows = await reader.all(
    `select position, custom_id, status, http_status, request_id, sealed_result from batch_item
     where batch_id = ? and position > ? and position <= ? order by position`,
    [batchId, after, last],
  );
  return rows.map(toEndedItem);
}

function toEndedItem(row: Row): EndedItem {
  return {
    position: integer(row, "position"),
    customId: text(row, "custom_id"),
    status: enumValue(row, "status", ITEM_STATUSES),
    httpStatus: integerOrNull(row, "http_status"),
    requestId: textOrNull(row, "request_id"),
    sealedResult: bytesOrNull(row, "sealed_result"),
  };
}
