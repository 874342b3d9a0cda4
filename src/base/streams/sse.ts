// Server-sent events as bytes. A stream is cut into events without being decoded, so that a relay passes on exactly the
// bytes that came and reads only the few events that concern it.

import { Fault } from "../fault.ts";

const LF = 10;
const CR = 13;
const SPACE = 32;
const COLON = 58;
const BOM = [0xef, 0xbb, 0xbf] as const;
const DATA = [100, 97, 116, 97] as const;
const EVENT = [101, 118, 101, 110, 116] as const;
const MAX_EVENT_BYTES = 33_554_432;
const INITIAL_BUFFER_BYTES = 4_096;

// A byte order mark inside a value is text; only the one that opens a stream is dropped, and that is done on the bytes.
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** One event, or a run of comments, with everything up to and including the blank line that ends it. */
export interface SseEvent {
  /** The very bytes that came. The `raw` of all events, joined, is the stream. */
  readonly raw: Uint8Array;
  /** False for a last event that no blank line ended: whole, but for its ending, or cut. */
  readonly isComplete: boolean;
  /** What it says, once it was read: it may be asked for more than once. */
  message?: SseMessage;
}

export interface SseMessage {
  /** The value of `event:`, or "" where there is none. */
  readonly name: string;
  readonly data: string;
  /** The data as JSON, once it was parsed; undefined as well where it is none. */
  json?: unknown;
}

export interface SseParser {
  /** The events that this chunk completes. They share the chunk's memory wherever they lie within one chunk. */
  push(chunk: Uint8Array): SseEvent[];
  /** The event that this chunk is, where it is one and no more, as most are; otherwise nothing was taken of it. */
  parseSingle(chunk: Uint8Array): SseEvent | undefined;
  /** What is left when the stream has ended. */
  end(): SseEvent[];
}

/** What a parser keeps between two chunks. */
interface ParserState {
  readonly maxEventBytes: number;
  buffer: Uint8Array;
  bufferedBytes: number;
  hasLine: boolean;
  isLineBlank: boolean;
  isAfterCr: boolean;
  isClosing: boolean;
}

const EMPTY = new Uint8Array(0);

/**
 * Lines may end in LF, CRLF or CR. A blank line that ends in a CR at the end of a chunk waits for the next byte, because
 * an LF there still belongs to it: the cuts never depend on how the bytes were sliced on their way.
 */
export function createSseParser(maxEventBytes = MAX_EVENT_BYTES): SseParser {
  const state: ParserState = {
    maxEventBytes,
    buffer: EMPTY,
    bufferedBytes: 0,
    hasLine: false,
    isLineBlank: true,
    isAfterCr: false,
    isClosing: false,
  };
  return {
    push: (chunk) => {
      const only = parseSingle(state, chunk);
      return only === undefined ? splitEvents(state, chunk) : [only];
    },
    parseSingle: (chunk) => parseSingle(state, chunk),
    end: () =>
      state.bufferedBytes === 0
        ? []
        : [{ raw: takeEvent(state, state.buffer, 0, 0), isComplete: state.isClosing }],
  };
}

function takeEvent(state: ParserState, chunk: Uint8Array, start: number, end: number): Uint8Array {
  if (state.bufferedBytes + end - start > state.maxEventBytes)
    throw eventTooLong(state.maxEventBytes);
  if (state.bufferedBytes === 0) return chunk.subarray(start, end);
  appendToBuffer(state, chunk, start, end);
  const raw = state.buffer.subarray(0, state.bufferedBytes);
  state.buffer = EMPTY;
  state.bufferedBytes = 0;
  return raw;
}

function appendToBuffer(state: ParserState, chunk: Uint8Array, start: number, end: number): void {
  const { buffer, bufferedBytes, maxEventBytes } = state;
  const total = bufferedBytes + end - start;
  if (total > maxEventBytes) throw eventTooLong(maxEventBytes);
  if (total > buffer.length) state.buffer = growBuffer(buffer, bufferedBytes, total);
  state.buffer.set(chunk.subarray(start, end), bufferedBytes);
  state.bufferedBytes = total;
}

function parseSingle(state: ParserState, chunk: Uint8Array): SseEvent | undefined {
  const isFresh =
    state.bufferedBytes === 0 && !state.hasLine && state.isLineBlank && !state.isAfterCr;
  return isFresh && chunk.length <= state.maxEventBytes && isOneEvent(chunk)
    ? { raw: chunk, isComplete: true }
    : undefined;
}

