// Sends requests over kept-alive connections, one request at a time on each.

import { toAbortSignal, type AbortSignalLike } from "./abort.ts";
import {
  type Connection,
  createConnection,
  type HttpExchange,
  type PoolHooks,
  abortExchange,
  onExchangeEnd,
  sendRequest,
  destroy,
} from "./connection.ts";
import { type UpstreamResponse, fromFetchResponse, decompressed } from "./reply.ts";
import { startDeadline } from "./shared-deadlines.ts";
import { type Dial, dial as dialByRuntime, type SocketAddress } from "./socket.ts";

export interface OutgoingRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array<ArrayBuffer>;
  readonly signal: AbortSignalLike;
  /** Called when the request is about to be written, once for each connection that is tried. */
  readonly onSend?: (() => void) | undefined;
}

/** Sends a POST request and resolves when the reply's headers have arrived. */
export type Send = (outgoing: OutgoingRequest) => Promise<UpstreamResponse>;

export interface HttpClient {
  readonly send: Send;
  /** Closes idle connections. */
  readonly close: () => void;
}

const CONNECT_TIMEOUT_MS = 10_000;
/** Shorter than the minute after which most servers close idle connections. */
const IDLE_TIMEOUT_MS = 50_000;
const IDLE_PER_ORIGIN_MAX = 512;
const STALE_CONNECTION_RETRY_MS = 1_000;

interface IdleConnection {
  readonly connection: Connection;
  readonly idleUntil: number;
}

export function createHttpClient(dial: Dial = dialByRuntime): HttpClient {
  const idle = new Map<string, IdleConnection[]>();
  const { cancelDeadline, ...poolHooks } = createPoolHooks(idle);

  function takeIdle(origin: string): Connection | undefined {
    return idle.get(origin)?.pop()?.connection;
  }

  async function open(
    { origin, address }: ParsedUrl,
    signal: AbortSignalLike,
  ): Promise<Connection> {
    const { connected, cancel: cancelDial } = dial(address, (socket) =>
      createConnection(socket, origin, poolHooks),
    );
    const aborted = Promise.withResolvers<never>();
    const cancelTimeout = startDeadline(CONNECT_TIMEOUT_MS, () => {
      aborted.reject(new Error(`connect timeout after ${CONNECT_TIMEOUT_MS / 1_000} s`));
      cancelDial();
    });
    const onAbort = (): void => {
      aborted.reject(new Error("aborted"));
      cancelDial();
    };
    signal.addEventListener("abort", onAbort);
    try {
      return await Promise.race([connected, aborted.promise]);
    } finally {
      cancelTimeout();
      signal.removeEventListener("abort", onAbort);
    }
  }

  async function send(outgoing: OutgoingRequest): Promise<UpstreamResponse> {
    const { signal } = outgoing;
    if (signal.aborted) throw new Error("aborted");
    const target = parseTarget(outgoing.url);
    const request = encodeRequest(target, outgoing);
    const reused = takeIdle(target.origin);
    if (reused !== undefined) {
      const sentAt = performance.now();
      outgoing.onSend?.();
      const exchange = sendRequest(reused, request);
      try {
        return decompressed(await withAbort(exchange, signal));
      } catch (error) {
        // The server may have closed the idle connection at the same moment: retry on a new one. After a longer time it may
        // have processed the request.
        const isLate = performance.now() - sentAt > STALE_CONNECTION_RETRY_MS;
        if (isLate || exchange.hasReplyBytes || signal.aborted) throw error;
      }
    }
    const connection = await open(target, signal);
    outgoing.onSend?.();
    return decompressed(await withAbort(sendRequest(connection, request), signal));
  }

  return {
    send,
    close: () => {
      const all = [...idle.values()].flat();
      for (const { connection } of all) destroy(connection);
      cancelDeadline();
    },
  };
}

/** Keeps idle connections for the next request to the same origin. */
function createPoolHooks(
  idle: Map<string, IdleConnection[]>,
): PoolHooks & { readonly cancelDeadline: () => void } {
  let cancel: (() => boolean) | undefined;
  // One deadline for all of them: nearly every connection is used again at once, so its own would only cost CPU.
  const closeAfter = (ms: number): void => {
    cancel = startDeadline(ms, () => {
      const now = performance.now();
      const all = [...idle.values()].flat();
      for (const { connection, idleUntil } of all) if (idleUntil <= now) destroy(connection);
      const next = Math.min(...all.map(({ idleUntil }) => idleUntil).filter((at) => at > now));
      cancel = undefined;
      if (next < Infinity) closeAfter(next - now);
    });
  };
  return {
    onIdle: (connection) => {
      const { origin } = connection;
      const all = idle.get(origin) ?? [];
      if (all.length >= IDLE_PER_ORIGIN_MAX) return destroy(connection);
      idle.set(origin, all);
      all.push({ connection, idleUntil: performance.now() + IDLE_TIMEOUT_MS });
      if (cancel === undefined) closeAfter(IDLE_TIMEOUT_MS);
    },
    onClosed: (connection) => {
      const { origin } = connection;
      const all = idle.get(origin);
      const index = all?.findIndex((entry) => entry.connection === connection) ?? -1;
      if (all === undefined || index === -1) return;
      all.splice(index, 1);
      if (all.length === 0) idle.delete(origin);
    },
    cancelDeadline: () => {
      cancel?.();
      cancel = undefined;
    },
  };
}

