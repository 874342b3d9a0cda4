// Reads one HTTP/1.1 reply (RFC 9112) out of the bytes of a connection, however they are sliced. It is strict, because
// what two readers understand differently is how replies get mixed up: whatever is not plainly right ends the connection.

export interface ReplyHead {
  readonly status: number;
  /** By their names in lower case; those of one name are joined by a comma. */
  readonly headers: ReadonlyMap<string, string>;
}

/** Whom a parser tells what it has read. One reader serves all parsers of its kind, and is told whose reply it is. */
export interface ReplyHandler<Owner> {
  onHead(owner: Owner, onHead: ReplyHead): void;
  onData(owner: Owner, bytes: Uint8Array): void;
  /** The reply is whole. `reusable`: another request may follow on its connection. */
  onEnd(owner: Owner, reusable: boolean): void;
}

const HEAD_MAX_BYTES = 65_536;
const LINE_MAX_BYTES = 4_096;
const TRAILERS_MAX = 64;
const INTERIM_REPLIES_MAX = 8;
const LINE_END = "\r\n";
const HEAD_END = "\r\n\r\n";
const LF = 10;
const CR = 13;
const SPACE = 32;
const TAB = 9;
const EMPTY: Buffer = Buffer.alloc(0);

/** What the next bytes are. */
type ParserState =
  | "head"
  | "sized"
  | "chunk size"
  | "chunk"
  | "chunk end"
  | "trailers"
  | "rest"
  | "done";

/** Its state, which the functions of this file alone read and change. */
export interface ReplyParser {
  readonly handler: ReplyHandler<unknown>;
  readonly owner: unknown;
  state: ParserState;
  /** The beginning of a head that is not whole yet. */
  partialHead: Buffer;
  /** The beginning of a line that is not whole yet. */
  partialLine: string;
  /** How much of the body, or of a chunk, is still to come. */
  remainingBytes: number;
  isReusable: boolean;
  interimReplies: number;
  trailers: number;
}

export function createReplyParser<Owner>(handler: ReplyHandler<Owner>, owner: Owner): ReplyParser {
  return {
    handler,
    owner,
    state: "head",
    partialHead: EMPTY,
    partialLine: "",
    remainingBytes: 0,
    isReusable: true,
    interimReplies: 0,
    trailers: 0,
  };
}

/** The connection is closed: true where that is how the reply ends, false where it was cut. */
export function isEndedByClose({ state }: ReplyParser): boolean {
  return state === "done" || state === "rest";
}

/** Throws where the reply is broken; nothing may follow then. */
export function parseBytes(parser: ReplyParser, chunk: Buffer): void {
  let at = 0;
  let bytes = chunk;
  if (parser.state === "head") {
    if (parser.partialHead.length > 0) bytes = Buffer.concat([parser.partialHead, chunk]);
    parser.partialHead = EMPTY;
    at = readHeads(parser, bytes);
    if (at === bytes.length) return;
  }
  if (parser.state === "done") throw malformedReply("bytes after the end of the reply");
  if (parser.state === "rest")
    parser.handler.onData(parser.owner, at === 0 ? bytes : bytes.subarray(at));
  else if (parser.state === "sized")
    readSized(parser, at === 0 ? bytes : copyOrView(bytes, at, bytes.length));
  else readChunks(parser, bytes, at);
}

/** Where the body begins; the end of the bytes where the head is not whole yet. */
function readHeads(parser: ReplyParser, bytes: Buffer): number {
  let at = 0;
  for (;;) {
    const end = bytes.indexOf(HEAD_END, at, "latin1");
    if ((end === -1 ? bytes.length : end) - at > HEAD_MAX_BYTES)
      throw malformedReply("headers beyond the limit");
    if (end === -1) {
      if (!VERSION.startsWith(bytes.toString("latin1", at, at + VERSION.length)))
        throw malformedReply("no HTTP/1.1 reply");
      parser.partialHead = at === 0 ? bytes : bytes.subarray(at);
      return bytes.length;
    }
    const head = parseHead(bytes.toString("latin1", at, end));
    at = end + HEAD_END.length;
    if (head.status >= 200) {
      beginBody(parser, head);
      return at;
    }
    if (head.status === 101 || ++parser.interimReplies > INTERIM_REPLIES_MAX)
      throw malformedReply(`status ${head.status}`);
  }
}