function splitEvents(state: ParserState, chunk: Uint8Array): SseEvent[] {
  const events: SseEvent[] = [];
  let start = 0;
  let at = 0;
  const cut = (): void => {
    events.push({ raw: takeEvent(state, chunk, start, at), isComplete: true });
    start = at;
    state.hasLine = false;
    state.isClosing = false;
  };
  while (at < chunk.length) {
    const byte = chunk[at];
    const isLfOfCrLf = state.isAfterCr && byte === LF;
    state.isAfterCr = false;
    if (isLfOfCrLf) at++;
    if (state.isClosing) cut();
    if (isLfOfCrLf) continue;
    if (byte === LF || byte === CR) {
      at++;
      state.isAfterCr = byte === CR;
      state.isClosing = state.isLineBlank && state.hasLine;
      state.hasLine ||= !state.isLineBlank;
      state.isLineBlank = true;
      if (state.isClosing && !state.isAfterCr) cut();
    } else {
      state.isLineBlank = false;
      at = lineEnd(chunk, at);
    }
  }
  if (start < chunk.length) appendToBuffer(state, chunk, start, chunk.length);
  return events;
}

function growBuffer(buffer: Uint8Array, bufferedBytes: number, total: number): Uint8Array {
  const grown = new Uint8Array(Math.max(total, buffer.length * 2, INITIAL_BUFFER_BYTES));
  grown.set(buffer.subarray(0, bufferedBytes));
  return grown;
}

/** Whether a chunk is one event to its last byte, its lines all ended alike: what most are that come from a provider. */
function isOneEvent(chunk: Uint8Array): boolean {
  const last = chunk.length - 1;
  const isCrLf = chunk[last - 1] === CR;
  const lineBefore = isCrLf ? last - 2 : last - 1;
  if (chunk[last] !== LF || chunk[lineBefore] !== LF || chunk[0] === LF || chunk[0] === CR)
    return false;
  let returns = 0;
  for (let at = chunk.indexOf(CR); at !== -1; at = chunk.indexOf(CR, at + 1)) returns++;
  let lines = 1;
  let line = chunk.indexOf(LF);
  for (; line < lineBefore; line = chunk.indexOf(LF, line + 1)) {
    lines++;
    const next = isCrLf ? chunk[line + 2] : chunk[line + 1];
    if (next === LF || (isCrLf && chunk[line - 1] !== CR)) return false;
  }
  // With as many returns as lines, and one before each, there is none that stands alone.
  return returns === (isCrLf ? lines + 1 : 0) && (!isCrLf || chunk[lineBefore - 1] === CR);
}

/** What an event says, or `undefined` for comments and for an event without data. */
export function readSse(event: SseEvent): SseMessage | undefined {
  if (event.message !== undefined) return event.message;
  const { raw } = event;
  let name = "";
  let data: string | undefined;
  let at = startsWith(raw, 0, BOM) ? BOM.length : 0;
  while (at < raw.length) {
    const end = lineEnd(raw, at);
    if (startsWith(raw, at, DATA)) {
      const value = fieldValue(raw, at + DATA.length, end);
      if (value !== undefined) data = data === undefined ? value : `${data}\n${value}`;
    } else if (startsWith(raw, at, EVENT)) {
      name = fieldValue(raw, at + EVENT.length, end) ?? name;
    }
    at = end + 1;
  }
  if (data === undefined) return undefined;
  event.message = { name, data };
  return event.message;
}

function eventTooLong(limit: number): Fault {
  return new Fault("upstream_error", `an event of the stream is longer than ${limit} bytes`);
}

function lineEnd(bytes: Uint8Array, from: number): number {
  let at = from;
  while (at < bytes.length && bytes[at] !== LF && bytes[at] !== CR) at++;
  return at;
}

// A field is its name, a colon and its value, one space before it not counted; a name alone is an empty value.
function fieldValue(bytes: Uint8Array, nameEnd: number, end: number): string | undefined {
  if (nameEnd === end) return "";
  if (bytes[nameEnd] !== COLON) return undefined;
  const start = bytes[nameEnd + 1] === SPACE && nameEnd + 1 < end ? nameEnd + 2 : nameEnd + 1;
  // A view of a part costs more than the text that is read through it.
  return Buffer.isBuffer(bytes)
    ? bytes.toString("utf8", start, end)
    : decoder.decode(bytes.subarray(start, end));
}

function startsWith(bytes: Uint8Array, at: number, prefix: ArrayLike<number>): boolean {
  for (let index = 0; index < prefix.length; index++) {
    if (bytes[at + index] !== prefix[index]) return false;
  }
  return true;
}
