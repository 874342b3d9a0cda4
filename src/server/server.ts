// Builds the house out of its settings: opens the store, makes every room, and keeps the small clocks that sweep and
// count. What runs a command holds one House, and tests hold several.

import { getAccount } from "../accounts/accounts.ts";
import { discoverySettings, usesSimulatorByDefault } from "../discovery/settings-from-config.ts";
import { allRoutes } from "./routes.ts";
import { createOperatorContext } from "../operator/create-operator.ts";
import { createBilling, handleBalanceThresholds } from "../billing/create-billing.ts";
import type { Log } from "../base/log.ts";
import type { Nano } from "../base/money.ts";
import { memoize } from "../base/memoize.ts";
import { deriveKey, fingerprint } from "../base/encryption.ts";
import type { Secret } from "../base/secret.ts";
import { startJobs } from "./scheduler.ts";
import { shutdown } from "./shutdown.ts";
import type { Config } from "../config/config.ts";
import { emitBudgetEvents } from "../events/producers.ts";
import { createClientIpResolver } from "../http/request/client-ip.ts";
import { faultPage } from "../http/pages/fault-page.tsx";
import { rateLimiterFor } from "../http/guards/rate-limiter.ts";
import type { Route } from "../http/route.ts";
import { createRequestHandler, type Peer } from "../http/request-handler.ts";
import {
  CALL_START_GRACE_MS,
  createIdempotency,
  type Idempotency,
  releaseAbandonedKeys,
} from "../idempotency/idempotency.ts";
import { infer } from "../inference/lifecycle/infer.ts";
import { createInference, type Inference } from "../inference/inference.ts";
import type { SettledCall } from "../inference/lifecycle/call.ts";
import { unsupportedEndpointFault } from "../inference/api/unsupported-endpoints.ts";
import { PROVIDERS } from "../inference/providers/providers.ts";
import { DEFAULT_TIMEOUTS, type Timeouts } from "../inference/upstream/send.ts";
import { createKeys, isLiveKey, type Keys } from "../keys/keys.ts";
import {
  createLedger,
  getWallet,
  grant,
  heartbeat,
  type Ledger,
  openWallet,
  startEpoch,
} from "../ledger/ledger.ts";
import { findFreeze } from "../ledger/freezes.ts";
import { insertKeySpend } from "../ledger/rows.ts";
import { sweepHolds } from "../ledger/sweep.ts";
import { bufferHolds } from "../ledger/commit/hold-buffer.ts";
import { type WebhookServices, createWebhookServices } from "../webhooks/create-webhooks.ts";
import { loadMasterSecret } from "../config/master-secret.ts";
import { createLiveCatalog, type LiveCatalog, modelsFileAt } from "../models/live-catalog.ts";
import { createMetrics, type Metrics } from "../operations/metrics.ts";
import { createReadinessCheck } from "../operations/readiness.ts";
import { type HttpClient, sendByFetch, createHttpClient } from "../http-client/client.ts";
import type { IdentitySettings } from "../people/sign-in.ts";
import { createKeyCheck, canAddKey } from "../provider-keys/key-check.ts";
import { createProviderKeys, type ProviderKeys } from "../provider-keys/provider-keys.ts";
import { isSignInDisabled, createIdentityServices } from "./create-identity.ts";
import { createResponses, type Responses } from "../responses/responses.ts";
import { createSimulator } from "../simulator/simulator.ts";
import type { Db, Tx } from "../store/db.ts";
import { migrate } from "../store/migrate.ts";
import { openStore } from "../store/open.ts";
import { createTelemetry, type Telemetry } from "../telemetry/telemetry.ts";
import { createJobs, RESPONSE_START_GRACE_MS } from "./jobs.ts";
import { insertUsage } from "../usage/usage.ts";

const PSEUDONYM_CACHE_MAX = 10_000;

