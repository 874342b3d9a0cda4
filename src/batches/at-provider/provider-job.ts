// A batch of a provider while a process runs it.

import type { DerivedKey } from "../../base/crypto/encryption.ts";
import { newId } from "../../base/id.ts";
import type { Log } from "../../base/log.ts";
import { MINUTE_MS } from "../../base/time.ts";
import type { AuthenticatedKey } from "../../http/route.ts";
import type { BatchTargetDeps } from "../../inference/lifecycle/batch-target.ts";
import type { Db } from "../../store/db.ts";
import type { BatchOwner } from "../batch-rows.ts";
import type { OpenBatch } from "../item-ends.ts";
import { type PendingItem, readPending } from "../item-rows.ts";
import type { ProviderBatchApi, Remote } from "./provider-batch-api.ts";
import { type ProviderBatch, updateProviderBatch } from "./provider-batch-rows.ts";

/** A provider that takes no more batches for now is asked again after this time. */
export const FULL_PAUSE_MS = 5 * MINUTE_MS;
export const PAGE_ITEMS = 64;

export interface ProviderRunDeps extends BatchOwner {
  readonly db: Db;
  readonly kek: DerivedKey;
  readonly log: Log;
  readonly now: () => number;
  readonly findKey: (keyId: string, now: number) => Promise<AuthenticatedKey | undefined>;
  readonly isFrozen: (accountId: string) => Promise<boolean>;
  readonly target: BatchTargetDeps;
  /** A batch is looked at again after this time, and then after ever longer ones. */
  readonly pollMinMs: number;
  /** A provider turned out to have no batches. */
  readonly onNoBatches: (provider: string) => void;
}

export interface RunControl {
  readonly signal: AbortSignal;
  /** Resolves after this time, or when the process stops. */
  readonly wait: (ms: number) => Promise<void>;
  /** Runs one of few tasks at a time that have much in memory. */
  readonly exclusively: <T>(task: () => Promise<T>) => Promise<T>;
}

/** A batch at the provider, while this process runs it. */
export interface Job extends OpenBatch {
  row: ProviderBatch;
  readonly api: ProviderBatchApi;
  readonly remote: Remote;
  /** Not looked at before this time, and then again after so long. */
  at: number;
  pollMs: number;
  /** How often some of its results could not be settled. */
  failedReads: number;
}

export async function eachPending(
  { db }: Pick<ProviderRunDeps, "db">,
  { batch, row }: Job,
  handle: (item: PendingItem) => Promise<void>,
): Promise<void> {
  for (let after = -1; ;) {
    const page = { after, limit: PAGE_ITEMS, providerBatchId: row.id };
    const items = await readPending(db, batch.id, page);
    for (const item of items) await handle(item);
    const last = items.at(-1);
    if (last === undefined) return;
    after = last.position;
  }
}

export function newRequestId({ now }: Pick<ProviderRunDeps, "now">): string {
  return newId("req", now());
}

/** Throws if another process runs the batch now, so that nothing is sent for it. */
export async function save(
  {
    db,
    process,
    epoch,
    pollMinMs,
  }: Pick<ProviderRunDeps, "db" | "process" | "epoch" | "pollMinMs">,
  job: Job,
  change: Partial<ProviderBatch>,
): Promise<void> {
  const row = { ...job.row, ...change };
  if (!(await db.write((tx) => updateProviderBatch(tx, row, { process, epoch }))))
    throw new Error(`the batch ${row.batchId} is run by another process`);
  job.row = row;
  job.pollMs = pollMinMs;
}

/** A custom id at the provider reveals nothing of the caller's. */
export function customIdPrefix({ row: { id } }: Job): string {
  return `${id}-`;
}