function beginBody(parser: ReplyParser, head: ParsedHead): void {
  const framing = parseFraming(head);
  parser.isReusable = framing.isReusable;
  parser.remainingBytes = framing.bytes;
  parser.state = framing.state;
  parser.handler.onHead(parser.owner, head);
  if (parser.state === "sized" && parser.remainingBytes === 0) finishReply(parser);
}

function finishReply(parser: ReplyParser): void {
  parser.state = "done";
  parser.handler.onEnd(parser.owner, parser.isReusable);
}

function readSized(parser: ReplyParser, bytes: Buffer): void {
  if (bytes.length > parser.remainingBytes) throw malformedReply("more bytes than the reply said");
  parser.remainingBytes -= bytes.length;
  parser.handler.onData(parser.owner, bytes);
  if (parser.remainingBytes === 0) finishReply(parser);
}

// What came in one slice is handed on as one piece: each would cost a write of its own.
function readChunks(parser: ReplyParser, bytes: Buffer, from: number): void {
  let only: Buffer | undefined;
  let more: Buffer[] | undefined;
  let at = from;
  while (at < bytes.length && parser.state !== "done") {
    if (parser.state !== "chunk") {
      at = readFastPath(parser, bytes, at) ?? readLine(parser, bytes, at);
      continue;
    }
    const end = Math.min(bytes.length, at + parser.remainingBytes);
    const piece = copyOrView(bytes, at, end);
    if (only === undefined) only = piece;
    else (more ??= [only]).push(piece);
    parser.remainingBytes -= end - at;
    at = end;
    if (parser.remainingBytes === 0) parser.state = "chunk end";
  }
  if (only !== undefined)
    parser.handler.onData(parser.owner, more === undefined ? only : Buffer.concat(more));
  if (parser.state !== "done") return;
  if (at < bytes.length) throw malformedReply("bytes after the end of the reply");
  parser.handler.onEnd(parser.owner, parser.isReusable);
}

const COPY_MAX_BYTES = 2_048;

/** A copy where that is cheaper than a view, as it is of a short piece. */
function copyOrView(bytes: Buffer, start: number, end: number): Buffer {
  if (end - start > COPY_MAX_BYTES) return bytes.subarray(start, end);
  const copy = Buffer.allocUnsafe(end - start);
  bytes.copy(copy, 0, start, end);
  return copy;
}

/** The end of a chunk, or a size of a few digits, where it lies there whole, as it nearly always does. */
function readFastPath(parser: ReplyParser, bytes: Buffer, from: number): number | undefined {
  if (parser.partialLine !== "") return undefined;
  let at = from;
  if (parser.state === "chunk size") {
    let size = 0;
    let digit = DIGITS[bytes[at] ?? 0] ?? NO_DIGIT;
    while (digit !== NO_DIGIT && at - from < FAST_PATH_DIGITS_MAX) {
      size = size * 16 + digit;
      digit = DIGITS[bytes[++at] ?? 0] ?? NO_DIGIT;
    }
    if (at === from || bytes[at] !== CR || bytes[at + 1] !== LF) return undefined;
    beginChunk(parser, size);
  } else {
    if (parser.state !== "chunk end" || bytes[at] !== CR || bytes[at + 1] !== LF) return undefined;
    parser.state = "chunk size";
  }
  return at + 2;
}

function readLine(parser: ReplyParser, bytes: Buffer, from: number): number {
  const end = bytes.indexOf(LF, from);
  const until = end === -1 ? bytes.length : end;
  if (parser.partialLine.length + until - from > LINE_MAX_BYTES)
    throw malformedReply("a line too long");
  parser.partialLine += bytes.toString("latin1", from, until);
  if (end === -1) return until;
  if (!parser.partialLine.endsWith("\r")) throw malformedReply("a line without its end");
  const text = parser.partialLine.slice(0, -1);
  parser.partialLine = "";
  parseLine(parser, text);
  return end + 1;
}

function parseLine(parser: ReplyParser, text: string): void {
  if (parser.state === "chunk size") beginChunk(parser, parseChunkSize(text));
  else if (parser.state === "chunk end") {
    if (text !== "") throw malformedReply("a chunk longer than it said");
    parser.state = "chunk size";
  } else if (text === "") parser.state = "done";
  else if (++parser.trailers > TRAILERS_MAX) throw malformedReply("too many trailers");
}

