// Opens the store and creates the services that all others use: ledger, keys, idempotency, models and connection limits.

import type { MasterSecret } from "../base/crypto/encryption.ts";
import type { Log } from "../base/log.ts";
import { usdText } from "../base/money/money.ts";
import { resolveHost } from "../base/network/public-endpoint.ts";
import { releaseBatches } from "../batches/batch-rows.ts";
import { scheduleTopUps } from "../billing/top-up/auto-top-up.ts";
import type { Config } from "../config/config.ts";
import { loadMasterSecret } from "../config/master-secret.ts";
import { type BodyQuota, createBodyQuota } from "../http/request/body-quota.ts";
import type { KeyRejection } from "../http/steps/authenticate.ts";
import {
  createIdempotency,
  type Idempotency,
  releaseAbandonedKeys,
} from "../idempotency/idempotency.ts";
import type { ItemSettlement } from "../inference/lifecycle/batch-item.ts";
import type { SettledCall } from "../inference/lifecycle/call.ts";
import { unservedCall } from "../inference/lifecycle/uncovered-call.ts";
import { withDerivedKeys } from "../keys/derived-keys.ts";
import { createKeys, type Keys } from "../keys/keys.ts";
import { explainRejectedKey } from "../keys/rejected-key.ts";
import { bufferHolds } from "../ledger/commit/hold-buffer.ts";
import { createLease, type Lease } from "../ledger/lease.ts";
import {
  createLedger,
  endEpoch,
  type Ledger,
  type SettlementDeferral,
  startEpoch,
  STORE_WAIT_MS,
} from "../ledger/ledger.ts";
import { createOwnHolds } from "../ledger/own-holds.ts";
import { createHoldReconciler, type HoldReconciliation } from "../ledger/reconcile.ts";
import { findRunningProcesses, type WatchOptions } from "../ledger/running-processes.ts";
import { sweepHolds } from "../ledger/sweep.ts";
import type { GatewayToolFees } from "../models/gateway-tool-models.ts";
import {
  createLiveCatalog,
  type LiveCatalog,
  modelsFileAt,
  readPriceTable,
} from "../models/live-catalog.ts";
import { createPromptLog, type PromptLog } from "../prompt-log/prompt-log.ts";
import { createSignedRequests, type SignedRequests } from "../signed-requests/signed-requests.ts";
import { openSigningKeys, type SigningKeys } from "../signing/signing-keys.ts";
import { unlessNodeIsDown } from "../store/all-accounts.ts";
import type { Db } from "../store/db.ts";
import { findDurabilityRisks } from "../store/durability.ts";
import { clearMovedMark, isNewStore } from "../store/migrate.ts";
import { openStore } from "../store/open.ts";
import { createRefusedCalls, type RefusedCalls } from "../usage/refused-calls.ts";
import { createRollupQueue, type RollupQueue } from "../usage/rollup/rollup-queue.ts";
import { createWorkloadIdentity } from "../workload-identity/workload-identity.ts";
import { isWrittenAtOnce, writeCallRecords } from "./call-records.ts";
import { type ConnectionGuard, createConnectionGuard } from "./connections/connection-guard.ts";
import { acceptSecret } from "./secret-check.ts";
import type { ServerOptions } from "./server-options.ts";
import { upgradeOpenStore } from "./upgrade-store.ts";

export interface Core {
  readonly db: Db;
  readonly master: MasterSecret;
  readonly idempotency: Idempotency;
  readonly promptLog: PromptLog;
  readonly ledger: Ledger<SettledCall>;
  readonly lease: Lease;
  /** The run of this process under its name. */
  readonly epoch: number;
  /** Records that this process has ended its work. */
  readonly endEpoch: () => Promise<void>;
  readonly reconcileHolds: () => Promise<HoldReconciliation>;
  readonly signingKeys: SigningKeys;
  readonly keys: Keys;
  readonly signedRequests: SignedRequests;
  /** Why a raw key is rejected; undefined if it is live. */
  readonly explainRejectedKey: (raw: string, now: number) => Promise<KeyRejection | undefined>;
  readonly refusedCalls: RefusedCalls;
  /** Absent on a distributed store, where the rows of an account are rolled up on their node. */
  readonly rollupQueue: RollupQueue | undefined;
  readonly catalog: LiveCatalog;
  readonly bodyQuota: BodyQuota;
  /** Undefined where connections are not limited. */
  readonly connectionGuard: ConnectionGuard | undefined;
}

