// The inference room, put together: accounts at the providers, circuits, the clock of the streams, and the count of the
// calls that are open.

import { createAbort } from "../base/abort.ts";
import type { Log } from "../base/log.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Model } from "../models/catalog.ts";
import type { Send } from "../http-client/client.ts";
import type { LiveCatalog } from "../models/live-catalog.ts";
import type { ProviderSetting } from "./providers/provider-setting.ts";
import { createProviderAccounts } from "./providers/credentials.ts";
import { createCircuitBreaker } from "./routing/circuit-breaker.ts";
import { createRouteCache, type FindProviderKey } from "./routing/candidates.ts";
import type { SettledCall, InferDeps } from "./lifecycle/call.ts";
import { createRoutingState, providerHealth } from "./routing/routing.ts";
import { createSharedTimer } from "./streaming/shared-timer.ts";
import type { Timeouts } from "./lifecycle/timeouts.ts";

export interface InferenceDeps {
  readonly catalog: LiveCatalog;
  readonly ledger: Ledger<SettledCall>;
  readonly log: Log;
  readonly now: () => number;
  readonly timeouts: Timeouts;
  readonly sendHttp: Send;
  readonly settings: Readonly<Record<string, ProviderSetting>>;
  readonly readKeyVariable: (variable: string) => string | undefined;
  readonly simulator: ((request: Request) => Promise<Response>) | undefined;
  readonly limits: { readonly requestsPerMinute: number; readonly openCallsPerKey: number };
  readonly pseudonymOf: (accountId: string) => string;
  readonly isClaimed: (accountId: string) => Promise<boolean>;
  readonly isSignInDisabled: boolean;
  readonly freezeOf?: NonNullable<InferDeps["freezeOf"]>;
  readonly findProviderKey: FindProviderKey;
  readonly resolveStatefulCall?: NonNullable<InferDeps["resolveStatefulCall"]>;
  readonly onSettled?: InferDeps["onSettled"];
}

export interface Inference {
  readonly deps: InferDeps;
  readonly isAvailable: (providerId: string) => boolean;
  readonly health: (model: Model, now: number) => ReturnType<typeof providerHealth>;
  /** How many circuits calls are kept away from. */
  readonly openCircuits: () => number;
  readonly whenIdle: () => Promise<void>;
  /** Waits for no provider any more whose caller has left: what is known by then is charged. */
  readonly forceShutdown: () => void;
}

const BURST_SECONDS = 10;

export function createInference(deps: InferenceDeps): Inference {
  const accounts = createProviderAccounts({
    ...deps,
    operatorProviders: () => deps.catalog.current().providers,
  });
  const openCalls = createOpenCallCounter();
  const shutdownAbort = createAbort();
  const breaker = createCircuitBreaker();
  const routing = createRoutingState(breaker);
  const { requestsPerMinute, openCallsPerKey } = deps.limits;
  const inferDeps: InferDeps = {
    ...deps,
    accountAt: accounts.accountAt,
    findRoute: createRouteCache(accounts.accountAt),
    breaker,
    routing,
    timer: createSharedTimer(deps.now),
    rateLimit:
      requestsPerMinute === 0
        ? undefined
        : {
            intervalMs: Math.ceil(60_000 / requestsPerMinute),
            burst: Math.max(1, Math.floor((requestsPerMinute * BURST_SECONDS) / 60)),
          },
    openCallsMax: openCallsPerKey === 0 ? undefined : openCallsPerKey,
    trackCall: openCalls.track,
    shutdownSignal: shutdownAbort.signal,
  };
  return {
    deps: inferDeps,
    isAvailable: accounts.isAvailable,
    health: (model, now) => providerHealth(routing, model, now),
    openCircuits: () => breaker.openCount(deps.now()),
    whenIdle: openCalls.whenIdle,
    forceShutdown: shutdownAbort.abort,
  };
}

// Counts calls from their hold to their settle.
function createOpenCallCounter(): {
  readonly track: () => () => void;
  readonly whenIdle: () => Promise<void>;
} {
  let count = 0;
  let waiting: (() => void)[] = [];
  const untrack = (): void => {
    count -= 1;
    if (count > 0) return;
    for (const resolve of waiting) resolve();
    waiting = [];
  };
  return {
    track: () => {
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
