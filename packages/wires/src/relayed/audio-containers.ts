// How long a recording in a container is at most: FLAC, MP4 (M4A) and Matroska (WebM). Where a decoder could read a file in two
// ways, the longer one counts.

import { type AudioLength, OPUS_PACKET_SECONDS_MAX, opusSeconds } from "./audio-length.ts";

/** Code 0 is that of the file's header; codes from 12 on are written after the number of the frame. */
const FLAC_RATES = [
  0, 88_200, 176_400, 192_000, 8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000,
] as const;
/** The unit in Hz that each of the codes 12 to 14 means; 15 is invalid. */
const FLAC_UNITS: Readonly<Record<number, number>> = { 12: 1_000, 13: 1, 14: 10 };
/** In samples, by code: 0 is invalid, and for 6 and 7 the size is written after the number of the frame. */
const FLAC_SIZES = [
  0,
  192,
  576,
  1_152,
  2_304,
  4_608,
  undefined,
  undefined,
  256,
  512,
  1_024,
  2_048,
  4_096,
  8_192,
  16_384,
  32_768,
] as const;
const FLAC_HEADER_BYTES = 42;
/** Before the checksum: four fixed bytes, a number of up to seven, a block size and a rate of two each. */
const FLAC_FRAME_HEADER_MAX = 15;

/**
 * A frame states its number of samples and its rate, but not its size. Each header with a valid checksum counts: a decoder finds
 * no others. Silence takes a few bytes for eight seconds, so bytes bound nothing.
 */
export function flacLength(file: Buffer): AudioLength | undefined {
  if (file.toString("latin1", 0, 4) !== "fLaC" || file.length < FLAC_HEADER_BYTES) return undefined;
  const ownRate = file.readUIntBE(18, 3) >> 4;
  let seconds = 0;
  for (
    let at = file.indexOf(0xff, FLAC_HEADER_BYTES);
    at !== -1 && at + 6 <= file.length;
    at = file.indexOf(0xff, at + 1)
  )
    seconds += flacFrameSeconds(file.subarray(at, at + FLAC_FRAME_HEADER_MAX + 1), ownRate);
  return { secondsMax: seconds, seconds };
}

function flacFrameSeconds(head: Buffer, ownRate: number): number {
  const [, second = 0, third = 0, fourth = 0, number = 0] = head;
  if ((second & 0xfe) !== 0xf8 || (fourth & 1) === 1) return 0;
  const [sizeCode, rateCode] = [third >> 4, third & 15];
  // A coded number has as many bytes as its first one has leading ones.
  let at = 4 + Math.max(1, Math.clz32(~(number << 24)));
  const read = (bytes: number): number => {
    const value = at + bytes <= head.length ? head.readUIntBE(at, bytes) : 0;
    at += bytes;
    return value;
  };
  const samples = FLAC_SIZES[sizeCode] ?? read(sizeCode - 5) + 1;
  const rate = FLAC_RATES[rateCode] ?? read(rateCode === 12 ? 1 : 2) * (FLAC_UNITS[rateCode] ?? 0);
  if (at >= head.length || crc8(head.subarray(0, at)) !== head[at]) return 0;
  const slowest = Math.min(ownRate || rate, rate || ownRate);
  return slowest === 0 ? 0 : samples / slowest;
}

function crc8(bytes: Buffer): number {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = ((crc << 1) ^ (crc & 0x80 ? 0x07 : 0)) & 0xff;
  }
  return crc;
}

const MP4_CONTAINERS: ReadonlySet<string> = new Set(
  "moov trak mdia minf stbl moof traf edts".split(" "),
);
const MP4_DEPTH_MAX = 8;
const AAC_RATES = [
  96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000,
  7_350,
] as const;
const AAC_SAMPLES = 1_024;
/** The longest frame of the codecs that the sample entry `mp4a` can have: MP3 of 8 kHz. */
const MP4A_FRAME_SECONDS_MAX = 1_152 / 8_000;

interface Mp4Totals {
  /** What the file states of its length, and the sums of its tables. */
  readonly seconds: number[];
  frames: number;
  frameSeconds: number;
  movieScale: number;
  mediaScale: number;
  readonly codecs: Set<string>;
}

/** No decoder reads more frames than the tables list, or plays longer than an edit list or a header says. */
export function mp4Length(file: Buffer): AudioLength | undefined {
  if (file.toString("latin1", 4, 8) !== "ftyp") return undefined;
  const totals: Mp4Totals = {
    seconds: [],
    frames: 0,
    frameSeconds: 0,
    movieScale: 1,
    mediaScale: 1,
    codecs: new Set(),
  };
  readBoxes(file, totals, 0);
  const isAac = totals.codecs.size > 0 && [...totals.codecs].every((codec) => codec === "mp4a");
  if (!isAac || totals.frames === 0) return undefined;
  const seconds = totals.frames * totals.frameSeconds;
  const secondsMax = totals.seconds.reduce((max, one) => Math.max(max, one), seconds);
  return Number.isFinite(secondsMax) ? { secondsMax, seconds } : undefined;
}