type CoreOptions = Pick<
  ServerOptions,
  "log" | "now" | "heartbeatWatchMs" | "storeWaitMs" | "isRestarted" | "isForced" | "modelsDay"
>;

/** Releases what an earlier run of this process left open, before other services are created. */
export async function openCore(config: Config, options: CoreOptions): Promise<Core> {
  const store = await openStore(config.store, true);
  try {
    return await openCoreOn(store, config, options);
  } catch (error) {
    // Otherwise the lock of the data folder stays until the garbage collector closes its file.
    await store.close();
    throw error;
  }
}

async function openCoreOn(store: Db, config: Config, options: CoreOptions): Promise<Core> {
  const { log, now, heartbeatWatchMs: watchMs, isForced = false, storeWaitMs } = options;
  // Only a store that serves a single process may keep holds in memory.
  const holdBuffer = store.kind === "sqlite" ? bufferHolds(store) : undefined;
  const db = holdBuffer ?? store;
  if (isForced && !(await isNewStore(store))) await clearMovedMark(store);
  await upgradeOpenStore(store, config.store, {
    now,
    onApplied: (migration, ms) => log.info("applied a migration", { migration, ms }),
    onBackup: (file) => log.info("backed up the store before the migrations", { file }),
    watchMs,
  });
  const master = loadMasterSecret(config, config.store.dataDir);
  await acceptSecret(db, master, now());
  for (const { message, hint } of await findDurabilityRisks(db)) log.warn(message, { hint });
  if (!isForced && options.isRestarted !== true)
    await assertNameIsFree(db, { name: config.processName, now: now(), watchMs });
  const epoch = await startEpoch(db, config.processName, now());
  const released = await sweepHolds(db, now());
  if (released > 0) log.info("released holds of a previous process", { holds: released });
  // On SQLite, no other process runs calls.
  const grace = db.kind === "sqlite" ? 0 : undefined;
  await unlessNodeIsDown(db, releaseAbandonedKeys(db, now(), grace));
  await db.write((tx) => releaseBatches(tx, { process: config.processName, epoch }));
  const idempotency = createIdempotency(master, { name: config.processName, epoch });
  const promptLog = createPromptLog(master, config.promptRetentionDays);
  const ownHolds = createOwnHolds(withoutLargeReplies);
  const rollupQueue = db.isDistributed === true ? undefined : createRollupQueue();
  const ledger = createLedger<SettledCall>({
    db,
    holdBuffer,
    ownHolds,
    commit: config.store.commit,
    leases: holdBuffer === undefined ? { now } : undefined,
    process: config.processName,
    epoch,
    writeRecords: (tx, records, charges) =>
      writeCallRecords(tx, { records, charges }, { idempotency, promptLog, rollupQueue }),
    isWrittenAtOnce,
    deferral: deferSettlements(log, options.storeWaitMs),
    scheduleTopUps,
  });
  const keyServices = createKeyServices(config, db, master);
  const catalog = createCatalog(config, now(), options.modelsDay);
  const process = config.processName;
  const lease = createLease({ db, process, epoch, now, storeWaitMs });
  const reconcileHolds = createHoldReconciler({ db, process, epoch, now, ledger, ownHolds });
  return {
    db,
    master,
    idempotency,
    promptLog,
    ledger,
    lease,
    epoch,
    endEpoch: () => endEpoch(db, process, epoch, now()),
    reconcileHolds,
    signingKeys: await openSigningKeys(db, master, now),
    keys: keyServices.keys,
    signedRequests: keyServices.signedRequests,
    explainRejectedKey: keyServices.explainRejectedKey,
    refusedCalls: createRefusedCalls(db),
    rollupQueue,
    catalog,
    bodyQuota: createBodyQuota(),
    connectionGuard: createConnectionGuard(config, log),
  };
}

