// Builds the house out of its settings: opens the store, makes every room, and keeps the small clocks that sweep and
// count. What runs a command holds one House, and tests hold several.

import { getAccount } from "./accounts/accounts.ts";
import { discoverySettings, simulates } from "./advertised.ts";
import { createRoutes } from "./app.ts";
import { openOffice } from "./back-office.ts";
import { openCashier, tellOfFalls } from "./cashier.ts";
import type { Log } from "./base/log.ts";
import type { Nano } from "./base/money.ts";
import { remembered } from "./base/remembered.ts";
import { deriveKey, fingerprint } from "./base/seal.ts";
import type { Secret } from "./base/secret.ts";
import { startClocks } from "./clocks.ts";
import { closeHouse } from "./closing.ts";
import type { Config } from "./config.ts";
import { onBudgetsReached } from "./events/announce.ts";
import { createAddressReader } from "./http/address.ts";
import { faultPage } from "./http/fault-page.tsx";
import { guardFor } from "./http/rate.ts";
import type { Route } from "./http/route.ts";
import { createServe, type Peer } from "./http/serve.ts";
import {
  CALL_BEGINS_MS,
  createIdempotency,
  type Idempotency,
  releaseDeadCalls,
} from "./idempotency/idempotency.ts";
import { infer } from "./inference/infer.ts";
import { createInference, type Inference } from "./inference/inference.ts";
import type { CallRecord } from "./inference/call.ts";
import { notOffered } from "./inference/not-offered.ts";
import { PROVIDERS } from "./inference/providers.ts";
import { TIMEOUTS, type Timeouts } from "./inference/upstream.ts";
import { createKeys, isLiveKey, type Keys } from "./keys/keys.ts";
import {
  createLedger,
  getWallet,
  grant,
  heartbeat,
  type Ledger,
  openWallet,
  startEpoch,
} from "./ledger/ledger.ts";
import { findFreeze } from "./ledger/freezes.ts";
import { insertSpender } from "./ledger/rows.ts";
import { sweepHolds } from "./ledger/sweep.ts";
import { keepYoungHolds } from "./ledger/young-holds.ts";
import { type Mailroom, openMailroom } from "./mailroom.ts";
import { masterSecret } from "./master-secret.ts";
import { createCatalog, type LiveCatalog, modelsFileAt } from "./models/live-catalog.ts";
import { createMetrics, type Metrics } from "./operations/metrics.ts";
import { createReadiness } from "./operations/readiness.ts";
import { type Carrier, carryByFetch, createCarrier } from "./outbound/carrier.ts";
import type { IdentitySettings } from "./people/sign-in.ts";
import { createKeyCheck, mayBringKey } from "./provider-keys/check.ts";
import { createProviderKeys, type ProviderKeys } from "./provider-keys/provider-keys.ts";
import { nobodySignsIn, openReception } from "./reception.ts";
import { createResponses, type Responses } from "./responses/responses.ts";
import { createSimulator } from "./simulator/simulator.ts";
import type { Db, Tx } from "./store/db.ts";
import { migrate } from "./store/migrate.ts";
import { openStore } from "./store/open.ts";
import { createTelemetry, type Telemetry } from "./telemetry/telemetry.ts";
import { clocksOf, RESPONSE_BEGINS_MS } from "./upkeep.ts";
import { writeUsage } from "./usage/usage.ts";

const PSEUDONYMS_MAX = 10_000;

export interface House {
  readonly db: Db;
  readonly ledger: Ledger<CallRecord>;
  readonly routes: readonly Route[];
  readonly handle: (request: Request, peer: Peer) => Promise<Response>;
  /** What a person should know at the start. */
  readonly notes: readonly string[];
  /** Refuses new work; `/readyz` says so. */
  readonly startDraining: () => void;
  /** Resolves when no model call is open: their money is settled. */
  readonly idle: () => Promise<void>;
  /** Ends the clocks, writes what is still in memory, and closes the store. */
  readonly close: () => Promise<void>;
}

export interface HouseSurroundings {
  readonly log: Log;
  readonly now: () => number;
  readonly version: string;
  /** Called when the process must not go on: its name was taken by another. */
  readonly onFatal: (reason: string) => void;
  /** Who signs humans in, where the settings name nobody: the bundled provider of development. */
  readonly identity?: IdentitySettings | undefined;
  /** Shorter ones for tests. */
  readonly timeouts?: Timeouts;
}

