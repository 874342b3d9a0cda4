// Reads the results of a provider's batch as they arrive, and settles each item that is still pending.

import { Fault } from "../../base/fault.ts";
import type { ResponseStorage } from "../../base/response-storage.ts";
import type { Caller } from "../../http/route.ts";
import { batchErrorFault, settleBatchReply } from "../../inference/lifecycle/batch-target.ts";
import { isUnavailable } from "../../store/db.ts";
import { itemInput } from "../item-call.ts";
import { endInError, toBatchItem } from "../item-ends.ts";
import { findPending, type PendingItem } from "../item-rows.ts";
import type { RemoteBatch, RemoteResult } from "./provider-batch-api.ts";
import { expireItems } from "./provider-batch-rows.ts";
import {
  customIdPrefix,
  eachPending,
  type Job,
  newRequestId,
  type ProviderRunDeps,
} from "./provider-job.ts";

const CONCURRENCY = 16;
/** A result at which the gateway fails once more after so many reads ends its item, so that the others can end. */
const FAILED_READS_MAX = 3;
/** Without the key, the account's setting is not known. */
const NOT_STORED: ResponseStorage = { mode: "never", retentionDays: 0 };

export async function settleResults(
  deps: ProviderRunDeps,
  job: Job,
  { resultPaths }: RemoteBatch,
): Promise<void> {
  for (const path of resultPaths) {
    const running = new Set<Promise<void>>();
    const failures: unknown[] = [];
    const unnamed: RemoteResult[] = [];
    for await (const json of job.api.readResults(job.remote, path)) {
      const result = job.api.resultOf(json);
      if (result === undefined) continue;
      if (result.customId === undefined) {
        unnamed.push(result);
        continue;
      }
      const work = settleNamed(deps, job, result.customId, result)
        .catch((cause: unknown) => void failures.push(cause))
        .finally(() => running.delete(work));
      running.add(work);
      if (running.size >= CONCURRENCY) await Promise.race(running);
      if (failures.some(isUnavailable)) break;
    }
    await Promise.all(running);
    if (failures.length === 0)
      await settleUnnamed(deps, job, unnamed).catch((cause: unknown) => void failures.push(cause));
    // The results are read again from the first one, and those that were settled are skipped.
    if (failures.length > 0) {
      job.failedReads += 1;
      throw failures[0];
    }
  }
}

async function settleNamed(
  deps: ProviderRunDeps,
  job: Job,
  customId: string,
  result: RemoteResult,
): Promise<void> {
  const item = await pendingItem(deps, job, customId);
  if (item !== undefined) await settleResult(deps, job, item, result);
}

/**
 * Results that a provider returned without their custom ids belong to the pending items, in their order. They are settled one after the
 * other, so the last ones are those that a crash has left. If some are missing, none can be matched: those items end in an error
 * without a charge.
 */
async function settleUnnamed(
  deps: ProviderRunDeps,
  job: Job,
  unnamed: readonly RemoteResult[],
): Promise<void> {
  if (unnamed.length === 0) return;
  const items: PendingItem[] = [];
  await eachPending(deps, job, async (item) => void items.push(item));
  if (items.length > unnamed.length) {
    const counts = { results: unnamed.length, requests: items.length };
    const { provider } = job.row.target;
    deps.log.error("results of a provider have no ids", {
      batch: job.batch.id,
      provider,
      ...counts,
    });
    return;
  }
  const rest = unnamed.slice(unnamed.length - items.length);
  for (const [index, item] of items.entries()) {
    const result = rest[index];
    if (result !== undefined) await settleResult(deps, job, item, result);
  }
}

async function settleResult(
  deps: ProviderRunDeps,
  job: Job,
  item: PendingItem,
  { outcome }: RemoteResult,
): Promise<void> {
  if (outcome.kind === "none") {
    // What was canceled, or failed without a reason, is ended with the rest.
    if (outcome.status === "expired") await expireItems(deps.db, job, item.position);
    return;
  }
  const { status, body } = outcome;
  const requestId = newRequestId(deps);
  const text = JSON.stringify(body);
  if (status >= 200 && status < 300) return settleReply(deps, job, item, { text, json: body });
  const fault = batchErrorFault(job.remote.credential, job.row.target, { status, text });
  await endInError(deps.db, job, item, { fault, requestId });
}

/** Undefined for an item that has ended, and for a custom id that is not of this batch. */
async function pendingItem(
  { db }: ProviderRunDeps,
  job: Job,
  customId: string,
): Promise<PendingItem | undefined> {
  const prefix = customIdPrefix(job);
  if (!customId.startsWith(prefix)) return undefined;
  const position = Number(customId.slice(prefix.length));
  return Number.isSafeInteger(position) ? findPending(db, job.row, position) : undefined;
}

async function settleReply(
  deps: ProviderRunDeps,
  job: Job,
  item: PendingItem,
  reply: Parameters<typeof settleBatchReply>[3],
): Promise<void> {
  const { batch, row, sealer } = job;
  const { accountId, keyId, endpoint, headers, createdAt } = batch;
  const requestId = newRequestId(deps);
  const key = await deps.findKey(keyId, deps.now());
  // Without the restrictions of its policy: whatever has changed since, the provider has run and billed the item.
  const caller: Caller = {
    accountId,
    keyId,
    responseStorage: key ? key.responseStorage : NOT_STORED,
    signsReceipts: key?.signsReceipts === true || key?.policy?.receipts === true,
    ...(key?.policy?.promptLogging === true && { policy: { promptLogging: true } }),
    ...(key?.promptRetentionDays !== undefined && {
      promptRetentionDays: key.promptRetentionDays,
    }),
    ...(key?.exportsUsage === true && { exportsUsage: true }),
  };
  const text = sealer.open(`request/${item.position}`, item.sealedRequest);
  const batchItem = toBatchItem(job, item);
  const call = { endpoint, headers, caller, text, requestId, now: deps.now(), batchItem };
  const pricing = { target: row.target, pricedAt: createdAt };
  try {
    await settleBatchReply(deps.target, itemInput(call), pricing, reply);
  } catch (error) {
    const fault = finalFault(job, error);
    const { provider } = row.target;
    deps.log.error("a result of a provider cannot be charged", {
      batch: batch.id,
      provider,
      cause: error,
    });
    await endInError(deps.db, job, item, { fault, requestId });
  }
}

/** Throws what may pass. Else a change of the gateway's models or keys is the reason, or a reply that it cannot read. */
function finalFault({ failedReads }: Job, error: unknown): Fault {
  if (error instanceof Fault && error.code !== "overloaded") return error;
  const canPass = error instanceof Fault || isUnavailable(error) || failedReads < FAILED_READS_MAX;
  if (canPass) throw error;
  return new Fault("upstream_error", "a result of a provider cannot be read", { cause: error });
}
