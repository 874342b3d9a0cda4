// Creates inference: the dependencies of every stage of a model call, and the state that calls share.

import { createAbort, type Send } from "@postern/http-client";
import type { OwnDataPolicy } from "../base/data-rules.ts";
import type { Log } from "../base/log.ts";
import type { PaymentOptions } from "../base/purchase-steps.ts";
import { createRateLimiter } from "../http/guards/rate-limiter.ts";
import type { Lease } from "../ledger/lease.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Model } from "../models/catalog.ts";
import type { LiveCatalog } from "../models/live-catalog.ts";
import type { UsageRecord } from "../usage/usage.ts";
import { createAbandonedCalls } from "./lifecycle/abandoned-calls.ts";
import type { SettledCall } from "./lifecycle/call.ts";
import type { CountTokensDeps } from "./lifecycle/count-tokens.ts";
import { createTokenCounts } from "./lifecycle/enforce-key-policy.ts";
import type { FetchFilesDeps } from "./lifecycle/fetch-files.ts";
import { createHeldCredit } from "./lifecycle/hold/held-credit.ts";
import type { HoldDeps } from "./lifecycle/hold/hold.ts";
import { createKeyRates, type KeyRates } from "./lifecycle/hold/key-rates.ts";
import type { InferDeps } from "./lifecycle/infer.ts";
import type { OfferDeps } from "./lifecycle/offer.ts";
import {
  createToolListCache,
  TOOL_LISTS_PER_MINUTE,
  type McpDeps,
} from "./lifecycle/open-mcp-servers.ts";
import type { PrepareCall } from "./lifecycle/parse-call.ts";
import type { PlanDeps } from "./lifecycle/plan-call.ts";
import type { SettleDeps } from "./lifecycle/settle.ts";
import { createStoppedSessions, type StoppedSessions } from "./lifecycle/stopped-sessions.ts";
import { holdLifetimeMs, lastAttemptStartMs } from "./lifecycle/timeouts.ts";
import type { Timeouts } from "./lifecycle/timeouts.ts";
import type { ToolLoopDeps } from "./lifecycle/tool-loop.ts";
import { createProviderAccounts, type ProviderAccounts } from "./providers/credentials.ts";
import type { ProviderSetting } from "./providers/provider-setting.ts";
import { createRouteCache, type FindProviderKey } from "./routing/candidates.ts";
import { createCircuitBreaker } from "./routing/circuit-breaker.ts";
import { createCredentialOrder } from "./routing/credential-order.ts";
import { recordOutcome } from "./routing/provider-statistics.ts";
import { createRoutingState, providerHealth } from "./routing/routing.ts";
import { createRecentOutputs, type RecentOutputs } from "./streaming/recent-outputs.ts";
import type { RelayDeps, ShutdownSignals } from "./streaming/relay-options.ts";
import { createSharedTimer } from "./streaming/shared-timer.ts";
import { createFetchPage } from "./web-search/fetch-page.ts";
import type { SearchWeb } from "./web-search/search-backends.ts";

export interface InferenceDeps {
  readonly catalog: LiveCatalog;
  readonly ledger: Ledger<SettledCall>;
  readonly lease: Lease;
  readonly log: Log;
  readonly now: () => number;
  readonly timeouts: Timeouts;
  /** Higher in tests that disconnect many clients. */
  readonly abandonedCallsPerMinute?: number | undefined;
  /** Longer in tests that must not depend on time. */
  readonly creditWaitMs?: number | undefined;
  /** For durations: the wall clock may jump. */
  readonly monotonicNow?: (() => number) | undefined;
  readonly sendHttp: Send;
  readonly settings: Readonly<Record<string, ProviderSetting>>;
  readonly readKeyVariable: (variable: string) => string | undefined;
  readonly simulator: ((request: Request) => Promise<Response>) | undefined;
  readonly dataPolicy: OwnDataPolicy;
  readonly allowUnknownFields: ReadonlySet<string>;
  /** As of each call. */
  readonly limits: () => { readonly requestsPerMinute: number; readonly openCallsPerKey: number };
  /** `perMinute` is 0 if no files are fetched. */
  readonly files: Omit<FetchFilesDeps, "limiter" | "now">;
  /** Undefined where the gateway does not search the web, or fetches no pages for models. */
  readonly searchWeb: SearchWeb | undefined;
  readonly fetchesPages: boolean;
  readonly mcp: Pick<McpDeps, "findMcpServers" | "openConnection">;
  readonly pseudonymOf: (accountId: string) => string;
  readonly sendsAnthropicUserId: boolean;
  readonly isClaimed: (accountId: string) => Promise<boolean>;
  readonly findLimitRaiser: HoldDeps["findLimitRaiser"];
  readonly countOpenCalls: HoldDeps["countOpenCalls"];
  readonly isSignInDisabled: boolean;
  readonly paymentOptions: PaymentOptions;
  readonly freezeOf?: HoldDeps["freezeOf"];
  readonly findKey: InferDeps["findKey"];
  readonly findPreset: InferDeps["findPreset"];
  readonly openGuards: InferDeps["openGuards"];
  readonly findProviderKey: FindProviderKey;
  readonly prepareCall?: PrepareCall;
  readonly offers: OfferDeps;
  readonly signReceipt: (record: UsageRecord) => string | undefined;
  readonly onSettled?: SettleDeps["onSettled"];
}

