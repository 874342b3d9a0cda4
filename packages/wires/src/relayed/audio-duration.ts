// How long a recording is at most, from its bytes. A provider bills by the second, and the file comes from the caller: what it
// says of its own length must not make the bound smaller.

import { flacLength, matroskaLength, mp4Length } from "./audio-containers.ts";
import { type AudioLength, opusSeconds } from "./audio-length.ts";

/** Fewer bytes than any of these formats needs for a second of speech. MP3: its lowest bit rate is 8 kbit/s. */
const BYTES_PER_SECOND_MIN = { mp3: 1_000, other: 250 } as const;

export function audioLength(bytes: Uint8Array): AudioLength {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  return (
    wavLength(view) ??
    mp3Length(view) ??
    oggLength(view) ??
    flacLength(view) ??
    mp4Length(view) ??
    matroskaLength(view) ?? { secondsMax: view.length / BYTES_PER_SECOND_MIN.other }
  );
}

const WAV_PCM: ReadonlySet<number> = new Set([1, 3]);
const WAV_EXTENSIBLE = 0xfffe;

/**
 * Uncompressed WAV, with the format before the samples. A header states its rate twice, and a decoder may use either; it may
 * also read on after the stated end of the samples.
 */
function wavLength(file: Buffer): AudioLength | undefined {
  if (file.toString("latin1", 0, 4) !== "RIFF" || file.toString("latin1", 8, 12) !== "WAVE")
    return undefined;
  const chunk = 12;
  if (file.length < chunk + 24 || file.toString("latin1", chunk, chunk + 4) !== "fmt ")
    return undefined;
  const size = file.readUInt32LE(chunk + 4);
  let format = file.readUInt16LE(chunk + 8);
  if (format === WAV_EXTENSIBLE && size >= 40 && file.length >= chunk + 34)
    format = file.readUInt16LE(chunk + 32);
  if (!WAV_PCM.has(format)) return undefined;
  const channels = file.readUInt16LE(chunk + 10);
  const sampleRate = file.readUInt32LE(chunk + 12);
  const frameBytes = file.readUInt16LE(chunk + 20);
  const sampleBits = file.readUInt16LE(chunk + 22);
  const rates = [
    file.readUInt32LE(chunk + 16),
    sampleRate * frameBytes,
    sampleRate * channels * Math.floor(sampleBits / 8),
  ];
  const slowest = Math.max(1, Math.min(...rates));
  const secondsMax = file.length / slowest;
  return rates.every((rate) => rate === slowest)
    ? { secondsMax, seconds: secondsMax }
    : { secondsMax };
}

