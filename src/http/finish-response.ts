// The last step of every request: a thrown fault becomes a response, and each response gets the headers that all have.

import { randomBytes, randomInt } from "node:crypto";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { Fault, FaultCode } from "../base/fault.ts";
import type { Log, LogFields } from "../base/log.ts";
import { gzipEtag } from "./etag.ts";
import type { DescriptorGuard } from "./guards/descriptors.ts";
import { isForeignOrigin, removeCorsHeaders } from "./guards/dev-cors.ts";
import { createRateLimiter, type RateLimit } from "./guards/rate-limiter.ts";
import type { RequestContext } from "./request-context.ts";
import { findApiKey } from "./request/api-key-header.ts";
import { CORS_HEADERS, faultResponse, hasCommonHeaders } from "./response.ts";
import {
  type AuthenticatedKey,
  docsPathOf,
  type ErrorDialect,
  requiresKey,
  type Route,
  type StepFilter,
} from "./route.ts";
import { SWITCHING_PROTOCOLS } from "./web-socket.ts";

/** A model call of a known key that was refused. */
export interface RefusedCall {
  /** The id of the request. */
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
  readonly createdAt: number;
  readonly path: string;
  readonly model: string | null;
  readonly status: number;
  readonly code: string;
  readonly message: string;
}

export interface ResponseDeps {
  /** Renders a fault as HTML; without it, faults of pages are plain text. */
  readonly faultPage?: (fault: Fault, requestId: string, path: string) => Response;
  /** The operator's support address, for internal errors. */
  readonly contact?: string | undefined;
  readonly descriptors?: DescriptorGuard | undefined;
  /** Whether clients should connect again, to another process: connections are closed after their response. */
  readonly isLeaving?: (() => boolean) | undefined;
  /** Set in development: responses to pages of other hosts have no CORS headers. */
  readonly blocksForeignOrigins?: boolean;
  /** The headers of replies to a key with a request rate of its own; undefined for other keys. */
  readonly rateHeadersOf?: (
    key: AuthenticatedKey,
    now: number,
  ) => Readonly<Record<string, string>> | undefined;
  /** Called for each model call of a known key that is refused. */
  readonly onRefusedCall?: (call: RefusedCall) => void;
  /** Called once per request, for the metrics. */
  readonly onResponse?: (route: Route | undefined, status: number, ms: number) => void;
}

/** Logs the faults that requests end with. */
export function createFaultLog(log: Log): (context: RequestContext, fault: Fault) => void {
  const logFailure = createFailureLog(log);
  return (context, fault) => {
    const fields = {
      request_id: context.requestId,
      method: context.request.method,
      path: loggedPath(context),
      code: fault.code,
      detail: fault.message,
    };
    if (fault.status >= 500 && fault.options.isCallerError !== true)
      logFailure({ ...fields, cause: fault.options.cause }, performance.now());
    else log.debug("request rejected", fields);
  };
}

interface FaultResponderDeps {
  readonly baseUrl: string;
  readonly allowsStep: StepFilter;
}

export function createFaultResponder(
  { faultPage, onRefusedCall, contact }: ResponseDeps,
  { baseUrl, allowsStep }: FaultResponderDeps,
): (context: RequestContext, fault: Fault) => Response {
  return (context, fault) => {
    const { requestId, request, match: matched, caller } = context;
    const refused = onRefusedCall && refusedCall(context, fault);
    if (refused !== undefined) onRefusedCall?.(refused);
    const dialect = errorDialectOf(context);
    if (dialect === "page" && faultPage !== undefined)
      return faultPage(fault, requestId, new URL(request.url).pathname);
    const route = matched?.route;
    const isKeySent =
      fault.status === 401 &&
      route !== undefined &&
      requiresKey(route) &&
      findApiKey({ headers: request.headers, query: context.query }, route.dialect) !== undefined;
    const docsPath = route && docsPathOf(route);
    return faultResponse(fault, {
      dialect,
      requestId,
      baseUrl,
      isKeySent,
      contact,
      docsPath,
      granted: caller.key?.granted,
      allowsStep,
    });
  };
}

/** The start of a body has the model, unless a long system text or messages precede it. */
const MODEL_SOUGHT_CHARACTERS = 2_000;
const MODEL_FIELD = /"model"\s*:\s*"([^"\\]{1,200})"/;

/** A provider's own error is not a refusal: its call has a usage record. */
function refusedCall(context: RequestContext, fault: Fault): RefusedCall | undefined {
  const { match, requestId, now, caller, body } = context;
  const key = caller.key ?? caller.endedKey;
  if (match?.route.kind !== "model" || key === undefined || caller.key?.isAnonymous === true)
    return undefined;
  const isProviders =
    fault.code === "upstream_error" || fault.options.fields?.["provider"] !== undefined;
  if (fault.status < 400 || fault.status > 499 || isProviders) return undefined;
  const { accountId, keyId } = key;
  const model = MODEL_FIELD.exec(body.text.slice(0, MODEL_SOUGHT_CHARACTERS))?.[1] ?? null;
  return {
    id: requestId,
    accountId,
    keyId,
    createdAt: now,
    path: match.route.path,
    model,
    status: fault.status,
    code: fault.code,
    message: fault.publicMessage,
  };
}

