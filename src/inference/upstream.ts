// One request to a provider: headers by allow-list both ways, no redirects, a time for everything. What goes wrong is
// told as a state, with whether another try makes sense.

import type { Secret } from "../base/secret.ts";
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
  readonly signal: AbortSignal;
}

export interface Timeouts {
  /** Until the provider's first byte. */
  readonly firstByteMs: number;
  /** Until the whole of a reply that is not streamed. */
  readonly wholeMs: number;
  /** Of silence within a stream. */
  readonly silenceMs: number;
  /** For a whole stream; also the hold's lifetime. */
  readonly totalMs: number;
}

export const TIMEOUTS: Timeouts = {
  firstByteMs: 180_000,
  wholeMs: 840_000,
  silenceMs: 180_000,
  totalMs: 870_000,
};

export type Upstream =
  | { readonly kind: "answered"; readonly response: Response }
  | { readonly kind: "unreachable"; readonly cause: unknown }
  | { readonly kind: "aborted" };

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

export async function send(credential: Credential, request: UpstreamRequest): Promise<Upstream> {
  const path = credential.provider.paths[request.wire];
  if (path === undefined)
    throw new Error(`${credential.provider.id} does not speak ${request.wire}`);
  const headers = headersFor(credential, request);
  const outgoing = {
    method: "POST",
    headers,
    body: request.body,
    redirect: "manual",
    signal: request.signal,
    // The runtime's own limit of five minutes is replaced by the ones above.
    timeout: false,
  } as const;
  try {
    const url = credential.baseUrl + path + (request.path ?? "");
    const { authorize } = credential;
    if (authorize !== undefined) {
      const signed = await authorize.sign({ url, method: "POST", body: request.body });
      if (signed.kind === "refused") return { kind: "answered", response: signed.response };
      Object.assign(headers, signed.headers);
    }
    const response =
      credential.inProcess === undefined
        ? await fetch(url, outgoing)
        : await answeredInside(credential.inProcess, new Request(url, outgoing));
    if (response.status === 401 || response.status === 403) authorize?.wasRefused();
    return { kind: "answered", response };
  } catch (cause) {
    return request.signal.aborted ? { kind: "aborted" } : { kind: "unreachable", cause };
  }
}

// What answers in this process has no connection that could be closed: the signal ends its wait and its body here.
async function answeredInside(
  answer: (request: Request) => Promise<Response>,
  request: Request,
): Promise<Response> {
  const { signal } = request;
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(new Error("aborted")), { once: true });
  });
  const response = await Promise.race([answer(request), aborted]);
  const body = response.body?.pipeThrough(new TransformStream(), { signal });
  return new Response(body ?? null, response);
}

export function returnedHeaders(from: Headers): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of from) if (RETURNED.test(name)) headers[name] = value;
  return headers;
}

function headersFor(
  { provider, apiKey }: Credential,
  { wire, headers: from }: UpstreamRequest,
): Record<string, string> {
  const headers: Record<string, string> = {
    "content-type": "application/json",
    "user-agent": "postern",
    "accept-encoding": "identity",
    ...provider.headers,
  };
  if (wire === "messages" || wire === "count_tokens")
    headers["anthropic-version"] = ANTHROPIC_VERSION;
  for (const name of FORWARDED) {
    const value = from.get(name);
    if (value !== null) headers[name] = value;
  }
  if (apiKey === undefined) return headers;
  if (wire === "gemini" && provider.auth === "bearer") headers["x-goog-api-key"] = apiKey.reveal();
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
export async function readWhole(
  response: Response,
  mostBytes = READ_MAX_BYTES,
): Promise<WholeBody> {
  const announced = Number(response.headers.get("content-length") ?? 0);
  if (announced > mostBytes) {
    await response.body?.cancel().catch(() => {});
    return { kind: "too_large" };
  }
  try {
    // A compressed body says how long it is before it is unpacked.
    const isCertain = announced > 0 && !response.headers.has("content-encoding");
    const bytes = isCertain ? await response.bytes() : await readCounted(response.body, mostBytes);
    if (bytes === undefined) return { kind: "too_large" };
    return { kind: "text", text: decoder.decode(bytes) };
  } catch (error) {
    return {
      kind: error instanceof TypeError && /utf|decod/i.test(error.message) ? "not_text" : "cut",
    };
  }
}

async function readCounted(
  stream: ReadableStream<Uint8Array> | null,
  mostBytes: number,
): Promise<Uint8Array | undefined> {
  if (stream === null) return new Uint8Array();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of stream) {
    size += chunk.length;
    if (size > mostBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
