// Builds the house out of its settings: opens the store, makes every room, and keeps the small clocks that sweep and
// count. What runs a command holds one House, and tests hold several.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { sweepCreationCounts } from "./accounts/accounts.ts";
import { createRoutes } from "./app.ts";
import type { Log } from "./base/log.ts";
import { randomBase62, type Secret, secret } from "./base/secret.ts";
import type { Config } from "./config.ts";
import { createAddressReader } from "./http/address.ts";
import { createRateGuard } from "./http/rate.ts";
import type { Route } from "./http/route.ts";
import { createServe, type Peer } from "./http/serve.ts";
import { createIdempotency, sweepAnswers } from "./idempotency/idempotency.ts";
import { createKeys } from "./keys/keys.ts";
import {
  createLedger,
  getWallet,
  grant,
  heartbeat,
  type Ledger,
  openWallet,
  startEpoch,
} from "./ledger/ledger.ts";
import { insertSpender } from "./ledger/rows.ts";
import { sweepHolds } from "./ledger/sweep.ts";
import { createMetrics } from "./operations/metrics.ts";
import type { Db } from "./store/db.ts";
import { migrate } from "./store/migrate.ts";
import { openPostgres } from "./store/postgres.ts";
import { openSqlite } from "./store/sqlite.ts";
import { type UsageRecord, writeUsage } from "./usage/usage.ts";

const HEARTBEAT_MS = 5_000;
const SWEEP_MS = 10_000;
const LAST_USED_MS = 20_000;
const FORGET_MS = 600_000;
const RATE_BURST_SECONDS = 10;

export interface House {
  readonly db: Db;
  readonly ledger: Ledger<UsageRecord>;
  readonly routes: readonly Route[];
  readonly handle: (request: Request, peer: Peer) => Promise<Response>;
  /** Refuses new work; `/readyz` says so. */
  readonly startDraining: () => void;
  /** Ends the clocks, writes what is still in memory, and closes the store. */
  readonly close: () => Promise<void>;
}

export interface HouseSurroundings {
  readonly log: Log;
  readonly now: () => number;
  readonly version: string;
  /** Called when the process must not go on: its name was taken by another. */
  readonly onFatal: (reason: string) => void;
}

export async function buildHouse(config: Config, surroundings: HouseSurroundings): Promise<House> {
  const { log, now } = surroundings;
  const db = openStore(config, true);
  await migrate(db, now());
  const epoch = await startEpoch(db, config.processName, now());
  const swept = await sweepHolds(db, now());
  if (swept > 0) log.info("holds of an earlier run were given back", { holds: swept });

  const master = masterSecret(config);
  const ledger = createLedger<UsageRecord>({
    db,
    process: config.processName,
    epoch,
    writeRecords: writeUsage,
  });
  const keys = createKeys({ db, master, prefix: config.keyPrefix, openSpender: insertSpender });
  const idempotency = createIdempotency(master);
  const metrics = createMetrics({ version: surroundings.version, ledgerDepth: ledger.depth });
  let draining = false;
  const routes = createRoutes({
    db,
    keys,
    metrics,
    isDraining: () => draining,
    limits: { perHour: config.limits.accountsPerHour, grantPerDay: config.limits.grantPerDay },
    openWallet,
    grantStart: async (tx, accountId, amount, at) => {
      await grant(tx, {
        id: `start.${accountId}`,
        accountId,
        amount,
        now: at,
        reason: "starting credit",
      });
    },
    walletOf: getWallet,
    membersOf: async () => [],
  });
  const perMinute = config.limits.requestsPerMinute;
  const handle = createServe({
    routes,
    db,
    baseUrl: config.baseUrl,
    log,
    now,
    authenticate: keys.find,
    beginIdempotent: idempotency.begin,
    finishIdempotent: idempotency.finish,
    rate:
      perMinute === 0
        ? undefined
        : createRateGuard({
            perMinute,
            burst: Math.max(1, Math.floor((perMinute * RATE_BURST_SECONDS) / 60)),
          }),
    addressOf: createAddressReader(config.trustedProxies),
    isDraining: () => draining,
    onAnswer: (route, status, ms) => metrics.request(route?.id ?? "none", status, ms),
  });
  const stopClocks = startClocks(log, [
    [HEARTBEAT_MS, () => beat(db, config.processName, epoch, surroundings)],
    [SWEEP_MS, () => sweepHolds(db, now())],
    [LAST_USED_MS, keys.flushLastUsed],
    [FORGET_MS, () => forget(db, now())],
  ]);
  return {
    db,
    ledger,
    routes,
    handle,
    startDraining: () => {
      draining = true;
    },
    close: async () => {
      await stopClocks();
      await ledger.idle();
      await keys.flushLastUsed();
      await db.close();
    },
  };
}

/** The store that the settings name. Only a server locks the data folder; other commands work beside it. */
export function openStore(config: Config, lock: boolean): Db {
  if (config.store.databaseUrl !== undefined)
    return openPostgres(config.store.databaseUrl.reveal());
  return openSqlite({ folder: config.store.dataDir, lock });
}

// In development the master secret is made on the first start and kept beside the data that it protects.
export function masterSecret(config: Config): Secret {
  if (config.secret !== undefined) return config.secret;
  const file = path.join(config.store.dataDir, "secret");
  if (!existsSync(file)) {
    mkdirSync(config.store.dataDir, { recursive: true, mode: 0o700 });
    writeFileSync(file, randomBase62(43), { mode: 0o600, flag: "wx" });
  }
  return secret(readFileSync(file, "utf8").trim());
}

async function beat(
  db: Db,
  name: string,
  epoch: number,
  surroundings: HouseSurroundings,
): Promise<void> {
  if (await heartbeat(db, name, epoch, surroundings.now())) return;
  surroundings.onFatal(
    `another process runs under the name ${name}; give each its own POSTERN_PROCESS_NAME`,
  );
}

async function forget(db: Db, now: number): Promise<void> {
  await sweepAnswers(db, now);
  await db.write((tx) => sweepCreationCounts(tx, now));
}

type Clock = readonly [everyMs: number, tick: () => Promise<unknown>];

// A tick that fails is logged and tried again at its next turn; ticks of one clock never overlap.
function startClocks(log: Log, clocks: readonly Clock[]): () => Promise<void> {
  const running = new Set<Promise<void>>();
  const timers = clocks.map(([everyMs, tick]) => {
    let busy = false;
    return setInterval(() => {
      if (busy) return;
      busy = true;
      const turn = tick()
        .then(
          () => {},
          (error: unknown) => log.error("background work failed", { cause: error }),
        )
        .finally(() => {
          busy = false;
          running.delete(turn);
        });
      running.add(turn);
    }, everyMs);
  });
  return async () => {
    for (const timer of timers) clearInterval(timer);
    await Promise.all(running);
  };
}