function beginChunk(parser: ReplyParser, size: number): void {
  parser.remainingBytes = size;
  parser.state = size === 0 ? "trailers" : "chunk";
}

const NO_DIGIT = 255;
const FAST_PATH_DIGITS_MAX = 6;
/** What a byte is as a hexadecimal digit. */
const DIGITS = Uint8Array.from({ length: 256 }, (_, byte) => {
  const digit = Number.parseInt(String.fromCharCode(byte), 16);
  return Number.isNaN(digit) ? NO_DIGIT : digit;
});

function malformedReply(why: string): Error {
  return new Error(`a broken reply: ${why}`);
}

interface ParsedHead extends ReplyHead {
  /** Of HTTP/1.1, which keeps connections unless it says otherwise. */
  readonly isPersistent: boolean;
}

const VERSION = "HTTP/1.";
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: [^\r\n\0]*)?$/;
/** A name, and a value without control characters; a folded line has no name. */
const FIELD = /^([!#$%&'*+\-.^_`|~\w]+):([\t\x20-\x7e\x80-\xff]*)$/;

function parseHead(text: string): ParsedHead {
  let end = lineEnd(text, 0);
  const status = STATUS_LINE.exec(text.slice(0, end));
  if (status === null) throw malformedReply("no HTTP/1.1 reply");
  const headers = new Map<string, string>();
  while (end < text.length) {
    const start = end + LINE_END.length;
    end = lineEnd(text, start);
    const { name, value } = parseField(text.slice(start, end));
    const before = headers.get(name);
    headers.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  return { status: Number(status[2]), headers, isPersistent: status[1] === "1" };
}

function lineEnd(text: string, from: number): number {
  const end = text.indexOf(LINE_END, from);
  return end === -1 ? text.length : end;
}

interface Field {
  readonly name: string;
  readonly value: string;
}

const CACHED_FIELDS_MAX = 256;
const CACHED_FIELD_MAX_BYTES = 256;
const fieldCache = new Map<string, Field>();

// Most lines of a head are those of the head before.
function parseField(line: string): Field {
  const known = fieldCache.get(line);
  if (known !== undefined) return known;
  const [, name, value] = FIELD.exec(line) ?? [];
  if (name === undefined || value === undefined) throw malformedReply("a header that is none");
  const field = { name: name.toLowerCase(), value: trimPadding(value) };
  if (line.length > CACHED_FIELD_MAX_BYTES) return field;
  if (fieldCache.size >= CACHED_FIELDS_MAX) fieldCache.clear();
  fieldCache.set(line, field);
  return field;
}

// By hand: a pattern for the end of a text takes the square of its length where there are many spaces within.
function trimPadding(value: string): string {
  let start = 0;
  let end = value.length;
  while (start < end && isPadding(value, start)) start++;
  while (end > start && isPadding(value, end - 1)) end--;
  return value.slice(start, end);
}

function isPadding(value: string, at: number): boolean {
  const code = value.charCodeAt(at);
  return code === SPACE || code === TAB;
}

interface Framing {
  readonly state: ParserState;
  readonly bytes: number;
  readonly isReusable: boolean;
}

function parseFraming({ status, headers, isPersistent }: ParsedHead): Framing {
  const isReusable = isPersistent && !/\bclose\b/i.test(headers.get("connection") ?? "");
  const coding = headers.get("transfer-encoding");
  const length = headers.get("content-length");
  if (status === 204 || status === 304) return { state: "sized", bytes: 0, isReusable };
  if (coding !== undefined) {
    // Of an older version, or with a length besides, it is how one reply is smuggled into another's place.
    if (!isPersistent || length !== undefined || coding.toLowerCase() !== "chunked")
      throw malformedReply(`transfer-encoding ${coding}`);
    return { state: "chunk size", bytes: 0, isReusable };
  }
  if (length === undefined) return { state: "rest", bytes: 0, isReusable: false };
  if (!/^\d{1,15}$/.test(length)) throw malformedReply(`content-length ${length}`);
  return { state: "sized", bytes: Number(length), isReusable };
}

const CHUNK_SIZE = /^([\da-f]{1,8})[ \t]*(?:;[^\r\n\0]*)?$/i;

function parseChunkSize(line: string): number {
  const size = CHUNK_SIZE.exec(line)?.[1];
  if (size === undefined) throw malformedReply("a chunk without its size");
  return Number.parseInt(size, 16);
}
