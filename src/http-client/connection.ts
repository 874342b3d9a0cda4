// One HTTP/1.1 connection, which carries one exchange at a time. Connections and exchanges are plain data, because there is
// one per call; only the functions of this file change them.

import {
  createBodyStream,
  endBodyStream,
  type BodyStream,
  push,
  type FlowControl,
} from "./body-stream.ts";
import {
  createReplyParser,
  isEndedByClose,
  parseBytes,
  type ReplyParser,
  type ReplyHandler,
} from "./reply-parser.ts";
import type { UpstreamResponse } from "./reply.ts";
import type { Socket, SocketEvents } from "./socket.ts";

const CLOSED = "the connection was closed";

export interface Connection {
  readonly socket: Socket;
  /** Key in the connection pool. */
  readonly origin: string;
  readonly poolHooks: PoolHooks;
  readonly flowControl: FlowControl;
  activeExchange: HttpExchange | undefined;
  isClosed: boolean;
  isPaused: boolean;
}

export interface HttpExchange {
  readonly connection: Connection;
  /** Resolves when the reply's headers have arrived. */
  readonly reply: PromiseWithResolvers<UpstreamResponse>;
  readonly parser: ReplyParser;
  unsentBytes: Uint8Array | undefined;
  /** Whether any byte of the reply has arrived. */
  hasReplyBytes: boolean;
  body: BodyStream | undefined;
  onEnd: (() => void) | undefined;
}

/** Notifies the pool when a connection becomes idle or is closed. */
export interface PoolHooks {
  readonly onIdle: (connection: Connection) => void;
  readonly onClosed: (connection: Connection) => void;
}

export function createConnection(socket: Socket, origin: string, poolHooks: PoolHooks): Connection {
  const connection: Connection = {
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
    activeExchange: undefined,
    isClosed: false,
    isPaused: false,
  };
  return connection;
}

export const CONNECTION_EVENTS: SocketEvents<Connection> = {
  onData: (connection, bytes) => {
    const { activeExchange } = connection;
    // Bytes without a request: the connection is unusable.
    if (activeExchange === undefined) return destroy(connection);
    activeExchange.hasReplyBytes = true;
    try {
      parseBytes(activeExchange.parser, bytes);
    } catch (error) {
      failConnection(connection, error);
    }
  },
  onDrain: ({ socket, activeExchange }) => {
    if (activeExchange?.unsentBytes !== undefined)
      activeExchange.unsentBytes = writeToSocket(socket, activeExchange.unsentBytes);
  },
  onClose: (connection, isClean) => {
    const exchange = detachExchange(connection);
    markClosed(connection);
    if (exchange === undefined) return;
    if (isClean && isEndedByClose(exchange.parser)) endExchangeBody(exchange);
    else failExchange(exchange, new Error(CLOSED));
  },
};

const REPLY_HANDLER: ReplyHandler<Connection> = {
  onHead: (connection, { status, headers }) => {
    const { activeExchange, flowControl } = connection;
    if (activeExchange === undefined) return;
    activeExchange.body = createBodyStream(flowControl);
    activeExchange.reply.resolve({ status, headers, body: activeExchange.body });
  },
  // The exchange may have been aborted while a chunk was parsed.
  onData: ({ activeExchange }, bytes) => {
    if (activeExchange?.body !== undefined) push(activeExchange.body, bytes);
  },
  onEnd: (connection, isReusable) => {
    const exchange = detachExchange(connection);
    if (connection.isPaused) resumeConnection(connection);
    // If the reply arrived before the request was fully sent, the connection cannot be reused.
    if (isReusable && exchange?.unsentBytes === undefined && !connection.isClosed)
      connection.poolHooks.onIdle(connection);
    else destroy(connection);
    if (exchange !== undefined) endExchangeBody(exchange);
  },
};

/** Sends a request on an idle connection. */
export function sendRequest(connection: Connection, request: Uint8Array): HttpExchange {
  const exchange: HttpExchange = {
    connection,
    reply: Promise.withResolvers<UpstreamResponse>(),
    parser: createReplyParser(REPLY_HANDLER, connection),
    unsentBytes: undefined,
    hasReplyBytes: false,
    body: undefined,
    onEnd: undefined,
  };
  connection.activeExchange = exchange;
  if (connection.isClosed) failConnection(connection, new Error(CLOSED));
  else exchange.unsentBytes = writeToSocket(connection.socket, request);
  return exchange;
}

export function abortExchange(exchange: HttpExchange): void {
  const { connection } = exchange;
  if (connection.activeExchange === exchange) failConnection(connection, new Error("aborted"));
}

/** Calls back when the exchange ends, or immediately if it has ended. */
export function onExchangeEnd(exchange: HttpExchange, onEnd: () => void): void {
  if (exchange.connection.activeExchange === exchange) exchange.onEnd = onEnd;
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
