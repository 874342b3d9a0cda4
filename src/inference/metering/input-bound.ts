// The upper bound of a request's input tokens. No tokenizer produces more tokens than bytes, so the body's length bounds
// its text; media are bounded by kind, and the total by the model's context.

import { isObject, type JsonObject, arrayIn } from "../../base/json.ts";
import { type ImageRule, imageRuleOf, type PixelSize } from "../../models/tables/image-tokens.ts";
import { type DocumentSize, documentSize } from "./document-bound.ts";
import { imageSize } from "./image-size.ts";

export interface MediaLimits {
  /** The id of the model, whose family counts images by a rule of its own. */
  readonly model?: string;
  /** The most tokens of an image at a provider without such a rule. */
  readonly imageTokensMax: number;
  readonly contextTokens: number;
  /** Number of texts, each with its own context. A conversation is one. */
  readonly texts?: number | undefined;
  /** What is read more than once. */
  readonly repeatedBytes?: number | undefined;
}

/** A shorter string is never counted as inline media. */
const INLINE_MEDIA_MIN_LENGTH = 1_024;
/** Tokens that a provider adds to frame each message or tool. */
const MESSAGE_OVERHEAD_TOKENS = 16;
/** A translated namespace tool has a longer, qualified name. */
const NAMESPACE_TOOL_TOKENS = 64;
const AUDIO_BYTES_PER_TOKEN = 32;
const DEPTH_MAX = 32;

export function inputBound(text: string, json: JsonObject, bounds: MediaLimits): number {
  let files = 0;
  const media = countMedia(json, (kind, part, bytes) => {
    if (kind === "image") return Math.min(bounds.imageTokensMax, imageTokens(part, bounds));
    if (kind === "file")
      return files++ < FILES_MAX ? fileTokens(part, bounds) : bounds.contextTokens;
    return hasMinimumByteRate(part)
      ? Math.ceil(bytes / AUDIO_BYTES_PER_TOKEN) + MESSAGE_OVERHEAD_TOKENS
      : bounds.contextTokens;
  });
  const namespaceTools = namespaceToolCount(json["tools"]);
  const overhead =
    MESSAGE_OVERHEAD_TOKENS *
      (arrayIn(json["messages"]).length +
        arrayIn(json["input"]).length +
        arrayIn(json["tools"]).length +
        namespaceTools +
        1) +
    NAMESPACE_TOOL_TOKENS * namespaceTools;
  const textBytes = Buffer.byteLength(text) - media.inlineBytes + (bounds.repeatedBytes ?? 0);
  return Math.min(bounds.contextTokens * (bounds.texts ?? 1), textBytes + overhead + media.tokens);
}

/** What providers add to an image: the tokens around it. */
const IMAGE_FRAME_TOKENS = 16;

function imageTokens(part: JsonObject, { model, imageTokensMax }: MediaLimits): number {
  const rule = model === undefined ? undefined : imageRuleOf(model);
  if (rule === undefined) return imageTokensMax;
  return (tokensBySize(part, rule) ?? rule.max) + IMAGE_FRAME_TOKENS;
}

/** Undefined for an image that is not inline, or whose size cannot be told. */
export function tokensBySize(part: JsonObject, rule: ImageRule): number | undefined {
  const size = imageSizes.get(part) ?? sizeOfImage(part) ?? "unknown";
  imageSizes.set(part, size);
  return size === "unknown" ? undefined : rule.tokensOf(size);
}

/** An image is read once for all candidates of a call. */
const imageSizes = new WeakMap<JsonObject, PixelSize | "unknown">();

function sizeOfImage(part: JsonObject): PixelSize | undefined {
  const [value, ...others] = encodedValues(part);
  return value === undefined || others.length > 0 ? undefined : imageSize(value);
}

/** Each page of a document is read as an image, too. */
function pageTokens({ model, imageTokensMax }: MediaLimits): number {
  const rule = model === undefined ? undefined : imageRuleOf(model);
  return Math.min(imageTokensMax, (rule?.page ?? rule?.max ?? Infinity) + IMAGE_FRAME_TOKENS);
}

