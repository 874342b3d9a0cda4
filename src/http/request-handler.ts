// Handles every HTTP request: match the route, authenticate, rate-limit, read and validate the body, run, respond.
// Capabilities (key lookup, idempotency, sessions) are injected.

import { Fault } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import type { Log } from "../base/log.ts";
import type { Db, Reader, Tx } from "../store/db.ts";
import {
  faultResponse,
  jsonResponse,
  preflightResponse,
  type ErrorContext,
  CORS_HEADERS,
  toFault,
} from "./response.ts";
import {
  BODY_LIMIT_DEFAULT_BYTES,
  type BodyTimeouts,
  readBody,
  decodeUtf8,
} from "./request/body.ts";
import { type BodyQuota, createBodyQuota, QUOTA_EXEMPT_BYTES } from "./request/body-quota.ts";
import { createFailureLog } from "./failure-log.ts";
import { parseWithSchema } from "./request/body-decoder.ts";
import { dialectOf } from "./dialect.ts";
import { removeCorsHeaders, isForeignOrigin } from "./guards/dev-cors.ts";
import { type IdempotentCall, idempotentCallOf } from "./request/idempotent-call.ts";
import { createRouter, type RouteMatch } from "./router.ts";
import type { RateLimiter } from "./guards/rate-limiter.ts";
import { readApiKey } from "./request/api-key-header.ts";
import type { RouteResponse, Caller, Dialect, Route, SessionUser } from "./route.ts";
import { parseBody } from "./request/parse-body.ts";
import { validateTarget, parseQuery, splitTarget } from "./request/request-target.ts";
import { sessionEnded, redirectToSignIn } from "./guards/session-guard.ts";

export interface RequestHandlerDeps {
  readonly routes: readonly Route[];
  readonly db: Db;
  readonly baseUrl: string;
  readonly log: Log;
  readonly now: () => number;
  /** Finds who a raw key belongs to; `cached` may be some seconds old and is asked for where the hold checks again. */
  readonly authenticate: (
    rawKey: string,
    now: number,
    cached: boolean,
  ) => Caller | undefined | Promise<Caller | undefined>;
  /** Whether a key that was found when the request began still works; asked inside the transaction of a write. */
  readonly isKeyActive?: (reader: Reader, keyId: string, now: number) => Promise<boolean>;
  /** Finds who is signed in by the request's cookies; absent where nobody can sign in. */
  readonly findSessionUser?: (
    cookies: string | null,
    now: number,
  ) => Promise<SessionUser | undefined>;
  /** Shows a fault to a human; absent for a line of text. */
  readonly faultPage?: (fault: Fault, requestId: string) => Response;
  readonly beginIdempotent: (
    tx: Tx,
    call: IdempotentCall,
  ) => Promise<{ readonly status: number; readonly body: string } | undefined>;
  readonly finishIdempotent: (
    tx: Tx,
    call: IdempotentCall,
    response: { readonly status: number; readonly body: string },
  ) => Promise<void>;
  readonly rateLimiter: RateLimiter | undefined;
  /** Counts what is refused of the calls that their hold counts otherwise. */
  readonly refusalLimiter?: RateLimiter | undefined;
  readonly clientIpOf: (peer: string, forwarded: string | null) => string;
  readonly isDraining: () => boolean;
  /** What to say of an address that has no route for the request, where there is more to say than that. */
  readonly unsupportedEndpointFault?: (path: string) => Fault | undefined;
  /** In development: pages of other machines are told nothing. */
  readonly blocksForeignOrigins?: boolean;
  /** Smaller shares for tests. */
  readonly bodyQuota?: BodyQuota | undefined;
  /** Shorter waits for tests. */
  readonly bodyTimeouts?: BodyTimeouts | undefined;
  readonly onResponse?: (route: Route | undefined, status: number, ms: number) => void;
}

/** The connection that a request came by. */
export interface Peer {
  readonly address: () => string;
  /** Lets the connection be silent for as long as the call takes. */
  readonly disableIdleTimeout: () => void;
}

const DRAINING_RETRY_SECONDS = 2;

interface RequestContext {
  readonly request: Request;
  readonly path: string;
  readonly query: string;
  readonly peer: Peer;
  readonly requestId: string;
  readonly now: number;
  dialect: Dialect;
  isKeySent: boolean;
  route: Route | undefined;
  /** The key of a call that its hold counts: where it is refused, it is counted here. */
  holdCountedKeyId: string | undefined;
  /** How much of a large body is counted as in memory, and as whose. */
  quotaBytes: number;
  quotaOwner: string;
}

