// Content that Chat Completions and Responses have in the same form: media, cache breakpoints, log probabilities.

import { addHintLoss, addLoss, addToleratedLoss, type Loss } from "./canonical/canonical-losses.ts";
import type {
  CacheBreakpoint,
  FilePart,
  ImagePart,
  MediaPart,
  Source,
  TokenLogprob,
} from "./canonical/canonical-parts.ts";
import { COMMON_IMAGE_TYPES, isUncommonImageType } from "./canonical/media-sources.ts";
import type { Abilities, Target } from "./canonical/wire-interfaces.ts";
import { invalid } from "./invalid-request.ts";
import {
  arrayIn,
  isObject,
  type JsonObject,
  mustBeName,
  mustBeObject,
  numberIn,
  optionalObject,
  optionalOneOf,
  stringIn,
} from "./json-fields.ts";

export const IMAGE_DETAILS = ["auto", "low", "high", "original"] as const;
const DATA_URL = /^data:([^;,]*)(?:;[^;,]*)*;base64,/i;

/** `type` is the required prefix of a data URL's media type, such as `image/`. */
export function readUrlSource(value: unknown, path: string, type: string): Source {
  const url = mustBeName(value, path);
  const match = DATA_URL.exec(url);
  if (match === null) {
    if (!/^(https?|gs):\/\/./i.test(url))
      throw invalid(path, `\`${path}\` must be an \`https:\` URL or a base64 \`data:\` URL.`);
    return { kind: "url", url };
  }
  const mediaType = (match[1] ?? "").toLowerCase();
  if (!mediaType.startsWith(type) || mediaType === "") {
    const required = type === "" ? "a media type" : `the media type \`${type}…\``;
    throw invalid(path, `\`${path}\` must be a \`data:\` URL with ${required}.`);
  }
  if (match[0].length === url.length) throw invalid(path, `\`${path}\` must not be empty.`);
  return { kind: "base64", mediaType, data: url.slice(match[0].length) };
}

/** The source of an `input_audio` part. */
export function readInputAudio(part: JsonObject, path: string): Source {
  const audio = mustBeObject(part["input_audio"], `${path}.input_audio`);
  const format = mustBeName(audio["format"], `${path}.input_audio.format`);
  const data = mustBeName(audio["data"], `${path}.input_audio.data`);
  return { kind: "base64", mediaType: format === "mp3" ? "audio/mpeg" : `audio/${format}`, data };
}

/** Undefined unless the audio is base64. */
export function writeInputAudio({ type, source }: MediaPart): JsonObject | undefined {
  if (type !== "audio" || source.kind !== "base64") return undefined;
  const { mediaType, data } = source;
  const format = mediaType === "audio/mpeg" ? "mp3" : mediaType.replace(/^audio\/(x-)?/, "");
  return { type: "input_audio", input_audio: { data, format } };
}

/** A URL of the content, if it is not stored at a provider. */
export function sourceUrl(source: Source): string | undefined {
  switch (source.kind) {
    case "base64":
      return `data:${source.mediaType};base64,${source.data}`;
    case "url":
      return source.url;
    case "text":
      return `data:${source.mediaType};base64,${Buffer.from(source.text).toString("base64")}`;
    case "file_id":
      return undefined;
  }
}

/** OpenAI's file id, which both of its APIs accept. */
export function fileIdOf(source: Source): string | undefined {
  const isOpenai =
    source.kind === "file_id" && (source.wire === "chat" || source.wire === "responses");
  return isOpenai ? source.id : undefined;
}

/** For an image, document or video that the provider cannot get from its source. */
export function addSourceLoss(
  losses: Loss[],
  path: string,
  { type, source }: ImagePart | FilePart | MediaPart,
): undefined {
  return addLoss(
    losses,
    path,
    source.kind === "url"
      ? "This provider does not fetch URLs. Send the content as base64."
      : `The ${type} is stored at another provider. Send its content as base64.`,
  );
}

export function acceptsImageType(
  { source }: ImagePart,
  { abilities }: Target,
  path: string,
  losses: Loss[],
): boolean {
  if (!isUncommonImageType(source) || abilities?.openaiFields === false) return true;
  const types = [...COMMON_IMAGE_TYPES].join(", ");
  addLoss(losses, path, `This provider accepts images only in these formats: ${types}.`);
  return false;
}

export function addDocumentLosses(part: FilePart, path: string, losses: Loss[]): void {
  if (part.context !== undefined)
    addLoss(losses, `${path}.context`, "This provider does not support document context.");
  if (part.citable === true)
    addHintLoss(losses, `${path}.citations`, "This provider does not support citations.");
}

/** `prompt_cache_breakpoint` is OpenAI's own field; callers of Claude send `cache_control` by convention. */
export function readCacheBreakpoint(holder: JsonObject, path: string): CacheBreakpoint | undefined {
  const key =
    (holder["cache_control"] ?? undefined) === undefined
      ? "prompt_cache_breakpoint"
      : "cache_control";
  const breakpoint = optionalObject(holder[key], `${path}.${key}`);
  if (breakpoint === undefined) return undefined;
  const ttls = ["5m", "30m", "1h", "12h"] as const;
  return { ttl: optionalOneOf(breakpoint["ttl"], `${path}.${key}.ttl`, ttls) };
}

/** Where the provider has no field for breakpoints it caches automatically, so the loss is tolerated. */
export function writeCacheBreakpoint(
  cache: CacheBreakpoint | undefined,
  field: Abilities["cacheBreakpointField"],
  path: string,
  losses: Loss[],
): JsonObject | undefined {
  if (cache === undefined) return undefined;
  const { ttl } = cache;
  if (field === "cache_control" && ttl !== "30m" && ttl !== "12h")
    return { cache_control: { type: "ephemeral", ...(ttl === undefined ? {} : { ttl }) } };
  if (field === "prompt_cache_breakpoint" && ttl !== "5m" && ttl !== "1h")
    return { prompt_cache_breakpoint: { mode: "explicit", ...(ttl === undefined ? {} : { ttl }) } };
  const reason = "This provider does not support this cache breakpoint.";
  return addToleratedLoss(losses, `${path}.cache_control`, reason);
}

export function readLogprobs(value: unknown): readonly TokenLogprob[] | undefined {
  const list = arrayIn(value);
  return list.length === 0 ? undefined : list.filter(isObject).map(readLogprob);
}

function readLogprob(one: JsonObject): TokenLogprob {
  const { bytes, top_logprobs: top } = one;
  return {
    token: stringIn(one["token"]) ?? "",
    logprob: numberIn(one["logprob"]) ?? 0,
    bytes: bytes === undefined ? undefined : Array.isArray(bytes) ? bytes.map(Number) : null,
    top: Array.isArray(top) ? top.filter(isObject).map(readLogprob) : undefined,
  };
}
