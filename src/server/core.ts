// Opens the store and creates the services that all others use: ledger, keys, idempotency, models and connection limits.

import type { MasterSecret } from "../base/crypto/encryption.ts";
import { handleBalanceThresholds } from "../billing/event-handlers.ts";
import type { Config } from "../config/config.ts";
import { loadMasterSecret } from "../config/master-secret.ts";
import { emitBudgetEvents, emitKeyAlerts } from "../events/producers.ts";
import { type BodyQuota, createBodyQuota } from "../http/request/body-quota.ts";
import {
  createIdempotency,
  type Idempotency,
  releaseAbandonedKeys,
} from "../idempotency/idempotency.ts";
import type { SettledCall } from "../inference/lifecycle/call.ts";
import { createKeys, type Keys } from "../keys/keys.ts";
import { explainRejectedKey } from "../keys/rejected-key.ts";
import { bufferHolds } from "../ledger/commit/hold-buffer.ts";
import { createLease, type Lease } from "../ledger/lease.ts";
import { insertKeySpend } from "../ledger/ledger-rows.ts";
import { createLedger, type Ledger, startEpoch } from "../ledger/ledger.ts";
import { createOwnHolds } from "../ledger/own-holds.ts";
import { createHoldReconciler, type HoldReconciliation } from "../ledger/reconcile.ts";
import { sweepHolds } from "../ledger/sweep.ts";
import {
  createLiveCatalog,
  type LiveCatalog,
  modelsFileAt,
  readPriceTable,
} from "../models/live-catalog.ts";
import type { Db } from "../store/db.ts";
import { findDurabilityRisks } from "../store/durability.ts";
import { migrate } from "../store/migrate.ts";
import { openStore } from "../store/open.ts";
import { createAddSegment } from "../usage/usage-segments.ts";
import { writeCallRecords } from "./call-records.ts";
import { type ConnectionGuard, createConnectionGuard } from "./connection-guard.ts";
import type { ServerOptions } from "./server-options.ts";

export interface Core {
  readonly db: Db;
  readonly master: MasterSecret;
  readonly idempotency: Idempotency;
  readonly ledger: Ledger<SettledCall>;
  readonly lease: Lease;
  readonly reconcileHolds: () => Promise<HoldReconciliation>;
  readonly keys: Keys;
  /** Why a raw key is rejected; undefined if it is live. */
  readonly explainRejectedKey: (raw: string, now: number) => Promise<string | undefined>;
  readonly catalog: LiveCatalog;
  readonly bodyQuota: BodyQuota;
  /** Undefined where connections are not limited. */
  readonly connectionGuard: ConnectionGuard | undefined;
}

/** Releases what an earlier run of this process left open, before other services are created. */
export async function openCore(
  config: Config,
  { log, now }: Pick<ServerOptions, "log" | "now">,
): Promise<Core> {
  const store = await openStore(config.store, true);
  // Only a store that serves a single process may keep holds in memory.
  const holdBuffer = store.kind === "sqlite" ? bufferHolds(store) : undefined;
  const db = holdBuffer ?? store;
  await migrate(db, now());
  for (const { message, hint } of await findDurabilityRisks(db)) log.warn(message, { hint });
  const epoch = await startEpoch(db, config.processName, now());
  const released = await sweepHolds(db, now());
  if (released > 0) log.info("released holds of a previous process", { holds: released });
  // On SQLite, no other process runs calls.
  await releaseAbandonedKeys(db, now(), db.kind === "sqlite" ? 0 : undefined);
  const master = loadMasterSecret(config, config.store.dataDir);
  const idempotency = createIdempotency(master, { name: config.processName, epoch });
  const ownHolds = createOwnHolds(withoutLargeReplies);
  const addSegment = createAddSegment();
  const ledger = createLedger<SettledCall>({
    db,
    holdBuffer,
    ownHolds,
    process: config.processName,
    epoch,
    writeRecords: async (tx, records, charges) => {
      await writeCallRecords(tx, { records, charges }, idempotency);
      await addSegment(tx, records.length);
    },
    onBalanceThresholds: handleBalanceThresholds,
    onBudgetThresholds: emitBudgetEvents,
    onKeyAlerts: emitKeyAlerts,
  });
  const prefix = config.keyPrefix;
  const keys = createKeys({ db, master, prefix, createKeySpend: insertKeySpend });
  const file = config.modelsFile === undefined ? undefined : modelsFileAt(config.modelsFile);
  const prices = readPriceTable(config.pricesFile);
  const catalog = createLiveCatalog({ now: now(), prices, file });
  const process = config.processName;
  const lease = createLease({ db, process, epoch, now });
  const reconcileHolds = createHoldReconciler({ db, process, epoch, now, ledger, ownHolds });
  return {
    db,
    master,
    idempotency,
    ledger,
    lease,
    reconcileHolds,
    keys,
    explainRejectedKey: (raw, at) => explainRejectedKey({ db, master, prefix }, raw, at),
    catalog,
    bodyQuota: createBodyQuota(),
    connectionGuard: createConnectionGuard(config, log),
  };
}

const KEPT_REPLY_LENGTH_MAX = 8_000;

// Without its reply, a repetition with the same `Idempotency-Key` runs again.
function withoutLargeReplies(record: SettledCall): SettledCall {
  const { usage, idempotent, response } = record;
  const isLarge = (idempotent?.reply?.body.length ?? 0) > KEPT_REPLY_LENGTH_MAX;
  if (response === undefined && !isLarge) return record;
  if (idempotent === undefined) return { usage };
  return { usage, idempotent: isLarge ? { ...idempotent, reply: undefined } : idempotent };
}