interface Foundation extends Mailroom {
  readonly db: Db;
  readonly epoch: number;
  readonly master: Secret;
  readonly idempotency: Idempotency;
  readonly ledger: Ledger<CallRecord>;
  readonly keys: Keys;
  readonly catalog: LiveCatalog;
}

// The store, and what rests on it alone. What an earlier run of this process left open is given back first.
async function layFoundation(config: Config, { log, now }: HouseSurroundings): Promise<Foundation> {
  const store = await openStore(config.store, true);
  // Only a store that serves this process alone lets it keep a hold to itself for a moment.
  const holding = store.kind === "sqlite" ? keepYoungHolds(store) : undefined;
  const db = holding ?? store;
  await migrate(db, now());
  const epoch = await startEpoch(db, config.processName, now());
  const swept = await sweepHolds(db, now());
  if (swept > 0) log.info("holds of an earlier run were given back", { holds: swept });
  await releaseDeadCalls(db, db.kind === "sqlite" ? now() : now() - CALL_BEGINS_MS);
  const master = masterSecret(config.secret, config.store.dataDir);
  const idempotency = createIdempotency(master);
  const ledger = createLedger<CallRecord>({
    db,
    holding,
    process: config.processName,
    epoch,
    writeRecords: (tx, records) => writeCalls(tx, records, idempotency),
    tellFalls: tellOfFalls,
    tellBudgets: onBudgetsReached,
  });
  const keys = createKeys({ db, master, prefix: config.keyPrefix, openSpender: insertSpender });
  const file = config.modelsFile === undefined ? {} : { file: modelsFileAt(config.modelsFile) };
  return {
    db,
    epoch,
    master,
    idempotency,
    ledger,
    keys,
    catalog: createCatalog({ now: now(), ...file }),
    ...openMailroom(config, { db, master, log, now }),
  };
}

interface Callables {
  readonly inference: Inference;
  readonly providerKeys: ProviderKeys;
  readonly responses: Responses;
  readonly carrier: Carrier;
  readonly metrics: Metrics;
  readonly telemetry: Telemetry | undefined;
}

// What calls models: the gateway's accounts at the providers, and the callers' own keys there.
function connectProviders(
  config: Config,
  surroundings: HouseSurroundings,
  ground: Foundation,
): Callables {
  const { db, master, ledger, catalog } = ground;
  const { log, now } = surroundings;
  const pseudonymKey = deriveKey(master, "end-user/v1");
  const providerKeys = createProviderKeys({
    db,
    master,
    providers: () =>
      [...PROVIDERS, ...catalog.current().providers]
        .map(({ id }) => id)
        .filter((id) => {
          const place = inference.parts.providerOf(id);
          return place !== undefined && mayBringKey(place, config.development);
        }),
    check: createKeyCheck({ placeOf: (id) => inference.parts.providerOf(id) }),
  });
  const carrier = createCarrier();
  const telemetry = openTelemetry(config, surroundings);
  const metrics = createMetrics({
    version: surroundings.version,
    ledgerDepth: ledger.depth,
    openCircuits: () => inference.openCircuits(),
    spanCounts: telemetry?.counts,
  });
  const inference = createInference({
    catalog,
    ledger,
    log,
    now,
    timeouts: surroundings.timeouts ?? TIMEOUTS,
    // Only the runtime's own client finds its way through a proxy.
    carry: config.leavesByProxy ? carryByFetch : carrier.carry,
    settings: config.providers,
    keyNamed: config.keyNamed,
    simulator: simulatorFor(config, now),
    limits: config.limits,
    pseudonymOf: remembered(
      (accountId) => fingerprint(pseudonymKey, accountId).slice(0, 32),
      PSEUDONYMS_MAX,
    ),
    isClaimed: async (accountId) => (await getAccount(db, accountId)).claimedAt !== null,
    nobodySignsIn: nobodySignsIn(config, identityOf(config, surroundings)),
    freezeOf: (accountId) => findFreeze(db, accountId),
    ownKeyOf: (accountId, providerId) => providerKeys.ownKeyOf(accountId, providerId, now()),
    stateOf: (ask, input) => responses.stateOf(ask, input),
    onSettled: (record, { ask, input }) => {
      metrics.call(record);
      telemetry?.tell({ record, asked: ask.model }, input.headers);
    },
  });
  const responses = createResponses({
    ...ground,
    log,
    infer: (input) => infer(inference.parts, input),
    finishCall: ground.idempotency.finish,
  });
  return { inference, providerKeys, responses, carrier, metrics, telemetry };
}

