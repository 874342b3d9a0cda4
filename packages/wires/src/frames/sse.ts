// Server-sent events as bytes. The parser splits a stream into events without decoding them, so that a relay forwards
// exactly the bytes it received and decodes only the events it needs.

import { MalformedStream } from "./malformed-stream.ts";

const LF = 10;
const CR = 13;
const SPACE = 32;
const COLON = 58;
const BOM = [0xef, 0xbb, 0xbf] as const;
const DATA = [100, 97, 116, 97] as const;
const EVENT = [101, 118, 101, 110, 116] as const;
const MAX_EVENT_BYTES = 33_554_432;
const INITIAL_BUFFER_BYTES = 4_096;
/** What is kept of an event that is longer than the limit: usage is at the end of a reply. */
const TAIL_BYTES = 65_536;

// `ignoreBOM` keeps a byte order mark inside a value; the one at the start of a stream is skipped in `readSse`.
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** One event, or a run of comments, including the blank line that ends it. */
export interface SseEvent {
  /** The unchanged bytes: the concatenated `raw` of all events is the stream. */
  readonly raw: Uint8Array;
  /** False for a last event without its blank line, which may be truncated. */
  readonly isComplete: boolean;
  /** Set if the event was longer than the limit, and `raw` is only its end. */
  readonly isCut?: true;
  /** Cache of `readSse`. */
  message?: SseMessage;
}

export interface SseMessage {
  /** The value of `event:`, or "" if it is absent. */
  readonly name: string;
  readonly data: string;
  /** Cache of the parsed data; also undefined if the data is not JSON. */
  json?: unknown;
}

export interface SseParser {
  /** Whether no part of an event waits for its rest. False if a chunk is never one event. */
  readonly isBetweenEvents: boolean;
  readonly maxEventBytes: number;
  /** Whether an event was longer than the limit. Only for a parser that cuts such events; others throw. */
  readonly hasCutEvent: boolean;
  /** Returns the events that this chunk completes. An event within one chunk is a view of it. */
  push(chunk: Uint8Array): SseEvent[];
  /** Returns the incomplete event at the end of the stream, if any. */
  end(): SseEvent[];
}

/** The parser with its state between two chunks. */
interface StreamParser extends SseParser {
  isBetweenEvents: boolean;
  hasCutEvent: boolean;
  /** Whether the buffer has only the end of the current event. */
  isCut: boolean;
  readonly cutsLongEvents: boolean;
  buffer: Uint8Array;
  bufferedBytes: number;
  hasLine: boolean;
  isLineBlank: boolean;
  isAfterCr: boolean;
  isClosing: boolean;
}

const EMPTY = new Uint8Array(0);

/**
 * Lines may end in LF, CRLF or CR. A blank line that ends with a CR at the end of a chunk waits for the next byte,
 * which may be its LF: the events never depend on how the stream was split into chunks.
 */
export function createSseParser(
  maxEventBytes = MAX_EVENT_BYTES,
  { cutsLongEvents = false }: { readonly cutsLongEvents?: boolean } = {},
): SseParser {
  const parser: StreamParser = {
    isBetweenEvents: true,
    maxEventBytes,
    hasCutEvent: false,
    isCut: false,
    cutsLongEvents,
    buffer: EMPTY,
    bufferedBytes: 0,
    hasLine: false,
    isLineBlank: true,
    isAfterCr: false,
    isClosing: false,
    push: (chunk) => {
      const only = parseSingle(parser, chunk);
      return only === undefined ? splitEvents(parser, chunk) : [only];
    },
    end: () =>
      parser.bufferedBytes === 0
        ? []
        : [takeEvent(parser, parser.buffer, { start: 0, end: 0, isComplete: parser.isClosing })],
  };
  return parser;
}

/**
 * Fast path: returns an event if the chunk is exactly one; otherwise consumes nothing. A function and not a member, so that
 * only one object of the parser is read.
 */
export function parseSingle(
  { isBetweenEvents, maxEventBytes }: SseParser,
  chunk: Uint8Array,
): SseEvent | undefined {
  return isBetweenEvents && chunk.length <= maxEventBytes && isOneEvent(chunk)
    ? { raw: chunk, isComplete: true }
    : undefined;
}

interface EventEnd {
  readonly start: number;
  readonly end: number;
  readonly isComplete: boolean;
}

