// The body of a reply as it comes in: asked for piece by piece, or handed on at once as each piece comes. A reader that
// cannot take more pauses it, and then nothing more is read from the connection.

import { deadline } from "../base/deadline.ts";

export interface InflowReader {
  readonly piece: (bytes: Uint8Array) => void;
  /** `whole`: it came to its end, and was not cut. */
  readonly end: (whole: boolean) => void;
}

/** What an inflow does to where it comes from. */
export interface Valve {
  readonly pause: () => void;
  readonly resume: () => void;
  readonly hangUp: (inflow: Inflow) => void;
}

/** So much is kept of what nobody has asked for yet. */
const UNREAD_MAX_BYTES = 262_144;
const RELEASE_MAX_BYTES = 65_536;
const RELEASE_MAX_MS = 500;

const CUT = "the reply was cut";

/** Its state, which the functions of this file alone read and change: every call has one, so it is nothing but data. */
export interface Inflow {
  readonly valve: Valve;
  readonly unread: Uint8Array[];
  unreadBytes: number;
  ended: "whole" | "cut" | undefined;
  reader: InflowReader | undefined;
  /** Whoever waits for the next piece. */
  asked: Asked | undefined;
  isPaused: boolean;
}

interface Asked {
  readonly resolve: (piece: Uint8Array | undefined) => void;
  readonly reject: (error: Error) => void;
}

export function createInflow(valve: Valve): Inflow {
  return {
    valve,
    unread: [],
    unreadBytes: 0,
    ended: undefined,
    reader: undefined,
    asked: undefined,
    isPaused: false,
  };
}

/** A piece has come. */
export function pour(inflow: Inflow, bytes: Uint8Array): void {
  const { reader, asked } = inflow;
  if (reader !== undefined) reader.piece(bytes);
  else if (asked !== undefined) {
    inflow.asked = undefined;
    asked.resolve(bytes);
  } else {
    inflow.unread.push(bytes);
    inflow.unreadBytes += bytes.length;
    if (inflow.unreadBytes > UNREAD_MAX_BYTES && !inflow.isPaused) pauseInflow(inflow);
  }
}

/** Nothing more comes. `whole`: it came to its end, and was not cut. */
export function endInflow(inflow: Inflow, whole: boolean): void {
  if (inflow.ended !== undefined) return;
  inflow.ended = whole ? "whole" : "cut";
  const { reader, asked } = inflow;
  if (reader !== undefined) return reader.end(whole);
  inflow.asked = undefined;
  if (whole) asked?.resolve(undefined);
  else asked?.reject(new Error(CUT));
}

export function pauseInflow(inflow: Inflow): void {
  inflow.isPaused = true;
  if (inflow.ended === undefined) inflow.valve.pause();
}

export function resumeInflow(inflow: Inflow): void {
  inflow.isPaused = false;
  if (inflow.ended === undefined) inflow.valve.resume();
}

/** The next piece, or undefined at the end; rejects where the reply was cut. */
export function nextPiece(inflow: Inflow): Promise<Uint8Array | undefined> {
  const waiting = inflow.unread.shift();
  if (waiting !== undefined) {
    inflow.unreadBytes -= waiting.length;
    if (inflow.isPaused && inflow.unreadBytes <= UNREAD_MAX_BYTES) resumeInflow(inflow);
    return Promise.resolve(waiting);
  }
  if (inflow.ended === "whole") return Promise.resolve(undefined);
  if (inflow.ended === "cut") return Promise.reject(new Error(CUT));
  return new Promise((resolve, reject) => {
    inflow.asked = { resolve, reject };
  });
}

/** All of it, where it has come already, and is no more than so many bytes; nothing is left then. */
export function wholeOf(inflow: Inflow, mostBytes: number): Uint8Array | undefined {
  const { unread, unreadBytes, ended, reader } = inflow;
  if (ended !== "whole" || reader !== undefined || unreadBytes > mostBytes) return undefined;
  const [first] = unread;
  const bytes = unread.length === 1 && first !== undefined ? first : Buffer.concat(unread);
  unread.length = 0;
  inflow.unreadBytes = 0;
  return bytes;
}

/** Nobody waits for the next piece any more: it is kept for whoever asks after. */
export function unask(inflow: Inflow): void {
  inflow.asked = undefined;
}

/**
 * From here on every piece goes to this reader as it comes, first those that waited. A reader that is given what waited may
 * pause, hang up, or be followed by another in the midst of it.
 */
export function flowTo(inflow: Inflow, reader: InflowReader): void {
  inflow.reader = reader;
  inflow.asked = undefined;
  if (inflow.isPaused) resumeInflow(inflow);
  inflow.unreadBytes = 0;
  for (let one = inflow.unread.shift(); one !== undefined; one = inflow.unread.shift())
    inflow.reader.piece(one);
  if (inflow.ended !== undefined && inflow.reader === reader) reader.end(inflow.ended === "whole");
}

/** Hangs up. Nothing is handed on any more. */
export function cancelInflow(inflow: Inflow): void {
  inflow.reader = SILENT;
  inflow.unread.length = 0;
  if (inflow.ended !== undefined) return;
  inflow.ended = "cut";
  inflow.valve.hangUp(inflow);
  inflow.asked?.reject(new Error(CUT));
  inflow.asked = undefined;
}

/** Nothing more is of interest; what is about to end may do so, in order that its connection can be used again. */
export function releaseInflow(inflow: Inflow): void {
  if (inflow.ended !== undefined) return cancelInflow(inflow);
  let bytes = 0;
  const stop = deadline(RELEASE_MAX_MS, () => cancelInflow(inflow));
  flowTo(inflow, {
    piece: (more) => {
      bytes += more.length;
      if (bytes <= RELEASE_MAX_BYTES) return;
      stop();
      cancelInflow(inflow);
    },
    end: stop,
  });
}

const SILENT: InflowReader = { piece: () => {}, end: () => {} };

/** The inflow of a body that the runtime reads. */
export function inflowOf(body: ReadableStream<Uint8Array> | null): Inflow {
  const source = body?.getReader();
  let isPaused = false;
  let wake: (() => void) | undefined;
  const inflow = createInflow({
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
      if (read === undefined || read.done) return endInflow(inflow, true);
      pour(inflow, read.value);
      if (isPaused)
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
  };
  pump().catch(() => endInflow(inflow, false));
  return inflow;
}