/** kbit/s of MPEG 1 and of MPEG 2 and 2.5, layer III. */
const BIT_RATES = [
  [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
] as const;
const SAMPLE_RATES = [44_100, 48_000, 32_000] as const;
const ID3_HEADER_BYTES = 10;

/**
 * Every frame of an MP3 states its size and rate. Bytes that follow no frame count as the slowest frames, and so does a file
 * whose frames disagree: a decoder may skip some of them and find others inside.
 */
function mp3Length(file: Buffer): AudioLength | undefined {
  const start = id3End(file);
  const first = mp3Frame(file, start);
  if (first === undefined) return undefined;
  let seconds = 0;
  let at = start;
  for (let frame = mp3Frame(file, at); frame !== undefined; frame = mp3Frame(file, at)) {
    if (frame.kind !== first.kind) return { secondsMax: file.length / BYTES_PER_SECOND_MIN.mp3 };
    seconds += frame.seconds;
    at += frame.bytes;
  }
  const rest = Math.max(0, file.length - at);
  return { secondsMax: seconds + rest / BYTES_PER_SECOND_MIN.mp3, seconds };
}

function id3End(file: Buffer): number {
  if (file.length < ID3_HEADER_BYTES || file.toString("latin1", 0, 3) !== "ID3") return 0;
  const size = [6, 7, 8, 9].reduce((sum, at) => sum * 128 + ((file[at] ?? 0) & 0x7f), 0);
  const end = ID3_HEADER_BYTES + size;
  // A tag that is longer than the file, or followed by no frame, may be read otherwise by a decoder.
  return mp3Frame(file, end) === undefined ? 0 : end;
}

interface Mp3Frame {
  readonly bytes: number;
  readonly seconds: number;
  /** The version and the sample rate, which no frame of a recording changes. */
  readonly kind: number;
}

function mp3Frame(file: Buffer, at: number): Mp3Frame | undefined {
  if (at + 4 > file.length || file[at] !== 0xff) return undefined;
  const second = file[at + 1] ?? 0;
  const third = file[at + 2] ?? 0;
  // Eleven bits of sync, then layer III.
  if ((second & 0xe6) !== 0xe2) return undefined;
  const version = (second >> 3) & 3;
  const isFirst = version === 3;
  const kbits = BIT_RATES[isFirst ? 0 : 1][third >> 4] ?? 0;
  const rate = SAMPLE_RATES[(third >> 2) & 3];
  if (version === 1 || kbits === 0 || rate === undefined) return undefined;
  const sampleRate = isFirst ? rate : version === 2 ? rate / 2 : rate / 4;
  const samples = isFirst ? 1_152 : 576;
  const bytes = Math.floor((samples / 8) * ((kbits * 1_000) / sampleRate)) + ((third >> 1) & 1);
  return bytes < 4 ? undefined : { bytes, seconds: samples / sampleRate, kind: sampleRate };
}

const OGG_HEADER_BYTES = 27;
/** Codecs that are not read: what they take for silence is not known. */
const OTHER_OGG_CODECS = ["\x7fFLAC", "Speex   ", "\x80theora"] as const;

/**
 * The first byte of an Opus packet states its length, and a Vorbis packet has at most half of the longer block. Silence has
 * packets of a byte, so bytes bound nothing.
 */
function oggLength(file: Buffer): AudioLength | undefined {
  if (file.toString("latin1", 0, 4) !== "OggS") return undefined;
  const isOpus = file.subarray(0, 128).includes("OpusHead");
  const vorbisSeconds = vorbisPacketSeconds(file);
  if (!isOpus && vorbisSeconds === 0) return undefined;
  if (OTHER_OGG_CODECS.some((codec) => file.includes(codec, 0, "latin1"))) return undefined;
  let seconds = 0;
  let packets = 0;
  for (let at = 0; at !== -1 && at + OGG_HEADER_BYTES <= file.length;) {
    const segments = file[at + 26] ?? 0;
    let isContinued = ((file[at + 5] ?? 0) & 1) === 1;
    let body = at + OGG_HEADER_BYTES + segments;
    for (let segment = 0; segment < segments; segment++) {
      const length = file[at + OGG_HEADER_BYTES + segment] ?? 0;
      // The two headers of the stream come first.
      if (!isContinued && ++packets > 2)
        seconds += Math.max(vorbisSeconds, isOpus ? opusSeconds(file[body], file[body + 1]) : 0);
      isContinued = length === 255;
      body += length;
    }
    at = file.indexOf("OggS", body, "latin1");
  }
  return vorbisSeconds > 0 ? { secondsMax: seconds } : { secondsMax: seconds, seconds };
}

const VORBIS_HEAD = "\x01vorbis";

/** The longest packet of all Vorbis streams in the file; 0 if there is none. */
function vorbisPacketSeconds(file: Buffer): number {
  let longest = 0;
  for (
    let at = file.indexOf(VORBIS_HEAD, 0, "latin1");
    at !== -1 && at + 29 <= file.length;
    at = file.indexOf(VORBIS_HEAD, at + 1, "latin1")
  ) {
    const rate = Math.max(1, file.readUInt32LE(at + 12));
    longest = Math.max(longest, 2 ** ((file[at + 28] ?? 0) >> 4) / 2 / rate);
  }
  return longest;
}
