// One request to a provider: headers by allow-list both ways, no redirects, a time for everything. What goes wrong is
// told as a state, with whether another try makes sense.

import { invalid } from "../base/fault.ts";
import { remembered } from "../base/remembered.ts";
import type { Secret } from "../base/secret.ts";
import { abortSignalOf, type StopSignal } from "../base/stop.ts";
import type { Carry, Outgoing } from "../outbound/carrier.ts";
import { cancelInflow, nextPiece, wholeOf } from "../outbound/inflow.ts";
import { type Reply, replyOfResponse } from "../outbound/reply.ts";
import type { Authorize } from "./authorize.ts";
import type { Provider, UpstreamWire } from "./providers.ts";

/** What it takes to call a provider: its row, where it is, and on whose account. */
export interface Credential {
  readonly provider: Provider;
  readonly baseUrl: string;
  readonly apiKey: Secret | undefined;
  /** Names the credential in circuits and records, without telling it. */
  readonly label: string;
  readonly byok: boolean;
  /** Signs each request, where a key in a header is not how it is done. */
  readonly authorize?: Authorize;
  /** Answers in this process instead of over the network: the simulator of a development gateway. */
  readonly inProcess?: (request: Request) => Promise<Response>;
}

export interface UpstreamRequest {
  readonly wire: UpstreamWire;
  /** The rest of the address, on a wire whose requests say it. */
  readonly path: string | undefined;
  readonly body: string;
  /** The caller's headers, of which a few travel on. */
  readonly headers: Headers;
  readonly signal: StopSignal;
}

export interface Timeouts {
  /** Until the provider's first byte. */
  readonly firstByteMs: number;
  /** Until the whole of a reply that is not streamed. */
  readonly wholeMs: number;
  /** Of silence within a stream. */
  readonly silenceMs: number;
  /** For a whole stream, from its first byte. */
  readonly totalMs: number;
}

export const TIMEOUTS: Timeouts = {
  firstByteMs: 180_000,
  wholeMs: 840_000,
  silenceMs: 180_000,
  totalMs: 870_000,
};

export type Upstream =
  | { readonly kind: "answered"; readonly reply: Reply }
  | { readonly kind: "unreachable"; readonly cause: unknown }
  | { readonly kind: "aborted" };

/** What no header may hold (RFC 9110 §5.5); the runtime lets a DEL in. */
const NOT_IN_A_HEADER = /[^\t\x20-\x7e\x80-\xff]/;

/** A header that cannot travel on is its sender's mistake, and no failure of the provider. */
export function demandSendable(headers: Headers): void {
  for (const name of FORWARDED) {
    const value = headers.get(name);
    if (value !== null && NOT_IN_A_HEADER.test(value))
      throw invalid(name, `The header ${name} holds a control character. Send it without.`);
  }
}

const FORWARDED = [
  "anthropic-beta",
  "anthropic-version",
  "openai-beta",
  "x-grok-conv-id",
  "accept-language",
] as const;

/** Anthropic demands a version; this one stands in where the caller named none. */
const ANTHROPIC_VERSION = "2023-06-01";

/** Headers of a provider's reply that a caller can use; everything else could tell of the gateway's account. */
const RETURNED =
  /^(retry-after|retry-after-ms|x-should-retry|openai-processing-ms|openai-model|x-ratelimit-[a-z0-9-]+|anthropic-ratelimit-[a-z0-9-]+|anthropic-fast-[a-z0-9-]+)$/;

export function send(
  credential: Credential,
  request: UpstreamRequest,
  carry: Carry,
): Promise<Upstream> {
  const { provider, baseUrl, authorize, inProcess } = credential;
  const path = provider.paths[request.wire];
  if (path === undefined) throw new Error(`${provider.id} does not speak ${request.wire}`);
  const { body, signal } = request;
  const url = baseUrl + path + (request.path ?? "");
  const outgoing = { url, headers: headersFor(credential, request), body, signal };
  const replied =
    authorize !== undefined
      ? carrySigned(outgoing, authorize, carry)
      : inProcess !== undefined
        ? answeredInside(outgoing, inProcess)
        : carry(outgoing);
  return replied.then(answeredBy, (cause: unknown) =>
    signal.aborted ? { kind: "aborted" } : { kind: "unreachable", cause },
  );
}

function answeredBy(reply: Reply): Upstream {
  return { kind: "answered", reply };
}

async function carrySigned(outgoing: Outgoing, authorize: Authorize, carry: Carry): Promise<Reply> {
  const { url, body, headers } = outgoing;
  const signed = await authorize.sign({ url, method: "POST", body });
  if (signed.kind === "refused") return replyOfResponse(signed.response);
  const reply = await carry({ ...outgoing, headers: { ...headers, ...signed.headers } });
  if (reply.status === 401 || reply.status === 403) authorize.wasRefused();
  return reply;
}

