// Queries of `provider_batch`: the batches that the gateway submits to providers, each with items of one batch and one model.

import { parseObject } from "../../base/json.ts";
import { toNano } from "../../base/money/money.ts";
import type { BatchTarget } from "../../inference/lifecycle/batch-target.ts";
import { shrinkBatchHold } from "../../ledger/batch-holds.ts";
import {
  type Db,
  enumValue,
  integer,
  integerOrNull,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
} from "../../store/db.ts";
import type { Batch, BatchOwner } from "../batch-rows.ts";

export const PROVIDER_BATCH_STATES = ["planned", "sending", "sent", "ended"] as const;

export interface ProviderBatch {
  readonly id: string;
  readonly batchId: string;
  readonly target: BatchTarget;
  /** `sending`: whether the provider has it is not known. */
  readonly state: (typeof PROVIDER_BATCH_STATES)[number];
  readonly attempts: number;
  readonly attemptedAt: number | null;
  readonly remoteId: string | null;
  readonly remoteFileId: string | null;
}

export async function insertProviderBatch(
  tx: Tx,
  { id, batchId, target }: Pick<ProviderBatch, "id" | "batchId" | "target">,
  positions: readonly number[],
): Promise<void> {
  await tx.run(
    "insert into provider_batch (id, batch_id, target, state, attempts) values (?, ?, ?, 'planned', 0)",
    [id, batchId, JSON.stringify(target)],
  );
  for (let from = 0; from < positions.length; from += POSITIONS_MAX) {
    const some = positions.slice(from, from + POSITIONS_MAX);
    await tx.run(
      `update batch_item set provider_batch_id = ? where batch_id = ? and position in (${marksOf(some)})`,
      [id, batchId, ...some],
    );
  }
}

const POSITIONS_MAX = 500;

function marksOf(values: readonly unknown[]): string {
  return values.map(() => "?").join(", ");
}

export async function readProviderBatches(
  reader: Reader,
  batchId: string,
): Promise<readonly ProviderBatch[]> {
  const rows = await reader.all("select * from provider_batch where batch_id = ? order by id", [
    batchId,
  ]);
  return rows.map(toProviderBatch);
}

export async function hasRemoteId(reader: Reader, remoteId: string): Promise<boolean> {
  const row = await reader.get("select 1 as found from provider_batch where remote_id = ?", [
    remoteId,
  ]);
  return row !== undefined;
}

/** Written before the request that it describes is sent. False if another process runs the batch now. */
export async function updateProviderBatch(
  tx: Tx,
  { id, state, attempts, attemptedAt, remoteId, remoteFileId }: ProviderBatch,
  { process, epoch }: BatchOwner,
): Promise<boolean> {
  const updated = await tx.run(
    `update provider_batch set state = ?, attempts = ?, attempted_at = ?, remote_id = ?, remote_file_id = ?
     where id = ? and exists (select 1 from batch
       where batch.id = provider_batch.batch_id and batch.process = ? and batch.epoch = ? and batch.ended_at is null)`,
    [state, attempts, attemptedAt, remoteId, remoteFileId, id, process, epoch],
  );
  return updated === 1;
}

export interface UnassignedItem {
  readonly position: number;
  readonly target: string;
  readonly bytes: number;
}

/** Pending items that are in no batch of a provider yet. */
export async function readUnassigned(
  reader: Reader,
  batchId: string,
): Promise<readonly UnassignedItem[]> {
  const rows = await reader.all(
    `select position, target, length(sealed_request) as bytes from batch_item
     where batch_id = ? and status = 'pending' and provider_batch_id is null and target is not null order by position`,
    [batchId],
  );
  return rows.map((row) => ({
    position: integer(row, "position"),
    target: text(row, "target"),
    bytes: integer(row, "bytes"),
  }));
}

/** The items of a batch are run by the provider: its hold has what they cost there. */
export async function takeBatchShares(tx: Tx, batchId: string): Promise<void> {
  await tx.run(
    "update batch_item set share = batch_share where batch_id = ? and status = 'pending'",
    [batchId],
  );
}

/** Ends the items without a result, or one of them, and releases what the hold has for them. */
export async function expireItems(
  db: Db,
  { batch, row: { id } }: { readonly batch: Batch; readonly row: ProviderBatch },
  position?: number,
): Promise<void> {
  const where = `where batch_id = ? and provider_batch_id = ? and status = 'pending'${position === undefined ? "" : " and position = ?"}`;
  const values = [batch.id, id, ...(position === undefined ? [] : [position])];
  await db.write(async (tx) => {
    const sum = await tx.get(
      `select cast(coalesce(sum(share), 0) as bigint) as share from batch_item ${where}`,
      values,
    );
    await tx.run(
      `update batch_item set status = 'expired', sealed_request = null ${where}`,
      values,
    );
    if (sum !== undefined) await shrinkBatchHold(tx, batch, toNano(sum["share"]));
  });
}

export function parseTarget(json: string): BatchTarget {
  const { provider, credential, model, upstreamName, wire } = parseObject(json) ?? {};
  // Safe: the column has what `JSON.stringify` made of a target.
  return { provider, credential, model, upstreamName, wire } as BatchTarget;
}

function toProviderBatch(row: Row): ProviderBatch {
  return {
    id: text(row, "id"),
    batchId: text(row, "batch_id"),
    target: parseTarget(text(row, "target")),
    state: enumValue(row, "state", PROVIDER_BATCH_STATES),
    attempts: integer(row, "attempts"),
    attemptedAt: integerOrNull(row, "attempted_at"),
    remoteId: textOrNull(row, "remote_id"),
    remoteFileId: textOrNull(row, "remote_file_id"),
  };
}
