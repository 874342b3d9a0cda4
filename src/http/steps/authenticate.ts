// Authenticates a request by API key, and checks what the key may do.

import { Fault, KEYS_PAGE_STEP, type NextStep, READ_OWN_KEY_STEP } from "../../base/fault.ts";
import type { EndedKey, RequestContext, Step } from "../request-context.ts";
import { hasMisplacedKey, missingKeyFault, readApiKey } from "../request/api-key-header.ts";
import type { BodyHash } from "../request/body-hash.ts";
import { networksOf } from "../request/client-ip.ts";
import type { AuthenticatedKey, Route } from "../route.ts";
import { isScopeOfLimitedKeys, SCOPES } from "../scopes.ts";
import type { ClientIpOf } from "./receive-body.ts";

export interface KeyRejection {
  /** A sentence. */
  readonly reason: string;
  /** False for what never was a key of this gateway. */
  readonly wasLive: boolean;
  /** The key, if it is known. */
  readonly key?: EndedKey;
}

/** A request as it was signed. */
export interface SignedRequest {
  readonly method: string;
  readonly path: string;
  /** Without its question mark. */
  readonly query: string;
  readonly headers: Headers;
}

/** The key of a signed request, and the digest that its body must have; undefined if none was signed. */
export interface SignedCaller {
  readonly key: AuthenticatedKey;
  readonly contentDigest: string | undefined;
}

/** Keys from the cache may be some seconds old. */
type KeySource = "cache" | "store";

export interface KeyDeps {
  /** Finds the account, the id and the scopes of a raw key. */
  readonly find: (
    rawKey: string,
    now: number,
    source: KeySource,
  ) => AuthenticatedKey | undefined | Promise<AuthenticatedKey | undefined>;
  /** Why a key that was not found is rejected; undefined if it is live. */
  readonly explainRejected?: (rawKey: string, now: number) => Promise<KeyRejection | undefined>;
  readonly signedRequests?: SignedRequestDeps | undefined;
}

export interface SignedRequestDeps {
  /** Finds the key of a request that is signed instead of sending one; undefined if it is not signed. */
  readonly findCaller: (
    request: SignedRequest,
    now: number,
    source: KeySource,
  ) => Promise<SignedCaller | undefined>;
  /** Throws unless the body has the digest that was signed. */
  readonly requireContentDigest: (digest: string | undefined, body: BodyHash) => void;
}

export function authenticateKey(deps: KeyDeps, source: KeySource, clientIpOf?: ClientIpOf): Step {
  const { find, explainRejected, signedRequests } = deps;
  return (context, route) => {
    const { request, query, peer, now } = context;
    const raw = readApiKey({ headers: request.headers, query }, route.dialect);
    if (raw === undefined && peer.sessionKey !== undefined) {
      context.caller = { key: peer.sessionKey };
      return undefined;
    }
    if (raw === undefined && signedRequests !== undefined && request.headers.has("signature-input"))
      return authenticateSigned(context, route, { signedRequests, source });
    if (raw === undefined) {
      if (
        clientIpOf === undefined ||
        route.acceptsWallets !== true ||
        hasMisplacedKey(request.headers)
      )
        throw missingKeyFault(request.headers, route.dialect);
      const clientIp = clientIpOf(peer.address(), request.headers.get("x-forwarded-for"));
      context.caller = { key: keyOfNetwork(clientIp) };
      return undefined;
    }
    const found = find(raw, now, source);
    // The keys of most calls are cached, and need no promise.
    if (found === undefined || found instanceof Promise)
      return waitForKey(context, found, async () => {
        const rejection = await explainRejected?.(raw, now);
        context.caller = { endedKey: rejection?.key };
        return rejectionFault(rejection);
      });
    context.caller = { key: found };
    return undefined;
  };
}

/** A caller without a key has the limits of a key, counted for its network. */
function keyOfNetwork(clientIp: string): AuthenticatedKey {
  const [keyId, accountId] = networksOf(clientIp);
  return { keyId, accountId, granted: new Set(["models:write"]), isAnonymous: true };
}

interface SignedAccess {
  readonly signedRequests: SignedRequestDeps;
  readonly source: KeySource;
}

async function authenticateSigned(
  context: RequestContext,
  { dialect }: Route,
  { signedRequests: { findCaller, requireContentDigest }, source }: SignedAccess,
): Promise<undefined> {
  const { request, path, query, now } = context;
  const { method, headers } = request;
  const caller = await findCaller({ method, path, query, headers }, now, source);
  if (caller === undefined) throw missingKeyFault(headers, dialect);
  context.caller = {
    key: caller.key,
    checkBody: (body) => requireContentDigest(caller.contentDigest, body),
  };
  return undefined;
}

async function waitForKey(
  context: RequestContext,
  found: Promise<AuthenticatedKey | undefined> | undefined,
  rejectedFault: () => Promise<Fault>,
): Promise<undefined> {
  const key = await found;
  if (key === undefined) throw await rejectedFault();
  context.caller = { key };
  return undefined;
}

/** The 401 of a key that does not work, which names the reason if it is known. */
export async function rejectedKeyFault(
  explain: KeyDeps["explainRejected"],
  raw: string,
  now: number,
  headers: Readonly<Record<string, string>> = {},
): Promise<Fault> {
  return rejectionFault(await explain?.(raw, now), headers);
}

function rejectionFault(
  rejection: KeyRejection | undefined,
  headers: Readonly<Record<string, string>> = {},
): Fault {
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

export const checkScope: Step = ({ caller: { key } }, route) => {
  if (key !== undefined) requireScope(route, key);
  return undefined;
};

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
