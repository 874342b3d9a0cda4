// The most input tokens that a request itself can count for. No tokenizer makes more tokens of a text than it has bytes, so
// the body's own length bounds its text; media are bounded by their kind, and everything by the model's context.

import { isObject, type Json } from "./ask.ts";

export interface MediaBounds {
  readonly imageTokensMax: number;
  readonly contextTokens: number;
  /** How many texts there are, each with a context to itself: more than one for embeddings alone. */
  readonly texts?: number;
}

/** A body without a string as long as this holds no media inline. */
const INLINE_MEDIA_MIN = 1_024;
/** Tokens for each message or tool that a provider adds around what was written. */
const FRAME_TOKENS = 16;
/** What a tool of a namespace is called elsewhere, which is longer than what it is called in it. */
const NAME_TOKENS = 64;
const AUDIO_BYTES_PER_TOKEN = 32;
const DEPTH_MAX = 32;

export function inputBound(text: string, json: Json, bounds: MediaBounds): number {
  const found = mediaIn(json, (kind, part, bytes) => {
    if (kind === "image") return bounds.imageTokensMax;
    return kind === "audio" && hasSteadyRate(part)
      ? Math.ceil(bytes / AUDIO_BYTES_PER_TOKEN) + FRAME_TOKENS
      : bounds.contextTokens;
  });
  const members = membersIn(json["tools"]);
  const frames =
    FRAME_TOKENS *
      (lengthOf(json["messages"]) +
        lengthOf(json["input"]) +
        lengthOf(json["tools"]) +
        members +
        1) +
    NAME_TOKENS * members;
  const textBytes = Buffer.byteLength(text) - found.inlineBytes;
  return Math.min(bounds.contextTokens * (bounds.texts ?? 1), textBytes + frames + found.tokens);
}

/** Of a second of sound no model makes fewer tokens, and none that is sent in earnest has fewer bytes. */
const TOKENS_PER_SECOND_MIN = 10;
const BASE64_BYTES_PER_SECOND_MIN = 1_333;

/** The most seconds of sound that a request holds, where they are what is charged. */
export function secondsBound(json: Json, contextTokens: number): number {
  const most = Math.ceil(contextTokens / TOKENS_PER_SECOND_MIN);
  const { tokens: seconds } = mediaIn(json, (kind, part, bytes) => {
    if (kind === "image") return 0;
    return kind === "audio" && hasSteadyRate(part)
      ? Math.ceil(bytes / BASE64_BYTES_PER_SECOND_MIN)
      : most;
  });
  return Math.min(seconds, most);
}

/** What UTF-8 text costs in tokens on the average; only for calls that ended before the provider counted. */
export const BYTES_PER_TOKEN = 4;
const IMAGE_TOKENS_LIKELY = 1_000;

/** What the input is likely to have counted, where nobody says: media by what they commonly are, and never as their bytes. */
export function likelyInput(text: string, json: Json, contextTokens: number): number {
  const { tokens, inlineBytes } = mediaIn(json, (kind, _part, bytes) =>
    kind === "image"
      ? IMAGE_TOKENS_LIKELY
      : Math.max(IMAGE_TOKENS_LIKELY, Math.ceil(bytes / AUDIO_BYTES_PER_TOKEN)),
  );
  const textBytes = Buffer.byteLength(text) - inlineBytes;
  return Math.min(contextTokens, Math.ceil(textBytes / BYTES_PER_TOKEN) + tokens);
}

type MediaKind = "image" | "audio" | "file";
type Count = (kind: MediaKind, part: Json, inlineBytes: number) => number;

interface Found {
  tokens: number;
  inlineBytes: number;
}

function mediaIn(json: Json, tokensOf: Count): Readonly<Found> {
  const found = { tokens: 0, inlineBytes: 0 };
  for (const name of CONTENT_LISTS) walk(json[name], tokensOf, found, 0);
  return found;
}

// Media stands in content alone. What looks like it elsewhere, in a tool's arguments or its schema, is text to the model.
function walk(value: unknown, tokensOf: Count, found: Found, depth: number): void {
  if (depth > DEPTH_MAX) return;
  if (Array.isArray(value)) for (const one of value) walk(one, tokensOf, found, depth + 1);
  else if (isObject(value)) {
    const kind = kindOf(value);
    if (kind !== undefined) {
      const bytes = inlineBytesOf(value);
      found.tokens += tokensOf(kind, value, bytes);
      found.inlineBytes += bytes;
    }
    for (const name in value) {
      const inner = value[name];
      // What is inside a medium's own source was counted with it.
      if (typeof inner !== "object" || inner === null || !CONTENT.has(name)) continue;
      if (kind === undefined || name !== "source") walk(inner, tokensOf, found, depth + 1);
    }
  }
}