function takeEvent(
  parser: StreamParser,
  chunk: Uint8Array,
  { start, end, isComplete }: EventEnd,
): SseEvent {
  if (parser.bufferedBytes === 0 && end - start <= parser.maxEventBytes)
    return { raw: chunk.subarray(start, end), isComplete };
  appendToBuffer(parser, chunk, start, end);
  const raw = parser.buffer.subarray(0, parser.bufferedBytes);
  const { isCut } = parser;
  parser.buffer = EMPTY;
  parser.bufferedBytes = 0;
  parser.isCut = false;
  return isCut ? { raw, isComplete, isCut } : { raw, isComplete };
}

function appendToBuffer(parser: StreamParser, chunk: Uint8Array, start: number, end: number): void {
  const { buffer, bufferedBytes, maxEventBytes } = parser;
  const total = bufferedBytes + end - start;
  if (total > maxEventBytes || parser.isCut)
    return appendToTail(parser, chunk.subarray(start, end));
  if (total > buffer.length) parser.buffer = growBuffer(buffer, bufferedBytes, total);
  parser.buffer.set(chunk.subarray(start, end), bufferedBytes);
  parser.bufferedBytes = total;
}

function appendToTail(parser: StreamParser, bytes: Uint8Array): void {
  if (!parser.cutsLongEvents) throw eventTooLong(parser.maxEventBytes);
  parser.hasCutEvent = true;
  parser.isCut = true;
  const buffered = parser.buffer.subarray(0, parser.bufferedBytes);
  parser.buffer = Buffer.concat([
    buffered.subarray(Math.max(0, buffered.length + bytes.length - TAIL_BYTES)),
    bytes.subarray(Math.max(0, bytes.length - TAIL_BYTES)),
  ]);
  parser.bufferedBytes = parser.buffer.length;
}

function splitEvents(parser: StreamParser, chunk: Uint8Array): SseEvent[] {
  const events: SseEvent[] = [];
  let start = 0;
  let at = 0;
  const cut = (): void => {
    events.push(takeEvent(parser, chunk, { start, end: at, isComplete: true }));
    start = at;
    parser.hasLine = false;
    parser.isClosing = false;
  };
  while (at < chunk.length) {
    const byte = chunk[at];
    const isLfOfCrLf = parser.isAfterCr && byte === LF;
    parser.isAfterCr = false;
    if (isLfOfCrLf) at++;
    if (parser.isClosing) cut();
    if (isLfOfCrLf) continue;
    if (byte === LF || byte === CR) {
      at++;
      parser.isAfterCr = byte === CR;
      parser.isClosing = parser.isLineBlank && parser.hasLine;
      parser.hasLine ||= !parser.isLineBlank;
      parser.isLineBlank = true;
      if (parser.isClosing && !parser.isAfterCr) cut();
    } else {
      parser.isLineBlank = false;
      at = lineEnd(chunk, at);
    }
  }
  if (start < chunk.length) appendToBuffer(parser, chunk, start, chunk.length);
  parser.isBetweenEvents =
    parser.bufferedBytes === 0 && !parser.hasLine && parser.isLineBlank && !parser.isAfterCr;
  return events;
}

function growBuffer(buffer: Uint8Array, bufferedBytes: number, total: number): Uint8Array {
  const grown = new Uint8Array(Math.max(total, buffer.length * 2, INITIAL_BUFFER_BYTES));
  grown.set(buffer.subarray(0, bufferedBytes));
  return grown;
}

/** True if the chunk is exactly one event with uniform line endings, as most chunks of providers are. */
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
  // As many CRs as lines, one before each LF: so no CR is alone.
  return returns === (isCrLf ? lines + 1 : 0) && (!isCrLf || chunk[lineBefore - 1] === CR);
}

/** Decodes an event; undefined for comments and for an event without data. */
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

function eventTooLong(limit: number): MalformedStream {
  return new MalformedStream(`an event of the stream is longer than ${limit} bytes`);
}

function lineEnd(bytes: Uint8Array, from: number): number {
  let at = from;
  while (at < bytes.length && bytes[at] !== LF && bytes[at] !== CR) at++;
  return at;
}

// `name:value` or `name: value`; a name without a colon has an empty value.
function fieldValue(bytes: Uint8Array, nameEnd: number, end: number): string | undefined {
  if (nameEnd === end) return "";
  if (bytes[nameEnd] !== COLON) return undefined;
  const start = bytes[nameEnd + 1] === SPACE && nameEnd + 1 < end ? nameEnd + 2 : nameEnd + 1;
  // `Buffer.toString` avoids `subarray`, which costs more than the decoding.
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
