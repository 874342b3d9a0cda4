// The most input tokens that a request itself can count for. No tokenizer makes more tokens of a text than it has bytes, so
// the body's own length bounds its text; media are bounded by their kind, and everything by the model's context.

import { isObject, type JsonObject } from "../../base/json.ts";

export interface MediaLimits {
  readonly imageTokensMax: number;
  readonly contextTokens: number;
  /** How many texts there are, each with a context to itself: more than one for embeddings alone. */
  readonly texts?: number;
}

/** A body without a string as long as this holds no media inline. */
const INLINE_MEDIA_MIN_LENGTH = 1_024;
/** Tokens for each message or tool that a provider adds around what was written. */
const MESSAGE_OVERHEAD_TOKENS = 16;
/** What a tool of a namespace is called elsewhere, which is longer than what it is called in it. */
const NAMESPACE_TOOL_TOKENS = 64;
const AUDIO_BYTES_PER_TOKEN = 32;
const DEPTH_MAX = 32;

export function inputBound(text: string, json: JsonObject, bounds: MediaLimits): number {
  const media = countMedia(json, (kind, part, bytes) => {
    if (kind === "image") return bounds.imageTokensMax;
    return kind === "audio" && hasSteadyRate(part)
      ? Math.ceil(bytes / AUDIO_BYTES_PER_TOKEN) + MESSAGE_OVERHEAD_TOKENS
      : bounds.contextTokens;
  });
  const namespaceTools = namespaceToolCount(json["tools"]);
  const overhead =
    MESSAGE_OVERHEAD_TOKENS *
      (lengthOf(json["messages"]) +
        lengthOf(json["input"]) +
        lengthOf(json["tools"]) +
        namespaceTools +
        1) +
    NAMESPACE_TOOL_TOKENS * namespaceTools;
  const textBytes = Buffer.byteLength(text) - media.inlineBytes;
  return Math.min(bounds.contextTokens * (bounds.texts ?? 1), textBytes + overhead + media.tokens);
}

/** Of a second of sound no model makes fewer tokens, and none that is sent in earnest has fewer bytes. */
const TOKENS_PER_SECOND_MIN = 10;
const BASE64_BYTES_PER_SECOND_MIN = 1_333;

/** The most seconds of sound that a request holds, where they are what is charged. */
export function audioSecondsBound(json: JsonObject, contextTokens: number): number {
  const max = Math.ceil(contextTokens / TOKENS_PER_SECOND_MIN);
  const { tokens: seconds } = countMedia(json, (kind, part, bytes) => {
    if (kind === "image") return 0;
    return kind === "audio" && hasSteadyRate(part)
      ? Math.ceil(bytes / BASE64_BYTES_PER_SECOND_MIN)
      : max;
  });
  return Math.min(seconds, max);
}

/** What UTF-8 text costs in tokens on the average; only for calls that ended before the provider counted. */
export const BYTES_PER_TOKEN = 4;
const TYPICAL_IMAGE_TOKENS = 1_000;

/** What the input is likely to have counted, where nobody says: media by what they commonly are, and never as their bytes. */
export function estimateInputTokens(text: string, json: JsonObject, contextTokens: number): number {
  const { tokens, inlineBytes } = countMedia(json, (kind, _part, bytes) =>
    kind === "image"
      ? TYPICAL_IMAGE_TOKENS
      : Math.max(TYPICAL_IMAGE_TOKENS, Math.ceil(bytes / AUDIO_BYTES_PER_TOKEN)),
  );
  const textBytes = Buffer.byteLength(text) - inlineBytes;
  return Math.min(contextTokens, Math.ceil(textBytes / BYTES_PER_TOKEN) + tokens);
}

type MediaKind = "image" | "audio" | "file";
type CountMediaTokens = (kind: MediaKind, part: JsonObject, inlineBytes: number) => number;

interface MediaTotals {
  tokens: number;
  inlineBytes: number;
}

function countMedia(json: JsonObject, tokensOf: CountMediaTokens): Readonly<MediaTotals> {
  const totals = { tokens: 0, inlineBytes: 0 };
  for (const name of CONTENT_LISTS) addMedia(json[name], tokensOf, totals, 0);
  return totals;
}

// Media stands in content alone. What looks like it elsewhere, in a tool's arguments or its schema, is text to the model.
function addMedia(
  value: unknown,
  tokensOf: CountMediaTokens,
  totals: MediaTotals,
  depth: number,
): void {
  if (depth > DEPTH_MAX) return;
  if (Array.isArray(value)) for (const one of value) addMedia(one, tokensOf, totals, depth + 1);
  else if (isObject(value)) {
    const kind = kindOf(value);
    if (kind !== undefined) {
      const bytes = inlineBytesOf(value);
      totals.tokens += tokensOf(kind, value, bytes);
      totals.inlineBytes += bytes;
    }
    for (const name in value) {
      const inner = value[name];
      // What is inside a medium's own source was counted with it.
      if (typeof inner !== "object" || inner === null || !CONTENT_FIELDS.has(name)) continue;
      if (kind === undefined || name !== "source") addMedia(inner, tokensOf, totals, depth + 1);
    }
  }
}