const CONTENT_LISTS: ReadonlySet<string> = new Set(["messages", "input", "system"]);
const CONTENT: ReadonlySet<string> = new Set(["content", "output", "source", "images"]);

const IMAGES: ReadonlySet<string> = new Set([
  "image_url",
  "input_image",
  "image",
  "computer_screenshot",
]);
const FILES: ReadonlySet<string> = new Set(["file", "input_file", "document", "input_video"]);

// A part is known by its `type`; what is inside it as base64 is not text, and is not counted as text. Providers have
// parts of their own for what they fetch: `document_url`, `file_url`, `video_url`.
function kindOf(part: Json): MediaKind | undefined {
  const { type } = part;
  if (typeof type !== "string") return undefined;
  if (IMAGES.has(type)) return isPicture(part) ? "image" : "file";
  if (type === "input_audio" || type === "audio") return "audio";
  if (FILES.has(type)) return isPlain(part["source"]) ? undefined : "file";
  return type.endsWith("_url") ? "file" : undefined;
}

// A document whose text stands in the request is text, and so are its parts.
function isPlain(source: unknown): boolean {
  return isObject(source) && (source["type"] === "text" || source["type"] === "content");
}

/** Addresses behind which Gemini finds more than a picture, whatever the part is called. */
const NO_PICTURE =
  /^data:(?!image\/|;|,)|\.(?:pdf|mp4|m4v|mov|mpe?g|webm|mkv|avi|wmv|flv|3gpp?|mp3|m4a|wav|ogg|flac|aac)(?:[?#]|$)|^https?:\/\/(?:[\w-]+\.)?youtu(?:be\.com|\.be)\//i;

function isPicture({ image_url, source }: Json): boolean {
  const holder = image_url ?? source;
  const url = isObject(holder) ? holder["url"] : holder;
  if (typeof url !== "string") return true;
  // A data URL says what it is at its beginning, and an address is short.
  return !NO_PICTURE.test(url.startsWith("data:") ? url.slice(0, 64) : url.slice(0, 4_096));
}

/** Fewer bytes for a second than any sound that is sent in earnest has. */
const WAV_BYTES_PER_SECOND_MIN = 1_000;
const WAV_HEAD = { format: 20, rate: 24, frameBytes: 32, bytes: 36 } as const;
const WAV_PLAIN: ReadonlySet<number> = new Set([1, 3]);

// In MP3 and plain WAV a second takes up at least so many bytes; elsewhere silence takes up next to none, and what lies
// behind an address nobody knows.
function hasSteadyRate(part: Json): boolean {
  const data = soundOf(part);
  if (data === undefined) return false;
  const head = Buffer.from(data.slice(0, 64), "base64");
  if (head.toString("latin1", 0, 3) === "ID3" || (head[0] === 0xff && (head[1] ?? 0) >= 0xe0))
    return true;
  if (head.toString("latin1", 0, 4) !== "RIFF" || head.length < WAV_HEAD.bytes) return false;
  const rate = head.readUInt32LE(WAV_HEAD.rate) * head.readUInt16LE(WAV_HEAD.frameBytes);
  return (
    head.toString("latin1", 12, 16) === "fmt " &&
    WAV_PLAIN.has(head.readUInt16LE(WAV_HEAD.format)) &&
    rate >= WAV_BYTES_PER_SECOND_MIN
  );
}

function soundOf({ input_audio, audio, source, data }: Json): string | undefined {
  const holder = input_audio ?? audio ?? source ?? data;
  const sound = isObject(holder) ? holder["data"] : holder;
  return typeof sound === "string" ? sound.replace(/^data:[^,]{0,128},/, "") : undefined;
}

const INLINE_FIELDS = [
  "image_url",
  "file",
  "source",
  "input_audio",
  "file_data",
  "data",
  "url",
  "audio",
  "document_url",
  "file_url",
  "video_url",
  "audio_url",
] as const;

function inlineBytesOf(part: Json): number {
  let bytes = 0;
  for (const field of INLINE_FIELDS) {
    const value = part[field];
    if (typeof value === "string") bytes += isInline(value) ? value.length : 0;
    else if (isObject(value)) bytes += inlineBytesOf(value);
  }
  return bytes;
}

// Only what can be nothing else than encoded bytes is left out of the text.
function isInline(value: string): boolean {
  return (
    value.length >= INLINE_MEDIA_MIN &&
    (value.startsWith("data:") || /^[A-Za-z0-9+/_-]{64}/.test(value)) &&
    !value.slice(0, 512).includes(" ")
  );
}

function membersIn(tools: unknown): number {
  let members = 0;
  for (const tool of Array.isArray(tools) ? tools : [])
    if (isObject(tool) && tool["type"] === "namespace") members += lengthOf(tool["tools"]);
  return members;
}

function lengthOf(value: unknown): number {
  return Array.isArray(value) ? value.length : 0;
}
