// Handles every HTTP request: match the route, authenticate, rate-limit, read and validate the body, run, respond.
// Capabilities (key lookup, idempotency, sessions) are injected.

import type { z } from "zod";
import { Fault } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { compressResponse } from "./compress.ts";
import { dialectOf } from "./dialect.ts";
import { createFailureLog } from "./failure-log.ts";
import { authenticateRequest } from "./guards/authenticate.ts";
import { isForeignOrigin, removeCorsHeaders } from "./guards/dev-cors.ts";
import { redirectToSignIn, requireSameOriginForm, sessionEnded } from "./guards/session-guard.ts";
import { methodFault, notFoundFault } from "./nearest-endpoint.ts";
import { sessionEndedPage } from "./pages/session-ended-page.tsx";
import type { Peer, RequestContext, RequestHandlerDeps } from "./request-context.ts";
import { decodeForm } from "./request/body-decoder.ts";
import { type BodyQuota, type BodyQuotaCaller, createBodyQuota } from "./request/body-quota.ts";
import { BODY_LIMIT_DEFAULT_BYTES, decodeUtf8, readBody } from "./request/body.ts";
import { networksOf } from "./request/client-ip.ts";
import { parseBody } from "./request/parse-body.ts";
import { parseQuery, splitTarget, validateTarget } from "./request/request-target.ts";
import { createUploadLimit, type UploadLimit } from "./request/upload-limit.ts";
import { type InputLocation, parseWithSchema } from "./request/validate.ts";
import {
  CORS_HEADERS,
  faultResponse,
  hasCommonHeaders,
  jsonResponse,
  preflightResponse,
  toFault,
} from "./response.ts";
import { type AnyRouteInput, docsPathOf, type ErrorDialect, type Route } from "./route.ts";
import { createRouter, type RouteMatch } from "./router.ts";
import { runWrite } from "./run-write.ts";
import { SWITCHING_PROTOCOLS } from "./web-socket.ts";

const DRAINING_RETRY_SECONDS = 2;

/** Returns a function from request to response that never throws. */
export function createRequestHandler(
  deps: RequestHandlerDeps,
): (request: Request, peer: Peer) => Promise<Response> {
  const match = createRouter(deps.routes);
  const { bodyQuota = createBodyQuota(), uploadLimit = createUploadLimit() } = deps;
  const handler: HandlerContext = { deps, match, bodyQuota, uploadLimit };
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
      isKeySent: false,
      route: undefined,
      holdCountedKeyId: undefined,
      leaveOpenCalls: undefined,
      isAdmitted: false,
      quotaBytes: 0,
      quotaCaller: undefined,
    };
    let response: Response;
    try {
      response = await handleRequest(handler, context);
    } catch (error) {
      const fault = toFault(error);
      logFault(deps, context, { fault, logFailure });
      response = respondWithFault(deps, context, fault);
    }
    releaseRequest(handler, context);
    if (response.status >= 400 && context.holdCountedKeyId !== undefined)
      deps.refusalLimiter?.count(context.holdCountedKeyId, deps.now());
    // Model calls set these headers when they create the response: adding them here costs more than routing.
    if (!hasCommonHeaders(response)) setCommonHeaders(response.headers, context);
    const isScarce =
      deps.descriptors?.isScarce(now) === true && response.status !== SWITCHING_PROTOCOLS;
    if (isScarce || deps.isLeaving?.() === true) response.headers.set("connection", "close");
    if (deps.blocksForeignOrigins === true && isForeignOrigin(request.headers))
      removeCorsHeaders(response.headers);
    // Model calls are POST requests: they are never buffered.
    if (request.method === "GET" || request.method === "HEAD")
      response = await compressResponse(request, response);
    deps.onResponse?.(context.route, response.status, deps.now() - now);
    return response;
  };
}

/** Stops counting the request against the limits of open requests and of bytes. */
function releaseRequest(
  { deps, bodyQuota }: Pick<HandlerContext, "deps" | "bodyQuota">,
  { leaveOpenCalls, isAdmitted, quotaCaller, quotaBytes }: RequestContext,
): void {
  leaveOpenCalls?.();
  if (isAdmitted) deps.overload?.finish();
  if (quotaCaller !== undefined) bodyQuota.release(quotaCaller, quotaBytes);
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
    method: context.request.method,
    path: loggedPath(context),
    code: fault.code,
    detail: fault.message,
  };
  if (fault.status >= 500 && fault.options.isCallerError !== true)
    logFailure({ ...fields, cause: fault.options.cause }, performance.now());
  else deps.log.debug("request rejected", fields);
}

/** A longer part of a path that has no route may be a token. */
const LOGGED_PART_MAX_LENGTH = 20;

