// One connection and the requests that follow one another on it, one at a time.

import { createInflow, type Faucet } from "./inflow.ts";
import { createReplyParser, type ReplyParser } from "./reply-parser.ts";
import type { Reply } from "./reply.ts";
import type { Socket, SocketEvents } from "./socket.ts";

export interface Connection extends SocketEvents {
  /** Sends a request. One at a time. */
  readonly exchange: (request: Uint8Array) => Exchange;
  readonly terminate: () => void;
}

export interface Exchange {
  /** Resolves when the headers of the reply are there. */
  readonly reply: Promise<Reply>;
  /** Whether any byte of the reply has come. */
  readonly wasAnswered: () => boolean;
  readonly hangUp: () => void;
  /** Calls back when nothing more comes of it, at once where that is so already. */
  readonly onOver: (over: () => void) => void;
}

/** What becomes of a connection: free for another request when a reply has ended well, or gone. */
export interface Fate {
  readonly free: (connection: Connection) => void;
  readonly gone: (connection: Connection) => void;
}

interface Running {
  readonly parser: ReplyParser;
  readonly fail: (error: Error) => void;
  unsent: Uint8Array | undefined;
  answered: boolean;
  faucet: Faucet | undefined;
  over: () => void;
}

interface State {
  readonly socket: Socket;
  readonly fate: Fate;
  readonly connection: Connection;
  running: Running | undefined;
  isGone: boolean;
  isPaused: boolean;
}

export function createConnection(socket: Socket, fate: Fate): Connection {
  const connection: Connection = {
    data: (bytes) => take(state, bytes),
    drained: () => {
      const { running } = state;
      if (running?.unsent !== undefined) running.unsent = writeOn(socket, running.unsent);
    },
    closed: (clean) => closed(state, clean),
    exchange: (request) => exchange(state, request),
    terminate: () => terminate(state),
  };
  const state: State = {
    socket,
    fate,
    connection,
    running: undefined,
    isGone: false,
    isPaused: false,
  };
  return connection;
}

function take(state: State, bytes: Buffer): void {
  const { running } = state;
  // What comes unasked belongs to nobody.
  if (running === undefined) return terminate(state);
  running.answered = true;
  try {
    running.parser.push(bytes);
  } catch (error) {
    breakOff(state, error);
  }
}

function closed(state: State, clean: boolean): void {
  const last = stopRunning(state);
  gone(state);
  if (last === undefined) return;
  if (clean && last.parser.close()) last.faucet?.end(true);
  else fail(last, new Error("the connection was closed"));
}

function stopRunning(state: State): Running | undefined {
  const last = state.running;
  state.running = undefined;
  last?.over();
  return last;
}

function gone(state: State): void {
  if (state.isGone) return;
  state.isGone = true;
  state.fate.gone(state.connection);
}

function terminate(state: State): void {
  gone(state);
  state.socket.terminate();
}

function breakOff(state: State, error: unknown): void {
  const last = stopRunning(state);
  terminate(state);
  if (last !== undefined) fail(last, error instanceof Error ? error : new Error(String(error)));
}

function ended(state: State, reusable: boolean): void {
  const last = stopRunning(state);
  if (state.isPaused) resume(state);
  // A reply that came before all of its request was sent leaves the connection in the midst of it.
  if (reusable && last?.unsent === undefined && !state.isGone) state.fate.free(state.connection);
  else terminate(state);
  last?.faucet?.end(true);
}

function pause(state: State): void {
  state.isPaused = true;
  state.socket.pause();
}

function resume(state: State): void {
  state.isPaused = false;
  state.socket.resume();
}

function exchange(state: State, request: Uint8Array): Exchange {
  const replied = Promise.withResolvers<Reply>();
  const hangUp = (): void => {
    if (state.running === mine) breakOff(state, new Error("hung up"));
  };
  const mine: Running = {
    parser: createReplyParser({
      head: ({ status, headers }) => {
        mine.faucet = createInflow({
          pause: () => pause(state),
          resume: () => resume(state),
          hangUp,
        });
        replied.resolve({ status, headers, body: mine.faucet.inflow });
      },
      piece: (bytes) => mine.faucet?.piece(bytes),
      end: (reusable) => ended(state, reusable),
    }),
    fail: replied.reject,
    unsent: undefined,
    answered: false,
    faucet: undefined,
    over: () => {},
  };
  state.running = mine;
  if (state.isGone) breakOff(state, new Error("the connection was closed"));
  else mine.unsent = writeOn(state.socket, request);
  return {
    reply: replied.promise,
    wasAnswered: () => mine.answered,
    hangUp,
    onOver: (over) => {
      if (state.running === mine) mine.over = over;
      else over();
    },
  };
}

function fail({ faucet, fail: reject }: Running, error: Error): void {
  if (faucet === undefined) reject(error);
  else faucet.end(false);
}

/** What could not be written yet. */
function writeOn(socket: Socket, bytes: Uint8Array): Uint8Array | undefined {
  const written = Math.max(0, socket.write(bytes));
  return written >= bytes.length ? undefined : bytes.subarray(written);
}
