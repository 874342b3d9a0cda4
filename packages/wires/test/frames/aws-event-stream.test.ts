import { describe, expect, test } from "bun:test";
import { crc32 } from "node:zlib";
import { encodeEventFrame } from "@postern/simulator";
import * as fc from "fast-check";
import { runs } from "../../../../test/support/full.ts";
import { createEventFrameParser, decodeEventFrame } from "../../src/frames/aws-event-stream.ts";

const encoder = new TextEncoder();

function plain(frame: { headers: ReadonlyMap<string, string>; payload: Uint8Array }) {
  return { headers: Object.fromEntries(frame.headers), payload: [...frame.payload] };
}

function concat(parts: readonly Uint8Array[]): Uint8Array {
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

describe("createEventFrameParser", () => {
  test("parses encoded frames, wherever the stream is split", () => {
    const frame = fc.record({
      headers: fc.dictionary(
        fc.stringMatching(/^:?[a-z-]{1,20}$/),
        fc.string({ unit: "grapheme", maxLength: 20 }),
        { maxKeys: 3 },
      ),
      payload: fc.uint8Array({ maxLength: 40 }),
    });
    fc.assert(
      fc.property(fc.array(frame, { minLength: 1, maxLength: 4 }), (frames) => {
        const written = frames.map(({ headers, payload }) => encodeEventFrame(headers, payload));
        const bytes = concat(written);
        const expected = frames.map(({ headers, payload }) => ({
          headers: { ...headers },
          payload: [...payload],
        }));
        for (let at = 0; at <= bytes.length; at++) {
          const parser = createEventFrameParser();
          const read = [...parser.push(bytes.slice(0, at)), ...parser.push(bytes.slice(at))];
          expect(read.map(plain)).toEqual(expected);
          expect(concat(read.map((one) => one.raw))).toEqual(bytes);
          expect(parser.end()).toBe(0);
        }
        const parser = createEventFrameParser();
        expect(
          Array.from(bytes, (byte) => parser.push(Uint8Array.of(byte)))
            .flat()
            .map(plain),
        ).toEqual(expected);
      }),
      { numRuns: runs(60) },
    );
  });

  test("parses the published example of an empty message", () => {
    const empty = Uint8Array.from([
      0, 0, 0, 0x10, 0, 0, 0, 0, 0x05, 0xc2, 0x48, 0xeb, 0x7d, 0x98, 0xc8, 0xff,
    ]);
    expect(plain(decodeEventFrame(empty))).toEqual({ headers: {}, payload: [] });
    expect(encodeEventFrame({}, new Uint8Array(0))).toEqual(empty);
  });

  test("rejects a frame with any changed bit", () => {
    const frame = encodeEventFrame({ ":event-type": "metadata" }, encoder.encode("{}"));
    for (let bit = 0; bit < frame.length * 8; bit++) {
      const bytes = frame.slice();
      bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(() => createEventFrameParser().push(bytes)).toThrow("malformed event stream");
    }
  });

  test("rejects a frame over the limit from its prelude", () => {
    const frame = encodeEventFrame({}, new Uint8Array(1_000));
    expect(() => createEventFrameParser(500).push(frame.slice(0, 12))).toThrow(
      "longer than 500 bytes",
    );
  });

  test("end() returns the bytes of a truncated frame", () => {
    const parser = createEventFrameParser();
    parser.push(encodeEventFrame({}, new Uint8Array(10)).slice(0, 20));
    expect(parser.end()).toBe(20);
  });

  test("skips headers of every type but strings", () => {
    const header = (type: number, value: number[]) => [1, 97 + type, type, ...value];
    const headers = [
      ...header(0, []),
      ...header(1, []),
      ...header(2, [1]),
      ...header(3, [1, 1]),
      ...header(4, [1, 1, 1, 1]),
      ...header(5, Array(8).fill(1)),
      ...header(6, [0, 2, 1, 1]),
      ...header(7, [0, 1, 65]),
      ...header(8, Array(8).fill(1)),
      ...header(9, Array(16).fill(1)),
    ];
    const raw = encodeEventFrame({}, Uint8Array.from(headers));
    const view = new DataView(raw.buffer);
    view.setUint32(4, headers.length);
    view.setUint32(8, crc32(raw.subarray(0, 8)));
    view.setUint32(raw.length - 4, crc32(raw.subarray(0, raw.length - 4)));
    expect(plain(decodeEventFrame(raw))).toEqual({ headers: { h: "A" }, payload: [] });
  });
});
