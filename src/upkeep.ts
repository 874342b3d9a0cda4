// What the house does by itself, again and again: signs of life, sweeps, what is written late, and what is read again.

import { sweepCreationCounts } from "./accounts/accounts.ts";
import type { Log } from "./base/log.ts";
import type { Clock } from "./clocks.ts";
import type { Config } from "./config.ts";
import { CALL_BEGINS_MS, releaseDeadCalls, sweepAnswers } from "./idempotency/idempotency.ts";
import type { Keys } from "./keys/keys.ts";
import { heartbeat } from "./ledger/ledger.ts";
import { createSweeper } from "./ledger/sweep.ts";
import type { LiveCatalog } from "./models/live-catalog.ts";
import { sweepOperatorSessions } from "./operator/sessions.ts";
import type { ProviderKeys } from "./provider-keys/provider-keys.ts";
import { sweepReception } from "./reception.ts";
import type { Responses } from "./responses/responses.ts";
import type { Db } from "./store/db.ts";
import type { Telemetry } from "./telemetry/telemetry.ts";

const HEARTBEAT_MS = 5_000;
const SWEEP_MS = 10_000;
const LAST_USED_MS = 20_000;
const CATALOG_MS = 5_000;
const FORGET_MS = 600_000;
const BACKGROUND_MS = 2_000;
const TELEMETRY_MS = 5_000;
/** The record of a background response is written when its hold is there. */
export const RESPONSE_BEGINS_MS = 60_000;

export interface Upkeep {
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
  readonly mailClocks: readonly Clock[];
  readonly cashClocks: readonly Clock[];
}

export function clocksOf({ processName }: Config, upkeep: Upkeep): readonly Clock[] {
  const { db, now, keys, providerKeys, responses, telemetry, mailClocks, cashClocks } = upkeep;
  return [
    [HEARTBEAT_MS, () => beat(upkeep, processName)],
    [SWEEP_MS, createSweeper({ db, process: processName, now })],
    [LAST_USED_MS, keys.flushLastUsed],
    [LAST_USED_MS, providerKeys.flushLastUsed],
    [CATALOG_MS, createCatalogWatch(upkeep)],
    [FORGET_MS, () => forget(db, now())],
    [FORGET_MS, () => responses.sweep(now())],
    [SWEEP_MS, () => responses.failDead(now() - RESPONSE_BEGINS_MS)],
    [BACKGROUND_MS, responses.watch],
    // Not waited for: the end of the house waits for every clock, and a collector may keep each batch for ten seconds.
    [TELEMETRY_MS, async () => void telemetry?.flush()],
    ...mailClocks,
    ...cashClocks,
  ];
}

async function beat({ db, epoch, now, onFatal }: Upkeep, name: string): Promise<void> {
  if (db.isGone?.() === true) {
    onFatal("the store's file was removed or replaced while it was in use");
    return;
  }
  if (await heartbeat(db, name, epoch, now())) return;
  onFatal(`another process runs under the name ${name}; give each its own POSTERN_PROCESS_NAME`);
}

function createCatalogWatch({ catalog, log, now }: Upkeep): Clock[1] {
  let told: string | undefined;
  return async () => {
    const { changed, error } = catalog.refresh(now());
    if (changed) log.info("the models file was read again");
    if (error !== undefined && error !== told)
      log.error("the models file is not valid; the models before it are kept", { detail: error });
    told = error;
  };
}

async function forget(db: Db, now: number): Promise<void> {
  await sweepAnswers(db, now);
  await releaseDeadCalls(db, now - CALL_BEGINS_MS);
  await db.write((tx) => sweepCreationCounts(tx, now));
  await sweepReception(db, now);
  await db.write((tx) => sweepOperatorSessions(tx, now));
}
