// The inference room, put together: accounts at the providers, circuits, the clock of the streams, and the count of the
// calls that are open.

import { createStop } from "../base/stop.ts";
import type { Log } from "../base/log.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Model } from "../models/catalog.ts";
import type { Carry } from "../outbound/carrier.ts";
import type { LiveCatalog } from "../models/live-catalog.ts";
import { errorBody } from "../http/answer.ts";
import type { ProviderSetting } from "../provider-settings.ts";
import { createAccounts } from "./accounts.ts";
import { createBreaker } from "./breaker.ts";
import { createWays, type OwnKeyOf } from "./candidates.ts";
import type { CallRecord, InferParts } from "./call.ts";
import { createRouting, healthOf } from "./routing.ts";
import { createTicker } from "./ticker.ts";
import type { Timeouts } from "./upstream.ts";

export interface InferenceParts {
  readonly catalog: LiveCatalog;
  readonly ledger: Ledger<CallRecord>;
  readonly log: Log;
  readonly now: () => number;
  readonly timeouts: Timeouts;
  readonly carry: Carry;
  readonly settings: Readonly<Record<string, ProviderSetting>>;
  readonly keyNamed: (variable: string) => string | undefined;
  readonly simulator: ((request: Request) => Promise<Response>) | undefined;
  readonly limits: { readonly requestsPerMinute: number; readonly openCallsPerKey: number };
  readonly pseudonymOf: (accountId: string) => string;
  readonly isClaimed: (accountId: string) => Promise<boolean>;
  readonly nobodySignsIn: boolean;
  readonly freezeOf?: NonNullable<InferParts["freezeOf"]>;
  readonly ownKeyOf: OwnKeyOf;
  readonly stateOf?: NonNullable<InferParts["stateOf"]>;
  readonly onSettled?: InferParts["onSettled"];
}

export interface Inference {
  readonly parts: InferParts;
  readonly available: (providerId: string) => boolean;
  readonly health: (model: Model, now: number) => ReturnType<typeof healthOf>;
  /** How many circuits calls are kept away from. */
  readonly openCircuits: () => number;
  readonly idle: () => Promise<void>;
  /** Waits for no provider any more whose caller has left: what is known by then is charged. */
  readonly hurry: () => void;
}

const BURST_SECONDS = 10;

export function createInference(parts: InferenceParts): Inference {
  const accounts = createAccounts({
    ...parts,
    operatorProviders: () => parts.catalog.current().providers,
  });
  const open = createOpenCount();
  const hurry = createStop();
  const breaker = createBreaker();
  const routing = createRouting(breaker);
  const { requestsPerMinute, openCallsPerKey } = parts.limits;
  const inferParts: InferParts = {
    ...parts,
    providerOf: accounts.placeOf,
    wayTo: createWays(accounts.placeOf),
    breaker,
    routing,
    ticker: createTicker(parts.now),
    pace:
      requestsPerMinute === 0
        ? undefined
        : {
            intervalMs: Math.ceil(60_000 / requestsPerMinute),
            burst: Math.max(1, Math.floor((requestsPerMinute * BURST_SECONDS) / 60)),
          },
    openCallsMax: openCallsPerKey === 0 ? undefined : openCallsPerKey,
    errorBody: (api, fault, requestId) =>
      errorBody(fault, {
        dialect: api === "messages" ? "messages" : "openai",
        requestId,
        baseUrl: "",
        keySent: true,
      }),
    onOpen: open.enter,
    hurried: hurry.signal,
  };
  return {
    parts: inferParts,
    available: accounts.available,
    health: (model, now) => healthOf(routing, model, now),
    openCircuits: () => breaker.open(parts.now()),
    idle: open.idle,
    hurry: hurry.abort,
  };
}

// Counts calls from their hold to their settle.
function createOpenCount(): {
  readonly enter: () => () => void;
  readonly idle: () => Promise<void>;
} {
  let count = 0;
  let waiting: (() => void)[] = [];
  const leave = (): void => {
    count -= 1;
    if (count > 0) return;
    for (const resolve of waiting) resolve();
    waiting = [];
  };
  return {
    enter: () => {
      count += 1;
      let left = false;
      return () => {
        if (!left) leave();
        left = true;
      };
    },
    idle: () => (count === 0 ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve))),
  };
}