/** The whole service as one function from a request to its answer; it never throws. */
export function createRequestHandler(
  deps: RequestHandlerDeps,
): (request: Request, peer: Peer) => Promise<Response> {
  const match = createRouter(deps.routes);
  const { bodyQuota = createBodyQuota() } = deps;
  const logFailure = createFailureLog(deps.log);
  return async (request, peer) => {
    const now = deps.now();
    const [path, query] = splitTarget(request.url);
    const context: RequestContext = {
      request,
      path,
      query,
      peer,
      requestId: newId("req", now),
      now,
      dialect: dialectOf(path, request.headers),
      isKeySent: false,
      route: undefined,
      holdCountedKeyId: undefined,
      quotaBytes: 0,
      quotaOwner: "",
    };
    let response: Response;
    try {
      response = await handleRequest({ deps, match, bodyQuota }, context);
    } catch (error) {
      const fault = toFault(error);
      logFault(deps, context, { fault, logFailure });
      response = respondWithFault(deps, context, fault);
    }
    if (context.quotaBytes > 0) bodyQuota.release(context.quotaOwner, context.quotaBytes);
    if (response.status >= 400 && context.holdCountedKeyId !== undefined)
      deps.refusalLimiter?.count(context.holdCountedKeyId, deps.now());
    // A model call's answer is born with its headers: adding them one by one costs more than its routing.
    if (!response.headers.has("x-request-id")) setCommonHeaders(response.headers, context);
    if (deps.blocksForeignOrigins === true && isForeignOrigin(request.headers))
      removeCorsHeaders(response.headers);
    deps.onResponse?.(context.route, response.status, deps.now() - now);
    return response;
  };
}

interface FaultLogEntry {
  readonly fault: Fault;
  readonly logFailure: ReturnType<typeof createFailureLog>;
}

function logFault(
  deps: RequestHandlerDeps,
  context: RequestContext,
  { fault, logFailure }: FaultLogEntry,
): void {
  const fields = {
    request_id: context.requestId,
    path: context.path,
    code: fault.code,
    detail: fault.message,
  };
  if (fault.status >= 500 && fault.options.isCallerError !== true)
    logFailure({ ...fields, cause: fault.options.cause }, performance.now());
  else deps.log.debug("request refused", fields);
}

function respondWithFault(
  deps: RequestHandlerDeps,
  context: RequestContext,
  fault: Fault,
): Response {
  if (context.dialect === "page" && deps.faultPage !== undefined)
    return deps.faultPage(fault, context.requestId);
  const errorContext: ErrorContext = {
    dialect: context.dialect,
    requestId: context.requestId,
    baseUrl: deps.baseUrl,
    isKeySent: context.isKeySent,
  };
  return faultResponse(fault, errorContext);
}

interface HandlerContext {
  readonly deps: RequestHandlerDeps;
  readonly match: (method: string, path: string) => RouteMatch;
  readonly bodyQuota: BodyQuota;
}

async function handleRequest(
  { deps, match, bodyQuota }: HandlerContext,
  context: RequestContext,
): Promise<Response> {
  const { request, path } = context;
  validateTarget(request, path, context.query);
  if (request.method === "OPTIONS" && path.startsWith("/v1/")) return preflightResponse(request);
  const found = requireRoute(match(request.method, path), () =>
    deps.unsupportedEndpointFault?.(path),
  );
  const { route } = found;
  context.route = route;
  context.dialect = route.dialect;
  if (deps.isDraining() && route.tag !== "Operations")
    throw new Fault("overloaded", "draining", { retryAfterSeconds: DRAINING_RETRY_SECONDS });
  if (route.recheckedByHold === true) context.peer.disableIdleTimeout();
  const caller =
    route.auth === "key"
      ? enforceRateLimit(deps, context, route, await authenticateCaller(deps, context, route))
      : await findSessionUser(deps, context, route);
  if (route.auth === "person" && caller === undefined) {
    // The page's `form-action` policy forbids a redirect of a form to the identity provider: the browser would show nothing.
    if (route.method !== "GET") throw sessionEnded();
    return redirectToSignIn(path, context.query);
  }
  const limitBytes = route.bodyLimitBytes ?? BODY_LIMIT_DEFAULT_BYTES;
  const onGrowth = (bytes: number): void => acquireBodyQuota(bodyQuota, context, caller, bytes);
  const bodyText =
    route.method === "GET"
      ? ""
      : decodeUtf8(await readBody(request, limitBytes, deps.bodyTimeouts, onGrowth));
  const input = parseInput(deps, context, found, { caller, bodyText });
  if (route.write !== undefined) return await runWrite(deps, context, route, input);
  const result = await route.read?.(input);
  if (result === undefined) throw new Error(`route ${route.id} has nothing to run`);
  return result instanceof Response ? result : jsonResponse(result);
}

function acquireBodyQuota(
  bodyQuota: BodyQuota,
  context: RequestContext,
  caller: AnyRouteInput["caller"],
  bytes: number,
): void {
  if (bytes <= QUOTA_EXEMPT_BYTES) return;
  context.quotaOwner = caller !== undefined && "accountId" in caller ? caller.accountId : "";
  bodyQuota.acquire(context.quotaOwner, bytes - context.quotaBytes);
  context.quotaBytes = bytes;
}

function requireRoute(
  found: RouteMatch,
  unsupportedEndpointFault: () => Fault | undefined,
): RouteMatch & { kind: "route" } {
  if (found.kind === "route") return found;
  const fault = unsupportedEndpointFault();
  if (fault !== undefined) throw fault;
  if (found.kind === "none") throw new Fault("not_found", "no route");
  throw new Fault("method_not_allowed", "no such method here", {
    headers: { allow: found.allow.join(", ") },
  });
}

