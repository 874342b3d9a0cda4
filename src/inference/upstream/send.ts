// One request to a provider: headers by allow-list both ways, no redirects, a time for everything. What goes wrong is
// told as a state, with whether another try makes sense.

import { invalid } from "../../base/fault.ts";
import { memoize } from "../../base/memoize.ts";
import { toAbortSignal, type AbortSignalLike } from "../../base/abort.ts";
import type { Send, OutgoingRequest } from "../../http-client/client.ts";
import { cancelBodyStream, nextChunk, takeIfComplete } from "../../http-client/body-stream.ts";
import { type UpstreamResponse, fromFetchResponse } from "../../http-client/reply.ts";
import type { Authorizer } from "../providers/authorize.ts";
import type { Credential } from "../providers/credentials.ts";
import type { UpstreamWire } from "../providers/providers.ts";

export interface UpstreamRequest {
  readonly wire: UpstreamWire;
  /** The rest of the address, on a wire whose requests say it. */
  readonly path: string | undefined;
  readonly body: string;
  /** The caller's headers, of which a few travel on. */
  readonly headers: Headers;
  readonly signal: AbortSignalLike;
}

export type SendResult =
  | { readonly kind: "answered"; readonly reply: UpstreamResponse }
  | { readonly kind: "unreachable"; readonly cause: unknown }
  | { readonly kind: "aborted" };

/** What no header may hold (RFC 9110 §5.5); the runtime lets a DEL in. */
const INVALID_HEADER_CHARACTER = /[^\t\x20-\x7e\x80-\xff]/;

/** A header that cannot travel on is its sender's mistake, and no failure of the provider. */
export function validateForwardedHeaders(headers: Headers): void {
  for (const name of FORWARDED_HEADERS) {
    const value = headers.get(name);
    if (value !== null && INVALID_HEADER_CHARACTER.test(value))
      throw invalid(name, `The header ${name} holds a control character. Send it without.`);
  }
}

const FORWARDED_HEADERS = [
  "anthropic-beta",
  "anthropic-version",
  "openai-beta",
  "x-grok-conv-id",
  "accept-language",
] as const;

/** Anthropic demands a version; this one stands in where the caller named none. */
const ANTHROPIC_VERSION = "2023-06-01";

/** Headers of a provider's reply that a caller can use; everything else could tell of the gateway's account. */
const RETURNED_HEADERS =
  /^(retry-after|retry-after-ms|x-should-retry|openai-processing-ms|openai-model|x-ratelimit-[a-z0-9-]+|anthropic-ratelimit-[a-z0-9-]+|anthropic-fast-[a-z0-9-]+)$/;

export function sendUpstream(
  credential: Credential,
  request: UpstreamRequest,
  sendHttp: Send,
): Promise<SendResult> {
  const { provider, baseUrl, authorizer, inProcess } = credential;
  const path = provider.paths[request.wire];
  if (path === undefined) throw new Error(`${provider.id} does not speak ${request.wire}`);
  const { body, signal } = request;
  const url = baseUrl + path + (request.path ?? "");
  const outgoing = { url, headers: headersFor(credential, request), body, signal };
  const replied =
    authorizer !== undefined
      ? sendAuthorized(outgoing, authorizer, sendHttp)
      : inProcess !== undefined
        ? sendInProcess(outgoing, inProcess)
        : sendHttp(outgoing);
  return replied.then(toSendResult, (cause: unknown) =>
    signal.aborted ? { kind: "aborted" } : { kind: "unreachable", cause },
  );
}

function toSendResult(reply: UpstreamResponse): SendResult {
  return { kind: "answered", reply };
}

async function sendAuthorized(
  outgoing: OutgoingRequest,
  authorizer: Authorizer,
  sendHttp: Send,
): Promise<UpstreamResponse> {
  const { url, body, headers } = outgoing;
  const signed = await authorizer.sign({ url, method: "POST", body });
  if (signed.kind === "rejected") return fromFetchResponse(signed.response);
  const reply = await sendHttp({ ...outgoing, headers: { ...headers, ...signed.headers } });
  if (reply.status === 401 || reply.status === 403) authorizer.onRejected();
  return reply;
}

// What answers in this process has no connection that could be closed: the signal ends its wait and its body here.
async function sendInProcess(
  { url, headers, body, signal: abortSignal }: OutgoingRequest,
  handle: (request: Request) => Promise<Response>,
): Promise<UpstreamResponse> {
  const signal = toAbortSignal(abortSignal);
  const request = new Request(url, { method: "POST", headers, body, signal });
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(new Error("aborted")), { once: true });
  });
  const response = await Promise.race([handle(request), aborted]);
  const through = response.body?.pipeThrough(new TransformStream(), { signal });
  return fromFetchResponse(new Response(through ?? null, response));
}