/** Reading a document takes CPU before anything is paid for. */
const FILES_MAX = 10;
/** A document is read once for all candidates of a call. */
const documentSizes = new WeakMap<JsonObject, DocumentSize | "unknown">();

function fileTokens(part: JsonObject, bounds: MediaLimits): number {
  const size = documentSizes.get(part) ?? sizeOfDocument(part) ?? "unknown";
  documentSizes.set(part, size);
  if (size === "unknown") return bounds.contextTokens;
  return Math.min(bounds.contextTokens, size.pages * pageTokens(bounds) + size.textTokens);
}

/** Undefined for what is not inline, or not one document. */
function sizeOfDocument(part: JsonObject): DocumentSize | undefined {
  if (!DOCUMENTS.has(String(part["type"]))) return undefined;
  const [value, ...others] = encodedValues(part);
  if (value === undefined || others.length > 0) return undefined;
  const encoded = value.replace(/^data:[a-z0-9.+/;=-]{0,128},/i, "");
  // What decoders ignore or read differently could be another document to the provider.
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(encoded) || encoded.length % 4 !== 0) return undefined;
  return documentSize(Buffer.from(encoded, "base64"));
}

/** Also what names another file: that one could be read instead. */
function encodedValues(part: JsonObject): readonly string[] {
  return [...INLINE_FIELDS, "file_id"].flatMap((field) => {
    const value = part[field];
    if (isObject(value)) return encodedValues(value);
    return typeof value === "string" ? [value] : [];
  });
}

/** Lower bounds of one second of audio: tokens in any model, and bytes in any usable recording. */
const TOKENS_PER_SECOND_MIN = 10;
const BASE64_BYTES_PER_SECOND_MIN = 1_333;

/** Upper bound of the seconds of audio in a request, for models that charge by the second. */
export function audioSecondsBound(json: JsonObject, contextTokens: number): number {
  const max = Math.ceil(contextTokens / TOKENS_PER_SECOND_MIN);
  const { tokens: seconds } = countMedia(json, (kind, part, bytes) => {
    if (kind === "image") return 0;
    return kind === "audio" && hasMinimumByteRate(part)
      ? Math.ceil(bytes / BASE64_BYTES_PER_SECOND_MIN)
      : max;
  });
  return Math.min(seconds, max);
}

/** Average bytes of output text per token. Used only for calls that ended before the provider reported usage. */
export const BYTES_PER_TOKEN = 4;

/** The encoded media of a request, which do not count as text. */
export function inlineMediaOf(json: JsonObject): ReadonlySet<string> {
  const values = new Set<string>();
  countMedia(json, (_kind, part) => {
    addInlineValues(part, values);
    return 0;
  });
  return values;
}

type MediaKind = "image" | "audio" | "file";
type CountMediaTokens = (kind: MediaKind, part: JsonObject, inlineBytes: number) => number;

interface MediaTotals {
  tokens: number;
  inlineBytes: number;
}

/** Sums what `tokensOf` returns for each media part, and the length of their encoded content. */
export function countMedia(json: JsonObject, tokensOf: CountMediaTokens): Readonly<MediaTotals> {
  const totals = { tokens: 0, inlineBytes: 0 };
  for (const name of CONTENT_LISTS) addMedia(json[name], tokensOf, totals, 0);
  return totals;
}

