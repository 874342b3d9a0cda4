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
  /** All of it, where it has come already, and is no more than so many bytes; nothing is left then. */
  readonly whole: (mostBytes: number) => Uint8Array | undefined;
  /** Nobody waits for the next piece any more: it is kept for whoever asks after. */
  readonly unask: () => void;
  /** From here on every piece goes to this reader as it comes, first those that waited. */
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

interface State {
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

export function createInflow(valve: Valve): Faucet {
  const state: State = {
    valve,
    unread: [],
    unreadBytes: 0,
    ended: undefined,
    reader: undefined,
    asked: undefined,
    isPaused: false,
  };
  const inflow: Inflow = {
    next: () => next(state),
    whole: (mostBytes) => whole(state, mostBytes),
    unask: () => {
      state.asked = undefined;
    },
    flow: (reader) => flow(state, reader),
    pause: () => pause(state),
    resume: () => resume(state),
    cancel: () => cancel(state),
    release: () => release(state),
  };
  return { inflow, piece: (bytes) => take(state, bytes), end: (whole) => end(state, whole) };
}

function take(state: State, bytes: Uint8Array): void {
  const { reader, asked } = state;
  if (reader !== undefined) reader.piece(bytes);
  else if (asked !== undefined) {
    state.asked = undefined;
    asked.resolve(bytes);
  } else {
    state.unread.push(bytes);
    state.unreadBytes += bytes.length;
    if (state.unreadBytes > UNREAD_MAX_BYTES && !state.isPaused) pause(state);
  }
}

function end(state: State, whole: boolean): void {
  if (state.ended !== undefined) return;
  state.ended = whole ? "whole" : "cut";
  const { reader, asked } = state;
  if (reader !== undefined) return reader.end(whole);
  state.asked = undefined;
  if (whole) asked?.resolve(undefined);
  else asked?.reject(new Error(CUT));
}

function pause(state: State): void {
  state.isPaused = true;
  if (state.ended === undefined) state.valve.pause();
}

function resume(state: State): void {
  state.isPaused = false;
  if (state.ended === undefined) state.valve.resume();
}

function next(state: State): Promise<Uint8Array | undefined> {
  const waiting = state.unread.shift();
  if (waiting !== undefined) {
    state.unreadBytes -= waiting.length;
    if (state.isPaused && state.unreadBytes <= UNREAD_MAX_BYTES) resume(state);
    return Promise.resolve(waiting);
  }
  if (state.ended === "whole") return Promise.resolve(undefined);
  if (state.ended === "cut") return Promise.reject(new Error(CUT));
  return new Promise((resolve, reject) => {
    state.asked = { resolve, reject };
  });
}

function whole(state: State, mostBytes: number): Uint8Array | undefined {
  const { unread, unreadBytes, ended, reader } = state;
  if (ended !== "whole" || reader !== undefined || unreadBytes > mostBytes) return undefined;
  const [first] = unread;
  const bytes = unread.length === 1 && first !== undefined ? first : Buffer.concat(unread);
  unread.length = 0;
  state.unreadBytes = 0;
  return bytes;
}

// A reader that is given what waited may pause, hang up, or be followed by another in the midst of it.
function flow(state: State, reader: InflowReader): void {
  state.reader = reader;
  state.asked = undefined;
  if (state.isPaused) resume(state);
  state.unreadBytes = 0;
  for (let one = state.unread.shift(); one !== undefined; one = state.unread.shift())
    state.reader.piece(one);
  if (state.ended !== undefined && state.reader === reader) reader.end(state.ended === "whole");
}

function cancel(state: State): void {
  state.reader = SILENT;
  state.unread.length = 0;
  if (state.ended !== undefined) return;
  state.ended = "cut";
  state.valve.hangUp();
  state.asked?.reject(new Error(CUT));
  state.asked = undefined;
}

function release(state: State): void {
  if (state.ended !== undefined) return cancel(state);
  let bytes = 0;
  const stop = deadline(RELEASE_MAX_MS, () => cancel(state));
  flow(state, {
    piece: (more) => {
      bytes += more.length;
      if (bytes <= RELEASE_MAX_BYTES) return;
      stop();
      cancel(state);
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
      if (isPaused)
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
  };
  pump().catch(() => faucet.end(false));
  return faucet.inflow;
}