/** A longer part of a path that has no route may be a token. */
const LOGGED_PART_MAX_LENGTH = 20;

/** The path of the route, because some paths contain a secret, such as the token of an invoice. */
function loggedPath({ match, path }: RequestContext): string {
  if (match !== undefined) return match.route.path;
  const parts = path.split("/");
  return parts.map((part) => (part.length > LOGGED_PART_MAX_LENGTH ? "…" : part)).join("/");
}

function errorDialectOf({ match, path, request }: RequestContext): ErrorDialect {
  return match?.route.dialect ?? dialectOf(path, request.headers);
}

export function createResponseFinisher({
  descriptors,
  isLeaving,
  rateHeadersOf,
  blocksForeignOrigins = false,
}: ResponseDeps): (context: RequestContext, response: Response) => Response | Promise<Response> {
  return (context, response) => {
    const { request, now, caller } = context;
    const { headers } = response;
    // Model calls set these headers when they create the response: adding them here costs more than routing.
    if (!hasCommonHeaders(response)) {
      withCommonHeaders(response, context);
      if (caller.key !== undefined && caller.key.isAnonymous !== true)
        addMissing(headers, rateHeadersOf?.(caller.key, now));
    }
    const isScarce = descriptors?.isScarce(now) === true && response.status !== SWITCHING_PROTOCOLS;
    if (isScarce || isLeaving?.() === true) headers.set("connection", "close");
    if (blocksForeignOrigins && isForeignOrigin(request.headers)) removeCorsHeaders(headers);
    // Model calls are POST requests: they are never buffered.
    return request.method === "GET" || request.method === "HEAD"
      ? compressResponse(request, response)
      : response;
  };
}

export function withCommonHeaders(response: Response, context: RequestContext): Response {
  const { requestId, path, match } = context;
  const { headers } = response;
  const dialect = errorDialectOf(context);
  headers.set("x-request-id", requestId);
  // Anthropic's SDKs read the id from this header.
  if (dialect === "messages") headers.set("request-id", requestId);
  // Shared caches skip responses to requests with `authorization`, but not with `x-api-key`.
  const needsNoStore =
    match !== undefined && requiresKey(match.route) && !headers.has("cache-control");
  if (needsNoStore) headers.set("cache-control", "no-store");
  if (isOpenToPages(path, match?.route))
    for (const [name, value] of Object.entries(CORS_HEADERS)) headers.set(name, value);
  if (dialect === "oauth") disableCaching(headers);
  return response;
}

function addMissing(headers: Headers, added: Readonly<Record<string, string>> = {}): void {
  for (const [name, value] of Object.entries(added))
    if (!headers.has(name)) headers.set(name, value);
}

/** The API, the documents about it, and the endpoints of claims: a page may be an agent, too. None of them reads cookies. */
export function isOpenToPages(path: string, route: Route | undefined): boolean {
  return (
    /^(?:\/api)?\/v1(?:beta)?\//.test(path) ||
    route?.tag === "Discovery" ||
    route?.dialect === "oauth"
  );
}

/** RFC 6749 §5.1 requires both headers. */
function disableCaching(headers: Headers): void {
  headers.set("cache-control", "no-store");
  headers.set("pragma", "no-cache");
}

// Chooses the error envelope for a path that may have no route.

/** Paths without pages: errors are JSON whatever `accept` says. */
const API_PATHS = /^\/(?:v[12]|agent|oauth2?|scim|managed|\.well-known)(?:\/|$)/;

/** Google's paths, most of which have no route: `/v1beta/models/<model>:embedText`. */
const GOOGLE_PATHS = /^\/v1\/(?:models\/.+:\w+$|projects\/)|^\/v1(?:alpha|beta1?)\//;

/** Amazon Bedrock's paths, which have no route either: `/model/<model>/converse-stream`. */
const BEDROCK_PATHS = /\/model\/[^/]+\/(?:converse|invoke|count-tokens)/;

/** Calls with a wrong base URL, such as `/v1/v1/messages`. */
function isAnthropicCall(path: string, headers: Headers): boolean {
  return /\/messages?(?:\/count_tokens)?\/?$/.test(path) || headers.has("anthropic-version");
}