export interface Inference extends ProviderAccounts {
  readonly infer: InferDeps;
  readonly countTokens: CountTokensDeps;
  readonly health: (model: Model, now: number) => ReturnType<typeof providerHealth>;
  /** Provider, account and model of each open circuit, separated by spaces. */
  readonly openCircuits: () => readonly string[];
  /** Sessions whose open streams end. */
  readonly stoppedSessions: StoppedSessions;
  /** The headers of replies to a key with a rate of its own. */
  readonly rateHeadersOf: KeyRates["headersOf"];
  /** The returned function ends the tracking; `whenIdle` waits for it. */
  readonly trackCall: () => () => void;
  /** Resolves when no call is open. */
  readonly whenIdle: () => Promise<void>;
  /** Ends the calls of connected callers: a whole reply becomes a 503, a stream ends with an error. */
  readonly endCalls: () => void;
  /** Stops waiting for providers on behalf of callers that have left: what is metered by then is charged. */
  readonly forceShutdown: () => void;
}

export function createInference(deps: InferenceDeps): Inference {
  const { lease, now, timeouts, freezeOf, findPreset, openGuards, isClaimed } = deps;
  const { accountAt, isAvailable } = providerAccountsOf(deps);
  const breaker = createCircuitBreaker();
  const routing = createRoutingState(breaker);
  const { statistics, sticky } = routing;
  const { trackCall, whenIdle } = createOpenCallCounter();
  const { shutdownSignals, endCalls, forceShutdown } = createShutdownSignals();
  const { orderCredentials, recordRefusal } = createCredentialOrder({ ...breaker, now });
  const route = routeDepsOf(deps, { accountAt, orderCredentials, routing });
  const send = { breaker, sendHttp: deps.sendHttp, timeouts, now, recordRefusal };
  const abandonedCalls = createAbandonedCalls(deps.abandonedCallsPerMinute);
  const tokenCounts = createTokenCounts();
  const stoppedSessions = createStoppedSessions();
  const heldCredit = createHeldCredit(deps.creditWaitMs);
  const rates = createKeyRates(() => deps.limits().requestsPerMinute);
  const recentOutputs = createRecentOutputs();
  const measured = { abandonedCalls, tokenCounts, heldCredit, statistics, recentOutputs };
  const settle = settleDepsOf(deps, measured);
  const relay = relayDepsOf(deps, shutdownSignals);
  const plan = planDepsOf(deps, shutdownSignals);
  const measuredSend = { ...send, recordAttempt: statistics.recordAttempt };
  const infer: InferDeps = {
    now,
    findKey: deps.findKey,
    findPreset,
    openGuards,
    trackCall,
    lastAttemptStartMs: lastAttemptStartMs(timeouts),
    abandonedCalls,
    tokenCounts,
    parse: { prepareCall: deps.prepareCall },
    route,
    hold: holdDepsOf(deps, { heldCredit, rates, recentOutputs }),
    roll: { raise: deps.ledger.raise, now, monotonicNow: relay.now, timer: relay.timer },
    files: fetchFilesDepsOf(deps),
    mcp: mcpDepsOf(deps),
    plan,
    offers: deps.offers,
    send: measuredSend,
    tools: toolLoopDepsOf(deps, { send: measuredSend, plan, extendHold: relay.extendHold }),
    respond: {
      signReceipt: deps.signReceipt,
      recordProvider: sticky.record,
      settle,
      now,
      lease,
      relay,
      count: { send, shutdownSignals },
      stoppedSessions,
    },
    settle,
  };
  return {
    infer,
    // Counts say nothing about how a provider serves calls, so they stay out of its statistics.
    countTokens: { findPreset, openGuards, route, send, freezeOf, isClaimed },
    accountAt,
    isAvailable,
    health: (model, at) => healthOf(model, at, { accountAt, routing }),
    openCircuits: () => breaker.listOpen(now()),
    stoppedSessions,
    rateHeadersOf: rates.headersOf,
    trackCall,
    whenIdle,
    endCalls,
    forceShutdown,
  };
}

function routeDepsOf(
  { catalog, now, dataPolicy, findProviderKey }: InferenceDeps,
  state: Pick<InferDeps["route"], "accountAt" | "orderCredentials" | "routing">,
): InferDeps["route"] {
  const findRoute = createRouteCache(state.accountAt);
  return { catalog, now, dataPolicy, findProviderKey, findRoute, ...state };
}

