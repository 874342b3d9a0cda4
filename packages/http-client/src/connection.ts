// One HTTP/1.1 connection, which carries one exchange at a time. Connections and exchanges are plain data, because there is
// one per call; only the functions of this file change them.

import {
  createBodyStream,
  endBodyStream,
  type BodyStream,
  pushChunk,
  type FlowControl,
} from "./body-stream.ts";
import { isEndedByClose, parseBytes, type ReplyParser, type ReplyHandler } from "./reply-parser.ts";
import type { UpstreamResponse } from "./reply.ts";
import type { Socket, SocketEvents, SocketOwner } from "./socket.ts";

const CLOSED = "the connection was closed";

export interface Connection extends SocketOwner {
  readonly socket: Socket;
  /** Key in the connection pool. */
  readonly origin: string;
  readonly poolHooks: PoolHooks;
  readonly flowControl: FlowControl;
  activeExchange: HttpExchange | undefined;
  isClosed: boolean;
  isPaused: boolean;
}

/** An exchange is the parser of its reply, too: fewer objects have to be read for each chunk. */
export interface HttpExchange extends ReplyParser {
  readonly connection: Connection;
  /** Resolves when the reply's headers have arrived. */
  readonly reply: PromiseWithResolvers<UpstreamResponse>;
  /** Whether any byte of the reply has arrived. */
  hasReplyBytes: boolean;
  body: BodyStream | undefined;
  unsentBytes: Uint8Array | undefined;
  onEnd: (() => void) | undefined;
}

/** Notifies the pool when a connection becomes idle or is closed. */
export interface PoolHooks {
  readonly onIdle: (connection: Connection) => void;
  readonly onClosed: (connection: Connection) => void;
}

export function createConnection(socket: Socket, origin: string, poolHooks: PoolHooks): Connection {
  const connection: Connection = {
    events: CONNECTION_EVENTS,
    activeExchange: undefined,
    socket,
    origin,
    poolHooks,
    flowControl: {
      pause: () => {
        connection.isPaused = true;
        socket.pause();
      },
      resume: () => resumeConnection(connection),
      cancel: (stream) => {
        if (connection.activeExchange?.body === stream)
          failConnection(connection, new Error("canceled"));
      },
    },
    isClosed: false,
    isPaused: false,
  };
  return connection;
}

const CONNECTION_EVENTS: SocketEvents<Connection> = {
  onData: (connection, bytes) => {
    const { activeExchange } = connection;
    // Bytes without a request: the connection is unusable.
    if (activeExchange === undefined) return destroy(connection);
    activeExchange.hasReplyBytes = true;
    try {
      parseBytes(activeExchange, bytes);
    } catch (error) {
      failConnection(connection, error);
    }
  },
  onDrain: ({ socket, activeExchange }) => {
    if (activeExchange?.unsentBytes !== undefined)
      activeExchange.unsentBytes = writeToSocket(socket, activeExchange.unsentBytes);
  },
  onClose: (connection, error) => {
    const exchange = detachExchange(connection);
    markClosed(connection);
    if (exchange === undefined) return;
    if (error === undefined && isEndedByClose(exchange)) endExchangeBody(exchange);
    else failExchange(exchange, new Error(CLOSED));
  },
};

const REPLY_HANDLER: ReplyHandler<HttpExchange> = {
  onHead: (exchange, { status, headers }) => {
    if (!isActive(exchange)) return;
    exchange.body = createBodyStream(exchange.connection.flowControl);
    exchange.reply.resolve({ status, headers, body: exchange.body });
  },
  // The exchange may have been aborted while a chunk was parsed.
  onData: (exchange, bytes) => {
    if (exchange.body !== undefined && isActive(exchange)) pushChunk(exchange.body, bytes);
  },
  onEnd: (exchange, isReusable) => {
    const { connection } = exchange;
    const wasActive = detachExchange(connection) === exchange;
    if (connection.isPaused) resumeConnection(connection);
    // If the reply arrived before the request was fully sent, the connection cannot be reused.
    if (isReusable && exchange.unsentBytes === undefined && !connection.isClosed)
      connection.poolHooks.onIdle(connection);
    else destroy(connection);
    if (wasActive) endExchangeBody(exchange);
  },
};

function isActive(exchange: HttpExchange): boolean {
  return exchange.connection.activeExchange === exchange;
}

/** Sends a request on an idle connection. */
export function sendRequest(connection: Connection, request: Uint8Array): HttpExchange {
  const exchange: HttpExchange = {
    handler: REPLY_HANDLER,
    state: "head",
    remainingBytes: 0,
    partialLine: "",
    body: undefined,
    hasReplyBytes: false,
    connection,
    reply: Promise.withResolvers<UpstreamResponse>(),
    unsentBytes: undefined,
    onEnd: undefined,
    partialHead: undefined,
    isReusable: true,
    interimReplies: 0,
    trailers: 0,
  };
  connection.activeExchange = exchange;
  if (connection.isClosed) failConnection(connection, new Error(CLOSED));
  else exchange.unsentBytes = writeToSocket(connection.socket, request);
  return exchange;
}

export function abortExchange(exchange: HttpExchange): void {
  if (isActive(exchange)) failConnection(exchange.connection, new Error("aborted"));
}

/** Calls back when the exchange ends, or immediately if it has ended. */
export function onExchangeEnd(exchange: HttpExchange, onEnd: () => void): void {
  if (isActive(exchange)) exchange.onEnd = onEnd;
  else onEnd();
}

export function destroy(connection: Connection): void {
  markClosed(connection);
  connection.socket.terminate();
}

function detachExchange(connection: Connection): HttpExchange | undefined {
  const exchange = connection.activeExchange;
  connection.activeExchange = undefined;
  exchange?.onEnd?.();
  return exchange;
}

function markClosed(connection: Connection): void {
  if (connection.isClosed) return;
  connection.isClosed = true;
  connection.poolHooks.onClosed(connection);
}

function failConnection(connection: Connection, error: unknown): void {
  const exchange = detachExchange(connection);
  destroy(connection);
  if (exchange !== undefined)
    failExchange(exchange, error instanceof Error ? error : new Error(String(error)));
}

function resumeConnection(connection: Connection): void {
  connection.isPaused = false;
  connection.socket.resume();
}

function failExchange(exchange: HttpExchange, error: Error): void {
  if (exchange.body === undefined) exchange.reply.reject(error);
  else endBodyStream(exchange.body, false);
}

function endExchangeBody({ body }: HttpExchange): void {
  if (body !== undefined) endBodyStream(body, true);
}

/** Writes as much as the socket accepts and returns the rest. */
function writeToSocket(socket: Socket, bytes: Uint8Array): Uint8Array | undefined {
  const written = Math.max(0, socket.write(bytes));
  return written >= bytes.length ? undefined : bytes.subarray(written);
}
