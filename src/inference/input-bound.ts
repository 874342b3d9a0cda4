// The most input tokens that a request itself can count for. No tokenizer makes more tokens of a text than it has bytes, so
// the body's own length bounds its text; media are bounded by their kind, and everything by the model's context.

import { isObject } from "./ask.ts";

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
const AUDIO_BYTES_PER_TOKEN = 32;
const DEPTH_MAX = 32;

export function inputBound(
  text: string,
  json: Readonly<Record<string, unknown>>,
  bounds: MediaBounds,
): number {
  const found = { tokens: 0, inlineBytes: 0 };
  for (const name of CONTENT_LISTS) walk(json[name], bounds, found, 0);
  const frames =
    FRAME_TOKENS *
    (lengthOf(json["messages"]) + lengthOf(json["input"]) + lengthOf(json["tools"]) + 1);
  const textBytes = Buffer.byteLength(text) - found.inlineBytes;
  return Math.min(bounds.contextTokens * (bounds.texts ?? 1), textBytes + frames + found.tokens);
}

interface Found {
  tokens: number;
  inlineBytes: number;
}

// Media stands in content alone. What looks like it elsewhere, in a tool's arguments or its schema, is text to the model.
function walk(value: unknown, bounds: MediaBounds, found: Found, depth: number): void {
  if (depth > DEPTH_MAX) return;
  if (Array.isArray(value)) for (const one of value) walk(one, bounds, found, depth + 1);
  else if (isObject(value)) {
    countMedia(value, bounds, found);
    for (const name in value) {
      const inner = value[name];
      if (typeof inner === "object" && inner !== null && CONTENT.has(name))
        walk(inner, bounds, found, depth + 1);
    }
  }
}

const CONTENT_LISTS: ReadonlySet<string> = new Set(["messages", "input", "system"]);
const CONTENT: ReadonlySet<string> = new Set(["content", "output", "source", "images"]);

// A part is known by its `type`; what is inside it as base64 is not text, and is not counted as text.
function countMedia(
  part: Readonly<Record<string, unknown>>,
  bounds: MediaBounds,
  found: Found,
): void {
  const type = part["type"];
  if (typeof type !== "string") return;
  const bytes = inlineBytesOf(part);
  if (type === "image_url" || type === "input_image" || type === "image")
    found.tokens += bounds.imageTokensMax;
  else if (
    type === "file" ||
    type === "input_file" ||
    type === "document" ||
    type === "input_video" ||
    type === "video_url"
  ) {
    found.tokens += bounds.contextTokens;
  } else if (type === "input_audio" || type === "audio")
    found.tokens += Math.ceil(bytes / AUDIO_BYTES_PER_TOKEN) + FRAME_TOKENS;
  else return;
  found.inlineBytes += bytes;
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
] as const;

function inlineBytesOf(part: Readonly<Record<string, unknown>>): number {
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

function lengthOf(value: unknown): number {
  return Array.isArray(value) ? value.length : 0;
}