// What answers in this process has no connection that could be closed: the signal ends its wait and its body here.
async function answeredInside(
  { url, headers, body, signal: stop }: Outgoing,
  answer: (request: Request) => Promise<Response>,
): Promise<Reply> {
  const signal = abortSignalOf(stop);
  const request = new Request(url, { method: "POST", headers, body, signal });
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(new Error("aborted")), { once: true });
  });
  const response = await Promise.race([answer(request), aborted]);
  const through = response.body?.pipeThrough(new TransformStream(), { signal });
  return replyOfResponse(new Response(through ?? null, response));
}

export function returnedHeaders(from: Reply["headers"], now: number): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of from) {
    if (!isReturned(name)) continue;
    const said = name === "retry-after" ? waitText(value, now) : value;
    if (said !== undefined) headers[name] = said;
  }
  return headers;
}

const SECONDS = /^\d{1,9}(?:\.\d{1,9})?$/;
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .{1,40} GMT$/;

/** A provider's `retry-after` as every caller is promised it: whole seconds, one or more. What is none is not passed on. */
function waitText(value: string, now: number): string | undefined {
  const seconds = SECONDS.test(value)
    ? Number(value)
    : HTTP_DATE.test(value)
      ? (Date.parse(value) - now) / 1_000
      : NaN;
  return Number.isNaN(seconds) ? undefined : String(Math.max(1, Math.ceil(seconds)));
}

// Replies bring the same names again and again.
const isReturned = remembered((name: string) => RETURNED.test(name));

// Most callers send none of the headers that travel on.
function headersFor(
  credential: Credential,
  { wire, headers: from }: UpstreamRequest,
): Readonly<Record<string, string>> {
  const standing = standingHeaders(credential, wire);
  let headers: Record<string, string> | undefined;
  for (const name of FORWARDED) {
    const value = from.get(name);
    if (value === null) continue;
    headers ??= { ...standing };
    headers[name] = value;
  }
  return headers ?? standing;
}

type HeadersOn = (wire: UpstreamWire) => Readonly<Record<string, string>>;
const knownStanding = new WeakMap<Credential, HeadersOn>();

// What is the same for every call on one of the gateway's own accounts is put together once. It is frozen.
function standingHeaders(
  credential: Credential,
  wire: UpstreamWire,
): Readonly<Record<string, string>> {
  if (credential.byok) return makeHeaders(credential, wire);
  const known = knownStanding.get(credential);
  if (known !== undefined) return known(wire);
  const headersOn: HeadersOn = remembered((one) => Object.freeze(makeHeaders(credential, one)));
  knownStanding.set(credential, headersOn);
  return headersOn(wire);
}

function makeHeaders({ provider, apiKey }: Credential, wire: UpstreamWire): Record<string, string> {
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
  if (isMessages && provider.auth === "bearer" && provider.signsWith === undefined)
    headers["x-api-key"] = apiKey.reveal();
  else if (wire === "gemini" && provider.auth === "bearer")
    headers["x-goog-api-key"] = apiKey.reveal();
  else if (provider.auth === "bearer") headers["authorization"] = `Bearer ${apiKey.reveal()}`;
  else headers[provider.auth] = apiKey.reveal();
  return headers;
}

const decoder = new TextDecoder("utf-8", { fatal: true });

const READ_MAX_BYTES = 64 * 1_048_576;

export type WholeBody =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "too_large" | "cut" | "not_text" };

/** Reads a whole reply within bounds; a reply that is cut or too large is a failure of the provider. */
export function readWhole(
  reply: Reply,
  mostBytes = READ_MAX_BYTES,
): WholeBody | Promise<WholeBody> {
  // Most replies have come with their headers.
  const bytes = wholeOf(reply.body, mostBytes);
  return bytes === undefined ? readPieces(reply, mostBytes) : textOf(bytes);
}

async function readPieces({ headers, body }: Reply, mostBytes: number): Promise<WholeBody> {
  const pieces: Uint8Array[] = [];
  let size = Number(headers.get("content-length") ?? 0) > mostBytes ? Infinity : 0;
  try {
    while (size <= mostBytes) {
      const piece = await nextPiece(body);
      if (piece === undefined) return textOf(Buffer.concat(pieces));
      size += piece.length;
      pieces.push(piece);
    }
  } catch {
    return { kind: "cut" };
  }
  cancelInflow(body);
  return { kind: "too_large" };
}

function textOf(bytes: Uint8Array): WholeBody {
  try {
    return { kind: "text", text: decoder.decode(bytes) };
  } catch {
    return { kind: "not_text" };
  }
}