function readBoxes(file: Buffer, totals: Mp4Totals, depth: number): void {
  for (let at = 0; at + 8 <= file.length;) {
    const stated = file.readUInt32BE(at);
    const isLong = stated === 1 && at + 16 <= file.length;
    const bytes = isLong ? Number(file.readBigUInt64BE(at + 8)) : stated || file.length - at;
    const head = isLong ? 16 : 8;
    if (bytes < head) return;
    const type = file.toString("latin1", at + 4, at + 8);
    const box = file.subarray(at + head, at + bytes);
    if (!MP4_CONTAINERS.has(type)) readBox(type, box, totals);
    else if (depth < MP4_DEPTH_MAX) readBoxes(box, totals, depth + 1);
    at += bytes;
  }
}

function readBox(type: string, box: Buffer, totals: Mp4Totals): void {
  const isLong = box[0] === 1;
  const u32 = (at: number): number => (at + 4 <= box.length ? box.readUInt32BE(at) : 0);
  const time = (at: number): number =>
    isLong && at + 8 <= box.length ? Number(box.readBigUInt64BE(at)) : u32(at);
  if (type === "mvhd" || type === "mdhd") {
    const scale = Math.max(1, u32(isLong ? 20 : 12));
    if (type === "mvhd") totals.movieScale = scale;
    else totals.mediaScale = scale;
    totals.seconds.push(time(isLong ? 24 : 16) / scale);
  } else if (type === "stsz" || type === "stz2") totals.frames += u32(8);
  else if (type === "trun") totals.frames += u32(4);
  else if (type === "stts") {
    let units = 0;
    for (let at = 8; at + 8 <= box.length; at += 8) units += u32(at) * u32(at + 4);
    totals.seconds.push(units / totals.mediaScale);
  } else if (type === "elst") {
    let units = 0;
    for (let at = 8; at < box.length; at += isLong ? 20 : 12) units += time(at);
    totals.seconds.push(units / totals.movieScale);
  } else if (type === "stsd") {
    totals.codecs.add(box.toString("latin1", 12, 16));
    totals.frameSeconds = Math.max(totals.frameSeconds, aacFrameSeconds(box));
  }
}

/** The sample rate is in the configuration of the decoder, below three descriptors; the other statement of it is ignored. */
function aacFrameSeconds(stsd: Buffer): number {
  const esds = stsd.indexOf("esds", 16, "latin1");
  if (esds === -1) return MP4A_FRAME_SECONDS_MAX;
  let at = esds + 8;
  for (const [tag, bytes] of [
    [3, 3],
    [4, 13],
    [5, 0],
  ] as const) {
    if (stsd[at] !== tag) return MP4A_FRAME_SECONDS_MAX;
    at += 1;
    while (((stsd[at] ?? 0) & 0x80) !== 0) at += 1;
    at += 1 + bytes;
  }
  const index = (((stsd[at] ?? 0) & 7) << 1) | ((stsd[at + 1] ?? 0) >> 7);
  const rate = AAC_RATES[index];
  return rate === undefined ? MP4A_FRAME_SECONDS_MAX : AAC_SAMPLES / rate;
}

const CLUSTER_ID = Buffer.from([0x1f, 0x43, 0xb6, 0x75]);
const BLOCK_GROUP = 0xa0;
const BLOCKS: ReadonlySet<number> = new Set([0xa1, 0xa3]);

/** Opus in Matroska: each block is a packet, or several of them if it is laced. */
export function matroskaLength(file: Buffer): AudioLength | undefined {
  if (file.length < 4 || file.readUInt32BE(0) !== 0x1a45dfa3) return undefined;
  const start = file.indexOf(CLUSTER_ID);
  const codecs = new Set(
    file.toString("latin1", 0, start === -1 ? file.length : start).match(/A_[A-Z]+/g),
  );
  if (codecs.size !== 1 || !codecs.has("A_OPUS")) return undefined;
  let seconds = 0;
  // A decoder that finds a broken element goes on at the next cluster.
  for (let at = start; at !== -1; at = file.indexOf(CLUSTER_ID, at)) {
    const size = sizeAt(file, at + 4);
    at += 4 + size.bytes;
    for (let element = elementAt(file, at); element !== undefined; element = elementAt(file, at)) {
      const { id, from, to } = element;
      if (BLOCKS.has(id)) seconds += blockSeconds(file.subarray(from, to));
      at = id === BLOCK_GROUP ? from : to;
    }
  }
  return { secondsMax: seconds, seconds };
}

/** Elements of a cluster have ids of one byte. */
function elementAt(
  file: Buffer,
  at: number,
): { readonly id: number; readonly from: number; readonly to: number } | undefined {
  const id = file[at] ?? 0;
  if (at + 2 > file.length || id < 0x80) return undefined;
  const { value, bytes } = sizeAt(file, at + 1);
  const from = at + 1 + bytes;
  return bytes === 0 ? undefined : { id, from, to: Math.min(file.length, from + value) };
}

/** A number whose leading zeros say how many bytes it has. */
function sizeAt(file: Buffer, at: number): { readonly value: number; readonly bytes: number } {
  const first = file[at] ?? 0;
  const bytes = first === 0 ? 0 : Math.clz32(first << 24) + 1;
  let value = first & (0xff >> bytes);
  for (let index = 1; index < bytes; index++) value = value * 256 + (file[at + index] ?? 0);
  return { value, bytes };
}

function blockSeconds(block: Buffer): number {
  const head = sizeAt(block, 0).bytes + 3;
  const lacing = ((block[head - 1] ?? 0) >> 1) & 3;
  if (lacing === 0) return opusSeconds(block[head], block[head + 1]);
  return ((block[head] ?? 0) + 1) * OPUS_PACKET_SECONDS_MAX;
}
