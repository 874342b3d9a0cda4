// Creates everything that a model call needs: inference, callers' provider keys, stored responses, metrics, telemetry.

import { createHttpClient, type HttpClient, sendByFetch } from "@postern/http-client";
import { createSimulator } from "@postern/simulator";
import { getAccount } from "../accounts/accounts.ts";
import { deriveKey, fingerprint } from "../base/crypto/encryption.ts";
import { signJws } from "../base/crypto/jws.ts";
import type { JobRun } from "../base/job-run.ts";
import { memoize } from "../base/memoize.ts";
import { resolveHost } from "../base/network/public-endpoint.ts";
import type { Config } from "../config/config.ts";
import type { LiveLimits } from "../controls/limits.ts";
import { createOpenGuards } from "../guardrails/open-guards.ts";
import { createInference, type Inference, type InferenceDeps } from "../inference/inference.ts";
import { infer } from "../inference/lifecycle/infer.ts";
import { timeoutsFrom } from "../inference/lifecycle/timeouts.ts";
import { createFetchFile } from "../inference/media/fetch-file.ts";
import { PROVIDERS } from "../inference/providers/providers.ts";
import { createOpenMcpConnection } from "../inference/remote-mcp/mcp-client.ts";
import { createSearchBackend } from "../inference/web-search/search-backends.ts";
import { findLimitRaiser } from "../keys/live-keys.ts";
import { findLiveKey } from "../keys/live-keys.ts";
import { findFreeze } from "../ledger/freezes.ts";
import { countOpenCalls } from "../ledger/ledger.ts";
import { findCallServers } from "../mcp-servers/mcp-servers.ts";
import { createMetrics, type Metrics } from "../operations/metrics.ts";
import { type ProcessMetricsDeps, watchEventLoop } from "../operations/process-metrics.ts";
import { findPreset } from "../presets/presets.ts";
import { canAddKey, createKeyCheck } from "../provider-keys/key-check.ts";
import { createProviderKeys, type ProviderKeys } from "../provider-keys/provider-keys.ts";
import { signReceipt } from "../receipts/receipt.ts";
import { createResponses, type Responses, type ResponsesDeps } from "../responses/responses.ts";
import type { Db } from "../store/db.ts";
import { createTelemetry, type Telemetry } from "../telemetry/telemetry.ts";
import { storeReply } from "./call-records.ts";
import type { Core } from "./core.ts";
import { paymentOptions, usesSimulator } from "./create-discovery-settings.ts";
import { findOpenFiles } from "./open-files.ts";
import type { ServerOptions } from "./server-options.ts";

const PSEUDONYM_CACHE_MAX = 10_000;

export interface ModelCalls {
  readonly inference: Inference;
  readonly providerKeys: ProviderKeys;
  readonly responses: Responses;
  readonly httpClient: HttpClient;
  readonly metrics: Metrics;
  readonly telemetry: Telemetry | undefined;
}

interface ModelCallContext {
  readonly isSignInDisabled: boolean;
  readonly jobRuns: ReadonlyMap<string, JobRun>;
  readonly limits: LiveLimits["current"];
  readonly responseQueue: ResponsesDeps["queue"];
}

export function createModelCalls(
  config: Config,
  options: ServerOptions,
  core: Core,
  { isSignInDisabled, jobRuns, limits, responseQueue }: ModelCallContext,
): ModelCalls {
  const { log, now, version, timeouts = timeoutsFrom(config.timeouts) } = options;
  const { db, master, ledger, lease, catalog, idempotency, bodyQuota } = core;
  const httpClient = createHttpClient();
  const telemetry = createOptionalTelemetry(config, options);
  // These call each other while serving; none does so while it is created.
  const providerKeys = createProviderKeys({
    db,
    master,
    providers: () => listKeyProviders(core, inference, config.development),
    check: createKeyCheck({ endpointOf: (id) => inference.accountAt(id) }),
  });
  const openCircuits = (): number => inference.openCircuits().length;
  const load = { openCircuits, spanCounts: telemetry?.counts };
  const metrics = createCallMetrics(core, version, load, jobRuns);
  const inference = createInference({
    catalog,
    ledger,
    lease,
    log,
    now,
    timeouts,
    abandonedCallsPerMinute: options.abandonedCallsPerMinute,
    creditWaitMs: options.creditWaitMs,
    monotonicNow: options.monotonicNow,
    sendHttp: senderOf(config, httpClient),
    settings: config.providers,
    readKeyVariable: config.readKeyVariable,
    simulator: simulatorOf(config, now),
    dataPolicy: config.dataPolicy,
    allowUnknownFields: new Set(config.allowUnknownFields),
    limits,
    files: filesOf(config, options, bodyQuota),
    searchWeb: config.webSearch && createSearchBackend(config.webSearch),
    fetchesPages: config.webSearch?.fetchFee !== undefined,
    mcp: mcpOf(config, core),
    pseudonymOf: createPseudonyms(master),
    sendsAnthropicUserId: config.sendsAnthropicUserId,
    isClaimed: async (accountId) => (await getAccount(db, accountId)).claimedAt !== null,
    countOpenCalls: (accountId, keyId) => countOpenCalls(db, accountId, keyId),
    findLimitRaiser: (key, at) => findLimitRaiser(db, key, at),
    isSignInDisabled,
    paymentOptions: paymentOptions(config),
    freezeOf: (accountId) => findFreeze(db, accountId),
    findKey: (keyId, at) => findLiveKey(db, keyId, at),
    findPreset: (accountId, name, version) => findPreset(db, accountId, name, version),
    openGuards: openGuardsOf(config, options, core),
    findProviderKey: (caller, providerId) => providerKeys.findNewestKey(caller, providerId, now()),
    offers: offersOf(core, config.baseUrl),
    signReceipt: (record) => signReceipt(record, config.baseUrl, core.signingKeys.current()),
    prepareCall: (request, input) => responses.prepareCall(request, input),
    onSettled: recordSettled(metrics, telemetry),
  });
  const responses = createResponses({
    db,
    master,
    log,
    now,
    storage: config.responseStorage,
    infer: (input) => infer(inference.infer, input),
    storeIdempotentReply: (tx, call, reply) => storeReply(tx, idempotency, call, reply),
    queue: responseQueue,
  });
  return { inference, providerKeys, responses, httpClient, metrics, telemetry };
}

