// How long a recording in FLAC, MP4, WebM or Ogg is at most: what its header claims must not make the bound smaller.

import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { audioLength } from "../../src/relayed/audio-duration.ts";

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

describe("FLAC", () => {
  function crc8(bytes: readonly number[]): number {
    return bytes.reduce((crc, byte) => {
      let rest = crc ^ byte;
      for (let bit = 0; bit < 8; bit++) rest = rest & 0x80 ? (rest << 1) ^ 0x107 : rest << 1;
      return rest;
    }, 0);
  }

  function flac(rate: number, frames: readonly Buffer[], samples = 0): Buffer {
    const info = Buffer.alloc(34);
    info.writeUIntBE(rate << 4, 10, 3);
    info.writeUInt32BE(samples, 14);
    return Buffer.concat([Buffer.from("fLaC"), Buffer.from([0x80, 0, 0, 34]), info, ...frames]);
  }

  /** `codes`: of the block size and the sample rate, then what they need after the number of the frame. */
  function frame(
    codes: number,
    more: readonly number[] = [],
    number: readonly number[] = [0],
  ): Buffer {
    const head = [0xff, 0xf8, codes, 0x08, ...number, ...more];
    // A constant subframe: silence.
    return Buffer.from([...head, crc8(head), 0, 0, 0, 0]);
  }

  test("has the length of its frames, whatever its header claims", () => {
    const frames = Array.from({ length: 40 }, () => frame(0xc0));
    expect(audioLength(flac(16_000, frames)).seconds).toBeCloseTo((40 * 4_096) / 16_000, 6);
    expect(audioLength(flac(16_000, frames, 1)).secondsMax).toBeCloseTo((40 * 4_096) / 16_000, 6);
  });

  test("has frames with sizes and rates of their own", () => {
    const frames = [
      frame(0x10),
      frame(0x20),
      frame(0x60, [99]),
      frame(0x70, [0xff, 0xff], [0xc2, 0x80]),
      frame(0x74, [0xff, 0xff]),
      frame(0xcc, [8]),
      frame(0xcd, [0x1f, 0x40]),
      // 48 kHz in a file of 16 kHz: a decoder may use either.
      frame(0xca),
    ];
    const { seconds = 0 } = audioLength(flac(16_000, frames));
    const samples = 192 + 576 + 100 + 65_536 + 4_096;
    expect(seconds).toBeCloseTo(samples / 16_000 + 65_536 / 8_000 + 2 * (4_096 / 8_000), 6);
  });

  test("of silence has more than 250 bytes a second would allow", () => {
    const file = flac(
      8_000,
      Array.from({ length: 100 }, () => frame(0x74, [0xff, 0xff])),
    );
    expect(audioLength(file).secondsMax).toBeGreaterThan(800);
    expect(file.length / 250).toBeLessThan(20);
  });

  test("does not count a header whose checksum is wrong", () => {
    const broken = frame(0xc0);
    broken[5] = (broken[5] ?? 0) ^ 1;
    expect(audioLength(flac(16_000, [frame(0xc0), broken])).seconds).toBeCloseTo(0.256, 6);
  });
});

