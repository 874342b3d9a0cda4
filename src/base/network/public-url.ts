// Sends one request to a URL that a caller, an owner or an operator names. It connects only to public addresses, which it has
// resolved and checked itself (SSRF); TLS and the Host header still use the name. No redirects, no proxy, no decompression.

import http, { type IncomingMessage, type RequestOptions } from "node:http";
import https from "node:https";
import {
  type PublicEndpoint,
  resolveAllowedAddresses,
  type ResolveHost,
} from "./public-endpoint.ts";

export const SESSION_HEADER = "mcp-session-id";
const HEADERS_MAX_BYTES = 16_384;

export interface PublicUrlRequest {
  readonly endpoint: PublicEndpoint;
  readonly accept: string;
  readonly userAgent?: string;
  /** GET if absent. */
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly sent?: string;
  /** Also reads the body of a response whose status is not 200. */
  readonly readsErrors?: boolean;
  readonly bytesMax: number;
  readonly resolve: ResolveHost;
  readonly signal: AbortSignal;
  /** Called for each chunk of the body before it is kept. An error that it throws ends the request. */
  readonly onBytes?: (bytes: number) => void;
}

export interface PublicUrlResponse {
  readonly status: number;
  readonly contentType: string;
  /** The target of a redirect. */
  readonly location: string | undefined;
  /** The session that an MCP server began. */
  readonly sessionId: string | undefined;
  /** Empty if the status is not 200, without `readsErrors`; undefined if it is larger than `bytesMax`. */
  readonly body: Buffer | undefined;
}

export async function getPublicUrl(get: PublicUrlRequest): Promise<PublicUrlResponse> {
  const { endpoint, resolve, signal } = get;
  const lookup = resolveAllowedAddresses(endpoint, resolve);
  const [address] = (await Promise.race([lookup, rejectOnAbort(signal)])) ?? [];
  if (address === undefined) throw new Error("the host name does not resolve to public addresses");
  return await new Promise((settle, reject) => {
    const request = requestTo(address, get);
    request.on("error", reject);
    let hasResponded = false;
    request.on("close", () => {
      if (!hasResponded) reject(new Error("closed before a response"));
    });
    request.on("response", (response) => {
      hasResponded = true;
      for (const event of ["error", "aborted", "close"] as const)
        response.on(event, () => reject(new Error("closed before the end of the response")));
      const reply = {
        status: response.statusCode ?? 0,
        contentType: response.headers["content-type"] ?? "",
        location: response.headers.location,
        sessionId: firstOf(response.headers[SESSION_HEADER]),
      };
      if (reply.status !== 200 && get.readsErrors !== true) {
        settle({ ...reply, body: Buffer.alloc(0) });
        request.destroy();
        return;
      }
      readBody(response, get, (result) => {
        if (result instanceof Error) reject(result);
        else settle({ ...reply, body: result });
        request.destroy();
      });
    });
    request.end(get.sent);
  });
}

function firstOf(header: string | readonly string[] | undefined): string | undefined {
  return typeof header === "string" ? header : header?.[0];
}

function requestTo(address: string, get: PublicUrlRequest): http.ClientRequest {
  const { endpoint, method = "GET", signal } = get;
  const headers = {
    accept: get.accept,
    "accept-encoding": "identity",
    ...(get.userAgent === undefined ? {} : { "user-agent": get.userAgent }),
    ...get.headers,
    ...(get.sent === undefined ? {} : { "content-length": String(Buffer.byteLength(get.sent)) }),
  };
  return openRequest(endpoint, address, { method, signal, headers });
}

/** A request to an address of the endpoint that was checked. */
export function openRequest(
  { url }: PublicEndpoint,
  address: string,
  {
    headers,
    ...options
  }: Pick<RequestOptions, "method" | "signal"> & {
    readonly headers: Readonly<Record<string, string>>;
  },
): http.ClientRequest {
  const sent = {
    ...options,
    host: address,
    port: url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port),
    path: url.pathname + url.search,
    agent: false,
    maxHeaderSize: HEADERS_MAX_BYTES,
    headers: { host: url.host, ...headers },
  } as const;
  const servername = url.hostname.replace(/^\[(.*)\]$/, "$1");
  return url.protocol === "https:" ? https.request({ ...sent, servername }) : http.request(sent);
}

function readBody(
  response: IncomingMessage,
  { bytesMax, onBytes }: PublicUrlRequest,
  done: (result: Buffer | Error | undefined) => void,
): void {
  const announced = Number(response.headers["content-length"] ?? Number.NaN);
  if (announced > bytesMax) {
    done(undefined);
    return;
  }
  const chunks: Buffer[] = [];
  let bytes = 0;
  let isOver = false;
  const end = (result: Buffer | Error | undefined): void => {
    if (!isOver) done(result);
    isOver = true;
  };
  response.on("data", (chunk: Buffer) => {
    if (isOver) return;
    bytes += chunk.length;
    if (bytes > bytesMax) {
      end(undefined);
      return;
    }
    try {
      onBytes?.(chunk.length);
      chunks.push(chunk);
    } catch (error) {
      end(error instanceof Error ? error : new Error(String(error)));
    }
  });
  response.on("end", () => {
    const isCut = Number.isFinite(announced) && bytes !== announced;
    end(isCut ? new Error("the response was cut off") : Buffer.concat(chunks));
  });
}

export function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const stop = (): void => reject(new Error("stopped"));
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
}