function dialectOf(path: string, headers: Headers): ErrorDialect {
  if (!API_PATHS.test(path) && /\btext\/html\b/i.test(headers.get("accept") ?? "")) return "page";
  if (GOOGLE_PATHS.test(path)) return "google";
  if (BEDROCK_PATHS.test(path)) return "aws";
  if (path.startsWith("/v1/messages") || isAnthropicCall(path, headers)) return "messages";
  if (/^\/oauth2?\/|^\/mcp\/(?:register|token)$/.test(path) || path.startsWith("/agent/"))
    return "oauth";
  if (path === "/mcp") return "jsonrpc";
  if (path.startsWith("/scim/")) return "scim";
  return "openai";
}

// Logs failed requests, rate-limited per error code: during an outage every call fails, and an unbounded log would fill the
// disk. The limit is per code so that a caller who provokes one kind of failure cannot suppress the others.

const LINE_RATE: RateLimit = { perMinute: 600, burst: 100 };

type Failure = LogFields & { readonly code: FaultCode };

/** `nowMs` is monotonic. `left_out` is the number of suppressed lines of this code since the last one. */
export function createFailureLog(log: Log): (fields: Failure, nowMs: number) => void {
  const limiter = createRateLimiter(LINE_RATE);
  const suppressed = new Map<FaultCode, number>();
  return (fields, nowMs) => {
    const { code } = fields;
    const suppressedCount = suppressed.get(code) ?? 0;
    if (limiter.take(code, nowMs) > 0) {
      suppressed.set(code, suppressedCount + 1);
      return;
    }
    log.error(
      "request failed",
      suppressedCount === 0 ? fields : { ...fields, left_out: suppressedCount },
    );
    suppressed.delete(code);
  };
}

// Compresses text responses for clients that accept gzip.

const gzipAsync = promisify(gzip);
const TEXT_TYPE = /^(?:text\/(?!event-stream)|application\/(?:json|yaml|javascript|problem\+json))/;
/** Smaller texts fit into one packet anyway. */
const COMPRESSED_MIN_BYTES = 1_000;
/** Hides differences in length by which a compressed page could reveal a secret in it (BREACH). */
const PADDING_MAX_BYTES = 64;
/** Documents with an ETag are compressed once. */
const CACHED_DOCUMENTS_MAX = 64;
const CACHED_DOCUMENT_MAX_BYTES = 4_000_000;

const cache = new Map<string, Buffer>();

export async function compressResponse(request: Request, response: Response): Promise<Response> {
  const { headers } = response;
  if (response.status === 304) return withSentEtag(request, response);
  const type = headers.get("content-type") ?? "";
  if (response.body === null || !TEXT_TYPE.test(type) || headers.has("content-encoding"))
    return response;
  headers.append("vary", "accept-encoding");
  if (!acceptsGzip(request.headers.get("accept-encoding"))) return response;
  const etag = headers.get("etag");
  const text = Buffer.from(await response.arrayBuffer());
  if (text.length < COMPRESSED_MIN_BYTES)
    return new Response(text, { status: response.status, headers });
  // A strong ETag promises the same bytes, so each encoding has its own.
  if (etag !== null) headers.set("etag", gzipEtag(etag));
  headers.set("content-encoding", "gzip");
  const body = etag === null ? await compressPrivate(text, type) : await compressCached(text, etag);
  return new Response(new Uint8Array(body), { status: response.status, headers });
}

/** A client that has the compressed text gets its ETag. */
function withSentEtag(request: Request, response: Response): Response {
  const compressed = gzipEtag(response.headers.get("etag") ?? "");
  if (compressed !== "" && request.headers.get("if-none-match")?.includes(compressed) === true)
    response.headers.set("etag", compressed);
  return response;
}

/** RFC 9110 §12.5.3: `*` stands for the codings that the header does not name. */
function acceptsGzip(header: string | null): boolean {
  const weights = new Map<string, number>();
  for (const coding of (header ?? "").split(",")) {
    const [name = "", weight = "q=1"] = coding.split(";");
    weights.set(name.trim().toLowerCase(), Number(weight.replace(/^\s*q=/i, "")));
  }
  return (weights.get("gzip") ?? weights.get("*") ?? 0) > 0;
}

async function compressPrivate(text: Buffer, type: string): Promise<Buffer> {
  if (!type.startsWith("text/html")) return await gzipAsync(text);
  const padding = randomBytes(randomInt(1, PADDING_MAX_BYTES)).toString("base64url");
  return await gzipAsync(
    Buffer.concat([text, Buffer.from(`<!-- ${padding.replaceAll("-", "_")} -->`)]),
  );
}

async function compressCached(text: Buffer, etag: string): Promise<Buffer> {
  const cached = cache.get(etag);
  if (cached !== undefined) return cached;
  const compressed = await gzipAsync(text);
  if (text.length <= CACHED_DOCUMENT_MAX_BYTES) {
    if (cache.size >= CACHED_DOCUMENTS_MAX) cache.clear();
    cache.set(etag, compressed);
  }
  return compressed;
}
