// Ends a batch in one transaction: its counts, what is left of its hold, the files with its results, and its event. That of a
// background response ends the response instead, and is deleted.

import { emitEvent } from "../activity/events.ts";
import type { DerivedKey } from "../base/crypto/encryption.ts";
import { newId } from "../base/id.ts";
import { objectIn, parseObject, stringIn } from "../base/json.ts";
import { usdNumber } from "../base/money/money.ts";
import type { ResponseEnd } from "../inference/lifecycle/response-queue.ts";
import { endBatchHold } from "../ledger/batch-holds.ts";
import type { Db, Tx } from "../store/db.ts";
import { openSealer } from "./batch-encryption.ts";
import { OPENAI_STATUSES } from "./batch-record.ts";
import {
  type Batch,
  type BatchOwner,
  deleteBatch,
  endBatch,
  type ItemCounts,
  readOwned,
  releaseBatch,
  RESULTS_RETENTION_MS,
} from "./batch-rows.ts";
import { insertOutputFile } from "./files/file-rows.ts";
import {
  type EndedItem,
  endPending,
  endSomePending,
  ITEM_ROW_BYTES,
  type ItemStatus,
  type ItemSum,
  PAGE_MAX_BYTES,
  readResults,
  sumItems,
} from "./item-rows.ts";

export type BatchEnd = "completed" | "canceled" | "expired";

export interface FinishDeps extends BatchOwner {
  readonly db: Db;
  readonly kek: DerivedKey;
  readonly now: () => number;
  readonly endResponse: (tx: Tx, end: ResponseEnd) => Promise<void>;
}

export async function finishBatch(deps: FinishDeps, batch: Batch, end: BatchEnd): Promise<void> {
  if (end !== "completed" && batch.bytes > PAGE_MAX_BYTES) await endLargeItems(deps, batch, end);
  await deps.db.write((tx) => finish(tx, deps, batch, end));
}

/** Some at a time, because clearing gigabytes in one transaction blocks SQLite for seconds. */
async function endLargeItems(
  { db, process, epoch }: FinishDeps,
  { id }: Batch,
  end: Exclude<BatchEnd, "completed">,
): Promise<void> {
  const endSome = async (tx: Tx): Promise<boolean> => {
    if ((await readOwned(tx, id, { process, epoch })) === undefined) throw notOwned(id);
    return endSomePending(tx, id, end);
  };
  while (await db.write(endSome)) await new Promise((resolve) => setImmediate(resolve));
}

function notOwned(id: string): Error {
  return new Error(`the batch ${id} is run by another process`);
}

async function finish(tx: Tx, deps: FinishDeps, batch: Batch, end: BatchEnd): Promise<void> {
  const { process, epoch } = deps;
  const now = deps.now();
  const { id, accountId, keyId, createdAt } = batch;
  if (end !== "completed") await endPending(tx, id, end);
  const sums = await sumItems(tx, id);
  // Items that this process did not read: the batch is run again.
  if (sums.some(({ status }) => status === "pending")) return releaseBatch(tx, id, deps, now);
  const counts = toCounts(sums);
  const cost = sums.reduce((sum, one) => sum + one.cost, 0n);
  const bytesOf = (isOutput: boolean): number =>
    sums.reduce(
      (sum, { status, bytes }) => sum + ((status === "succeeded") === isOutput ? bytes : 0),
      0,
    );
  const [outputBytes, errorBytes] = [bytesOf(true), bytesOf(false)];
  const isResponse = batch.responseId !== null;
  const hasErrors = !isResponse && counts.errored + counts.canceled + counts.expired > 0;
  const outputFileId = !isResponse && counts.succeeded > 0 ? newId("file", now) : null;
  const errorFileId = hasErrors ? newId("file", now) : null;
  const ended = { id, process, epoch, status: end, ...counts, cost, outputFileId, errorFileId };
  const bytes = outputBytes + errorBytes + batch.requests * ITEM_ROW_BYTES;
  if (!(await endBatch(tx, { ...ended, bytes }, now))) throw notOwned(id);
  await endBatchHold(tx, batch);
  if (isResponse) return endResponse(tx, deps, batch, end);
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
  const { succeeded, errored, expired, canceled: cancelled } = counts;
  const data = {
    batch_id: id,
    status: OPENAI_STATUSES[end],
    requests: batch.requests,
    succeeded,
    errored,
    cancelled,
    expired,
    cost_usd: usdNumber(cost),
  };
  await emitEvent(tx, { type: "batch.ended", accountId, now, data });
}

const EXPIRED =
  "The request was not completed before its completion window ended. It cost nothing. Create the response again, with a longer window or without one.";

async function endResponse(tx: Tx, deps: FinishDeps, batch: Batch, end: BatchEnd): Promise<void> {
  const { id: batchId, accountId, responseId } = batch;
  if (responseId === null) return;
  const [item] = await readResults(tx, batchId, { after: -1, limit: 1 });
  const status = end === "canceled" ? OPENAI_STATUSES[end] : "failed";
  const message = item?.status === "expired" ? EXPIRED : errorMessage(deps, batch, item);
  await deps.endResponse(tx, { id: responseId, accountId, status, message });
  await deleteBatch(tx, batchId);
}

function errorMessage(
  { kek }: FinishDeps,
  batch: Batch,
  item: EndedItem | undefined,
): string | undefined {
  if (item === undefined || item.sealedResult === null) return undefined;
  const sealer = openSealer(kek, batch, batch.dataKey);
  const result = parseObject(sealer.open(`result/${item.position}`, item.sealedResult));
  return stringIn(objectIn(result?.["error"])?.["message"]);
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
