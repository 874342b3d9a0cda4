// What the house does by itself, again and again: signs of life, sweeps, what is written late, and what is read again.

import { sweepCreationCounts } from "../accounts/accounts.ts";
import type { Log } from "../base/log.ts";
import { MINUTE_MS } from "../base/time.ts";
import type { Job } from "./scheduler.ts";
import type { Config } from "../config/config.ts";
import {
  CALL_START_GRACE_MS,
  releaseAbandonedKeys,
  deleteExpiredResponses,
} from "../idempotency/idempotency.ts";
import type { Keys } from "../keys/keys.ts";
import { heartbeat } from "../ledger/ledger.ts";
import { createSweeper } from "../ledger/sweep.ts";
import type { LiveCatalog } from "../models/live-catalog.ts";
import { sweepOperatorSessions } from "../operator/sign-in/operator-sessions.ts";
import type { ProviderKeys } from "../provider-keys/provider-keys.ts";
import { sweepSessionsAndCounters } from "./create-identity.ts";
import type { Responses } from "../responses/responses.ts";
import type { Db } from "../store/db.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";

const HEARTBEAT_MS = 5_000;
const SWEEP_MS = 10_000;
const LAST_USED_FLUSH_MS = 20_000;
const CATALOG_RELOAD_MS = 5_000;
const EXPIRE_MS = 10 * MINUTE_MS;
const BACKGROUND_RESPONSES_MS = 2_000;
const TELEMETRY_FLUSH_MS = 5_000;
/** The record of a background response is written when its hold is there. */
export const RESPONSE_START_GRACE_MS = MINUTE_MS;

export interface JobsDeps {
  readonly db: Db;
  readonly epoch: number;
  readonly log: Log;
  readonly now: () => number;
  readonly onFatal: (reason: string) => void;
  readonly keys: Keys;
  readonly catalog: LiveCatalog;
  readonly providerKeys: ProviderKeys;
  readonly responses: Responses;
  readonly telemetry: Telemetry | undefined;
  readonly webhookJobs: readonly Job[];
  readonly billingJobs: readonly Job[];
}

export function createJobs({ processName }: Config, deps: JobsDeps): readonly Job[] {
  const { db, now, keys, providerKeys, responses, telemetry, webhookJobs, billingJobs } = deps;
  return [
    [HEARTBEAT_MS, () => heartbeatJob(deps, processName)],
    [SWEEP_MS, createSweeper({ db, process: processName, now })],
    [LAST_USED_FLUSH_MS, keys.flushLastUsed],
    [LAST_USED_FLUSH_MS, providerKeys.flushLastUsed],
    [CATALOG_RELOAD_MS, createCatalogReload(deps)],
    [EXPIRE_MS, () => expireJob(db, now())],
    [EXPIRE_MS, () => responses.sweep(now())],
    [SWEEP_MS, () => responses.failOrphaned(now() - RESPONSE_START_GRACE_MS)],
    [BACKGROUND_RESPONSES_MS, responses.abortCanceled],
    // Not waited for: the end of the house waits for every clock, and a collector may keep each batch for ten seconds.
    [TELEMETRY_FLUSH_MS, async () => void telemetry?.flush()],
    ...webhookJobs,
    ...billingJobs,
  ];
}

async function heartbeatJob(
  { db, epoch, now, onFatal }: JobsDeps,
  processName: string,
): Promise<void> {
  if (db.isFileReplaced?.() === true) {
    onFatal("the store's file was removed or replaced while it was in use");
    return;
  }
  if (await heartbeat(db, processName, epoch, now())) return;
  onFatal(
    `another process runs under the name ${processName}; give each its own POSTERN_PROCESS_NAME`,
  );
}

function createCatalogReload({ catalog, log, now }: JobsDeps): Job[1] {
  let loggedError: string | undefined;
  return async () => {
    const { changed, error } = catalog.refresh(now());
    if (changed) log.info("the models file was read again");
    if (error !== undefined && error !== loggedError)
      log.error("the models file is not valid; the models before it are kept", { detail: error });
    loggedError = error;
  };
}

async function expireJob(db: Db, now: number): Promise<void> {
  await deleteExpiredResponses(db, now);
  await releaseAbandonedKeys(db, now - CALL_START_GRACE_MS);
  await db.write((tx) => sweepCreationCounts(tx, now));
  await sweepSessionsAndCounters(db, now);
  await db.write((tx) => sweepOperatorSessions(tx, now));
}
