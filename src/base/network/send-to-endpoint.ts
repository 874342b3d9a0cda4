// Sends one request to an endpoint of an account, such as a webhook, which it connects to as `getPublicUrl` does. Of the response,
// the status counts: the body is read only in part.

import type { IncomingMessage } from "node:http";
import { HOUR_MS, SECOND_MS } from "../time.ts";
import {
  type PublicEndpoint,
  resolveAllowedAddresses,
  type ResolveHost,
} from "./public-endpoint.ts";
import { openRequest, rejectOnAbort } from "./public-url.ts";

/** The share of the timeout for reading the response body. */
const BODY_TIMEOUT_RATIO = 0.2;

export interface SendRequest {
  /** From `parseEndpoint`: a URL that was allowed when it was set may not be so now. */
  readonly endpoint: PublicEndpoint | string;
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
  const { endpoint, signal, timeoutMs } = request;
  if (typeof endpoint === "string") return failed(`the URL ${endpoint}`);
  const deadline = new AbortController();
  const stop = (): void => deadline.abort();
  const timer = setTimeout(stop, timeoutMs);
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  try {
    return await Promise.race([
      sendToAddresses(endpoint, request, deadline.signal),
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

/** Why a request failed; undefined if the endpoint has accepted it. */
export function failureOf({ status, error }: SendResult): string | undefined {
  if (error !== null) return error;
  if (status !== null && status >= 200 && status < 300) return undefined;
  return status !== null && status >= 300 && status < 400
    ? "redirects are not followed"
    : `the endpoint answered ${status}`;
}

const FIRST_RETRY_MS = 5 * SECOND_MS;
const RETRY_MAX_MS = HOUR_MS;

/** For requests that are repeated until they are accepted. `tries`: the failures in a row before this one. */
export function backoffMs(tries: number, retryAfterMs: number): number {
  return Math.max(Math.min(RETRY_MAX_MS, FIRST_RETRY_MS * 2 ** Math.min(tries, 20)), retryAfterMs);
}

async function sendToAddresses(
  endpoint: PublicEndpoint,
  request: SendRequest,
  limit: AbortSignal,
): Promise<SendResult> {
  const addresses = await resolveAllowedAddresses(endpoint, request.resolve);
  if (addresses === undefined)
    return failed("the host name does not resolve to public addresses only");
  for (const [index, address] of addresses.entries()) {
    try {
      return await sendTo(endpoint, address, request, limit);
    } catch (error) {
      if (index === addresses.length - 1 || limit.aborted || !isConnectError(error)) throw error;
    }
  }
  return failed("no address could be reached");
}

function sendTo(
  endpoint: PublicEndpoint,
  address: string,
  outgoing: SendRequest,
  limit: AbortSignal,
): Promise<SendResult> {
  const { method = "POST", headers, body } = outgoing;
  return new Promise((resolve, reject) => {
    const request = openRequest(endpoint, address, {
      method,
      signal: limit,
      headers: {
        "content-type": "application/json",
        "content-length": String(Buffer.byteLength(body)),
        ...headers,
      },
    });
    request.on("error", reject);
    let hasResponded = false;
    request.on("close", () => {
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
    request.end(body);
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
