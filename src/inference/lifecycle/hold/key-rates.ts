// The request rates of keys. A key with a rate of its own is told in every reply what it may send, and what is left of its
// burst as this process last saw it: calls that another process counted are not in it until the next call here.

import { MINUTE_MS } from "../../../base/time.ts";
import type { KeyPolicy } from "../../../http/key-policy.ts";
import { rateLimitHeaders } from "../../../http/rate-limit-headers.ts";
import type { Caller } from "../../../http/route.ts";
import type { KeyRateLimit } from "../../../ledger/rate-limit-rules.ts";

/** The burst is ten seconds' worth of calls. */
const BURSTS_PER_MINUTE = 6;
/** Keys whose burst is remembered. */
const STATES_MAX = 10_000;

export interface KeyRates {
  readonly limitOf: (policy: KeyPolicy | undefined) => KeyRateLimit | undefined;
  /** Keeps when the whole burst of a key can be sent again. */
  readonly record: (keyId: string, fullAt: number) => void;
  /** Undefined for a key without a rate of its own. */
  readonly headersOf: (
    key: Pick<Caller, "keyId" | "policy">,
    now: number,
  ) => Readonly<Record<string, string>> | undefined;
}

/** `perMinute` is the gateway's own rate, of every key, as of each call; 0 for none. */
export function createKeyRates(perMinute: () => number): KeyRates {
  const fullAtOf = new Map<string, number>();
  const limitOf = (policy: KeyPolicy | undefined): KeyRateLimit | undefined => {
    const ownRate = perMinute();
    const own = ownRate === 0 ? undefined : limitFor(ownRate);
    const { requestsPerMinute } = policy ?? {};
    if (requestsPerMinute === undefined) return own;
    const limit = limitFor(requestsPerMinute);
    return own !== undefined && own.intervalMs >= limit.intervalMs
      ? own
      : { ...limit, isTold: true };
  };
  return {
    limitOf,
    record: (keyId, fullAt) => {
      const [oldest] = fullAtOf.size >= STATES_MAX ? fullAtOf.keys() : [];
      if (oldest !== undefined) fullAtOf.delete(oldest);
      fullAtOf.delete(keyId);
      fullAtOf.set(keyId, fullAt);
    },
    headersOf: ({ keyId, policy }, now) => {
      if (policy?.requestsPerMinute === undefined) return undefined;
      const limit = limitOf(policy);
      if (limit?.isTold !== true) return undefined;
      return rateLimitHeaders({ ...limit, fullAt: fullAtOf.get(keyId) ?? now }, now);
    },
  };
}

function limitFor(perMinute: number): KeyRateLimit {
  return {
    intervalMs: Math.ceil(MINUTE_MS / perMinute),
    burst: Math.max(1, Math.floor(perMinute / BURSTS_PER_MINUTE)),
  };
}
