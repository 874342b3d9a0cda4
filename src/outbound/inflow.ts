// The body of a reply as it comes in: asked for piece by piece, or handed on at once as each piece comes. A reader that
// cannot take more pauses it, and then nothing more is read from the connection.

import { deadline } from "../base/deadline.ts";

export interface InflowReader {
  readonly piece: (bytes: Uint8Array) => void;
  /** `whole`: it came to its end, and was not cut. */
  readonly end: (whole: boolean) => void;
}

export interface Inflow {
  /** The next piece, or undefined at the end; rejects where the reply was cut. */
  readonly next: () => Promise<Uint8Array | undefined>;
  /** From here on every piece goes to this reader as it comes, first those that waited, and one that is still awaited. */
  readonly flow: (reader: InflowReader) => void;
  readonly pause: () => void;
  readonly resume: () => void;
  /** Hangs up. Nothing is handed on any more. */
  readonly cancel: () => void;
  /** Nothing more is of interest; what is about to end may do so, in order that its connection can be used again. */
  readonly release: () => void;
}

/** What an inflow does to where it comes from. */
export interface Valve {
  readonly pause: () => void;
  readonly resume: () => void;
  readonly hangUp: () => void;
}

/** So much is kept of what nobody has asked for yet. */
const UNREAD_MAX_BYTES = 262_144;
const RELEASE_MAX_BYTES = 65_536;
const RELEASE_MAX_MS = 500;

const CUT = "the reply was cut";

export interface Faucet {
  readonly inflow: Inflow;
  readonly piece: (bytes: Uint8Array) => void;
  readonly end: (whole: boolean) => void;
}

interface Asked {
  readonly resolve: (piece: Uint8Array | undefined) => void;
  readonly reject: (error: Error) => void;
}

export function createInflow(valve: Valve): Faucet {
  const unread: Uint8Array[] = [];
  let unreadBytes = 0;
  let ended: "whole" | "cut" | undefined;
  let reader: InflowReader | undefined;
  let asked: Asked | undefined;
  let isPaused = false;

  function piece(bytes: Uint8Array): void {
    if (reader !== undefined) reader.piece(bytes);
    else if (asked !== undefined) {
      const { resolve } = asked;
      asked = undefined;
      resolve(bytes);
    } else {
      unread.push(bytes);
      unreadBytes += bytes.length;
      if (unreadBytes > UNREAD_MAX_BYTES && !isPaused) pause();
    }
  }

  function end(whole: boolean): void {
    if (ended !== undefined) return;
    ended = whole ? "whole" : "cut";
    if (reader !== undefined) reader.end(whole);
    else if (asked !== undefined) {
      if (whole) asked.resolve(undefined);
      else asked.reject(new Error(CUT));
      asked = undefined;
    }
  }

  function pause(): void {
    isPaused = true;
    if (ended === undefined) valve.pause();
  }

  function resume(): void {
    isPaused = false;
    if (ended === undefined) valve.resume();
  }

  function next(): Promise<Uint8Array | undefined> {
    const waiting = unread.shift();
    if (waiting !== undefined) {
      unreadBytes -= waiting.length;
      if (isPaused && unreadBytes <= UNREAD_MAX_BYTES) resume();
      return Promise.resolve(waiting);
    }
    if (ended === "whole") return Promise.resolve(undefined);
    if (ended === "cut") return Promise.reject(new Error(CUT));
    return new Promise((resolve, reject) => {
      asked = { resolve, reject };
    });
  }

  // A reader that is asked to take what waited may pause, hang up or be followed by another in the midst of it.
  function flow(to: InflowReader): void {
    reader = to;
    asked = undefined;
    if (isPaused && ended === undefined) resume();
    for (const waiting of unread.splice(0)) reader.piece(waiting);
    unreadBytes = 0;
    if (ended !== undefined) reader.end(ended === "whole");
  }

  function cancel(): void {
    reader = SILENT;
    unread.length = 0;
    if (ended !== undefined) return;
    ended = "cut";
    valve.hangUp();
    asked?.reject(new Error(CUT));
    asked = undefined;
  }

  function release(): void {
    if (ended !== undefined) return cancel();
    let bytes = 0;
    const stop = deadline(RELEASE_MAX_MS, cancel);
    flow({
      piece: (more) => {
        bytes += more.length;
        if (bytes <= RELEASE_MAX_BYTES) return;
        stop();
        cancel();
      },
      end: stop,
    });
  }

  return { inflow: { next, flow, pause, resume, cancel, release }, piece, end };
}

const SILENT: InflowReader = { piece: () => {}, end: () => {} };

/** The inflow of a body that the runtime reads. */
export function inflowOf(body: ReadableStream<Uint8Array> | null): Inflow {
  const source = body?.getReader();
  let isPaused = false;
  let wake: (() => void) | undefined;
  const faucet = createInflow({
    pause: () => {
      isPaused = true;
    },
    resume: () => {
      isPaused = false;
      wake?.();
    },
    hangUp: () => void source?.cancel().catch(() => {}),
  });
  const pump = async (): Promise<void> => {
    for (;;) {
      const read = await source?.read();
      if (read === undefined || read.done) return faucet.end(true);
      faucet.piece(read.value);
      while (isPaused)
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
  };
  pump().catch(() => faucet.end(false));
  return faucet.inflow;
}