describe("MP4", () => {
  function box(type: string, ...parts: readonly Buffer[]): Buffer {
    const body = Buffer.concat(parts);
    return Buffer.concat([u32(8 + body.length), Buffer.from(type, "latin1"), body]);
  }

  interface Mp4 {
    readonly frames?: number;
    readonly delta?: number;
    readonly headerSeconds?: number;
    readonly edits?: readonly number[];
    readonly codec?: string;
    /** The index of the rate in the configuration of the decoder: 4 is 44.1 kHz. */
    readonly rateIndex?: number;
    readonly fragments?: readonly number[];
  }

  const SCALE = 1_000;

  function m4a(options: Mp4): Buffer {
    const { frames = 0, delta = 23, headerSeconds = 0, codec = "mp4a", rateIndex = 4 } = options;
    const config = (2 << 11) | (rateIndex << 7) | (1 << 3);
    const esds = Buffer.from([
      0,
      0,
      0,
      0,
      3,
      0x80,
      0x80,
      0x80,
      25,
      0,
      1,
      0,
      4,
      17,
      0x40,
      0x15,
      0,
      0,
      0,
      0,
      0,
      0,
      0,
      0,
      0,
      0,
      0,
      5,
      2,
      config >> 8,
      config & 0xff,
    ]);
    const entry = box(codec, Buffer.alloc(28), box("esds", esds));
    const header = Buffer.concat([
      Buffer.alloc(12),
      u32(SCALE),
      u32(headerSeconds * SCALE),
      Buffer.alloc(4),
    ]);
    const edits = options.edits?.map((seconds) =>
      Buffer.concat([u32(seconds * SCALE), u32(0), u32(0x10000)]),
    );
    const table = box(
      "stbl",
      box("stsd", u32(0), u32(1), entry),
      box("stts", u32(0), u32(1), u32(frames), u32(delta)),
      box("stsz", u32(0), u32(0), u32(frames)),
    );
    return Buffer.concat([
      box("ftyp", Buffer.from("M4A ")),
      box(
        "moov",
        box("mvhd", header),
        box(
          "trak",
          ...(edits === undefined
            ? []
            : [box("edts", box("elst", u32(0), u32(edits.length), ...edits))]),
          box("mdia", box("mdhd", header), box("minf", table)),
        ),
      ),
      ...(options.fragments ?? []).map((count) =>
        box("moof", box("traf", box("trun", u32(0), u32(count)))),
      ),
      box("mdat", Buffer.alloc(100)),
    ]);
  }

  test("has the length of its frames, at the rate of its decoder", () => {
    const { seconds, secondsMax } = audioLength(m4a({ frames: 4_307, delta: 23 }));
    expect(seconds).toBeCloseTo(100, 1);
    expect(secondsMax).toBeCloseTo(100, 1);
    expect(audioLength(m4a({ frames: 1_000, rateIndex: 11, delta: 1 })).seconds).toBeCloseTo(
      128,
      3,
    );
  });

  test.each<[string, Mp4, number]>([
    ["a header that claims more", { frames: 10, headerSeconds: 600 }, 600],
    ["a table of longer frames", { frames: 10, delta: 60_000 }, 600],
    ["an edit list that plays it again", { frames: 430, edits: [10, 10, 10] }, 30],
    ["fragments", { fragments: [4_307, 4_307] }, 200],
  ])("counts the longest statement: %s", (_, options, seconds) => {
    expect(audioLength(m4a(options)).secondsMax).toBeCloseTo(seconds, 0);
  });

  test.each<[string, Mp4]>([
    ["of another codec", { frames: 10, codec: "alac" }],
    ["without frames", {}],
  ])("%s is bounded by its bytes", (_, options) => {
    const file = m4a(options);
    expect(audioLength(file)).toEqual({ secondsMax: file.length / 250 });
  });
});

