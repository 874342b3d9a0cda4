// Authenticates a request by API key or session cookie, and applies the rate limit of the key.

import { Fault } from "../../base/fault.ts";
import type { RequestContext, RequestHandlerDeps } from "../request-context.ts";
import { readApiKey } from "../request/api-key-header.ts";
import type { AuthenticatedKey, Caller, Route, SessionUser } from "../route.ts";
import { LIMITED_KEY_SCOPES, SCOPES } from "../scopes.ts";

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
  const key = authenticateKey(deps, context, route);
  // Most keys are cached, and a promise costs CPU.
  return key instanceof Promise
    ? key.then((found) => enforceRateLimit(deps, context, route, found))
    : enforceRateLimit(deps, context, route, key);
}

function authenticateKey(
  deps: RequestHandlerDeps,
  context: RequestContext,
  route: Route,
): ReturnType<RequestHandlerDeps["authenticate"]> {
  const raw = readApiKey(context.request.headers, route.dialect);
  context.isKeySent = raw !== undefined;
  if (raw === undefined)
    throw new Fault("invalid_api_key", "no key", {
      message: "The API key is missing. Send it as `authorization: Bearer <API_KEY>`.",
    });
  return deps.authenticate(raw, context.now, route.recheckedByHold === true);
}

function enforceRateLimit(
  deps: RequestHandlerDeps,
  context: RequestContext,
  route: Route,
  caller: AuthenticatedKey | undefined,
): Caller {
  if (caller === undefined) throw new Fault("invalid_api_key", "unknown, expired or revoked key");
  const waitMs = rateLimitWaitMs(deps, context, route, caller.keyId);
  if (waitMs > 0)
    throw new Fault("rate_limited", "key above its request rate", {
      retryAfterSeconds: waitMs / 1_000,
    });
  requireScope(route, caller);
  return caller;
}

/** Throws `forbidden` if the key does not have the scope of the route. */
export function requireScope({ scope }: Route, { accountId, granted }: AuthenticatedKey): void {
  if (scope === undefined || granted.has(scope)) return;
  throw new Fault("forbidden", `key without ${scope}`, {
    message: `This key does not have the scope \`${scope}\` (${SCOPES[scope]})${LIMITED_KEY_SCOPES.includes(scope) ? "" : ", which no key with a spending limit has"}. Use another key of the account, or ask the owner of the account to change this one.`,
    fields: { required_scope: scope },
    headers: { "www-authenticate": `Bearer error="insufficient_scope", scope="${scope}"` },
    next: [
      {
        method: "GET",
        url: `/console/${accountId}/keys`,
        why: "Console page where the owner of the account changes the scopes and limits of its keys.",
      },
    ],
  });
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