export async function buildHouse(config: Config, surroundings: HouseSurroundings): Promise<House> {
  const { log, now, version } = surroundings;
  const ground = await layFoundation(config, surroundings);
  const { db, idempotency, ledger, keys } = ground;
  const callables = connectProviders(config, surroundings, ground);
  const { inference, responses, metrics } = callables;
  await responses.failDead(db.kind === "sqlite" ? now() : now() - RESPONSE_BEGINS_MS);
  const reception = openDoors(config, surroundings, ground);
  const cashier = await openCashier(config, { ...ground, log, now });
  const moving = { ...callables, ...cashier };
  let draining = false;
  const routes = createRoutes({
    ...ground,
    isWritable: createReadiness(() => heartbeat(db, config.processName, ground.epoch, now())),
    ...moving,
    ...reception,
    ...inference,
    inference: {
      infer: inference.parts,
      db,
      isLiveKey,
      beginCall: idempotency.begin,
      forgetCall: idempotency.forget,
      callOrBuy: cashier.callOrBuy,
    },
    discovery: discoverySettings(config, version, reception.nobodySignsIn),
    isDraining: () => draining,
    ownPagesOnly: config.development,
    limits: { perHour: config.limits.accountsPerHour, grantPerDay: config.limits.grantPerDay },
    openWallet,
    grantStart,
    walletOf: getWallet,
    home: "/console",
  });
  const handle = createServe({
    routes,
    db,
    baseUrl: config.baseUrl,
    log,
    now,
    authenticate: keys.find,
    isLiveKey,
    findVisitor: reception.sessions.find,
    faultPage,
    beginIdempotent: idempotency.begin,
    finishIdempotent: idempotency.finish,
    rate: guardFor(config.limits.requestsPerMinute),
    refusals: guardFor(config.limits.requestsPerMinute),
    addressOf: createAddressReader(config.trustedProxies),
    isDraining: () => draining,
    notOffered,
    ownPagesOnly: config.development,
    onAnswer: (route, status, ms) => metrics.request(route?.id ?? "none", status, ms),
  });
  const stopClocks = startClocks(log, clocksOf(config, { ...surroundings, ...ground, ...moving }));
  return {
    db,
    ledger,
    routes,
    handle,
    notes: notesFor(config),
    startDraining: () => {
      draining = true;
    },
    idle: inference.idle,
    close: () => closeHouse({ ...ground, ...callables }, stopClocks),
  };
}

function openTelemetry(
  { telemetry, processName }: Config,
  { log, version }: HouseSurroundings,
): Telemetry | undefined {
  if (telemetry === undefined) return undefined;
  const resource = { serviceName: telemetry.serviceName, version, instance: processName };
  return createTelemetry({ ...telemetry, resource, log });
}

function identityOf(config: Config, { identity }: HouseSurroundings): IdentitySettings | undefined {
  return identity ?? config.identity;
}

/** What humans meet: as customers, and as operators. */
function openDoors(config: Config, surroundings: HouseSurroundings, ground: Foundation) {
  const doors = { ...ground, identity: identityOf(config, surroundings) };
  return { ...openReception(config, doors), office: openOffice(config, doors) };
}

async function grantStart(tx: Tx, accountId: string, amount: Nano, now: number): Promise<void> {
  await grant(tx, { id: `start.${accountId}`, accountId, amount, now, reason: "starting credit" });
}

// In one transaction with the charge: a reply that can be asked for again is kept, a failed call's key is let go.
async function writeCalls(
  tx: Tx,
  records: readonly CallRecord[],
  idempotency: ReturnType<typeof createIdempotency>,
): Promise<void> {
  await writeUsage(
    tx,
    records.map((record) => record.usage),
  );
  for (const { usage, idempotent, stored } of records) {
    await stored?.(tx);
    if (idempotent === undefined) continue;
    const call = { ...idempotent.call, holdId: usage.id };
    if (idempotent.answer === undefined) await idempotency.forget(tx, call);
    else await idempotency.finish(tx, call, idempotent.answer);
  }
}

function simulatorFor(
  config: Config,
  now: () => number,
): ((request: Request) => Promise<Response>) | undefined {
  return simulates(config) ? createSimulator({ now, keepRequests: 0 }).fetch : undefined;
}

function notesFor(config: Config): readonly string[] {
  const providers = Object.keys(config.providers);
  return [
    providers.length > 0
      ? `providers  ${providers.join(", ")}`
      : simulates(config)
        ? "providers  none: replies of sim/… models are simulated"
        : "providers  none",
  ];
}