/** Only the runtime's own fetch supports an outbound proxy. */
function senderOf({ hasOutboundProxy }: Config, { send }: HttpClient): HttpClient["send"] {
  return hasOutboundProxy ? sendByFetch : send;
}

function simulatorOf(config: Config, now: () => number): InferenceDeps["simulator"] {
  return usesSimulator(config) ? createSimulator({ now, maxRecordedRequests: 0 }).fetch : undefined;
}

/** The providers at which callers can have keys of their own. */
function listKeyProviders(
  { catalog }: Core,
  { accountAt }: Inference,
  isDevelopment: boolean,
): readonly string[] {
  return [...PROVIDERS, ...catalog.current().providers]
    .map(({ id }) => id)
    .filter((id) => {
      const account = accountAt(id);
      return account !== undefined && canAddKey(account, isDevelopment);
    });
}

function mcpOf({ development }: Config, { db, master }: Core): InferenceDeps["mcp"] {
  return {
    findMcpServers: (accountId) => findCallServers(db, accountId, master),
    openConnection: createOpenMcpConnection({ resolve: resolveHost, allowLoopback: development }),
  };
}

function openGuardsOf(
  { baseUrl, development }: Config,
  { now, monotonicNow = () => performance.now() }: ServerOptions,
  { db, signingKeys }: Core,
): InferenceDeps["openGuards"] {
  return createOpenGuards({
    db,
    issuer: baseUrl,
    signingKey: signingKeys.current,
    now,
    monotonicNow,
    resolve: resolveHost,
    allowLoopback: development,
  });
}

function offersOf({ signingKeys }: Core, baseUrl: string): InferenceDeps["offers"] {
  return {
    baseUrl,
    sign: (type, payload) => signJws(signingKeys.current(), type, payload),
    verify: (type, text) => signingKeys.verify(type, text),
  };
}

function createCallMetrics(
  { db, ledger, bodyQuota, connectionGuard }: Core,
  version: string,
  deps: Pick<Parameters<typeof createMetrics>[0], "openCircuits" | "spanCounts">,
  jobRuns: ModelCallContext["jobRuns"],
): Metrics {
  return createMetrics({
    version,
    ledgerQueueDepth: ledger.queueDepth,
    openCircuits: deps.openCircuits,
    requestBodyBytes: bodyQuota.totalBytes,
    connections: connectionGuard?.counts,
    spanCounts: deps.spanCounts,
    process: processMetricsOf(db, jobRuns),
  });
}

function processMetricsOf(db: Db, jobRuns: ModelCallContext["jobRuns"]): ProcessMetricsDeps {
  return {
    openFiles: findOpenFiles(),
    databasePool: db.pool,
    eventLoop: watchEventLoop(),
    jobRuns,
  };
}

function recordSettled(
  metrics: ModelCalls["metrics"],
  telemetry: ModelCalls["telemetry"],
): NonNullable<InferenceDeps["onSettled"]> {
  return (record, { request, input }) => {
    metrics.recordCall(record);
    telemetry?.recordCall({ record, requestedModel: request.model }, input.headers);
  };
}

function filesOf(
  { limits }: Config,
  { fetchFile }: ServerOptions,
  bodyQuota: Core["bodyQuota"],
): InferenceDeps["files"] {
  return {
    fetchFile: fetchFile ?? createFetchFile({ resolve: resolveHost }),
    perMinute: limits.fetchedFilesPerMinute,
    bodyQuota,
  };
}

function createPseudonyms(master: Core["master"]): (accountId: string) => string {
  const key = deriveKey(master, "end-user/v1");
  return memoize((accountId) => fingerprint(key, accountId).slice(0, 32), PSEUDONYM_CACHE_MAX);
}

function createOptionalTelemetry(
  { telemetry, processName }: Config,
  { log, version }: ServerOptions,
): Telemetry | undefined {
  if (telemetry === undefined) return undefined;
  const { url, headers, serviceName, shouldContinueTraces } = telemetry;
  const resource = { serviceName, version, instance: processName };
  return createTelemetry({ url, headers, shouldContinueTraces, resource, log });
}
