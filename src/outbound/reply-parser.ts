// Reads one HTTP/1.1 reply (RFC 9112) out of the bytes of a connection, however they are sliced. It is strict, because
// what two readers understand differently is how replies get mixed up: whatever is not plainly right ends the connection.

export interface ReplyHead {
  readonly status: number;
  /** By their names in lower case; those of one name are joined by a comma. */
  readonly headers: ReadonlyMap<string, string>;
}

/** Whom a parser tells what it has read. One reader serves all parsers of its kind, and is told whose reply it is. */
export interface ReplyReader<Owner> {
  head(owner: Owner, head: ReplyHead): void;
  piece(owner: Owner, bytes: Uint8Array): void;
  /** The reply is whole. `reusable`: another request may follow on its connection. */
  end(owner: Owner, reusable: boolean): void;
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
const NOTHING: Buffer = Buffer.alloc(0);

/** What the next bytes are. */
type Part = "head" | "sized" | "chunk size" | "chunk" | "chunk end" | "trailers" | "rest" | "done";

/** Its state, which the functions of this file alone read and change. */
export interface ReplyParser {
  readonly reader: ReplyReader<unknown>;
  readonly owner: unknown;
  part: Part;
  /** The beginning of a head that is not whole yet. */
  held: Buffer;
  /** The beginning of a line that is not whole yet. */
  line: string;
  /** How much of the body, or of a chunk, is still to come. */
  left: number;
  reusable: boolean;
  interimReplies: number;
  trailers: number;
}

export function createReplyParser<Owner>(reader: ReplyReader<Owner>, owner: Owner): ReplyParser {
  return {
    reader,
    owner,
    part: "head",
    held: NOTHING,
    line: "",
    left: 0,
    reusable: true,
    interimReplies: 0,
    trailers: 0,
  };
}

/** The connection is closed: true where that is how the reply ends, false where it was cut. */
export function endsByClosing({ part }: ReplyParser): boolean {
  return part === "done" || part === "rest";
}

/** Throws where the reply is broken; nothing may follow then. */
export function pushReply(parser: ReplyParser, chunk: Buffer): void {
  let at = 0;
  let bytes = chunk;
  if (parser.part === "head") {
    if (parser.held.length > 0) bytes = Buffer.concat([parser.held, chunk]);
    parser.held = NOTHING;
    at = readHeads(parser, bytes);
    if (at === bytes.length) return;
  }
  if (parser.part === "done") throw broken("bytes after the end of the reply");
  if (parser.part === "rest")
    parser.reader.piece(parser.owner, at === 0 ? bytes : bytes.subarray(at));
  else if (parser.part === "sized")
    readSized(parser, at === 0 ? bytes : partOf(bytes, at, bytes.length));
  else readChunks(parser, bytes, at);
}

/** Where the body begins; the end of the bytes where the head is not whole yet. */
function readHeads(parser: ReplyParser, bytes: Buffer): number {
  let at = 0;
  for (;;) {
    const end = bytes.indexOf(HEAD_END, at, "latin1");
    if ((end === -1 ? bytes.length : end) - at > HEAD_MAX_BYTES)
      throw broken("headers beyond the limit");
    if (end === -1) {
      if (!VERSION.startsWith(bytes.toString("latin1", at, at + VERSION.length)))
        throw broken("no HTTP/1.1 reply");
      parser.held = at === 0 ? bytes : bytes.subarray(at);
      return bytes.length;
    }
    const head = parseHead(bytes.toString("latin1", at, end));
    at = end + HEAD_END.length;
    if (head.status >= 200) {
      begin(parser, head);
      return at;
    }
    if (head.status === 101 || ++parser.interimReplies > INTERIM_REPLIES_MAX)
      throw broken(`status ${head.status}`);
  }
}

function begin(parser: ReplyParser, head: Head): void {
  const framing = framingOf(head);
  parser.reusable = framing.reusable;
  parser.left = framing.bytes;
  parser.part = framing.part;
  parser.reader.head(parser.owner, head);
  if (parser.part === "sized" && parser.left === 0) finish(parser);
}

function finish(parser: ReplyParser): void {
  parser.part = "done";
  parser.reader.end(parser.owner, parser.reusable);
}

function readSized(parser: ReplyParser, bytes: Buffer): void {
  if (bytes.length > parser.left) throw broken("more bytes than the reply said");
  parser.left -= bytes.length;
  parser.reader.piece(parser.owner, bytes);
  if (parser.left === 0) finish(parser);
}

// What came in one slice is handed on as one piece: each would cost a write of its own.
function readChunks(parser: ReplyParser, bytes: Buffer, from: number): void {
  let only: Buffer | undefined;
  let more: Buffer[] | undefined;
  let at = from;
  while (at < bytes.length && parser.part !== "done") {
    if (parser.part !== "chunk") {
      at = readPlain(parser, bytes, at) ?? readLine(parser, bytes, at);
      continue;
    }
    const end = Math.min(bytes.length, at + parser.left);
    const piece = partOf(bytes, at, end);
    if (only === undefined) only = piece;
    else (more ??= [only]).push(piece);
    parser.left -= end - at;
    at = end;
    if (parser.left === 0) parser.part = "chunk end";
  }
  if (only !== undefined)
    parser.reader.piece(parser.owner, more === undefined ? only : Buffer.concat(more));
  if (parser.part !== "done") return;
  if (at < bytes.length) throw broken("bytes after the end of the reply");
  parser.reader.end(parser.owner, parser.reusable);
}

const COPIED_MAX_BYTES = 2_048;

/** A copy where that is cheaper than a view, as it is of a short piece. */
function partOf(bytes: Buffer, start: number, end: number): Buffer {
  if (end - start > COPIED_MAX_BYTES) return bytes.subarray(start, end);
  const copy = Buffer.allocUnsafe(end - start);
  bytes.copy(copy, 0, start, end);
  return copy;
}

/** The end of a chunk, or a size of a few digits, where it lies there whole, as it nearly always does. */
function readPlain(parser: ReplyParser, bytes: Buffer, from: number): number | undefined {
  if (parser.line !== "") return undefined;
  let at = from;
  if (parser.part === "chunk size") {
    let size = 0;
    let digit = DIGITS[bytes[at] ?? 0] ?? NO_DIGIT;
    while (digit !== NO_DIGIT && at - from < PLAIN_DIGITS_MAX) {
      size = size * 16 + digit;
      digit = DIGITS[bytes[++at] ?? 0] ?? NO_DIGIT;
    }
    if (at === from || bytes[at] !== CR || bytes[at + 1] !== LF) return undefined;
    takeSize(parser, size);
  } else {
    if (parser.part !== "chunk end" || bytes[at] !== CR || bytes[at + 1] !== LF) return undefined;
    parser.part = "chunk size";
  }
  return at + 2;
}

function readLine(parser: ReplyParser, bytes: Buffer, from: number): number {
  const end = bytes.indexOf(LF, from);
  const until = end === -1 ? bytes.length : end;
  if (parser.line.length + until - from > LINE_MAX_BYTES) throw broken("a line too long");
  parser.line += bytes.toString("latin1", from, until);
  if (end === -1) return until;
  if (!parser.line.endsWith("\r")) throw broken("a line without its end");
  const text = parser.line.slice(0, -1);
  parser.line = "";
  takeLine(parser, text);
  return end + 1;
}

function takeLine(parser: ReplyParser, text: string): void {
  if (parser.part === "chunk size") takeSize(parser, chunkBytes(text));
  else if (parser.part === "chunk end") {
    if (text !== "") throw broken("a chunk longer than it said");
    parser.part = "chunk size";
  } else if (text === "") parser.part = "done";
  else if (++parser.trailers > TRAILERS_MAX) throw broken("too many trailers");
}

function takeSize(parser: ReplyParser, size: number): void {
  parser.left = size;
  parser.part = size === 0 ? "trailers" : "chunk";
}

const NO_DIGIT = 255;
const PLAIN_DIGITS_MAX = 6;
/** What a byte is as a hexadecimal digit. */
const DIGITS = Uint8Array.from({ length: 256 }, (_, byte) => {
  const digit = Number.parseInt(String.fromCharCode(byte), 16);
  return Number.isNaN(digit) ? NO_DIGIT : digit;
});

function broken(why: string): Error {
  return new Error(`a broken reply: ${why}`);
}

interface Head extends ReplyHead {
  /** Of HTTP/1.1, which keeps connections unless it says otherwise. */
  readonly keeps: boolean;
}

const VERSION = "HTTP/1.";
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: [^\r\n\0]*)?$/;
/** A name, and a value without control characters; a folded line has no name. */
const FIELD = /^([!#$%&'*+\-.^_`|~\w]+):([\t\x20-\x7e\x80-\xff]*)$/;

function parseHead(text: string): Head {
  let end = lineEnd(text, 0);
  const status = STATUS_LINE.exec(text.slice(0, end));
  if (status === null) throw broken("no HTTP/1.1 reply");
  const headers = new Map<string, string>();
  while (end < text.length) {
    const start = end + LINE_END.length;
    end = lineEnd(text, start);
    const { name, value } = fieldOf(text.slice(start, end));
    const before = headers.get(name);
    headers.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  return { status: Number(status[2]), headers, keeps: status[1] === "1" };
}

function lineEnd(text: string, from: number): number {
  const end = text.indexOf(LINE_END, from);
  return end === -1 ? text.length : end;
}

interface Field {
  readonly name: string;
  readonly value: string;
}

const KNOWN_FIELDS_MAX = 256;
const KNOWN_FIELD_MAX_BYTES = 256;
const knownFields = new Map<string, Field>();

// Most lines of a head are those of the head before.
function fieldOf(line: string): Field {
  const known = knownFields.get(line);
  if (known !== undefined) return known;
  const [, name, value] = FIELD.exec(line) ?? [];
  if (name === undefined || value === undefined) throw broken("a header that is none");
  const field = { name: name.toLowerCase(), value: unpadded(value) };
  if (line.length > KNOWN_FIELD_MAX_BYTES) return field;
  if (knownFields.size >= KNOWN_FIELDS_MAX) knownFields.clear();
  knownFields.set(line, field);
  return field;
}

// By hand: a pattern for the end of a text takes the square of its length where there are many spaces within.
function unpadded(value: string): string {
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
  readonly part: Part;
  readonly bytes: number;
  readonly reusable: boolean;
}

function framingOf({ status, headers, keeps }: Head): Framing {
  const reusable = keeps && !/\bclose\b/i.test(headers.get("connection") ?? "");
  const coding = headers.get("transfer-encoding");
  const length = headers.get("content-length");
  if (status === 204 || status === 304) return { part: "sized", bytes: 0, reusable };
  if (coding !== undefined) {
    // Of an older version, or with a length besides, it is how one reply is smuggled into another's place.
    if (!keeps || length !== undefined || coding.toLowerCase() !== "chunked")
      throw broken(`transfer-encoding ${coding}`);
    return { part: "chunk size", bytes: 0, reusable };
  }
  if (length === undefined) return { part: "rest", bytes: 0, reusable: false };
  if (!/^\d{1,15}$/.test(length)) throw broken(`content-length ${length}`);
  return { part: "sized", bytes: Number(length), reusable };
}

const CHUNK_SIZE = /^([\da-f]{1,8})[ \t]*(?:;[^\r\n\0]*)?$/i;

function chunkBytes(line: string): number {
  const size = CHUNK_SIZE.exec(line)?.[1];
  if (size === undefined) throw broken("a chunk without its size");
  return Number.parseInt(size, 16);
}
