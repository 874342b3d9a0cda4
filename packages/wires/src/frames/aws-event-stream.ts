// The framing of `application/vnd.amazon.eventstream`, used by Bedrock for streams: total length, headers length,
// checksum of both, headers, payload, checksum of everything before.

import { crc32 } from "node:zlib";
import { MalformedStream } from "./malformed-stream.ts";

const PRELUDE_BYTES = 12;
const CHECKSUM_BYTES = 4;
const MAX_FRAME_BYTES = 33_554_432;
const INITIAL_BUFFER_BYTES = 4_096;
const STRING_HEADER = 7;

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export interface EventFrame {
  /** String headers by name, such as `:event-type`; headers of other types are skipped. */
  readonly headers: ReadonlyMap<string, string>;
  readonly payload: Uint8Array;
  /** The unchanged bytes of the frame. */
  readonly raw: Uint8Array;
}

export interface EventFrameParser {
  push(chunk: Uint8Array): EventFrame[];
  /** The number of buffered bytes of an incomplete frame. */
  end(): number;
}

export function createEventFrameParser(maxFrameBytes = MAX_FRAME_BYTES): EventFrameParser {
  let buffer: Uint8Array = new Uint8Array(0);
  let bufferedBytes = 0;

  function append(chunk: Uint8Array): Uint8Array {
    if (bufferedBytes === 0) return chunk;
    const total = bufferedBytes + chunk.length;
    if (total > buffer.length) {
      const larger = new Uint8Array(Math.max(total, buffer.length * 2, INITIAL_BUFFER_BYTES));
      larger.set(buffer.subarray(0, bufferedBytes));
      buffer = larger;
    }
    buffer.set(chunk, bufferedBytes);
    return buffer.subarray(0, total);
  }

  function push(chunk: Uint8Array): EventFrame[] {
    const frames: EventFrame[] = [];
    const bytes = append(chunk);
    let at = 0;
    while (bytes.length - at >= PRELUDE_BYTES) {
      const length = frameLength(bytes, at, maxFrameBytes);
      if (bytes.length - at < length) break;
      frames.push(decodeEventFrame(bytes.subarray(at, at + length)));
      at += length;
    }
    const rest = bytes.length - at;
    // Frames are views of the buffer, so the rest is copied to a new one.
    if (at > 0 || bufferedBytes === 0) buffer = bytes.slice(at);
    bufferedBytes = rest;
    return frames;
  }

  return { push, end: () => bufferedBytes };
}

/** Decodes one complete frame. `frameLength` has checked the prelude's checksum. */
export function decodeEventFrame(raw: Uint8Array): EventFrame {
  const view = viewOf(raw);
  const headersEnd = PRELUDE_BYTES + view.getUint32(4);
  const bodyEnd = raw.length - CHECKSUM_BYTES;
  if (headersEnd > bodyEnd) throw malformed("headers longer than their frame");
  if (view.getUint32(bodyEnd) !== crc32(raw.subarray(0, bodyEnd)))
    throw malformed("wrong checksum");
  return {
    headers: headersOf(raw.subarray(PRELUDE_BYTES, headersEnd)),
    payload: raw.subarray(headersEnd, bodyEnd),
    raw,
  };
}

// Verifies the prelude's checksum before it returns the length.
function frameLength(bytes: Uint8Array, at: number, limit: number): number {
  const prelude = bytes.subarray(at, at + PRELUDE_BYTES);
  const view = viewOf(prelude);
  if (view.getUint32(8) !== crc32(prelude.subarray(0, 8)))
    throw malformed("wrong prelude checksum");
  const length = view.getUint32(0);
  if (length < PRELUDE_BYTES + CHECKSUM_BYTES) throw malformed("a frame shorter than its framing");
  if (length > limit) throw malformed(`a frame longer than ${limit} bytes`);
  return length;
}

// Sizes by header type: 0 and 1 are booleans, 2 to 5 integers, 8 a timestamp, 9 a UUID. Types 6 (bytes) and 7 (string)
// have a length prefix.
const FIXED_VALUE_BYTES = new Map([
  [0, 0],
  [1, 0],
  [2, 1],
  [3, 2],
  [4, 4],
  [5, 8],
  [8, 8],
  [9, 16],
]);

// Header blocks of a stream differ only in the event type, so decoded blocks are cached by their bytes.
const HEADER_CACHE_MAX = 8;
const HEADER_CACHE_ENTRY_MAX_BYTES = 512;
const headerCache: {
  readonly bytes: Uint8Array;
  readonly headers: ReadonlyMap<string, string>;
}[] = [];

function headersOf(bytes: Uint8Array): ReadonlyMap<string, string> {
  for (const entry of headerCache)
    if (entry.bytes.length === bytes.length && bytesEqual(entry.bytes, bytes)) return entry.headers;
  const headers = decodeHeaders(bytes);
  if (bytes.length <= HEADER_CACHE_ENTRY_MAX_BYTES) {
    headerCache.unshift({ bytes: bytes.slice(), headers });
    headerCache.length = Math.min(headerCache.length, HEADER_CACHE_MAX);
  }
  return headers;
}

function bytesEqual(one: Uint8Array, other: Uint8Array): boolean {
  for (let at = 0; at < one.length; at++) if (one[at] !== other[at]) return false;
  return true;
}

function decodeHeaders(bytes: Uint8Array): ReadonlyMap<string, string> {
  const headers = new Map<string, string>();
  const view = viewOf(bytes);
  let at = 0;
  while (at < bytes.length) {
    const typeAt = at + 1 + view.getUint8(at);
    if (typeAt >= bytes.length) throw malformed("a header cut short");
    const type = view.getUint8(typeAt);
    const fixed = FIXED_VALUE_BYTES.get(type);
    if (fixed === undefined && type !== 6 && type !== STRING_HEADER)
      throw malformed("a header of unknown type");
    if (fixed === undefined && typeAt + 3 > bytes.length) throw malformed("a header cut short");
    const valueAt = typeAt + (fixed === undefined ? 3 : 1);
    const end = valueAt + (fixed ?? view.getUint16(typeAt + 1));
    if (end > bytes.length) throw malformed("a header cut short");
    if (type === STRING_HEADER) {
      headers.set(
        decoder.decode(bytes.subarray(at + 1, typeAt)),
        decoder.decode(bytes.subarray(valueAt, end)),
      );
    }
    at = end;
  }
  return headers;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function malformed(reason: string): MalformedStream {
  return new MalformedStream(`malformed event stream: ${reason}`);
}
