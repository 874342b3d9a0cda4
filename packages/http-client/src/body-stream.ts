// A reply body with backpressure, read chunk by chunk or piped to a handler. While it is paused, nothing is read from the
// connection.

import { startDeadline } from "./shared-deadlines.ts";

/** One handler object can serve many streams: it receives the owner that was given to `pipeTo`. */
export interface BodyHandler<Owner = unknown> {
  onData(bytes: Uint8Array, owner: Owner): void;
  /** `isComplete` is false if the body was truncated. */
  onEnd(isComplete: boolean, owner: Owner): void;
}

/**
 * How a piped stream is read. The remainder of a "discarded" stream is read if it is short and arrives soon, so that the
 * connection can be reused; otherwise the connection is closed, as for "canceled".
 */
export type Flow = "read" | "paused" | "discarded" | "canceled";

/** How a stream controls its source. */
export interface FlowControl {
  readonly pause: () => void;
  readonly resume: () => void;
  readonly cancel: (stream: BodyStream) => void;
}

/** Above this size, unread chunks pause the stream. */
const UNREAD_MAX_BYTES = 262_144;
const DISCARD_MAX_BYTES = 65_536;
const DISCARD_MAX_MS = 500;

export const TRUNCATED = "the reply was truncated";

/** Plain data, because every call has one. Only the functions of this file access it. */
export interface BodyStream {
  handler: BodyHandler | undefined;
  handlerOwner: unknown;
  ended: "complete" | "truncated" | undefined;
  isPaused: boolean;
  readonly flowControl: FlowControl;
  readonly unreadChunks: Uint8Array[];
  unreadBytes: number;
  pendingRead: PendingRead | undefined;
}

interface PendingRead {
  readonly resolve: (chunk: Uint8Array | undefined) => void;
  readonly reject: (error: Error) => void;
}

export function createBodyStream(flowControl: FlowControl): BodyStream {
  return {
    handler: undefined,
    handlerOwner: undefined,
    ended: undefined,
    isPaused: false,
    flowControl,
    unreadChunks: [],
    unreadBytes: 0,
    pendingRead: undefined,
  };
}

/** Adds a received chunk. */
export function pushChunk(stream: BodyStream, bytes: Uint8Array): void {
  const { handler } = stream;
  if (handler !== undefined) return handler.onData(bytes, stream.handlerOwner);
  const { pendingRead } = stream;
  if (pendingRead !== undefined) {
    stream.pendingRead = undefined;
    pendingRead.resolve(bytes);
  } else {
    stream.unreadChunks.push(bytes);
    stream.unreadBytes += bytes.length;
    if (stream.unreadBytes > UNREAD_MAX_BYTES) setPaused(stream, true);
  }
}

/** Ends the stream; `isComplete` is false if the body was truncated. */
export function endBodyStream(stream: BodyStream, isComplete: boolean): void {
  if (stream.ended !== undefined) return;
  stream.ended = isComplete ? "complete" : "truncated";
  const { handler, pendingRead } = stream;
  if (handler !== undefined) return handler.onEnd(isComplete, stream.handlerOwner);
  stream.pendingRead = undefined;
  if (isComplete) pendingRead?.resolve(undefined);
  else pendingRead?.reject(new Error(TRUNCATED));
}

/** Changes the flow of a stream; "discarded" and "canceled" are final, and the handler is no longer called. */
export function setFlow(stream: BodyStream, flow: Flow): void {
  if (flow === "canceled") cancelBodyStream(stream);
  else if (flow === "discarded") discardRest(stream);
  else setPaused(stream, flow === "paused");
}

function setPaused(stream: BodyStream, isPaused: boolean): void {
  if (stream.isPaused === isPaused) return;
  stream.isPaused = isPaused;
  if (stream.ended !== undefined) return;
  if (isPaused) stream.flowControl.pause();
  else stream.flowControl.resume();
}

