// The body of a reply as it comes in: asked for piece by piece, or handed on at once as each piece comes. A reader that
// cannot take more pauses it, and then nothing more is read from the connection.

import { startDeadline } from "../base/deadline.ts";

export interface BodyHandler {
  readonly onData: (bytes: Uint8Array) => void;
  /** `whole`: it came to its end, and was not cut. */
  readonly onEnd: (whole: boolean) => void;
}

/** What an inflow does to where it comes from. */
export interface FlowControl {
  readonly pause: () => void;
  readonly resume: () => void;
  readonly cancel: (inflow: BodyStream) => void;
}

/** So much is kept of what nobody has asked for yet. */
const UNREAD_MAX_BYTES = 262_144;
const DRAIN_MAX_BYTES = 65_536;
const DRAIN_MAX_MS = 500;

const TRUNCATED = "the reply was cut";

/** Its state, which the functions of this file alone read and change: every call has one, so it is nothing but data. */
export interface BodyStream {
  readonly flowControl: FlowControl;
  readonly unreadChunks: Uint8Array[];
  unreadBytes: number;
  ended: "whole" | "cut" | undefined;
  handler: BodyHandler | undefined;
  /** Whoever waits for the next piece. */
  pendingRead: PendingRead | undefined;
  isPaused: boolean;
}

interface PendingRead {
  readonly resolve: (piece: Uint8Array | undefined) => void;
  readonly reject: (error: Error) => void;
}

export function createBodyStream(flowControl: FlowControl): BodyStream {
  return {
    flowControl,
    unreadChunks: [],
    unreadBytes: 0,
    ended: undefined,
    handler: undefined,
    pendingRead: undefined,
    isPaused: false,
  };
}

/** A piece has come. */
export function push(stream: BodyStream, bytes: Uint8Array): void {
  const { handler, pendingRead } = stream;
  if (handler !== undefined) handler.onData(bytes);
  else if (pendingRead !== undefined) {
    stream.pendingRead = undefined;
    pendingRead.resolve(bytes);
  } else {
    stream.unreadChunks.push(bytes);
    stream.unreadBytes += bytes.length;
    if (stream.unreadBytes > UNREAD_MAX_BYTES && !stream.isPaused) pauseBodyStream(stream);
  }
}

/** Nothing more comes. `whole`: it came to its end, and was not cut. */
export function endBodyStream(stream: BodyStream, whole: boolean): void {
  if (stream.ended !== undefined) return;
  stream.ended = whole ? "whole" : "cut";
  const { handler, pendingRead } = stream;
  if (handler !== undefined) return handler.onEnd(whole);
  stream.pendingRead = undefined;
  if (whole) pendingRead?.resolve(undefined);
  else pendingRead?.reject(new Error(TRUNCATED));
}

export function pauseBodyStream(stream: BodyStream): void {
  stream.isPaused = true;
  if (stream.ended === undefined) stream.flowControl.pause();
}

export function resumeBodyStream(stream: BodyStream): void {
  stream.isPaused = false;
  if (stream.ended === undefined) stream.flowControl.resume();
}

/** The next piece, or undefined at the end; rejects where the reply was cut. */
export function nextChunk(stream: BodyStream): Promise<Uint8Array | undefined> {
  const chunk = stream.unreadChunks.shift();
  if (chunk !== undefined) {
    stream.unreadBytes -= chunk.length;
    if (stream.isPaused && stream.unreadBytes <= UNREAD_MAX_BYTES) resumeBodyStream(stream);
    return Promise.resolve(chunk);
  }
  if (stream.ended === "whole") return Promise.resolve(undefined);
  if (stream.ended === "cut") return Promise.reject(new Error(TRUNCATED));
  return new Promise((resolve, reject) => {
    stream.pendingRead = { resolve, reject };
  });
}

/** All of it, where it has come already, and is no more than so many bytes; nothing is left then. */
export function takeIfComplete(stream: BodyStream, maxBytes: number): Uint8Array | undefined {
  const { unreadChunks, unreadBytes, ended, handler } = stream;
  if (ended !== "whole" || handler !== undefined || unreadBytes > maxBytes) return undefined;
  const [first] = unreadChunks;
  const bytes =
    unreadChunks.length === 1 && first !== undefined ? first : Buffer.concat(unreadChunks);
  unreadChunks.length = 0;
  stream.unreadBytes = 0;
  return bytes;
}

/** Nobody waits for the next piece any more: it is kept for whoever asks after. */
export function cancelRead(stream: BodyStream): void {
  stream.pendingRead = undefined;
}

/**
 * From here on every piece goes to this reader as it comes, first those that waited. A reader that is given what waited may
 * pause, hang up, or be followed by another in the midst of it.
 */
export function pipeTo(stream: BodyStream, handler: BodyHandler): void {
  stream.handler = handler;
  stream.pendingRead = undefined;
  if (stream.isPaused) resumeBodyStream(stream);
  stream.unreadBytes = 0;
  for (
    let chunk = stream.unreadChunks.shift();
    chunk !== undefined;
    chunk = stream.unreadChunks.shift()
  )
    stream.handler.onData(chunk);
  if (stream.ended !== undefined && stream.handler === handler)
    handler.onEnd(stream.ended === "whole");
}

/** Hangs up. Nothing is handed on any more. */
export function cancelBodyStream(stream: BodyStream): void {
  stream.handler = DISCARD;
  stream.unreadChunks.length = 0;
  if (stream.ended !== undefined) return;
  stream.ended = "cut";
  stream.flowControl.cancel(stream);
  stream.pendingRead?.reject(new Error(TRUNCATED));
  stream.pendingRead = undefined;
}

/** Nothing more is of interest; what is about to end may do so, in order that its connection can be used again. */
export function drainOrCancel(stream: BodyStream): void {
  if (stream.ended !== undefined) return cancelBodyStream(stream);
  let bytes = 0;
  const cancelTimeout = startDeadline(DRAIN_MAX_MS, () => cancelBodyStream(stream));
  pipeTo(stream, {
    onData: (more) => {
      bytes += more.length;
      if (bytes <= DRAIN_MAX_BYTES) return;
      cancelTimeout();
      cancelBodyStream(stream);
    },
    onEnd: cancelTimeout,
  });
}

const DISCARD: BodyHandler = { onData: () => {}, onEnd: () => {} };

/** The inflow of a body that the runtime reads. */
export function bodyStreamFrom(body: ReadableStream<Uint8Array> | null): BodyStream {
  const source = body?.getReader();
  let isPaused = false;
  let wake: (() => void) | undefined;
  const stream = createBodyStream({
    pause: () => {
      isPaused = true;
    },
    resume: () => {
      isPaused = false;
      wake?.();
    },
    cancel: () => void source?.cancel().catch(() => {}),
  });
  const pump = async (): Promise<void> => {
    for (;;) {
      const read = await source?.read();
      if (read === undefined || read.done) return endBodyStream(stream, true);
      push(stream, read.value);
      if (isPaused)
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
  };
  pump().catch(() => endBodyStream(stream, false));
  return stream;
}
