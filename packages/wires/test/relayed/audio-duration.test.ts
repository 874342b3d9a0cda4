// How long a recording is at most: what a file claims of itself must not make the bound smaller than what it has.

import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { audioLength } from "../../src/relayed/audio-duration.ts";

interface WavHeader {
  readonly format?: number;
  readonly channels?: number;
  readonly sampleRate?: number;
  readonly byteRate?: number;
  readonly sampleBits?: number;
  readonly dataBytes?: number;
}

function wav(seconds: number, header: WavHeader = {}): Buffer {
  const { format = 1, channels = 1, sampleRate = 16_000, sampleBits = 16 } = header;
  const frameBytes = (channels * sampleBits) / 8;
  const { byteRate = sampleRate * frameBytes } = header;
  const samples = Buffer.alloc(seconds * 32_000);
  const head = Buffer.alloc(44);
  head.write("RIFF", 0, "latin1");
  head.writeUInt32LE(36 + samples.length, 4);
  head.write("WAVEfmt ", 8, "latin1");
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(format, 20);
  head.writeUInt16LE(channels, 22);
  head.writeUInt32LE(sampleRate, 24);
  head.writeUInt32LE(byteRate, 28);
  head.writeUInt16LE(frameBytes, 32);
  head.writeUInt16LE(sampleBits, 34);
  head.write("data", 36, "latin1");
  head.writeUInt32LE(header.dataBytes ?? samples.length, 40);
  return Buffer.concat([head, samples]);
}

/** A frame of MPEG 1, layer III, 44.1 kHz: `rate` is the index of its bit rate. */
function mp3Frame(rate: number, sampleRate = 0): Buffer {
  const kbits = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320][rate] ?? 0;
  const hertz = [44_100, 48_000, 32_000][sampleRate] ?? 44_100;
  const frame = Buffer.alloc(Math.floor((144 * kbits * 1_000) / hertz));
  frame.set([0xff, 0xfb, (rate << 4) | (sampleRate << 2), 0]);
  return frame;
}

function oggPage(packets: readonly (readonly number[])[]): Buffer {
  const head = Buffer.alloc(27);
  head.write("OggS", 0, "latin1");
  head[26] = packets.length;
  return Buffer.concat([
    head,
    Buffer.from(packets.map(({ length }) => length)),
    Buffer.from(packets.flat()),
  ]);
}

const OPUS_START = oggPage([[...Buffer.from("OpusHead")], [...Buffer.from("OpusTags")]]);

describe("a WAV file", () => {
  test("has the length of its samples", () => {
    expect(audioLength(wav(10)).seconds).toBeCloseTo(10, 1);
  });

  test.each([
    ["a length of its samples of zero", { dataBytes: 0 }],
    ["a byte rate that is too high", { byteRate: 4_000_000_000 }],
    ["a frame that is too large", { channels: 8 }],
    ["a sample rate that is too low", { sampleRate: 100 }],
  ])("is no shorter with %s", (_, header) => {
    expect(audioLength(wav(10, header)).secondsMax).toBeGreaterThanOrEqual(
      "channels" in header ? 10 / 8 : 10,
    );
  });

  test("with two rates counts at the lower one, and its length is not known", () => {
    const { seconds, secondsMax } = audioLength(wav(10, { byteRate: 1_000 }));
    expect([seconds, secondsMax > 300]).toEqual([undefined, true]);
  });

  test("that is compressed is bounded by its bytes", () => {
    const { seconds, secondsMax } = audioLength(wav(10, { format: 17 }));
    expect([seconds, secondsMax > 1_000]).toEqual([undefined, true]);
  });
});

describe("an MP3 file", () => {
  test("has the length of its frames, at any bit rate of each", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 14 }), { minLength: 1 }), (rates) => {
        const { seconds = 0, secondsMax } = audioLength(
          Buffer.concat(rates.map((rate) => mp3Frame(rate))),
        );
        expect(seconds).toBeCloseTo((rates.length * 1_152) / 44_100, 5);
        expect(secondsMax).toBeGreaterThanOrEqual(seconds);
      }),
    );
  });

  test("does not count a tag with a picture", () => {
    const tag = Buffer.alloc(10 + 16_384);
    tag.write("ID3", 0, "latin1");
    tag.set([1, 0], 7);
    const file = Buffer.concat([tag, ...Array.from({ length: 100 }, () => mp3Frame(9))]);
    expect(audioLength(file).secondsMax).toBeCloseTo((100 * 1_152) / 44_100, 2);
  });

  test("whose frames disagree is bounded by the lowest bit rate", () => {
    const frames = [
      mp3Frame(14),
      mp3Frame(14, 1),
      ...Array.from({ length: 20 }, () => mp3Frame(9)),
    ];
    const file = Buffer.concat(frames);
    const { seconds, secondsMax } = audioLength(file);
    expect([seconds, secondsMax]).toEqual([undefined, file.length / 1_000]);
  });

  test("counts what follows no frame as the slowest frames", () => {
    const file = Buffer.concat([mp3Frame(9), Buffer.alloc(5_000)]);
    expect(audioLength(file).secondsMax).toBeGreaterThan(5);
  });
});

describe("Opus in Ogg", () => {
  test("has the length of its packets, also those of silence", () => {
    // Config 1 is 20 ms; code 3 with six frames is 120 ms, in two bytes.
    const speech = oggPage(Array.from({ length: 50 }, () => [1 << 3, 1, 2, 3]));
    const silence = oggPage(Array.from({ length: 100 }, () => [(1 << 3) | 3, 6]));
    const { seconds } = audioLength(Buffer.concat([OPUS_START, speech, silence]));
    expect(seconds).toBeCloseTo(1 + 12, 5);
  });

  test("that starts with other bytes between its pages counts all of them", () => {
    const page = oggPage(Array.from({ length: 50 }, () => [1 << 3, 1]));
    const file = Buffer.concat([OPUS_START, page, Buffer.from("junk"), page]);
    expect(audioLength(file).seconds).toBeCloseTo(2, 5);
  });
});

test("another format is bounded by its bytes, whatever they are", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 2_000 }), (bytes) => {
      const { secondsMax } = audioLength(bytes);
      expect(Number.isFinite(secondsMax) && secondsMax >= 0).toBe(true);
    }),
  );
  expect(audioLength(Buffer.alloc(250_000)).secondsMax).toBe(1_000);
});
