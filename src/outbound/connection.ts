// One connection and the requests that follow one another on it, one at a time. Every call has an exchange and every
// stream a connection, so both are nothing but data, which the functions of this file alone change.

import { createInflow, endInflow, type Inflow, pour, type Valve } from "./inflow.ts";
import {
  createReplyParser,
  endsByClosing,
  pushReply,
  type ReplyParser,
  type ReplyReader,
} from "./reply-parser.ts";
import type { Reply } from "./reply.ts";
import type { Socket, SocketEvents } from "./socket.ts";

export interface Connection {
  readonly socket: Socket;
  /** Where it goes to, by whatever name its owner keeps it. */
  readonly origin: string;
  readonly fate: Fate;
  readonly valve: Valve;
  running: Exchange | undefined;
  isGone: boolean;
  isPaused: boolean;
}

export interface Exchange {
  readonly connection: Connection;
  /** Resolves when the headers of the reply are there. */
  readonly replied: PromiseWithResolvers<Reply>;
  readonly parser: ReplyParser;
  unsent: Uint8Array | undefined;
  /** Whether any byte of the reply has come. */
  answered: boolean;
  inflow: Inflow | undefined;
  over: (() => void) | undefined;
}

/** What becomes of a connection: free for another request when a reply has ended well, or gone. */
export interface Fate {
  readonly free: (connection: Connection) => void;
  readonly gone: (connection: Connection) => void;
}

export function createConnection(socket: Socket, origin: string, fate: Fate): Connection {
  const connection: Connection = {
    socket,
    origin,
    fate,
    valve: {
      pause: () => {
        connection.isPaused = true;
        socket.pause();
      },
      resume: () => resume(connection),
      hangUp: (inflow) => {
        if (connection.running?.inflow === inflow) breakOff(connection, new Error("hung up"));
      },
    },
    running: undefined,
    isGone: false,
    isPaused: false,
  };
  return connection;
}

export const CONNECTION_EVENTS: SocketEvents<Connection> = {
  data: (connection, bytes) => {
    const { running } = connection;
    // What comes unasked belongs to nobody.
    if (running === undefined) return terminate(connection);
    running.answered = true;
    try {
      pushReply(running.parser, bytes);
    } catch (error) {
      breakOff(connection, error);
    }
  },
  drained: ({ socket, running }) => {
    if (running?.unsent !== undefined) running.unsent = writeOn(socket, running.unsent);
  },
  closed: (connection, clean) => {
    const last = stopRunning(connection);
    gone(connection);
    if (last === undefined) return;
    if (clean && endsByClosing(last.parser)) endBody(last);
    else fail(last, new Error("the connection was closed"));
  },
};

const REPLY_READER: ReplyReader<Connection> = {
  head: (connection, { status, headers }) => {
    const { running, valve } = connection;
    if (running === undefined) return;
    running.inflow = createInflow(valve);
    running.replied.resolve({ status, headers, body: running.inflow });
  },
  // Of an exchange that was broken off in the midst of a slice nothing is handed on.
  piece: ({ running }, bytes) => {
    if (running?.inflow !== undefined) pour(running.inflow, bytes);
  },
  end: (connection, reusable) => {
    const last = stopRunning(connection);
    if (connection.isPaused) resume(connection);
    // A reply that came before all of its request was sent leaves the connection in the midst of it.
    if (reusable && last?.unsent === undefined && !connection.isGone)
      connection.fate.free(connection);
    else terminate(connection);
    if (last !== undefined) endBody(last);
  },
};

/** Sends a request. One at a time. */
export function sendOn(connection: Connection, request: Uint8Array): Exchange {
  const exchange: Exchange = {
    connection,
    replied: Promise.withResolvers<Reply>(),
    parser: createReplyParser(REPLY_READER, connection),
    unsent: undefined,
    answered: false,
    inflow: undefined,
    over: undefined,
  };
  connection.running = exchange;
  if (connection.isGone) breakOff(connection, new Error("the connection was closed"));
  else exchange.unsent = writeOn(connection.socket, request);
  return exchange;
}

export function hangUp(exchange: Exchange): void {
  const { connection } = exchange;
  if (connection.running === exchange) breakOff(connection, new Error("hung up"));
}

/** Calls back when nothing more comes of an exchange, at once where that is so already. */
export function onOver(exchange: Exchange, over: () => void): void {
  if (exchange.connection.running === exchange) exchange.over = over;
  else over();
}

export function terminate(connection: Connection): void {
  gone(connection);
  connection.socket.terminate();
}

function stopRunning(connection: Connection): Exchange | undefined {
  const last = connection.running;
  connection.running = undefined;
  last?.over?.();
  return last;
}

function gone(connection: Connection): void {
  if (connection.isGone) return;
  connection.isGone = true;
  connection.fate.gone(connection);
}

function breakOff(connection: Connection, error: unknown): void {
  const last = stopRunning(connection);
  terminate(connection);
  if (last !== undefined) fail(last, error instanceof Error ? error : new Error(String(error)));
}

function resume(connection: Connection): void {
  connection.isPaused = false;
  connection.socket.resume();
}

function fail(exchange: Exchange, error: Error): void {
  if (exchange.inflow === undefined) exchange.replied.reject(error);
  else endInflow(exchange.inflow, false);
}

function endBody({ inflow }: Exchange): void {
  if (inflow !== undefined) endInflow(inflow, true);
}

/** What could not be written yet. */
function writeOn(socket: Socket, bytes: Uint8Array): Uint8Array | undefined {
  const written = Math.max(0, socket.write(bytes));
  return written >= bytes.length ? undefined : bytes.subarray(written);
}
