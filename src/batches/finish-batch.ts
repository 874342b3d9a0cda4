// Ends a batch in one transaction: its counts, what is left of its hold, the files with its results, and its event.

import { emitEvent } from "../activity/events.ts";
import { newId } from "../base/id.ts";
import { usdText } from "../base/money/money.ts";
import { endBatchHold } from "../ledger/batch-holds.ts";
import type { Db, Tx } from "../store/db.ts";
import { RESULTS_RETENTION_MS } from "./batch-retention.ts";
import {
  type Batch,
  type BatchOwner,
  endBatch,
  type ItemCounts,
  releaseBatch,
} from "./batch-rows.ts";
import { insertOutputFile } from "./files/file-rows.ts";
import {
  endPending,
  ITEM_ROW_BYTES,
  type ItemStatus,
  type ItemSum,
  sumItems,
} from "./item-rows.ts";

export type BatchEnd = "completed" | "canceled" | "expired";

interface FinishDeps extends BatchOwner {
  readonly db: Db;
  readonly now: () => number;
}

export async function finishBatch(deps: FinishDeps, batch: Batch, end: BatchEnd): Promise<void> {
  await deps.db.write((tx) => finish(tx, deps, batch, end));
}

async function finish(tx: Tx, deps: FinishDeps, batch: Batch, end: BatchEnd): Promise<void> {
  const { process, epoch } = deps;
  const now = deps.now();
  const { id, accountId, keyId, createdAt } = batch;
  if (end !== "completed") await endPending(tx, id, end);
  const sums = await sumItems(tx, id);
  // Items that this process did not read: the batch is run again.
  if (sums.some(({ status }) => status === "pending")) return releaseBatch(tx, id, deps);
  const counts = toCounts(sums);
  const cost = sums.reduce((sum, one) => sum + one.cost, 0n);
  const bytesOf = (isOutput: boolean): number =>
    sums.reduce(
      (sum, { status, bytes }) => sum + ((status === "succeeded") === isOutput ? bytes : 0),
      0,
    );
  const [outputBytes, errorBytes] = [bytesOf(true), bytesOf(false)];
  const hasErrors = counts.errored + counts.canceled + counts.expired > 0;
  const outputFileId = counts.succeeded > 0 ? newId("file", now) : null;
  const errorFileId = hasErrors ? newId("file", now) : null;
  const ended = { id, process, epoch, status: end, ...counts, cost, outputFileId, errorFileId };
  const bytes = outputBytes + errorBytes + batch.requests * ITEM_ROW_BYTES;
  if (!(await endBatch(tx, { ...ended, bytes }, now)))
    throw new Error(`the batch ${id} is run by another process`);
  await endBatchHold(tx, batch);
  const file = {
    accountId,
    keyId,
    batchId: id,
    createdAt: now,
    expiresAt: createdAt + RESULTS_RETENTION_MS,
  };
  if (outputFileId !== null)
    await insertOutputFile(tx, {
      ...file,
      id: outputFileId,
      filename: `${id}_output.jsonl`,
      bytes: outputBytes,
    });
  if (errorFileId !== null)
    await insertOutputFile(tx, {
      ...file,
      id: errorFileId,
      filename: `${id}_error.jsonl`,
      bytes: errorBytes,
    });
  const data = { batch_id: id, status: end, requests: batch.requests, ...counts };
  const cost_usd = Number(usdText(cost));
  await emitEvent(tx, { type: "batch.ended", accountId, now, data: { ...data, cost_usd } });
}

function toCounts(sums: readonly ItemSum[]): ItemCounts {
  const countOf = (wanted: ItemStatus): number =>
    sums.find(({ status }) => status === wanted)?.items ?? 0;
  return {
    succeeded: countOf("succeeded"),
    errored: countOf("errored"),
    canceled: countOf("canceled"),
    expired: countOf("expired"),
  };
}
