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
}

export function createConnection(socket: Socket, fate: Fate): Connection {
  let running: Running | undefined;
  let isGone = false;
  let isPaused = false;

  function data(bytes: Buffer): void {
    // What comes unasked belongs to nobody.
    if (running === undefined) return terminate();
    running.answered = true;
    try {
      running.parser.push(bytes);
    } catch (error) {
      breakOff(error);
    }
  }

  function drained(): void {
    if (running?.unsent !== undefined) running.unsent = writeOn(socket, running.unsent);
  }

  function closed(): void {
    const last = running;
    running = undefined;
    gone();
    if (last === undefined) return;
    if (last.parser.close()) last.faucet?.end(true);
    else fail(last, new Error("the connection was closed"));
  }

  function gone(): void {
    if (isGone) return;
    isGone = true;
    fate.gone(connection);
  }

  function terminate(): void {
    gone();
    socket.terminate();
  }

  function breakOff(error: unknown): void {
    const last = running;
    running = undefined;
    terminate();
    if (last !== undefined) fail(last, error instanceof Error ? error : new Error(String(error)));
  }

  function ended(reusable: boolean): void {
    const last = running;
    running = undefined;
    if (isPaused) resume();
    // A reply that came before all of its request was sent leaves the connection in the midst of it.
    if (reusable && last?.unsent === undefined && !isGone) fate.free(connection);
    else terminate();
    last?.faucet?.end(true);
  }

  function pause(): void {
    isPaused = true;
    socket.pause();
  }

  function resume(): void {
    isPaused = false;
    socket.resume();
  }

  function exchange(request: Uint8Array): Exchange {
    const replied = Promise.withResolvers<Reply>();
    const hangUp = (): void => {
      if (running === mine) breakOff(new Error("hung up"));
    };
    const mine: Running = {
      parser: createReplyParser({
        head: ({ status, headers }) => {
          mine.faucet = createInflow({ pause, resume, hangUp });
          replied.resolve({ status, headers, body: mine.faucet.inflow });
        },
        piece: (bytes) => mine.faucet?.piece(bytes),
        end: ended,
      }),
      fail: replied.reject,
      unsent: undefined,
      answered: false,
      faucet: undefined,
    };
    running = mine;
    if (isGone) breakOff(new Error("the connection was closed"));
    else mine.unsent = writeOn(socket, request);
    return { reply: replied.promise, wasAnswered: () => mine.answered, hangUp };
  }

  const connection: Connection = { data, drained, closed, exchange, terminate };
  return connection;
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