/** The path of the route, because some paths contain a secret, such as the token of an invoice. */
function loggedPath({ route, path }: RequestContext): string {
  if (route !== undefined) return route.path;
  const parts = path.split("/");
  return parts.map((part) => (part.length > LOGGED_PART_MAX_LENGTH ? "…" : part)).join("/");
}

function respondWithFault(
  deps: RequestHandlerDeps,
  context: RequestContext,
  fault: Fault,
): Response {
  const dialect = errorDialectOf(context);
  const { requestId, isKeySent, route } = context;
  const docsPath = route && docsPathOf(route);
  if (dialect === "page" && deps.faultPage !== undefined) return deps.faultPage(fault, requestId);
  return faultResponse(fault, { dialect, requestId, baseUrl: deps.baseUrl, isKeySent, docsPath });
}

function errorDialectOf({ route, path, request }: RequestContext): ErrorDialect {
  return route?.dialect ?? dialectOf(path, request.headers);
}

interface HandlerContext {
  readonly deps: RequestHandlerDeps;
  readonly match: (method: string, path: string) => RouteMatch;
  readonly bodyQuota: BodyQuota;
  readonly uploadLimit: UploadLimit;
}

async function handleRequest(handler: HandlerContext, context: RequestContext): Promise<Response> {
  const { deps } = handler;
  const { request, path } = context;
  validateTarget(request, path, context.query);
  if (request.method === "OPTIONS" && path.startsWith("/v1/")) return preflightResponse(request);
  const found = requireRoute(handler, context);
  const { route } = found;
  context.route = route;
  if (deps.isDraining() && route.tag !== "Operations")
    throw new Fault("overloaded", "draining", { retryAfterSeconds: DRAINING_RETRY_SECONDS });
  if (route.recheckedByHold === true || route.isLongRunning === true)
    context.peer.disableIdleTimeout();
  const authenticated = authenticateRequest(deps, context, route);
  const caller = authenticated instanceof Promise ? await authenticated : authenticated;
  if (route.auth === "session" && caller === undefined) {
    // The `form-action` policy of our pages blocks redirecting a form to the identity provider.
    if (route.method !== "GET") return await keepSentForm(handler, context, route);
    return redirectToSignIn(path, context.query);
  }
  let bodyText = "";
  if (route.method !== "GET") {
    bodyText = decodeUtf8(await receiveBody(handler, context, route, caller));
    enterOpenCalls(deps, context);
  }
  const input = parseInput(deps, context, found, { caller, bodyText });
  if (route.write !== undefined) return await runWrite(deps, context, route, input);
  const result = await route.read?.(input);
  if (result === undefined) throw new Error(`route ${route.id} has no handler`);
  return result instanceof Response ? result : jsonResponse(result);
}

/** Keeps a form that was sent without a session, so that the person does not have to fill it in again. */
async function keepSentForm(
  handler: HandlerContext,
  context: RequestContext,
  route: Route,
): Promise<Response> {
  const { deps } = handler;
  const { request, path } = context;
  if (deps.keepForm === undefined) throw sessionEnded();
  const bodyText = decodeUtf8(await receiveBody(handler, context, route, undefined));
  const { headers } = request;
  const form = decodeForm(request, bodyText);
  const fields = requireSameOriginForm(form, headers, undefined, deps.baseUrl);
  return sessionEndedPage(path, deps.keepForm({ path, fields }, deps.now()));
}

// Not `async`, as every call reads a body.
function receiveBody(
  handler: HandlerContext,
  context: RequestContext,
  route: Route,
  caller: AnyRouteInput["caller"],
): Promise<Uint8Array> {
  const { deps } = handler;
  const { holdCountedKeyId: keyId } = context;
  if (keyId === undefined || caller === undefined || !("keyId" in caller))
    return receiveAdmittedBody(handler, context, route, caller);
  deps.openCalls?.rejectIfFull(keyId);
  const admission = deps.overload?.admit(caller.accountId);
  if (admission === undefined) {
    context.isAdmitted = true;
    return receiveAdmittedBody(handler, context, route, caller);
  }
  // Read before the wait: a signal that is created after the client has disconnected may never abort.
  const { signal } = context.request;
  return admission.then(() => {
    context.isAdmitted = true;
    if (signal.aborted) throw clientLeftFault();
    return receiveAdmittedBody(handler, context, route, caller);
  });
}

/** This error is never sent, because the client has disconnected. */
function clientLeftFault(): Fault {
  return new Fault("request_timeout", "the client left while its call was queued");
}