describe("WebM", () => {
  function element(id: readonly number[], body: Buffer): Buffer {
    return Buffer.concat([
      Buffer.from(id),
      Buffer.from([
        0x10 | (body.length >> 24),
        (body.length >> 16) & 255,
        (body.length >> 8) & 255,
        body.length & 255,
      ]),
      body,
    ]);
  }
  const EBML = [0x1a, 0x45, 0xdf, 0xa3];
  const CLUSTER = [0x1f, 0x43, 0xb6, 0x75];
  /** A browser writes clusters whose size is not known. */
  const OPEN_CLUSTER = Buffer.from([...CLUSTER, 0x01, 255, 255, 255, 255, 255, 255, 255]);
  const head = (codec: string): Buffer =>
    Buffer.concat([element(EBML, Buffer.from("webm")), element([0x86], Buffer.from(codec))]);
  const block = (packet: readonly number[], flags = 0): Buffer =>
    element([0xa3], Buffer.from([0x81, 0, 0, flags, ...packet]));
  /** 20 ms. */
  const PACKET = [1 << 3, 1, 2];
  const blocks = (count: number): readonly Buffer[] =>
    Array.from({ length: count }, () => block(PACKET));

  test("has the length of its packets, in clusters of either kind and in groups", () => {
    const group = element([0xa0], element([0xa1], Buffer.from([0x81, 0, 0, 0, ...PACKET])));
    const file = Buffer.concat([
      head("A_OPUS"),
      OPEN_CLUSTER,
      element([0xe7], Buffer.from([0])),
      ...blocks(50),
      element(CLUSTER, Buffer.concat([...blocks(49), group])),
    ]);
    expect(audioLength(file).seconds).toBeCloseTo(2, 6);
  });

  test("counts laced packets as the longest ones", () => {
    const file = Buffer.concat([head("A_OPUS"), OPEN_CLUSTER, block([9, ...PACKET], 0x04)]);
    expect(audioLength(file).secondsMax).toBeCloseTo(1.2, 6);
  });

  test("is read on after bytes that are no element", () => {
    const broken = Buffer.from([0, 0, 0, 0]);
    const cluster = Buffer.concat([OPEN_CLUSTER, ...blocks(50)]);
    expect(
      audioLength(Buffer.concat([head("A_OPUS"), cluster, broken, cluster])).secondsMax,
    ).toBeCloseTo(2, 6);
  });

  test.each(["A_VORBIS", "A_OPUS A_VORBIS", ""])(
    "with the codec %j is bounded by its bytes",
    (codec) => {
      const file = Buffer.concat([head(codec), OPEN_CLUSTER, ...blocks(10)]);
      expect(audioLength(file)).toEqual({ secondsMax: file.length / 250 });
    },
  );
});

describe("Vorbis in Ogg", () => {
  const page = (packets: readonly Buffer[]): Buffer => {
    const start = Buffer.alloc(27);
    start.write("OggS", 0, "latin1");
    start[26] = packets.length;
    return Buffer.concat([start, Buffer.from(packets.map(({ length }) => length)), ...packets]);
  };
  const ident = (rate: number): Buffer => {
    const bytes = Buffer.alloc(30);
    bytes.write("\x01vorbis", 0, "latin1");
    bytes.writeUInt32LE(rate, 12);
    bytes[28] = 0xb8;
    return bytes;
  };
  const silence = page(Array.from({ length: 100 }, () => Buffer.from([0])));

  test("counts each packet as half of the longer block", () => {
    const { seconds, secondsMax } = audioLength(
      Buffer.concat([page([ident(16_000), Buffer.from("x")]), silence]),
    );
    expect(seconds).toBeUndefined();
    expect(secondsMax).toBeCloseTo(100 * (1_024 / 16_000), 6);
  });

  test("counts the slowest of several streams, also after Opus", () => {
    const opus = page([Buffer.from("OpusHead"), Buffer.from("OpusTags")]);
    const file = Buffer.concat([opus, page([ident(16_000), ident(8_000)]), silence]);
    expect(audioLength(file).secondsMax).toBeGreaterThanOrEqual(100 * (1_024 / 8_000));
  });

  test("beside another codec is bounded by its bytes", () => {
    const file = Buffer.concat([page([ident(16_000), Buffer.from("\x7fFLAC", "latin1")]), silence]);
    expect(audioLength(file)).toEqual({ secondsMax: file.length / 250 });
  });
});

test("no bytes after the first ones of a container make the length negative, endless or slow", () => {
  const starts = ["fLaC", "\0\0\0\x14ftyp", "\x1a\x45\xdf\xa3A_OPUS\x1f\x43\xb6\x75", "OggS"];
  fc.assert(
    fc.property(fc.constantFrom(...starts), fc.uint8Array({ maxLength: 3_000 }), (start, bytes) => {
      const file = Buffer.concat([Buffer.from(start, "latin1"), bytes]);
      const { secondsMax } = audioLength(file);
      expect(Number.isFinite(secondsMax) && secondsMax >= 0).toBe(true);
    }),
  );
});
