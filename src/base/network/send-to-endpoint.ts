// Sends one request to an endpoint of an account, such as a webhook. It resolves the host name itself and connects
// to an address that it has checked (SSRF); TLS and the Host header still use the name. No redirects, no proxy, no decompression.

import http, { type IncomingMessage, type RequestOptions } from "node:http";
import https from "node:https";
import {
  resolveAllowedAddresses,
  type PublicEndpoint,
  type ResolveHost,
} from "./public-endpoint.ts";

const HEADERS_MAX_BYTES = 16_384;
/** The share of the timeout for reading the response body. */
const BODY_TIMEOUT_RATIO = 0.2;

export interface SendRequest {
  readonly endpoint: PublicEndpoint;
  /** `POST` by default. */
  readonly method?: "POST" | "PUT";
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
  readonly timeoutMs: number;
  /** The rest of the response is not read. */
  readonly responseMaxBytes: number;
  readonly resolve: ResolveHost;
  readonly signal: AbortSignal;
}

export interface SendResult {
  readonly status: number | null;
  readonly error: string | null;
  readonly response: string;
  readonly retryAfterMs: number;
}

/** Never throws: errors are part of the result. */
export async function send(request: SendRequest): Promise<SendResult> {
  const { signal, timeoutMs } = request;
  const deadline = new AbortController();
  const stop = (): void => deadline.abort();
  const timer = setTimeout(stop, timeoutMs);
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  try {
    return await Promise.race([
      sendToAddresses(request, deadline.signal),
      rejectOnAbort(deadline.signal),
    ]);
  } catch (error) {
    const isTimeout = deadline.signal.aborted && !signal.aborted;
    return failed(
      isTimeout ? `no response within ${timeoutMs / 1_000} seconds` : describeError(error),
    );
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
  }
}

async function sendToAddresses(request: SendRequest, limit: AbortSignal): Promise<SendResult> {
  const addresses = await resolveAllowedAddresses(request.endpoint, request.resolve);
  if (addresses === undefined)
    return failed("the host name does not resolve to public addresses only");
  for (const [index, address] of addresses.entries()) {
    try {
      return await sendTo(request, address, limit);
    } catch (error) {
      if (index === addresses.length - 1 || limit.aborted || !isConnectError(error)) throw error;
    }
  }
  return failed("no address could be reached");
}

function sendTo(outgoing: SendRequest, address: string, limit: AbortSignal): Promise<SendResult> {
  const { url } = outgoing.endpoint;
  const name = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const options: RequestOptions & https.RequestOptions = {
    host: address,
    port: url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port),
    path: url.pathname + url.search,
    method: outgoing.method ?? "POST",
    agent: false,
    maxHeaderSize: HEADERS_MAX_BYTES,
    headers: {
      host: url.host,
      "content-type": "application/json",
      "content-length": String(Buffer.byteLength(outgoing.body)),
      ...outgoing.headers,
    },
  };
  return new Promise((resolve, reject) => {
    const request =
      url.protocol === "https:"
        ? https.request({ ...options, servername: name })
        : http.request(options);
    const stop = (): void => void request.destroy(new Error("stopped"));
    limit.addEventListener("abort", stop, { once: true });
    request.on("error", reject);
    let hasResponded = false;
    request.on("close", () => {
      limit.removeEventListener("abort", stop);
      if (!hasResponded) reject(new Error("closed"));
    });
    request.on("response", (response) => {
      hasResponded = true;
      void readPrefix(response, outgoing).then((prefix) => {
        resolve({
          status: response.statusCode ?? null,
          error: null,
          response: prefix,
          retryAfterMs: retryAfterOf(response),
        });
        request.destroy();
      });
    });
    request.end(outgoing.body);
  });
}

/** Stops early if the rest of the body is late: for a webhook the status alone decides the outcome. */
function readPrefix(
  response: IncomingMessage,
  { timeoutMs, responseMaxBytes }: SendRequest,
): Promise<string> {
  return new Promise((resolve) => {
    // Joined once: joined for each chunk, a long response in small ones would take quadratic time.
    const chunks: Buffer[] = [];
    let bytes = 0;
    const end = (): void => {
      clearTimeout(timer);
      resolve(Buffer.concat(chunks).toString("utf8", 0, responseMaxBytes));
    };
    const timer = setTimeout(end, timeoutMs * BODY_TIMEOUT_RATIO);
    response.on("data", (chunk: Buffer) => {
      if (bytes >= responseMaxBytes) return;
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes >= responseMaxBytes) end();
    });
    for (const event of ["end", "error", "close"] as const) response.on(event, end);
  });
}

/** Seconds only: an HTTP date depends on the endpoint's clock. */
function retryAfterOf({ statusCode, headers }: IncomingMessage): number {
  const value = headers["retry-after"];
  const isHonored = statusCode === 429 || statusCode === 503;
  return isHonored && value !== undefined && /^\d{1,6}$/.test(value) ? Number(value) * 1_000 : 0;
}

function failed(error: string): SendResult {
  return { status: null, error, response: "", retryAfterMs: 0 };
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const stop = (): void => reject(new Error("stopped"));
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
}

const CONNECT_ERRORS = /^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|ETIMEDOUT)$/;

function isConnectError(error: unknown): boolean {
  return CONNECT_ERRORS.test(codeOf(error));
}

/** Does not repeat the runtime's message, which can contain addresses. */
function describeError(error: unknown): string {
  const code = codeOf(error);
  if (code === "ECONNREFUSED") return "the connection was refused";
  if (code === "ECONNRESET" || code === "EPIPE")
    return "the connection was closed before a response";
  if (CONNECT_ERRORS.test(code)) return "could not connect";
  if (/CERT|TLS|SSL|SIGNATURE|ISSUER/.test(code)) return `TLS failed: ${code}`;
  return code === "" ? "the request failed" : `the request failed: ${code}`;
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}