/** Sends with `fetch`, which supports the proxy settings of the environment. */
export const sendByFetch: Send = async ({ url, headers, body, signal, onSend }) => {
  // When `fetch` writes the request is unknown.
  onSend?.();
  return fromFetchResponse(
    await fetch(url, {
      method: "POST",
      headers,
      body,
      signal: toAbortSignal(signal),
      redirect: "manual",
      // Disables Bun's timeout of five minutes; the caller has its own.
      timeout: false,
    }),
  );
};

// Aborts the exchange, including its body, on the signal; removes the listener when the exchange ends.
function withAbort(exchange: HttpExchange, signal: AbortSignalLike): Promise<UpstreamResponse> {
  const onAbort = (): void => abortExchange(exchange);
  signal.addEventListener("abort", onAbort);
  onExchangeEnd(exchange, () => signal.removeEventListener("abort", onAbort));
  if (signal.aborted) onAbort();
  return exchange.reply.promise;
}

interface ParsedUrl {
  readonly origin: string;
  readonly address: SocketAddress;
  readonly host: string;
  readonly path: string;
}

const PARSED_URLS_MAX = 1_000;
const parsedUrls = new Map<string, ParsedUrl>();

/** Cached: there are few URLs, and parsing one is not free. */
function parseTarget(url: string): ParsedUrl {
  const cached = parsedUrls.get(url);
  if (cached !== undefined) return cached;
  const { protocol, hostname, host, port, pathname, search, origin } = new URL(url);
  const isSecure = protocol === "https:";
  if (!isSecure && protocol !== "http:") throw new Error(`unsupported protocol ${protocol}`);
  const address = {
    host: hostname.replace(/^\[(.*)\]$/, "$1"),
    port: port === "" ? (isSecure ? 443 : 80) : Number(port),
    isSecure,
  };
  const target = { origin, address, host, path: pathname + search };
  if (parsedUrls.size >= PARSED_URLS_MAX) parsedUrls.clear();
  parsedUrls.set(url, target);
  return target;
}

const HEADER_NAME = /^[!#$%&'*+\-.^_`|~\w]+$/;
const INVALID_HEADER_VALUE_CHARACTER = /[^\t\x20-\x7e\x80-\xff]/;
/** Routing and framing headers, which only this client sets. */
const RESERVED_HEADERS = new Set([
  "host",
  "content-length",
  "transfer-encoding",
  "connection",
  "expect",
]);

function encodeRequest({ host, path }: ParsedUrl, { headers, body }: OutgoingRequest): Uint8Array {
  const bodyBytes = Buffer.byteLength(body);
  const head = `POST ${path} HTTP/1.1\r\nhost: ${host}\r\n${headerLines(headers)}content-length: ${bodyBytes}\r\n\r\n`;
  const bytes = Buffer.allocUnsafe(head.length + bodyBytes);
  bytes.write(head, 0, "latin1");
  if (typeof body === "string") bytes.write(body, head.length, "utf8");
  else bytes.set(body, head.length);
  return bytes;
}

const headerLinesCache = new WeakMap<OutgoingRequest["headers"], string>();

// Frozen header objects are shared by many calls: they are validated and encoded once.
function headerLines(headers: OutgoingRequest["headers"]): string {
  const cached = headerLinesCache.get(headers);
  if (cached !== undefined) return cached;
  let lines = "";
  for (const name in headers) {
    const value = headers[name] ?? "";
    if (
      !HEADER_NAME.test(name) ||
      INVALID_HEADER_VALUE_CHARACTER.test(value) ||
      RESERVED_HEADERS.has(name.toLowerCase())
    )
      throw new Error(`invalid header ${JSON.stringify(name)}`);
    lines += `${name}: ${value}\r\n`;
  }
  if (Object.isFrozen(headers)) headerLinesCache.set(headers, lines);
  return lines;
}