export function returnedHeaders(
  from: UpstreamResponse["headers"],
  now: number,
): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of from) {
    if (!isReturned(name)) continue;
    const text = name === "retry-after" ? retryAfterText(value, now) : value;
    if (text !== undefined) headers[name] = text;
  }
  return headers;
}

const SECONDS = /^\d{1,9}(?:\.\d{1,9})?$/;
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .{1,40} GMT$/;

/** A provider's `retry-after` as every caller is promised it: whole seconds, one or more. What is none is not passed on. */
function retryAfterText(value: string, now: number): string | undefined {
  const seconds = SECONDS.test(value)
    ? Number(value)
    : HTTP_DATE.test(value)
      ? (Date.parse(value) - now) / 1_000
      : NaN;
  return Number.isNaN(seconds) ? undefined : String(Math.max(1, Math.ceil(seconds)));
}

// Replies bring the same names again and again.
const isReturned = memoize((name: string) => RETURNED_HEADERS.test(name));

// Most callers send none of the headers that travel on.
function headersFor(
  credential: Credential,
  { wire, headers: from }: UpstreamRequest,
): Readonly<Record<string, string>> {
  const base = cachedHeaders(credential, wire);
  let headers: Record<string, string> | undefined;
  for (const name of FORWARDED_HEADERS) {
    const value = from.get(name);
    if (value === null) continue;
    headers ??= { ...base };
    headers[name] = value;
  }
  return headers ?? base;
}

type HeadersForWire = (wire: UpstreamWire) => Readonly<Record<string, string>>;
const headerCache = new WeakMap<Credential, HeadersForWire>();

// What is the same for every call on one of the gateway's own accounts is put together once. It is frozen.
function cachedHeaders(
  credential: Credential,
  wire: UpstreamWire,
): Readonly<Record<string, string>> {
  if (credential.byok) return buildHeaders(credential, wire);
  const cached = headerCache.get(credential);
  if (cached !== undefined) return cached(wire);
  const headersOn: HeadersForWire = memoize((one) => Object.freeze(buildHeaders(credential, one)));
  headerCache.set(credential, headersOn);
  return headersOn(wire);
}

function buildHeaders(
  { provider, apiKey }: Credential,
  wire: UpstreamWire,
): Record<string, string> {
  const headers: Record<string, string> = {
    "content-type": "application/json",
    "user-agent": "postern",
    "accept-encoding": "identity",
    ...provider.headers,
  };
  if (wire === "messages" || wire === "count_tokens")
    headers["anthropic-version"] = ANTHROPIC_VERSION;
  if (apiKey === undefined) return headers;
  const isMessages = wire === "messages" || wire === "count_tokens";
  // A server that speaks other wires as well: each is signed as its own clients do it.
  if (isMessages && provider.auth === "bearer" && provider.cloudAuth === undefined)
    headers["x-api-key"] = apiKey.reveal();
  else if (wire === "gemini" && provider.auth === "bearer")
    headers["x-goog-api-key"] = apiKey.reveal();
  else if (provider.auth === "bearer") headers["authorization"] = `Bearer ${apiKey.reveal()}`;
  else headers[provider.auth] = apiKey.reveal();
  return headers;
}

const decoder = new TextDecoder("utf-8", { fatal: true });

const REPLY_MAX_BYTES = 64 * 1_048_576;

export type BodyResult =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "too_large" | "cut" | "not_text" };

/** Reads a whole reply within bounds; a reply that is cut or too large is a failure of the provider. */
export function readBody(
  reply: UpstreamResponse,
  maxBytes = REPLY_MAX_BYTES,
): BodyResult | Promise<BodyResult> {
  // Most replies have come with their headers.
  const bytes = takeIfComplete(reply.body, maxBytes);
  return bytes === undefined ? readChunks(reply, maxBytes) : decodeText(bytes);
}

async function readChunks(
  { headers, body }: UpstreamResponse,
  maxBytes: number,
): Promise<BodyResult> {
  const chunks: Uint8Array[] = [];
  let size = Number(headers.get("content-length") ?? 0) > maxBytes ? Infinity : 0;
  try {
    while (size <= maxBytes) {
      const chunk = await nextChunk(body);
      if (chunk === undefined) return decodeText(Buffer.concat(chunks));
      size += chunk.length;
      chunks.push(chunk);
    }
  } catch {
    return { kind: "cut" };
  }
  cancelBodyStream(body);
  return { kind: "too_large" };
}

function decodeText(bytes: Uint8Array): BodyResult {
  try {
    return { kind: "text", text: decoder.decode(bytes) };
  } catch {
    return { kind: "not_text" };
  }
}