const CONTENT_LISTS: ReadonlySet<string> = new Set(["messages", "input", "system"]);
const CONTENT_FIELDS: ReadonlySet<string> = new Set(["content", "output", "source", "images"]);

const IMAGES: ReadonlySet<string> = new Set([
  "image_url",
  "input_image",
  "image",
  "computer_screenshot",
]);
const FILES: ReadonlySet<string> = new Set(["file", "input_file", "document", "input_video"]);

// A part is known by its `type`; what is inside it as base64 is not text, and is not counted as text. Providers have
// parts of their own for what they fetch: `document_url`, `file_url`, `video_url`.
function kindOf(part: JsonObject): MediaKind | undefined {
  const { type } = part;
  if (typeof type !== "string") return undefined;
  if (IMAGES.has(type)) return isImage(part) ? "image" : "file";
  if (type === "input_audio" || type === "audio") return "audio";
  if (FILES.has(type)) return isPlain(part["source"]) ? undefined : "file";
  return type.endsWith("_url") ? "file" : undefined;
}

// A document whose text stands in the request is text, and so are its parts.
function isPlain(source: unknown): boolean {
  return isObject(source) && (source["type"] === "text" || source["type"] === "content");
}

/** Addresses behind which Gemini finds more than a picture, whatever the part is called. */
const NOT_AN_IMAGE_URL =
  /^data:(?!image\/|;|,)|\.(?:pdf|mp4|m4v|mov|mpe?g|webm|mkv|avi|wmv|flv|3gpp?|mp3|m4a|wav|ogg|flac|aac)(?:[?#]|$)|^https?:\/\/(?:[\w-]+\.)?youtu(?:be\.com|\.be)\//i;

function isImage({ image_url, source }: JsonObject): boolean {
  const holder = image_url ?? source;
  const url = isObject(holder) ? holder["url"] : holder;
  if (typeof url !== "string") return true;
  // A data URL says what it is at its beginning, and an address is short.
  return !NOT_AN_IMAGE_URL.test(url.startsWith("data:") ? url.slice(0, 64) : url.slice(0, 4_096));
}

/** Fewer bytes for a second than any sound that is sent in earnest has. */
const WAV_BYTES_PER_SECOND_MIN = 1_000;
const WAV_HEADER_OFFSETS = { format: 20, rate: 24, frameBytes: 32, bytes: 36 } as const;
const WAV_UNCOMPRESSED_FORMATS: ReadonlySet<number> = new Set([1, 3]);

// In MP3 and plain WAV a second takes up at least so many bytes; elsewhere silence takes up next to none, and what lies
// behind an address nobody knows.
function hasSteadyRate(part: JsonObject): boolean {
  const data = audioDataOf(part);
  if (data === undefined) return false;
  const head = Buffer.from(data.slice(0, 64), "base64");
  if (head.toString("latin1", 0, 3) === "ID3" || (head[0] === 0xff && (head[1] ?? 0) >= 0xe0))
    return true;
  if (head.toString("latin1", 0, 4) !== "RIFF" || head.length < WAV_HEADER_OFFSETS.bytes)
    return false;
  const rate =
    head.readUInt32LE(WAV_HEADER_OFFSETS.rate) * head.readUInt16LE(WAV_HEADER_OFFSETS.frameBytes);
  return (
    head.toString("latin1", 12, 16) === "fmt " &&
    WAV_UNCOMPRESSED_FORMATS.has(head.readUInt16LE(WAV_HEADER_OFFSETS.format)) &&
    rate >= WAV_BYTES_PER_SECOND_MIN
  );
}

function audioDataOf({ input_audio, audio, source, data }: JsonObject): string | undefined {
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

function inlineBytesOf(part: JsonObject): number {
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
    value.length >= INLINE_MEDIA_MIN_LENGTH &&
    (value.startsWith("data:") || /^[A-Za-z0-9+/_-]{64}/.test(value)) &&
    !value.slice(0, 512).includes(" ")
  );
}

function namespaceToolCount(tools: unknown): number {
  let members = 0;
  for (const tool of Array.isArray(tools) ? tools : [])
    if (isObject(tool) && tool["type"] === "namespace") members += lengthOf(tool["tools"]);
  return members;
}

function lengthOf(value: unknown): number {
  return Array.isArray(value) ? value.length : 0;
}