function createCatalog(config: Config, now: number, day: string | undefined): LiveCatalog {
  const { modelsFile, pricesFile } = config;
  return createLiveCatalog({
    now,
    day,
    prices: readPriceTable(pricesFile),
    file: modelsFile === undefined ? undefined : modelsFileAt(modelsFile),
    gatewayTools: gatewayToolFees(config),
  });
}

/** What authenticates the callers: raw keys, derived ones, tokens of issuers and signed requests. */
function createKeyServices(
  { keyPrefix: prefix, baseUrl, development }: Config,
  db: Db,
  master: MasterSecret,
): Pick<Core, "keys" | "signedRequests" | "explainRejectedKey"> {
  const keyDeps = { db, master, prefix, baseUrl };
  const ownKeys = withDerivedKeys(createKeys(keyDeps), keyDeps);
  const workloads = createWorkloadIdentity({ allowLoopback: development, resolve: resolveHost });
  const keys = workloads.withTokens(ownKeys);
  return {
    keys,
    signedRequests: createSignedRequests({ db, keys, baseUrl }),
    explainRejectedKey: async (raw, at) =>
      (await workloads.explain(ownKeys, raw, at)) ??
      (await explainRejectedKey({ db, master, prefix }, raw, at)),
  };
}

// On SQLite the lock of the data folder excludes other processes.
async function assertNameIsFree(
  db: Db,
  watch: WatchOptions & { readonly name: string },
): Promise<void> {
  if (db.kind === "sqlite") return;
  const { name } = watch;
  const running = await findRunningProcesses(db, watch);
  if (running.length > 0)
    throw new Error(
      `another process runs under the name ${name} on this store: set POSTERN_PROCESS_NAME to a name of its own for each process`,
    );
}

function deferSettlements(log: Log, afterMs = STORE_WAIT_MS): SettlementDeferral<SettledCall> {
  return {
    afterMs,
    unservedRecord: unservedCall,
    onSettled: ({ id: request_id, cost, record }, { status }) => {
      // The release of a hold whose settlement was deferred, too.
      if (record === undefined) return;
      const fields = { request_id, cost_usd: usdText(cost) };
      // The reply to the commit was lost, so the call was charged before it was refused.
      if (status === "already" && record.usage.outcome === "shut_down")
        log.warn("a call without a reply may be charged: see its usage record", fields);
      else log.info("settled a call after the store was unavailable", fields);
    },
    onLost: ({ id: request_id, accountId: account, cost }, cause) =>
      log.error("could not settle a call, which is not charged", {
        request_id,
        account,
        cost_usd: usdText(cost),
        cause,
      }),
  };
}

const KEPT_REPLY_LENGTH_MAX = 8_000;

// Without its reply, a repetition with the same `Idempotency-Key` runs again.
function withoutLargeReplies(record: SettledCall): SettledCall {
  const { usage, idempotent, response, item, prompt, isExported } = record;
  const isLarge = (idempotent?.reply?.body.length ?? 0) > KEPT_REPLY_LENGTH_MAX;
  const isLargeItem = (item?.sealedResult?.length ?? 0) > KEPT_REPLY_LENGTH_MAX;
  if (response === undefined && prompt === undefined && !isLarge && !isLargeItem) return record;
  const kept = isLarge && idempotent ? { ...idempotent, reply: undefined } : idempotent;
  const shortItem = isLargeItem && item ? withoutResult(item) : item;
  return { usage, idempotent: kept, item: shortItem, ...(isExported === true && { isExported }) };
}

/** The item was charged, so it must not be run again. */
function withoutResult(item: ItemSettlement): ItemSettlement {
  const { batchId, position, requestId, httpStatus, cost } = item;
  return {
    batchId,
    position,
    requestId,
    httpStatus,
    cost,
    status: "errored",
    sealedResult: null,
  };
}

function gatewayToolFees({ webSearch, limits }: Config): GatewayToolFees | undefined {
  if (webSearch === undefined) return undefined;
  const { fee: search, fetchFee } = webSearch;
  return { search, fetch: limits.fetchedFilesPerMinute > 0 ? fetchFee : undefined };
}
