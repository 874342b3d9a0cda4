// Authenticates a request by API key or session cookie, and applies the rate limit of the key.

import { Fault, KEYS_PAGE_STEP, type NextStep, READ_OWN_KEY_STEP } from "../../base/fault.ts";
import type { RequestContext, RequestHandlerDeps } from "../request-context.ts";
import { missingKeyFault, readApiKey } from "../request/api-key-header.ts";
import type { AuthenticatedKey, Caller, Route, SessionUser } from "../route.ts";
import { isScopeOfLimitedKeys, SCOPES } from "../scopes.ts";

type Authenticated = Caller | SessionUser | undefined;

/** The API key's account or the session's user; undefined if the route requires neither and none was sent. */
export function authenticateRequest(
  deps: RequestHandlerDeps,
  context: RequestContext,
  route: Route,
): Authenticated | Promise<Authenticated> {
  if (route.auth === "none") return undefined;
  if (route.auth !== "key")
    return deps.findSessionUser?.(context.request.headers.get("cookie"), context.now);
  const raw = readSentKey(context, route);
  const key = deps.authenticate(
    raw,
    context.now,
    route.recheckedByHold === true ? "cache" : "store",
  );
  // The keys of most calls are cached, and need no promise.
  if (key !== undefined && !(key instanceof Promise))
    return enforceRateLimit(deps, context, route, key);
  return Promise.resolve(key).then((found) =>
    found === undefined
      ? rejectKey(deps, raw, context.now)
      : enforceRateLimit(deps, context, route, found),
  );
}

function readSentKey(context: RequestContext, route: Route): string {
  const raw = readApiKey(context.request.headers, route.dialect);
  context.isKeySent = raw !== undefined;
  if (raw !== undefined) return raw;
  throw missingKeyFault(context.request.headers);
}

async function rejectKey(deps: RequestHandlerDeps, raw: string, now: number): Promise<never> {
  throw await rejectedKeyFault(deps.explainRejectedKey, raw, now);
}

/** The 401 of a key that does not work, which names the reason if it is known. */
export async function rejectedKeyFault(
  explain: RequestHandlerDeps["explainRejectedKey"],
  raw: string,
  now: number,
  headers: Readonly<Record<string, string>> = {},
): Promise<Fault> {
  const rejection = await explain?.(raw, now);
  if (rejection === undefined)
    return new Fault("invalid_api_key", "unknown, expired or revoked key", { headers });
  const { reason, wasLive } = rejection;
  const advice = wasLive
    ? "Ask your human, or the program that created it, for another key of the same account."
    : "Use another key, or create an account with POST /v1/accounts.";
  return new Fault("invalid_api_key", "unknown, expired or revoked key", {
    headers,
    message: `${reason} ${advice}`,
    ...(wasLive ? { next: [KEYS_PAGE_STEP] } : {}),
  });
}

function enforceRateLimit(
  deps: RequestHandlerDeps,
  context: RequestContext,
  route: Route,
  caller: AuthenticatedKey,
): Caller {
  const waitMs = rateLimitWaitMs(deps, context, route, caller.keyId);
  if (waitMs > 0)
    throw new Fault("rate_limited", "key above its request rate", {
      retryAfterSeconds: waitMs / 1_000,
    });
  requireScope(route, caller);
  return caller;
}

/** Throws `forbidden` if the key does not have the scope of the route. */
export function requireScope(
  { scope }: Pick<Route, "scope">,
  { accountId, granted, isClaimed = false }: AuthenticatedKey,
): void {
  if (scope === undefined || granted.has(scope)) return;
  const advice = isClaimed
    ? "Use another key of the account, or ask the owner of the account to change this one."
    : "Use another key of the account. No person owns it yet: only its first key can change this one.";
  throw new Fault("forbidden", `key without ${scope}`, {
    message: `This key does not have the scope \`${scope}\` (${SCOPES[scope]})${isScopeOfLimitedKeys(scope) ? "" : ", which no key with a spending limit has"}. ${advice}`,
    fields: { required_scope: scope },
    headers: { "www-authenticate": `Bearer error="insufficient_scope", scope="${scope}"` },
    next: [READ_OWN_KEY_STEP, ...(isClaimed ? [ownerKeysStep(accountId)] : [])],
  });
}

function ownerKeysStep(accountId: string): NextStep {
  return {
    method: "GET",
    url: `/console/${accountId}/keys`,
    why: "Console page where the owner of the account changes the scopes and limits of its keys.",
  };
}

// A model call is counted by its hold, across all processes. Rejected ones are counted here and checked before the body is
// read: otherwise a key without credits could send bodies without limit.
function rateLimitWaitMs(
  deps: RequestHandlerDeps,
  context: RequestContext,
  route: Route,
  keyId: string,
): number {
  if (route.recheckedByHold !== true) return deps.rateLimiter?.take(keyId, context.now) ?? 0;
  const waitMs = deps.refusalLimiter?.waitMs(keyId, context.now) ?? 0;
  if (waitMs === 0) context.holdCountedKeyId = keyId;
  return waitMs;
}
