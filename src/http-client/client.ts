// Carries requests to providers and their replies back, on connections that are kept for the next. Why this is not the
// runtime's `fetch` is told in docs/decisions/0015-own-http-client.md.

import { startDeadline } from "../base/deadline.ts";
import { memoize } from "../base/memoize.ts";
import { toAbortSignal, type AbortSignalLike } from "../base/abort.ts";
import {
  type Connection,
  CONNECTION_EVENTS,
  createConnection,
  type HttpExchange,
  type PoolHooks,
  abortExchange,
  onExchangeEnd,
  sendRequest,
  destroy,
} from "./connection.ts";
import { type UpstreamResponse, fromFetchResponse, decompressed } from "./reply.ts";
import { type Dial, dial as dialByRuntime, type SocketAddress } from "./socket.ts";

export interface OutgoingRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly signal: AbortSignalLike;
}

/** Sends a POST and resolves when the headers of its reply are there; rejects where there is none. */
export type Send = (outgoing: OutgoingRequest) => Promise<UpstreamResponse>;

export interface HttpClient {
  readonly send: Send;
  /** Closes the connections that nobody uses. */
  readonly close: () => void;
}

const CONNECT_TIMEOUT_MS = 10_000;
/** Shorter than the minute after which most servers close a silent connection. */
const IDLE_TIMEOUT_MS = 50_000;
const IDLE_PER_ORIGIN_MAX = 512;
const STALE_CONNECTION_RETRY_MS = 1_000;

interface IdleConnection {
  readonly connection: Connection;
  readonly cancelTimeout: () => void;
}

export function createHttpClient(dial: Dial = dialByRuntime): HttpClient {
  const idle = new Map<string, IdleConnection[]>();
  const poolHooks = createPoolHooks(idle);

  function takeIdle(origin: string): Connection | undefined {
    const reused = idle.get(origin)?.pop();
    reused?.cancelTimeout();
    return reused?.connection;
  }

  async function open({ origin, address }: Target, signal: AbortSignalLike): Promise<Connection> {
    const { connected, cancel: cancelDial } = dial(address, CONNECTION_EVENTS, (socket) =>
      createConnection(socket, origin, poolHooks),
    );
    const aborted = Promise.withResolvers<never>();
    const cancelTimeout = startDeadline(CONNECT_TIMEOUT_MS, () => {
      aborted.reject(new Error(`no connection within ${CONNECT_TIMEOUT_MS / 1_000} seconds`));
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
      const exchange = sendRequest(reused, request);
      try {
        return decompressed(await withAbort(exchange, signal));
      } catch (error) {
        // A kept connection may have been closed at its other end just then: that says nothing about the provider. One
        // that is closed later may have been heard.
        const isLate = performance.now() - sentAt > STALE_CONNECTION_RETRY_MS;
        if (isLate || exchange.hasReplyBytes || signal.aborted) throw error;
      }
    }
    const connection = await open(target, signal);
    return decompressed(await withAbort(sendRequest(connection, request), signal));
  }

  return {
    send,
    close: () => {
      const all = [...idle.values()].flat();
      for (const { connection } of all) destroy(connection);
    },
  };
}

/** Keeps what is free, so that the next call to the same place finds it. */
function createPoolHooks(idle: Map<string, IdleConnection[]>): PoolHooks {
  return {
    onIdle: (connection) => {
      const { origin } = connection;
      const all = idle.get(origin) ?? [];
      if (all.length >= IDLE_PER_ORIGIN_MAX) return destroy(connection);
      idle.set(origin, all);
      all.push({
        connection,
        cancelTimeout: startDeadline(IDLE_TIMEOUT_MS, () => destroy(connection)),
      });
    },
    onClosed: (connection) => {
      const { origin } = connection;
      const all = idle.get(origin);
      const at = all?.findIndex((one) => one.connection === connection) ?? -1;
      if (all === undefined || at === -1) return;
      all.splice(at, 1)[0]?.cancelTimeout();
      if (all.length === 0) idle.delete(origin);
    },
  };
}

/** The runtime's own client, which finds its way through a proxy that the environment names. */
export const sendByFetch: Send = async ({ url, headers, body, signal }) =>
  fromFetchResponse(
    await fetch(url, {
      method: "POST",
      headers,
      body,
      signal: toAbortSignal(signal),
      redirect: "manual",
      // The runtime's own limit of five minutes is the caller's to set.
      timeout: false,
    }),
  );

// The signal ends the exchange, its body included, and is let go when that is over.
function withAbort(exchange: HttpExchange, signal: AbortSignalLike): Promise<UpstreamResponse> {
  const onAbort = (): void => abortExchange(exchange);
  signal.addEventListener("abort", onAbort);
  onExchangeEnd(exchange, () => signal.removeEventListener("abort", onAbort));
  if (signal.aborted) onAbort();
  return exchange.reply.promise;
}

interface Target {
  readonly origin: string;
  readonly address: SocketAddress;
  readonly host: string;
  readonly path: string;
}

/** The addresses of calls are few, and taking one apart is not for nothing. */
const parseTarget = memoize((url: string): Target => {
  const { protocol, hostname, host, port, pathname, search, origin } = new URL(url);
  const secure = protocol === "https:";
  if (!secure && protocol !== "http:") throw new Error(`no address of HTTP: ${protocol}`);
  const address = {
    host: hostname.replace(/^\[(.*)\]$/, "$1"),
    port: port === "" ? (secure ? 443 : 80) : Number(port),
    isSecure: secure,
  };
  return { origin, address, host, path: pathname + search };
});

const HEADER_NAME = /^[!#$%&'*+\-.^_`|~\w]+$/;
const INVALID_HEADER_VALUE_CHARACTER = /[^\t\x20-\x7e\x80-\xff]/;
/** Headers that say where a request goes and where it ends: they are said here, and once. */
const RESERVED_HEADERS = new Set([
  "host",
  "content-length",
  "transfer-encoding",
  "connection",
  "expect",
]);

function encodeRequest({ host, path }: Target, { headers, body }: OutgoingRequest): Uint8Array {
  const bodyBytes = Buffer.byteLength(body);
  const head = `POST ${path} HTTP/1.1\r\nhost: ${host}\r\n${headerLines(headers)}content-length: ${bodyBytes}\r\n\r\n`;
  const bytes = Buffer.allocUnsafe(head.length + bodyBytes);
  bytes.write(head, 0, "latin1");
  bytes.write(body, head.length, "utf8");
  return bytes;
}

const headerLinesCache = new WeakMap<OutgoingRequest["headers"], string>();

// Headers that are frozen are the same for many calls, and are looked at once.
function headerLines(headers: OutgoingRequest["headers"]): string {
  const known = headerLinesCache.get(headers);
  if (known !== undefined) return known;
  let lines = "";
  for (const name in headers) {
    const value = headers[name] ?? "";
    if (
      !HEADER_NAME.test(name) ||
      INVALID_HEADER_VALUE_CHARACTER.test(value) ||
      RESERVED_HEADERS.has(name.toLowerCase())
    )
      throw new Error(`the header ${JSON.stringify(name)} cannot be sent`);
    lines += `${name}: ${value}\r\n`;
  }
  if (Object.isFrozen(headers)) headerLinesCache.set(headers, lines);
  return lines;
}