function providerAccountsOf(deps: InferenceDeps): ProviderAccounts {
  return createProviderAccounts({
    settings: deps.settings,
    catalog: () => deps.catalog.current(),
    readKeyVariable: deps.readKeyVariable,
    simulator: deps.simulator,
    allowUnknownFields: deps.allowUnknownFields,
    now: deps.now,
  });
}

function planDepsOf(deps: InferenceDeps, shutdownSignals: ShutdownSignals): PlanDeps {
  const { pseudonymOf, sendsAnthropicUserId } = deps;
  return { pseudonymOf, sendsAnthropicUserId, shutdownSignals };
}

function performanceNow(): number {
  return performance.now();
}

function healthOf(
  model: Model,
  now: number,
  { accountAt, routing }: Pick<InferDeps["route"], "accountAt" | "routing">,
): ReturnType<typeof providerHealth> {
  const { credentials = [] } = accountAt(model.provider) ?? {};
  return providerHealth(routing, model, { credentials, now });
}

function mcpDepsOf({ mcp, now, log }: InferenceDeps): McpDeps {
  const perMinute = TOOL_LISTS_PER_MINUTE;
  const limiter = createRateLimiter({ perMinute, burst: perMinute });
  return { ...mcp, now, log, lists: createToolListCache(), limiter };
}

function toolLoopDepsOf(
  { searchWeb, fetchesPages, files, now, log, monotonicNow = performanceNow }: InferenceDeps,
  { send, plan, extendHold }: Pick<ToolLoopDeps, "send" | "plan" | "extendHold">,
): ToolLoopDeps {
  const { fetchFile, perMinute } = files;
  const fetchPage = fetchesPages && perMinute > 0 ? createFetchPage(fetchFile, now) : undefined;
  const limiter = createRateLimiter({ perMinute: Math.max(1, perMinute), burst: perMinute });
  const mayFetch = (accountId: string): boolean => limiter.take(accountId, now()) === 0;
  return { searchWeb, fetchPage, mayFetch, now, monotonicNow, log, send, plan, extendHold };
}

function settleDepsOf(
  { ledger, log, now, onSettled }: InferenceDeps,
  {
    statistics,
    recentOutputs,
    ...counts
  }: Pick<SettleDeps, "abandonedCalls" | "tokenCounts" | "heldCredit"> &
    Pick<ReturnType<typeof createRoutingState>, "statistics"> & {
      readonly recentOutputs: RecentOutputs;
    },
): SettleDeps {
  const record: SettleDeps["recordOutcome"] = (usage, at) => {
    recordOutcome(statistics, usage, at);
    if (usage.outcome === "completed") recentOutputs.record(usage.model, usage.outputTokens);
  };
  return { ledger, log, now, onSettled, recordOutcome: record, ...counts };
}

function relayDepsOf(deps: InferenceDeps, shutdownSignals: ShutdownSignals): RelayDeps {
  const { timeouts, ledger, lease, monotonicNow: now = performanceNow } = deps;
  return {
    timer: createSharedTimer(now),
    limits: timeouts,
    now,
    shutdownSignals,
    leaseTerm: lease.term,
    extendHold: ledger.extendHold,
  };
}

function holdDepsOf(
  deps: InferenceDeps,
  { heldCredit, rates, recentOutputs }: Pick<HoldDeps, "heldCredit" | "rates" | "recentOutputs">,
): HoldDeps {
  const { ledger, lease, now, limits, isClaimed, findLimitRaiser, freezeOf } = deps;
  const { isSignInDisabled, paymentOptions } = deps;
  return {
    ledger,
    lease,
    now,
    lifetimeMs: holdLifetimeMs(deps.timeouts),
    rates,
    get openCallsMax() {
      return limits().openCallsPerKey || undefined;
    },
    isClaimed,
    findLimitRaiser,
    heldCredit,
    recentOutputs,
    countOpenCalls: deps.countOpenCalls,
    isSignInDisabled,
    paymentOptions,
    freezeOf,
  };
}

function fetchFilesDepsOf({ files, now }: InferenceDeps): FetchFilesDeps | undefined {
  const { perMinute } = files;
  if (perMinute === 0) return undefined;
  return { ...files, limiter: createRateLimiter({ perMinute, burst: perMinute }), now };
}

function createShutdownSignals() {
  const drained = createAbort();
  const forced = createAbort();
  return {
    shutdownSignals: { drained: drained.signal, forced: forced.signal },
    endCalls: drained.abort,
    forceShutdown: forced.abort,
  };
}

/** Counts the calls from their hold to their settlement. */
function createOpenCallCounter(): Pick<Inference, "trackCall" | "whenIdle"> {
  let count = 0;
  let waiting: (() => void)[] = [];
  const untrack = (): void => {
    count -= 1;
    if (count > 0) return;
    for (const resolve of waiting) resolve();
    waiting = [];
  };
  return {
    trackCall: () => {
      count += 1;
      let isUntracked = false;
      return () => {
        if (!isUntracked) untrack();
        isUntracked = true;
      };
    },
    whenIdle: () =>
      count === 0 ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve)),
  };
}