async function findSessionUser(
  deps: RequestHandlerDeps,
  context: RequestContext,
  route: Route,
): Promise<SessionUser | undefined> {
  if (route.auth === "none") return undefined;
  return await deps.findSessionUser?.(context.request.headers.get("cookie"), context.now);
}

type AnyRouteInput = Parameters<NonNullable<Route["read"]>>[0];

function parseInput(
  deps: RequestHandlerDeps,
  context: RequestContext,
  found: RouteMatch & { kind: "route" },
  { caller, bodyText }: Pick<AnyRouteInput, "caller" | "bodyText">,
): AnyRouteInput {
  const { request, requestId, now } = context;
  const { route } = found;
  return {
    params: parseWithSchema(route.params, found.params, ""),
    query:
      route.query === undefined && context.query === ""
        ? undefined
        : parseWithSchema(route.query, parseQuery(context.query), "query "),
    body: parseWithSchema(
      route.rawBody === true ? undefined : route.body,
      parseBody(request, route, { bodyText, caller, baseUrl: deps.baseUrl }),
      "",
    ),
    caller,
    now,
    requestId,
    clientIp:
      route.rawBody === true
        ? ""
        : deps.clientIpOf(context.peer.address(), request.headers.get("x-forwarded-for")),
    headers: request.headers,
    request,
    bodyText,
  };
}

function authenticateCaller(
  deps: RequestHandlerDeps,
  context: RequestContext,
  route: Route,
): ReturnType<RequestHandlerDeps["authenticate"]> {
  const raw = readApiKey(context.request.headers, route.dialect);
  context.isKeySent = raw !== undefined;
  if (raw === undefined)
    throw new Fault("invalid_api_key", "no key", {
      message: "No API key was sent. Send it as `authorization: Bearer <API_KEY>`.",
    });
  return deps.authenticate(raw, context.now, route.recheckedByHold === true);
}

function enforceRateLimit(
  deps: RequestHandlerDeps,
  context: RequestContext,
  route: Route,
  caller: Caller | undefined,
): Caller {
  if (caller === undefined) throw new Fault("invalid_api_key", "unknown, expired or revoked key");
  const waitMs = rateLimitWaitMs(deps, context, route, caller.keyId);
  if (waitMs > 0)
    throw new Fault("rate_limited", "key calls too often", { retryAfterSeconds: waitMs / 1_000 });
  return caller;
}

// A model call is counted by its hold, on all processes at once, and here only where it is refused: without that, a key
// that affords nothing could send bodies without end. It is asked before its body is read.
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

async function runWrite(
  deps: RequestHandlerDeps,
  context: RequestContext,
  route: Route,
  input: AnyRouteInput,
): Promise<Response> {
  const { write } = route;
  if (write === undefined) throw new Error("not a write route");
  await route.before?.(input);
  const call = idempotentCallOf(context.path, route, input);
  const result = await deps.db.write(
    async (tx): Promise<{ answer: RouteResponse; replayed: boolean }> => {
      await requireActiveKey(deps, tx, input);
      if (call === undefined) return { answer: await write(tx, input), replayed: false };
      const stored = await deps.beginIdempotent(tx, call);
      if (stored !== undefined)
        return { answer: { status: stored.status, body: JSON.parse(stored.body) }, replayed: true };
      const answer = await write(tx, input);
      const body = JSON.stringify(answer.body);
      await deps.finishIdempotent(tx, call, { status: answer.status, body });
      return { answer, replayed: false };
    },
  );
  const response = jsonResponse(result.answer);
  response.headers.set("cache-control", "no-store");
  if (result.replayed) response.headers.set("idempotent-replayed", "true");
  return response;
}

// The key was looked at before the body was read, which its sender may draw out: it may have been revoked since.
async function requireActiveKey(
  deps: RequestHandlerDeps,
  tx: Tx,
  { caller }: AnyRouteInput,
): Promise<void> {
  if (deps.isKeyActive === undefined || caller === undefined || !("keyId" in caller)) return;
  if (!(await deps.isKeyActive(tx, caller.keyId, deps.now())))
    throw new Fault("invalid_api_key", "the key was revoked or expired while its request came in");
}

/** RFC 6749 §5.1 asks for both headers. */
function disableCaching(headers: Headers): void {
  headers.set("cache-control", "no-store");
  headers.set("pragma", "no-cache");
}

function setCommonHeaders(
  headers: Headers,
  { requestId, path, dialect, route }: RequestContext,
): void {
  headers.set("x-request-id", requestId);
  // Caches keep out of what an `authorization` header asked for, and know nothing of an `x-api-key`.
  const needsNoStore = route?.auth === "key" && !headers.has("cache-control");
  if (needsNoStore) headers.set("cache-control", "no-store");
  if (path.startsWith("/v1/"))
    for (const [name, value] of Object.entries(CORS_HEADERS)) headers.set(name, value);
  if (dialect === "oauth") disableCaching(headers);
}