export interface Server {
  readonly db: Db;
  readonly ledger: Ledger<SettledCall>;
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

export interface ServerOptions {
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

interface Core extends WebhookServices {
  readonly db: Db;
  readonly epoch: number;
  readonly master: Secret;
  readonly idempotency: Idempotency;
  readonly ledger: Ledger<SettledCall>;
  readonly keys: Keys;
  readonly catalog: LiveCatalog;
}

// The store, and what rests on it alone. What an earlier run of this process left open is given back first.
async function openCore(config: Config, { log, now }: ServerOptions): Promise<Core> {
  const store = await openStore(config.store, true);
  // Only a store that serves this process alone lets it keep a hold to itself for a moment.
  const holdBuffer = store.kind === "sqlite" ? bufferHolds(store) : undefined;
  const db = holdBuffer ?? store;
  await migrate(db, now());
  const epoch = await startEpoch(db, config.processName, now());
  const swept = await sweepHolds(db, now());
  if (swept > 0) log.info("holds of an earlier run were given back", { holds: swept });
  await releaseAbandonedKeys(db, db.kind === "sqlite" ? now() : now() - CALL_START_GRACE_MS);
  const master = loadMasterSecret(config.secret, config.store.dataDir);
  const idempotency = createIdempotency(master);
  const ledger = createLedger<SettledCall>({
    db,
    holdBuffer,
    process: config.processName,
    epoch,
    writeRecords: (tx, records) => writeCallRecords(tx, records, idempotency),
    onBalanceThresholds: handleBalanceThresholds,
    onBudgetThresholds: emitBudgetEvents,
  });
  const keys = createKeys({ db, master, prefix: config.keyPrefix, createKeySpend: insertKeySpend });
  const file = config.modelsFile === undefined ? {} : { file: modelsFileAt(config.modelsFile) };
  return {
    db,
    epoch,
    master,
    idempotency,
    ledger,
    keys,
    catalog: createLiveCatalog({ now: now(), ...file }),
    ...createWebhookServices(config, { db, master, log, now }),
  };
}

interface InferenceServices {
  readonly inference: Inference;
  readonly providerKeys: ProviderKeys;
  readonly responses: Responses;
  readonly carrier: HttpClient;
  readonly metrics: Metrics;
  readonly telemetry: Telemetry | undefined;
}

// What calls models: the gateway's accounts at the providers, and the callers' own keys there.
function createInferenceServices(
  config: Config,
  options: ServerOptions,
  core: Core,
): InferenceServices {
  const { db, master, ledger, catalog } = core;
  const { log, now } = options;
  const pseudonymKey = deriveKey(master, "end-user/v1");
  const providerKeys = createProviderKeys({
    db,
    master,
    providers: () =>
      [...PROVIDERS, ...catalog.current().providers]
        .map(({ id }) => id)
        .filter((id) => {
          const place = inference.deps.accountAt(id);
          return place !== undefined && canAddKey(place, config.development);
        }),
    check: createKeyCheck({ endpointOf: (id) => inference.deps.accountAt(id) }),
  });
  const carrier = createHttpClient();
  const telemetry = openTelemetry(config, options);
  const metrics = createMetrics({
    version: options.version,
    ledgerQueueDepth: ledger.queueDepth,
    openCircuits: () => inference.openCircuits(),
    spanCounts: telemetry?.counts,
  });
  const inference = createInference({
    catalog,
    ledger,
    log,
    now,
    timeouts: options.timeouts ?? DEFAULT_TIMEOUTS,
    // Only the runtime's own client finds its way through a proxy.
    sendHttp: config.hasOutboundProxy ? sendByFetch : carrier.send,
    settings: config.providers,
    readKeyVariable: config.readKeyVariable,
    simulator: createBundledSimulator(config, now),
    limits: config.limits,
    pseudonymOf: memoize(
      (accountId) => fingerprint(pseudonymKey, accountId).slice(0, 32),
      PSEUDONYM_CACHE_MAX,
    ),
    isClaimed: async (accountId) => (await getAccount(db, accountId)).claimedAt !== null,
    isSignInDisabled: isSignInDisabled(config, identityOf(config, options)),
    freezeOf: (accountId) => findFreeze(db, accountId),
    findProviderKey: (accountId, providerId) =>
      providerKeys.findNewestKey(accountId, providerId, now()),
    resolveStatefulCall: (ask, input) => responses.prepareCall(ask, input),
    onSettled: (record, { request, input }) => {
      metrics.recordCall(record);
      telemetry?.recordCall({ record, requestedModel: request.model }, input.headers);
    },
  });
  const responses = createResponses({
    ...core,
    log,
    infer: (input) => infer(inference.deps, input),
    storeIdempotentReply: core.idempotency.finish,
  });
  return { inference, providerKeys, responses, carrier, metrics, telemetry };
}

export async function createServer(config: Config, options: ServerOptions): Promise<Server> {
  const { log, now, version } = options;
  const core = await openCore(config, options);
  const { db, idempotency, ledger, keys } = core;
  const inferenceServices = createInferenceServices(config, options, core);
  const { inference, responses, metrics } = inferenceServices;
  await responses.failOrphaned(db.kind === "sqlite" ? now() : now() - RESPONSE_START_GRACE_MS);
  const identityServices = createSignIns(config, options, core);
  const billingServices = await createBilling(config, { ...core, log, now });
  const services = { ...inferenceServices, ...billingServices };
  let draining = false;
  const routes = allRoutes({
    ...core,
    isWritable: createReadinessCheck(() => heartbeat(db, config.processName, core.epoch, now())),
    ...services,
    ...identityServices,
    ...inference,
    inference: {
      infer: inference.deps,
      db,
      isLiveKey,
      beginIdempotentCall: idempotency.begin,
      forgetIdempotentCall: idempotency.release,
      withPayment: billingServices.withPayment,
    },
    discovery: discoverySettings(config, version, identityServices.isSignInDisabled),
    isDraining: () => draining,
    requiresSameOrigin: config.development,
    limits: { perHour: config.limits.accountsPerHour, grantPerDay: config.limits.grantPerDay },
    openWallet,
    grantStartingCredit,
    getWallet,
    home: "/console",
  });
  const handle = createRequestHandler({
    routes,
    db,
    baseUrl: config.baseUrl,
    log,
    now,
    authenticate: keys.find,
    isKeyActive: isLiveKey,
    findSessionUser: identityServices.sessions.find,
    faultPage,
    beginIdempotent: idempotency.begin,
    finishIdempotent: idempotency.finish,
    rateLimiter: rateLimiterFor(config.limits.requestsPerMinute),
    refusalLimiter: rateLimiterFor(config.limits.requestsPerMinute),
    clientIpOf: createClientIpResolver(config.trustedProxies),
    isDraining: () => draining,
    unsupportedEndpointFault,
    blocksForeignOrigins: config.development,
    onResponse: (route, status, ms) => metrics.recordRequest(route?.id ?? "none", status, ms),
  });
  const stopJobs = startJobs(log, createJobs(config, { ...options, ...core, ...services }));
  return {
    db,
    ledger,
    routes,
    handle,
    notes: startupNotes(config),
    startDraining: () => {
      draining = true;
    },
    idle: inference.whenIdle,
    close: () => shutdown({ ...core, ...inferenceServices }, stopJobs),
  };
}

function openTelemetry(
  { telemetry, processName }: Config,
  { log, version }: ServerOptions,
): Telemetry | undefined {
  if (telemetry === undefined) return undefined;
  const resource = { serviceName: telemetry.serviceName, version, instance: processName };
  return createTelemetry({ ...telemetry, resource, log });
}

function identityOf(config: Config, { identity }: ServerOptions): IdentitySettings | undefined {
  return identity ?? config.identity;
}

/** What humans meet: as customers, and as operators. */
function createSignIns(config: Config, options: ServerOptions, core: Core) {
  const deps = { ...core, identity: identityOf(config, options) };
  return {
    ...createIdentityServices(config, deps),
    operatorContext: createOperatorContext(config, deps),
  };
}

async function grantStartingCredit(
  tx: Tx,
  accountId: string,
  amount: Nano,
  now: number,
): Promise<void> {
  await grant(tx, { id: `start.${accountId}`, accountId, amount, now, reason: "starting credit" });
}

// In one transaction with the charge: a reply that can be asked for again is kept, a failed call's key is let go.
async function writeCallRecords(
  tx: Tx,
  records: readonly SettledCall[],
  idempotency: ReturnType<typeof createIdempotency>,
): Promise<void> {
  await insertUsage(
    tx,
    records.map((record) => record.usage),
  );
  for (const { usage, idempotent, storeReply } of records) {
    await storeReply?.(tx);
    if (idempotent === undefined) continue;
    const call = { ...idempotent.call, holdId: usage.id };
    if (idempotent.reply === undefined) await idempotency.release(tx, call);
    else await idempotency.finish(tx, call, idempotent.reply);
  }
}

function createBundledSimulator(
  config: Config,
  now: () => number,
): ((request: Request) => Promise<Response>) | undefined {
  return usesSimulatorByDefault(config)
    ? createSimulator({ now, maxRecordedRequests: 0 }).fetch
    : undefined;
}

function startupNotes(config: Config): readonly string[] {
  const providers = Object.keys(config.providers);
  return [
    providers.length > 0
      ? `providers  ${providers.join(", ")}`
      : usesSimulatorByDefault(config)
        ? "providers  none: replies of sim/… models are simulated"
        : "providers  none",
  ];
}
