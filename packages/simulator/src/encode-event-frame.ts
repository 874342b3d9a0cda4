// Writes frames of `application/vnd.amazon.eventstream`, which Bedrock streams: total length, headers length, checksum of both,
// headers, payload, checksum of everything before.

import { crc32 } from "node:zlib";

const PRELUDE_BYTES = 12;
const CHECKSUM_BYTES = 4;
const STRING_HEADER = 7;

const encoder = new TextEncoder();

/** Encodes a frame with string headers. */
export function encodeEventFrame(
  headers: Readonly<Record<string, string>>,
  payload: Uint8Array,
): Uint8Array {
  const parts = Object.entries(headers).map(([name, value]) => encodeHeader(name, value));
  const headerBytes = parts.reduce((sum, part) => sum + part.length, 0);
  const total = PRELUDE_BYTES + headerBytes + payload.length + CHECKSUM_BYTES;
  const raw = new Uint8Array(total);
  const view = viewOf(raw);
  view.setUint32(0, total);
  view.setUint32(4, headerBytes);
  view.setUint32(8, crc32(raw.subarray(0, 8)));
  let at = PRELUDE_BYTES;
  for (const part of [...parts, payload]) {
    raw.set(part, at);
    at += part.length;
  }
  view.setUint32(at, crc32(raw.subarray(0, at)));
  return raw;
}

function encodeHeader(name: string, value: string): Uint8Array {
  const nameBytes = encoder.encode(name);
  const valueBytes = encoder.encode(value);
  const bytes = new Uint8Array(nameBytes.length + valueBytes.length + 4);
  bytes[0] = nameBytes.length;
  bytes.set(nameBytes, 1);
  bytes[nameBytes.length + 1] = STRING_HEADER;
  viewOf(bytes).setUint16(nameBytes.length + 2, valueBytes.length);
  bytes.set(valueBytes, nameBytes.length + 4);
  return bytes;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
