// One connection and the requests that follow one another on it, one at a time. Every call has an exchange and every
// stream a connection, so both are nothing but data, which the functions of this file alone change.

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

export interface Connection {
  readonly socket: Socket;
  /** Where it goes to, by whatever name its owner keeps it. */
  readonly origin: string;
  readonly poolHooks: PoolHooks;
  readonly flowControl: FlowControl;
  activeExchange: HttpExchange | undefined;
  isClosed: boolean;
  isPaused: boolean;
}

export interface HttpExchange {
  readonly connection: Connection;
  /** Resolves when the headers of the reply are there. */
  readonly reply: PromiseWithResolvers<UpstreamResponse>;
  readonly parser: ReplyParser;
  unsentBytes: Uint8Array | undefined;
  /** Whether any byte of the reply has come. */
  hasReplyBytes: boolean;
  body: BodyStream | undefined;
  onEnd: (() => void) | undefined;
}

/** What becomes of a connection: free for another request when a reply has ended well, or gone. */
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
      cancel: (inflow) => {
        if (connection.activeExchange?.body === inflow)
          failConnection(connection, new Error("hung up"));
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
    // What comes unasked belongs to nobody.
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
  onClose: (connection, clean) => {
    const last = detachExchange(connection);
    markClosed(connection);
    if (last === undefined) return;
    if (clean && isEndedByClose(last.parser)) endExchangeBody(last);
    else failExchange(last, new Error("the connection was closed"));
  },
};

const REPLY_HANDLER: ReplyHandler<Connection> = {
  onHead: (connection, { status, headers }) => {
    const { activeExchange, flowControl } = connection;
    if (activeExchange === undefined) return;
    activeExchange.body = createBodyStream(flowControl);
    activeExchange.reply.resolve({ status, headers, body: activeExchange.body });
  },
  // Of an exchange that was broken off in the midst of a slice nothing is handed on.
  onData: ({ activeExchange }, bytes) => {
    if (activeExchange?.body !== undefined) push(activeExchange.body, bytes);
  },
  onEnd: (connection, reusable) => {
    const last = detachExchange(connection);
    if (connection.isPaused) resumeConnection(connection);
    // A reply that came before all of its request was sent leaves the connection in the midst of it.
    if (reusable && last?.unsentBytes === undefined && !connection.isClosed)
      connection.poolHooks.onIdle(connection);
    else destroy(connection);
    if (last !== undefined) endExchangeBody(last);
  },
};

/** Sends a request. One at a time. */
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
  if (connection.isClosed) failConnection(connection, new Error("the connection was closed"));
  else exchange.unsentBytes = writeToSocket(connection.socket, request);
  return exchange;
}

export function abortExchange(exchange: HttpExchange): void {
  const { connection } = exchange;
  if (connection.activeExchange === exchange) failConnection(connection, new Error("hung up"));
}

/** Calls back when nothing more comes of an exchange, at once where that is so already. */
export function onExchangeEnd(exchange: HttpExchange, onEnd: () => void): void {
  if (exchange.connection.activeExchange === exchange) exchange.onEnd = onEnd;
  else onEnd();
}

export function destroy(connection: Connection): void {
  markClosed(connection);
  connection.socket.terminate();
}

function detachExchange(connection: Connection): HttpExchange | undefined {
  const last = connection.activeExchange;
  connection.activeExchange = undefined;
  last?.onEnd?.();
  return last;
}

function markClosed(connection: Connection): void {
  if (connection.isClosed) return;
  connection.isClosed = true;
  connection.poolHooks.onClosed(connection);
}

function failConnection(connection: Connection, error: unknown): void {
  const last = detachExchange(connection);
  destroy(connection);
  if (last !== undefined)
    failExchange(last, error instanceof Error ? error : new Error(String(error)));
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

/** What could not be written yet. */
function writeToSocket(socket: Socket, bytes: Uint8Array): Uint8Array | undefined {
  const written = Math.max(0, socket.write(bytes));
  return written >= bytes.length ? undefined : bytes.subarray(written);
}
