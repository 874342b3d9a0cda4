// Reads one HTTP/1.1 reply (RFC 9112) out of the bytes of a connection, however they are sliced. It is strict, because
// what two readers understand differently is how replies get mixed up: whatever is not plainly right ends the connection.

export interface ReplyHead {
  readonly status: number;
  /** By their names in lower case; those of one name are joined by a comma. */
  readonly headers: ReadonlyMap<string, string>;
}

export interface ReplyReader {
  readonly head: (head: ReplyHead) => void;
  readonly piece: (bytes: Uint8Array) => void;
  /** The reply is whole. `reusable`: another request may follow on its connection. */
  readonly end: (reusable: boolean) => void;
}

export interface ReplyParser {
  /** Throws a `BrokenReply`; nothing may follow then. */
  readonly push: (chunk: Buffer) => void;
  /** The connection is closed: true where that is how the reply ends, false where it was cut. */
  readonly close: () => boolean;
}

export class BrokenReply extends Error {}

const HEAD_MAX_BYTES = 65_536;
const LINE_MAX_BYTES = 4_096;
const TRAILERS_MAX = 64;
const INTERIM_REPLIES_MAX = 8;
const HEAD_END = "\r\n\r\n";
const LF = 10;
const CR = 13;
const NOTHING: Buffer = Buffer.alloc(0);

/** What the next bytes are. */
type Part = "head" | "sized" | "chunk size" | "chunk" | "chunk end" | "trailers" | "rest" | "done";

export function createReplyParser(reader: ReplyReader): ReplyParser {
  let part: Part = "head";
  let held = NOTHING;
  let line = "";
  let left = 0;
  let reusable = true;
  let interimReplies = 0;
  let trailers = 0;

  function push(chunk: Buffer): void {
    let at = 0;
    let bytes = chunk;
    if (part === "head") {
      if (held.length > 0) bytes = Buffer.concat([held, chunk]);
      held = NOTHING;
      at = readHeads(bytes);
    }
    if (part === "head" || at === bytes.length) return;
    if (part === "done") throw new BrokenReply("bytes after the end of the reply");
    if (part === "rest") reader.piece(at === 0 ? bytes : bytes.subarray(at));
    else if (part === "sized") readSized(bytes, at);
    else readChunks(bytes, at);
  }

  function readHeads(bytes: Buffer): number {
    let at = 0;
    for (;;) {
      const end = bytes.indexOf(HEAD_END, at, "latin1");
      if ((end === -1 ? bytes.length : end) - at > HEAD_MAX_BYTES)
        throw new BrokenReply("headers beyond the limit");
      if (end === -1) {
        held = at === 0 ? bytes : bytes.subarray(at);
        return bytes.length;
      }
      const head = parseHead(bytes.toString("latin1", at, end));
      at = end + HEAD_END.length;
      if (head.status >= 200) {
        begin(head);
        return at;
      }
      if (head.status === 101 || ++interimReplies > INTERIM_REPLIES_MAX)
        throw new BrokenReply(`status ${head.status}`);
    }
  }

  function begin(head: Head): void {
    const framing = framingOf(head);
    reusable = framing.reusable;
    left = framing.bytes;
    part = framing.part;
    reader.head(head);
    if (part === "sized" && left === 0) finish();
  }

  function finish(): void {
    part = "done";
    reader.end(reusable);
  }

  function readSized(bytes: Buffer, from: number): void {
    const size = bytes.length - from;
    if (size > left) throw new BrokenReply("more bytes than the reply said");
    left -= size;
    reader.piece(from === 0 ? bytes : bytes.subarray(from));
    if (left === 0) finish();
  }

  // What came in one slice is handed on as one piece: each would cost a write of its own.
  function readChunks(bytes: Buffer, from: number): void {
    const pieces: Buffer[] = [];
    let at = from;
    while (at < bytes.length && part !== "done") {
      if (part === "chunk") {
        const end = Math.min(bytes.length, at + left);
        pieces.push(bytes.subarray(at, end));
        left -= end - at;
        at = end;
        if (left === 0) part = "chunk end";
      } else at = readLine(bytes, at);
    }
    const [only, ...more] = pieces;
    if (only !== undefined) reader.piece(more.length === 0 ? only : Buffer.concat(pieces));
    if (part !== "done") return;
    if (at < bytes.length) throw new BrokenReply("bytes after the end of the reply");
    reader.end(reusable);
  }

  function readLine(bytes: Buffer, from: number): number {
    const end = bytes.indexOf(LF, from);
    const until = end === -1 ? bytes.length : end;
    if (line.length + until - from > LINE_MAX_BYTES) throw new BrokenReply("a line too long");
    line += bytes.toString("latin1", from, until);
    if (end === -1) return until;
    if (line.charCodeAt(line.length - 1) !== CR) throw new BrokenReply("a line without its end");
    const text = line.slice(0, -1);
    line = "";
    takeLine(text);
    return end + 1;
  }

  function takeLine(text: string): void {
    if (part === "chunk size") {
      left = chunkBytes(text);
      part = left === 0 ? "trailers" : "chunk";
    } else if (part === "chunk end") {
      if (text !== "") throw new BrokenReply("a chunk longer than it said");
      part = "chunk size";
    } else if (text === "") part = "done";
    else if (++trailers > TRAILERS_MAX) throw new BrokenReply("too many trailers");
  }

  return { push, close: () => part === "done" || part === "rest" };
}

interface Head extends ReplyHead {
  /** Of HTTP/1.1, which keeps connections unless it says otherwise. */
  readonly keeps: boolean;
}

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: [^\r\n\0]*)?$/;
const NAME = /^[!#$%&'*+\-.^_`|~\w]+$/;
const NO_VALUE = /[\r\n\0]/;

function parseHead(text: string): Head {
  const [first = "", ...lines] = text.split("\r\n");
  const status = STATUS_LINE.exec(first);
  if (status === null) throw new BrokenReply("no HTTP/1.1 reply");
  const headers = new Map<string, string>();
  for (const one of lines) {
    const colon = one.indexOf(":");
    const name = one.slice(0, colon).toLowerCase();
    const value = one.slice(colon + 1).trim();
    if (colon === -1 || !NAME.test(name) || NO_VALUE.test(value))
      throw new BrokenReply("a header that is none");
    const before = headers.get(name);
    headers.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  return { status: Number(status[2]), headers, keeps: status[1] === "1" };
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
    // A reply with both is how one is smuggled into another's place.
    if (length !== undefined || coding.toLowerCase() !== "chunked")
      throw new BrokenReply(`transfer-encoding ${coding}`);
    return { part: "chunk size", bytes: 0, reusable };
  }
  if (length === undefined) return { part: "rest", bytes: 0, reusable: false };
  if (!/^\d{1,15}$/.test(length)) throw new BrokenReply(`content-length ${length}`);
  return { part: "sized", bytes: Number(length), reusable };
}

const CHUNK_SIZE = /^([\da-f]{1,8})[ \t]*(?:;[^\r\n\0]*)?$/i;

function chunkBytes(line: string): number {
  const size = CHUNK_SIZE.exec(line)?.[1];
  if (size === undefined) throw new BrokenReply("a chunk without its size");
  return Number.parseInt(size, 16);
}
