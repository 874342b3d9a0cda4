import type {
  CacheBreakpoint,
  FilePart,
  ImagePart,
  MediaPart,
  Part,
  Source,
  TextPart,
} from "../../../canonical/parts.ts";
import { type Loss, takeNativeFields } from "../../../canonical/loss.ts";
import type { JsonObject } from "../../../../base/json.ts";
import { COMMON_IMAGE_TYPES, isUncommonImageType } from "../../../canonical/media-sources.ts";
import { addSignatureLoss } from "../../../canonical/reasoning.ts";
import type { Target } from "../../../canonical/wire.ts";

/** One part of a message's content, or undefined with a loss. */
export function writePart(
  part: Part,
  at: string,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  const written = writePartBody(part, at, target, losses);
  const extra =
    part.type === "native" ? undefined : takeNativeFields(part.native, "chat", at, losses);
  return written === undefined || extra === undefined ? written : { ...written, ...extra };
}

function writePartBody(
  part: Part,
  at: string,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  switch (part.type) {
    case "text":
      addTextPartLosses(part, at, losses);
      return { type: "text", text: part.text, ...writeCache(part.cache, target, at, losses) };
    case "image":
      return writeImage(part, at, target, losses);
    case "file":
      return writeFile(part, at, target, losses);
    case "audio":
    case "video":
      return writeMedia(part, at, target, losses);
    case "native":
      if (part.wire === "chat") return part.value;
      losses.push({
        path: at,
        reason: `This content is of the ${part.wire} API and has no equivalent at this model's provider.`,
      });
      return undefined;
    case "refusal":
      return { type: "refusal", refusal: part.text };
    case "reasoning":
    case "tool_call":
    case "tool_result":
      losses.push({ path: at, reason: `A ${part.type.replace("_", " ")} cannot stand here.` });
      return undefined;
  }
}

/** What an earlier reply cited, and what proved it, is not asked back here. */
function addTextPartLosses(part: TextPart, at: string, losses: Loss[]): void {
  if (part.citations !== undefined)
    losses.push({
      path: `${at}.citations`,
      reason: "This provider does not take citations back.",
      tolerated: true,
    });
  addSignatureLoss(losses, at, part.signature);
}

/** Where caching is the provider's own affair, a mark changes no answer: it is left out by rule. */
export function writeCache(
  cache: CacheBreakpoint | undefined,
  target: Target,
  at: string,
  losses: Loss[],
): JsonObject | undefined {
  if (cache === undefined) return undefined;
  const { ttl } = cache;
  const marks = target.abilities?.cacheBreakpointField;
  if (marks === "cache_control" && ttl !== "30m" && ttl !== "12h")
    return {
      cache_control: ttl === undefined ? { type: "ephemeral" } : { type: "ephemeral", ttl },
    };
  if (marks === "prompt_cache_breakpoint" && ttl !== "5m" && ttl !== "1h")
    return {
      prompt_cache_breakpoint: ttl === undefined ? { mode: "explicit" } : { mode: "explicit", ttl },
    };
  losses.push({
    path: `${at}.cache_control`,
    reason: "This provider has no such cache mark.",
    tolerated: true,
  });
  return undefined;
}

function writeImage(
  part: ImagePart,
  at: string,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  const url = sourceUrl(part.source);
  if (url === undefined || (part.source.kind === "url" && target.abilities?.urlSources === false)) {
    losses.push({
      path: at,
      reason:
        part.source.kind === "url"
          ? "This provider does not fetch images. Send the image's bytes."
          : "The image lies with another provider. Send its bytes.",
    });
    return undefined;
  }
  if (isUncommonImageType(part.source) && target.abilities?.openaiFields !== false) {
    losses.push({
      path: at,
      reason: `This provider takes images of ${[...COMMON_IMAGE_TYPES].join(", ")}.`,
    });
    return undefined;
  }
  addSignatureLoss(losses, at, part.signature);
  // OpenAI refuses a mark on an image.
  const cache =
    target.abilities?.cacheBreakpointField === "prompt_cache_breakpoint" ? undefined : part.cache;
  return {
    type: "image_url",
    image_url: { url, detail: part.detail },
    ...writeCache(cache, target, at, losses),
  };
}

function writeFile(
  part: FilePart,
  at: string,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  const { source, name } = part;
  if (part.context !== undefined)
    losses.push({
      path: `${at}.context`,
      reason: "This provider takes no note beside a document.",
    });
  if (part.citable === true)
    losses.push({ path: `${at}.citations`, reason: "This provider does not cite documents." });
  const cache = writeCache(part.cache, target, at, losses);
  if (source.kind === "file_id" && (source.wire === "chat" || source.wire === "responses"))
    return { type: "file", file: { file_id: source.id, filename: name }, ...cache };
  const data =
    source.kind === "url" && target.abilities?.openaiFields !== false
      ? undefined
      : sourceUrl(source);
  if (data === undefined) {
    losses.push({ path: at, reason: "This provider takes a document only by its bytes." });
    return undefined;
  }
  return { type: "file", file: { filename: name, file_data: data }, ...cache };
}

function writeMedia(
  part: MediaPart,
  at: string,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  const { source } = part;
  if (part.type === "audio" && source.kind === "base64") {
    return {
      type: "input_audio",
      input_audio: { data: source.data, format: audioFormat(source.mediaType) },
      ...writeCache(part.cache, target, at, losses),
    };
  }
  const url = sourceUrl(source);
  if (part.type === "video" && url !== undefined && target.abilities?.openaiFields === false)
    return { type: "video_url", video_url: { url }, ...writeCache(part.cache, target, at, losses) };
  losses.push({ path: at, reason: `This provider takes no ${part.type} in this form.` });
  return undefined;
}

function sourceUrl(source: Source): string | undefined {
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

function audioFormat(mediaType: string): string {
  return mediaType === "audio/mpeg" ? "mp3" : mediaType.replace(/^audio\/(x-)?/, "");
}