// Only content fields hold media. A similar object elsewhere, such as in a tool's arguments or schema, is text to the model.
function addMedia(
  value: unknown,
  tokensOf: CountMediaTokens,
  totals: MediaTotals,
  depth: number,
): void {
  if (depth > DEPTH_MAX) return;
  if (Array.isArray(value)) for (const item of value) addMedia(item, tokensOf, totals, depth + 1);
  else if (isObject(value)) {
    const kind = kindOf(value);
    if (kind !== undefined) {
      const bytes = inlineBytesOf(value);
      totals.tokens += tokensOf(kind, value, bytes);
      totals.inlineBytes += bytes;
    }
    for (const name in value) {
      const inner = value[name];
      // The source of a media part was counted with the part.
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
const DOCUMENTS: ReadonlySet<string> = new Set(["file", "input_file", "document"]);
const FILES: ReadonlySet<string> = new Set([...DOCUMENTS, "input_video"]);

// Some providers have part types for content that they fetch: `document_url`, `file_url`, `video_url`.
function kindOf(part: JsonObject): MediaKind | undefined {
  const { type } = part;
  if (typeof type !== "string") return undefined;
  if (IMAGES.has(type)) return isImage(part) ? "image" : "file";
  if (type === "input_audio" || type === "audio") return "audio";
  if (FILES.has(type)) return isPlain(part["source"]) ? undefined : "file";
  return type.endsWith("_url") ? "file" : undefined;
}

// A document with its text inline counts as text.
function isPlain(source: unknown): boolean {
  return isObject(source) && (source["type"] === "text" || source["type"] === "content");
}

/** URLs that Gemini reads as a document, video or audio even in an image part. */
const NOT_AN_IMAGE_URL =
  /^data:(?!image\/|;|,)|\.(?:pdf|mp4|m4v|mov|mpe?g|webm|mkv|avi|wmv|flv|3gpp?|mp3|m4a|wav|ogg|flac|aac)(?:[?#]|$)|^https?:\/\/(?:[\w-]+\.)?youtu(?:be\.com|\.be)\//i;

function isImage({ image_url, source }: JsonObject): boolean {
  const holder = image_url ?? source;
  const url = isObject(holder) ? holder["url"] : holder;
  if (typeof url !== "string") return true;
  // The media type is at the start of a data URL, and other URLs are short: no need to scan megabytes.
  return !NOT_AN_IMAGE_URL.test(url.startsWith("data:") ? url.slice(0, 64) : url.slice(0, 4_096));
}

/** Below this byte rate a WAV header is not credible. */
const WAV_BYTES_PER_SECOND_MIN = 1_000;
const WAV_HEADER_OFFSETS = { format: 20, rate: 24, frameBytes: 32, bytes: 36 } as const;
const WAV_UNCOMPRESSED_FORMATS: ReadonlySet<number> = new Set([1, 3]);

// MP3 and uncompressed WAV need a minimum of bytes per second, so their size bounds their length. Other formats compress
// silence to almost nothing, and the size of audio behind a URL is unknown.
function hasMinimumByteRate(part: JsonObject): boolean {
  const data = audioDataOf(part);
  if (data === undefined) return false;
  const head = Buffer.from(data.slice(0, 64), "base64");
  const isMp3 =
    head.toString("latin1", 0, 3) === "ID3" || (head[0] === 0xff && (head[1] ?? 0) >= 0xe0);
  if (isMp3) return true;
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
  const encoded = isObject(holder) ? holder["data"] : holder;
  return typeof encoded === "string" ? encoded.replace(/^data:[^,]{0,128},/, "") : undefined;
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

function addInlineValues(part: JsonObject, values: Set<string>): void {
  for (const field of INLINE_FIELDS) {
    const value = part[field];
    if (typeof value === "string" && isInline(value)) values.add(value);
    else if (isObject(value)) addInlineValues(value, values);
  }
}

// Only a string that must be encoded bytes is excluded from the text count.
function isInline(value: string): boolean {
  return (
    value.length >= INLINE_MEDIA_MIN_LENGTH &&
    (value.startsWith("data:") || /^[A-Za-z0-9+/_-]{64}/.test(value)) &&
    !value.slice(0, 512).includes(" ")
  );
}

function namespaceToolCount(tools: unknown): number {
  let count = 0;
  for (const tool of Array.isArray(tools) ? tools : [])
    if (isObject(tool) && tool["type"] === "namespace") count += arrayIn(tool["tools"]).length;
  return count;
}
