// Incremental parser of one HTTP/1.1 reply (RFC 9112). It is strict, because lenient parsing enables response smuggling: any
// deviation closes the connection.

interface ReplyHead {
  readonly status: number;
  /** By lowercase name; repeated headers are joined by a comma. */
  readonly headers: ReadonlyMap<string, string>;
}

/** Callbacks of a parser. One handler object serves all parsers and receives each. */
export interface ReplyHandler<Parser> {
  onHead(parser: Parser, head: ReplyHead): void;
  onData(parser: Parser, bytes: Uint8Array): void;
  /** The reply is complete. `isReusable`: the connection can carry another request. */
  onEnd(parser: Parser, isReusable: boolean): void;
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

/** The part of the reply that the next bytes belong to. */
type ParserState =
  | "head"
  | "content-length"
  | "chunk-size"
  | "chunk"
  | "chunk-end"
  | "trailers"
  | "until-close"
  | "done";

/** Plain data, which is part of the exchange that the reply belongs to; only the functions of this file change it. */
export interface ReplyParser {
  readonly handler: ReplyHandler<unknown>;
  /** "head" before the first byte. */
  state: ParserState;
  /** Missing bytes of the body or the current chunk. */
  remainingBytes: number;
  /** The received part of an incomplete line. */
  partialLine: string;
  /** The received part of an incomplete head. */
  partialHead: Buffer | undefined;
  isReusable: boolean;
  interimReplies: number;
  trailers: number;
}

/** Whether the reply is complete if the connection closes now. */
export function isEndedByClose({ state }: ReplyParser): boolean {
  return state === "done" || state === "until-close";
}

/** Throws if the reply is malformed; the parser must not be used afterwards. */
export function parseBytes(parser: ReplyParser, chunk: Buffer): void {
  let at = 0;
  let bytes = chunk;
  if (parser.state === "head") {
    if (parser.partialHead !== undefined) bytes = Buffer.concat([parser.partialHead, chunk]);
    parser.partialHead = undefined;
    at = readHeads(parser, bytes);
    if (at === bytes.length) return;
  }
  if (parser.state === "done") throw malformedReply("bytes after the end of the reply");
  if (parser.state === "until-close")
    parser.handler.onData(parser, at === 0 ? bytes : bytes.subarray(at));
  else if (parser.state === "content-length")
    readContentLength(parser, at === 0 ? bytes : copyOrView(bytes, at, bytes.length));
  else readChunks(parser, bytes, at);
}

/** Returns the offset of the body, or the end of the bytes if the head is incomplete. */
function readHeads(parser: ReplyParser, bytes: Buffer): number {
  let at = 0;
  for (;;) {
    const end = bytes.indexOf(HEAD_END, at, "latin1");
    if ((end === -1 ? bytes.length : end) - at > HEAD_MAX_BYTES)
      throw malformedReply("headers above the size limit");
    if (end === -1) {
      if (!VERSION.startsWith(bytes.toString("latin1", at, at + VERSION.length)))
        throw malformedReply("not an HTTP/1.1 reply");
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
  parser.handler.onHead(parser, head);
  if (parser.state === "content-length" && parser.remainingBytes === 0) finishReply(parser);
}

function finishReply(parser: ReplyParser): void {
  parser.state = "done";
  parser.handler.onEnd(parser, parser.isReusable);
}

function readContentLength(parser: ReplyParser, bytes: Buffer): void {
  if (bytes.length > parser.remainingBytes) throw malformedReply("more bytes than content-length");
  parser.remainingBytes -= bytes.length;
  parser.handler.onData(parser, bytes);
  if (parser.remainingBytes === 0) finishReply(parser);
}

// The chunks of one read are passed on as one, because each costs a write.
function readChunks(parser: ReplyParser, bytes: Buffer, from: number): void {
  let first: Buffer | undefined;
  let all: Buffer[] | undefined;
  let at = from;
  while (at < bytes.length && parser.state !== "done") {
    if (parser.state !== "chunk") {
      at = readFastPath(parser, bytes, at) ?? readLine(parser, bytes, at);
      continue;
    }
    const end = Math.min(bytes.length, at + parser.remainingBytes);
    const chunk = copyOrView(bytes, at, end);
    if (first === undefined) first = chunk;
    else (all ??= [first]).push(chunk);
    parser.remainingBytes -= end - at;
    at = end;
    if (parser.remainingBytes === 0) parser.state = "chunk-end";
  }
  if (first !== undefined)
    parser.handler.onData(parser, all === undefined ? first : Buffer.concat(all));
  if (parser.state !== "done") return;
  if (at < bytes.length) throw malformedReply("bytes after the end of the reply");
  parser.handler.onEnd(parser, parser.isReusable);
}

const COPY_MAX_BYTES = 2_048;

/** Copies short slices, which is cheaper than a view. */
function copyOrView(bytes: Buffer, start: number, end: number): Buffer {
  if (end - start > COPY_MAX_BYTES) return bytes.subarray(start, end);
  const copy = Buffer.allocUnsafe(end - start);
  bytes.copy(copy, 0, start, end);
  return copy;
}

/** Parses a chunk end or a short chunk size that is complete in `bytes`, as nearly all are. */
function readFastPath(parser: ReplyParser, bytes: Buffer, from: number): number | undefined {
  if (parser.partialLine !== "") return undefined;
  let at = from;
  if (parser.state === "chunk-size") {
    let size = 0;
    let digit = DIGITS[bytes[at] ?? 0] ?? NO_DIGIT;
    while (digit !== NO_DIGIT && at - from < FAST_PATH_DIGITS_MAX) {
      size = size * 16 + digit;
      digit = DIGITS[bytes[++at] ?? 0] ?? NO_DIGIT;
    }
    if (at === from || bytes[at] !== CR || bytes[at + 1] !== LF) return undefined;
    beginChunk(parser, size);
  } else {
    if (parser.state !== "chunk-end" || bytes[at] !== CR || bytes[at + 1] !== LF) return undefined;
    parser.state = "chunk-size";
  }
  return at + 2;
}

function readLine(parser: ReplyParser, bytes: Buffer, from: number): number {
  const end = bytes.indexOf(LF, from);
  const until = end === -1 ? bytes.length : end;
  if (parser.partialLine.length + until - from > LINE_MAX_BYTES)
    throw malformedReply("line above the size limit");
  parser.partialLine += bytes.toString("latin1", from, until);
  if (end === -1) return until;
  if (!parser.partialLine.endsWith("\r")) throw malformedReply("line does not end with CRLF");
  const text = parser.partialLine.slice(0, -1);
  parser.partialLine = "";
  parseLine(parser, text);
  return end + 1;
}

function parseLine(parser: ReplyParser, text: string): void {
  if (parser.state === "chunk-size") beginChunk(parser, parseChunkSize(text));
  else if (parser.state === "chunk-end") {
    if (text !== "") throw malformedReply("chunk longer than its size");
    parser.state = "chunk-size";
  } else if (text === "") parser.state = "done";
  else if (++parser.trailers > TRAILERS_MAX) throw malformedReply("too many trailers");
}

function beginChunk(parser: ReplyParser, size: number): void {
  parser.remainingBytes = size;
  parser.state = size === 0 ? "trailers" : "chunk";
}

const NO_DIGIT = 255;
const FAST_PATH_DIGITS_MAX = 6;
/** Value of a byte as a hexadecimal digit. */
const DIGITS = Uint8Array.from({ length: 256 }, (_, byte) => {
  const digit = Number.parseInt(String.fromCharCode(byte), 16);
  return Number.isNaN(digit) ? NO_DIGIT : digit;
});

function malformedReply(reason: string): Error {
  return new Error(`malformed reply: ${reason}`);
}

interface ParsedHead extends ReplyHead {
  /** HTTP/1.1, whose connections are persistent by default. */
  readonly isPersistent: boolean;
}

const VERSION = "HTTP/1.";
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: [^\r\n\0]*)?$/;
/** Name, and value without control characters. Folded lines do not match. */
const FIELD = /^([!#$%&'*+\-.^_`|~\w]+):([\t\x20-\x7e\x80-\xff]*)$/;

function parseHead(text: string): ParsedHead {
  let end = lineEnd(text, 0);
  const status = STATUS_LINE.exec(text.slice(0, end));
  if (status === null) throw malformedReply("not an HTTP/1.1 reply");
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

interface HeaderField {
  readonly name: string;
  readonly value: string;
}

const CACHED_FIELDS_MAX = 256;
const CACHED_FIELD_MAX_BYTES = 256;
const fieldCache = new Map<string, HeaderField>();

// Cached, because most header lines repeat from reply to reply.
function parseField(line: string): HeaderField {
  const cached = fieldCache.get(line);
  if (cached !== undefined) return cached;
  const [, name, value] = FIELD.exec(line) ?? [];
  if (name === undefined || value === undefined) throw malformedReply("invalid header line");
  const field = { name: name.toLowerCase(), value: trimPadding(value) };
  if (line.length > CACHED_FIELD_MAX_BYTES) return field;
  if (fieldCache.size >= CACHED_FIELDS_MAX) fieldCache.clear();
  fieldCache.set(line, field);
  return field;
}

// Not a regular expression: one for trailing spaces takes quadratic time on values with many inner spaces.
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
  if (status === 204 || status === 304) return { state: "content-length", bytes: 0, isReusable };
  if (coding !== undefined) {
    // In HTTP/1.0 or together with content-length, this is a response-smuggling vector (RFC 9112 §6.1).
    if (!isPersistent || length !== undefined || coding.toLowerCase() !== "chunked")
      throw malformedReply(`transfer-encoding ${coding}`);
    return { state: "chunk-size", bytes: 0, isReusable };
  }
  if (length === undefined) return { state: "until-close", bytes: 0, isReusable: false };
  if (!/^\d{1,15}$/.test(length)) throw malformedReply(`content-length ${length}`);
  return { state: "content-length", bytes: Number(length), isReusable };
}

const CHUNK_SIZE = /^([\da-f]{1,8})[ \t]*(?:;[^\r\n\0]*)?$/i;

function parseChunkSize(line: string): number {
  const size = CHUNK_SIZE.exec(line)?.[1];
  if (size === undefined) throw malformedReply("invalid chunk size");
  return Number.parseInt(size, 16);
}