function receiveAdmittedBody(
  { deps, bodyQuota, uploadLimit }: HandlerContext,
  context: RequestContext,
  route: Route,
  caller: AnyRouteInput["caller"],
): Promise<Uint8Array> {
  const quotaCaller = bodyQuotaCaller(deps, context, caller);
  return readBody(context.request, {
    limitBytes: route.bodyLimitBytes ?? BODY_LIMIT_DEFAULT_BYTES,
    isAnonymous: caller === undefined,
    timeouts: deps.bodyTimeouts,
    onStart: () => uploadLimit.begin(quotaCaller),
    onEnd: () => uploadLimit.end(quotaCaller),
    onGrowth: (bytes) => {
      bodyQuota.acquire(quotaCaller, bytes - context.quotaBytes);
      context.quotaCaller = quotaCaller;
      context.quotaBytes = bytes;
    },
  });
}

function enterOpenCalls({ openCalls }: RequestHandlerDeps, context: RequestContext): void {
  const { holdCountedKeyId: keyId } = context;
  if (keyId !== undefined) context.leaveOpenCalls = openCalls?.enter(keyId);
}

function bodyQuotaCaller(
  deps: RequestHandlerDeps,
  { request, peer }: RequestContext,
  caller: AnyRouteInput["caller"],
): BodyQuotaCaller {
  if (caller !== undefined && "keyId" in caller)
    return { id: caller.keyId, groupId: caller.accountId, kind: "key" };
  const clientIp = deps.clientIpOf(peer.address(), request.headers.get("x-forwarded-for"));
  const [id, groupId] = networksOf(clientIp);
  return { id, groupId, kind: "network" };
}

function requireRoute(
  handler: HandlerContext,
  context: RequestContext,
): RouteMatch & { kind: "route" } {
  const found = handler.match(context.request.method, context.path);
  if (found.kind === "route") return found;
  throw routeFault(handler, context, found);
}

function routeFault(
  { deps, match }: HandlerContext,
  { request, path }: RequestContext,
  found: Exclude<RouteMatch, { kind: "route" }>,
): Fault {
  const unsupported = (one: string): Fault | undefined => deps.unsupportedEndpointFault?.(one);
  const fault = unsupported(path);
  if (fault !== undefined) return fault;
  if (found.kind === "none")
    return notFoundFault(request.method, path, { routes: deps.routes, match, unsupported });
  const allow = found.allow.join(", ");
  // Codex continues over HTTP only after this status; after any other it repeats the upgrade.
  if (request.headers.get("upgrade")?.toLowerCase() === "websocket")
    return new Fault("method_not_allowed", "WebSockets are not supported", {
      status: 426,
      message: `This endpoint does not accept WebSockets. Send ${allow} requests over HTTP.`,
      headers: { allow, upgrade: "HTTP/1.1" },
    });
  const [other = ""] = found.allow;
  const documented = match(other, path);
  return methodFault(
    request.method,
    path,
    found.allow,
    documented.kind === "route" ? docsPathOf(documented.route) : undefined,
  );
}

function parseInput(
  deps: RequestHandlerDeps,
  context: RequestContext,
  found: RouteMatch & { kind: "route" },
  { caller, bodyText }: Pick<AnyRouteInput, "caller" | "bodyText">,
): AnyRouteInput {
  const { request, requestId, now } = context;
  const { route } = found;
  return {
    params: parseOptional(route.params, found.params, "path"),
    query:
      route.query === undefined && context.query === ""
        ? undefined
        : parseOptional(route.query, parseQuery(context.query), "query"),
    body: parseOptional(
      route.rawBody === true ? undefined : route.body,
      parseBody(request, route, { bodyText, caller, baseUrl: deps.baseUrl }),
      "body",
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
    acceptWebSocket: context.peer.acceptWebSocket,
  };
}

function parseOptional(
  schema: z.ZodType | undefined,
  value: unknown,
  location: InputLocation,
): unknown {
  return schema === undefined ? undefined : parseWithSchema(schema, value, location);
}

/** RFC 6749 §5.1 requires both headers. */
function disableCaching(headers: Headers): void {
  headers.set("cache-control", "no-store");
  headers.set("pragma", "no-cache");
}

function setCommonHeaders(headers: Headers, context: RequestContext): void {
  const { requestId, path, route } = context;
  const dialect = errorDialectOf(context);
  headers.set("x-request-id", requestId);
  // Anthropic's SDKs read the id from this header.
  if (dialect === "messages") headers.set("request-id", requestId);
  // Shared caches skip responses to requests with `authorization`, but not with `x-api-key`.
  const needsNoStore = route?.auth === "key" && !headers.has("cache-control");
  if (needsNoStore) headers.set("cache-control", "no-store");
  if (path.startsWith("/v1/"))
    for (const [name, value] of Object.entries(CORS_HEADERS)) headers.set(name, value);
  if (dialect === "oauth") disableCaching(headers);
}
