// The width and height of an image, from the bytes at its start. Nothing is decoded. Where the format allows a second size, the
// larger counts, and what is not understood has no size.

import type { PixelSize } from "../../models/tables/image-tokens.ts";

/** Enough for every format but JPEG, whose size comes after its metadata. */
const HEAD_BYTES = 3_072;
const JPEG_HEAD_BYTES = 131_072;
const DATA_URL = /^data:image\/[a-z0-9.+-]{1,32};base64,/i;

/** `value`: base64, or a data URL. Undefined if it is neither, or of another format. */
export function imageSize(value: string): PixelSize | undefined {
  const [prefix = ""] = DATA_URL.exec(value.slice(0, 64)) ?? [];
  const head = decodedHead(value, prefix.length, HEAD_BYTES);
  if (head === undefined) return undefined;
  const isJpeg = head[0] === 0xff && head[1] === MARKER.start;
  const data = isJpeg ? decodedHead(value, prefix.length, JPEG_HEAD_BYTES) : head;
  const size =
    data && (isJpeg ? jpegSize(data) : (pngSize(data) ?? webpSize(data) ?? gifSize(data)));
  return size !== undefined && size.width > 0 && size.height > 0 ? size : undefined;
}

/** Undefined for what decoders read differently: another alphabet, or padding before the end. */
function decodedHead(value: string, from: number, bytes: number): Buffer | undefined {
  const end = from + Math.ceil(bytes / 3) * 4;
  const encoded = value.slice(from, end);
  const isRest = end >= value.length;
  const pattern = isRest ? /^[A-Za-z0-9+/]+={0,2}$/ : /^[A-Za-z0-9+/]+$/;
  return pattern.test(encoded) ? Buffer.from(encoded, "base64") : undefined;
}

const PNG_START = Buffer.from("89504e470d0a1a0a0000000d49484452", "hex");

function pngSize(data: Buffer): PixelSize | undefined {
  if (data.length < 24 || !data.subarray(0, PNG_START.length).equals(PNG_START)) return undefined;
  return { width: data.readUInt32BE(16), height: data.readUInt32BE(20) };
}

function webpSize(data: Buffer): PixelSize | undefined {
  if (data.length < 30 || data.toString("latin1", 0, 4) !== "RIFF") return undefined;
  switch (data.toString("latin1", 8, 16)) {
    case "WEBPVP8X":
      return { width: data.readUIntLE(24, 3) + 1, height: data.readUIntLE(27, 3) + 1 };
    case "WEBPVP8 ": {
      const isKeyFrame = data.readUIntBE(23, 3) === 0x9d012a;
      const pixels = (at: number): number => data.readUInt16LE(at) & 0x3fff;
      return isKeyFrame ? { width: pixels(26), height: pixels(28) } : undefined;
    }
    case "WEBPVP8L": {
      const bits = data.readUInt32LE(21);
      if (data[20] !== 0x2f) return undefined;
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
    }
    default:
      return undefined;
  }
}

const GIF = { header: 13, image: 0x2c, extension: 0x21 } as const;

/** Decoders enlarge the screen to its first frame. */
function gifSize(data: Buffer): PixelSize | undefined {
  if (data.length < GIF.header || !/^GIF8[79]a$/.test(data.toString("latin1", 0, 6)))
    return undefined;
  const flags = data[10] ?? 0;
  let at = GIF.header + ((flags & 0x80) === 0 ? 0 : 3 << ((flags & 7) + 1));
  while (data[at] === GIF.extension) {
    at += 2;
    for (let length = data[at]; length !== undefined && length > 0; length = data[at])
      at += length + 1;
    at += 1;
  }
  if (data[at] !== GIF.image || at + 9 > data.length) return undefined;
  const side = (screenAt: number, offsetAt: number): number =>
    Math.max(
      data.readUInt16LE(screenAt),
      data.readUInt16LE(offsetAt) + data.readUInt16LE(offsetAt + 4),
    );
  return { width: side(6, at + 1), height: side(8, at + 3) };
}

const MARKER = { start: 0xd8, hierarchy: 0xde, scan: 0xda, end: 0xd9 } as const;
/** Markers in the range of frames that are none: tables, and one that is reserved. */
const NO_FRAMES: ReadonlySet<number> = new Set([0xc4, 0xc8, 0xcc]);

function jpegSize(data: Buffer): PixelSize | undefined {
  let at = 2;
  while (at + 9 <= data.length && data[at] === 0xff) {
    const marker = data[at + 1] ?? 0;
    if (marker === 0xff) {
      at += 1;
      continue;
    }
    if (marker === MARKER.hierarchy || marker === MARKER.scan || marker === MARKER.end)
      return undefined;
    const isFrame = marker >= 0xc0 && marker <= 0xcf && !NO_FRAMES.has(marker);
    if (isFrame) return { width: data.readUInt16BE(at + 7), height: data.readUInt16BE(at + 5) };
    const isAlone = marker === 0x01 || (marker >= 0xd0 && marker <= 0xd7);
    at += 2 + (isAlone ? 0 : data.readUInt16BE(at + 2));
  }
  return undefined;
}