/** The next chunk, or undefined at the end; rejects if the body was truncated. */
export function nextChunk(stream: BodyStream): Promise<Uint8Array | undefined> {
  const chunk = stream.unreadChunks.shift();
  if (chunk !== undefined) {
    stream.unreadBytes -= chunk.length;
    if (stream.unreadBytes <= UNREAD_MAX_BYTES) setPaused(stream, false);
    return Promise.resolve(chunk);
  }
  if (stream.ended === "complete") return Promise.resolve(undefined);
  if (stream.ended === "truncated") return Promise.reject(new Error(TRUNCATED));
  return new Promise((resolve, reject) => {
    stream.pendingRead = { resolve, reject };
  });
}

/** Takes the whole body if it has fully arrived and has at most `maxBytes`; otherwise undefined. */
export function takeIfComplete(stream: BodyStream, maxBytes: number): Uint8Array | undefined {
  const { unreadChunks, unreadBytes, ended, handler } = stream;
  if (ended !== "complete" || handler !== undefined || unreadBytes > maxBytes) return undefined;
  const [first] = unreadChunks;
  const bytes =
    unreadChunks.length === 1 && first !== undefined ? first : Buffer.concat(unreadChunks);
  unreadChunks.length = 0;
  stream.unreadBytes = 0;
  return bytes;
}

/** Rejects a pending nextChunk(); the chunk is kept for the next reader. */
export function cancelRead(stream: BodyStream): void {
  stream.pendingRead?.reject(new Error("the read was canceled"));
  stream.pendingRead = undefined;
}

/** Returns a chunk that was read: it is the next one again. */
export function putBack(stream: BodyStream, chunk: Uint8Array): void {
  stream.unreadChunks.unshift(chunk);
  stream.unreadBytes += chunk.length;
}

/**
 * Sends every chunk to the handler, first the unread ones. Meanwhile the handler may pause or cancel the stream, or pipe it to
 * another handler.
 */
export function pipeTo(stream: BodyStream, handler: BodyHandler): void;
export function pipeTo<Owner>(stream: BodyStream, handler: BodyHandler<Owner>, owner: Owner): void;
export function pipeTo(stream: BodyStream, handler: BodyHandler, owner?: unknown): void {
  stream.handler = handler;
  stream.handlerOwner = owner;
  stream.pendingRead = undefined;
  setPaused(stream, false);
  stream.unreadBytes = 0;
  for (
    let chunk = stream.unreadChunks.shift();
    chunk !== undefined;
    chunk = stream.unreadChunks.shift()
  )
    stream.handler.onData(chunk, stream.handlerOwner);
  if (stream.ended !== undefined && stream.handler === handler)
    handler.onEnd(stream.ended === "complete", owner);
}

/** Cancels the stream and closes its connection; the handler is no longer called. */
export function cancelBodyStream(stream: BodyStream): void {
  stream.handler = IGNORE;
  stream.unreadChunks.length = 0;
  if (stream.ended !== undefined) return;
  stream.ended = "truncated";
  stream.flowControl.cancel(stream);
  stream.pendingRead?.reject(new Error(TRUNCATED));
  stream.pendingRead = undefined;
}

function discardRest(stream: BodyStream): void {
  if (stream.ended !== undefined) return cancelBodyStream(stream);
  let bytes = 0;
  const cancel = (): void => cancelBodyStream(stream);
  const onData = (chunk: Uint8Array): void => {
    bytes += chunk.length;
    if (bytes > DISCARD_MAX_BYTES) cancel();
  };
  pipeTo(stream, { onData, onEnd: () => {} });
  // Canceling a stream that has ended by then does nothing.
  startDeadline(DISCARD_MAX_MS, cancel);
}

const IGNORE: BodyHandler = { onData: () => {}, onEnd: () => {} };

/** Adapts the body of a fetch response. */
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
      pushChunk(stream, read.value);
      if (isPaused)
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
  };
  pump().catch(() => endBodyStream(stream, false));
  return stream;
}
