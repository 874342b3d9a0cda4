// `fetch` for a library that sends requests to a URL that a caller names. It connects only to public addresses, follows no
// redirect, and limits the size of the response.

import { parseEndpoint, type ResolveHost } from "./public-endpoint.ts";
import { getPublicUrl, SESSION_HEADER } from "./public-url.ts";

const BYTES_MAX = 262_144;
const TIMEOUT_MS = 10_000;

export interface PublicFetchOptions {
  /** Development only. */
  readonly allowLoopback: boolean;
  readonly resolve: ResolveHost;
  /** The most bytes of a response. */
  readonly bytesMax?: number;
}

interface RequestInit {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
}

export type PublicFetch = (url: string, init?: RequestInit) => Promise<Response>;

export function createPublicFetch({
  allowLoopback,
  resolve,
  bytesMax = BYTES_MAX,
}: PublicFetchOptions): PublicFetch {
  return async (url, { method = "GET", headers = {}, body, signal } = {}) => {
    const endpoint = parseEndpoint(url, allowLoopback);
    if (typeof endpoint === "string") throw new Error(`the URL ${endpoint}`);
    const { accept = "application/json", ...others } = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
    );
    const response = await getPublicUrl({
      endpoint,
      method,
      accept,
      headers: others,
      ...(body === undefined || body === null ? {} : { sent: textOf(body) }),
      readsErrors: true,
      bytesMax,
      resolve,
      signal: signal ?? AbortSignal.timeout(TIMEOUT_MS),
    });
    if (response.body === undefined) throw new Error("the response is too large");
    const { status, contentType, sessionId } = response;
    return new Response(response.body.length === 0 ? null : new Uint8Array(response.body), {
      status,
      headers: {
        "content-type": contentType,
        ...(sessionId === undefined ? {} : { [SESSION_HEADER]: sessionId }),
      },
    });
  };
}

function textOf(body: unknown): string {
  if (typeof body === "string" || body instanceof URLSearchParams) return body.toString();
  throw new Error("a body of this type is not sent");
}
