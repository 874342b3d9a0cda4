import type {
  CacheBreakpoint,
  FilePart,
  ImagePart,
  MediaPart,
  Part,
  Source,
} from "../../../canonical/parts.ts";
import { type Loss, takeNativeFields } from "../../../canonical/loss.ts";
import type { JsonObject } from "../../../../base/json.ts";
import { addSignatureLoss } from "../../../canonical/reasoning.ts";
import { COMMON_IMAGE_TYPES, isUncommonImageType } from "../../../canonical/media-sources.ts";
import type { Target } from "../../../canonical/wire.ts";

/** One part of a user's message or of a tool's output, or undefined with a loss. */
export function writePart(
  part: Part,
  at: string,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  switch (part.type) {
    case "text":
      return {
        type: "input_text",
        text: part.text,
        ...writeCache(part.cache, target, at, losses),
      };
    case "image":
      return writeImage(part, at, target, losses);
    case "file":
      return writeFile(part, at, target, losses);
    case "audio":
    case "video":
      return writeMedia(part, at, target, losses);
    case "native":
      if (part.wire === "responses") return part.value;
      return addLoss(
        losses,
        at,
        `This content is of the ${part.wire} API and has no equivalent at this model's provider.`,
      );
    case "refusal":
    case "reasoning":
    case "tool_call":
    case "tool_result":
      return addLoss(losses, at, `A ${part.type.replace("_", " ")} cannot stand here.`);
  }
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
  if (
    target.abilities?.cacheBreakpointField === "prompt_cache_breakpoint" &&
    ttl !== "5m" &&
    ttl !== "1h"
  )
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

function addLoss(losses: Loss[], path: string, reason: string): undefined {
  losses.push({ path, reason });
  return undefined;
}

function writeImage(
  part: ImagePart,
  at: string,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  const held = writeFileReference(part.source, "image_url", target);
  if (held === undefined)
    return addLoss(
      losses,
      at,
      part.source.kind === "url"
        ? "This provider does not fetch images. Send the image's bytes."
        : "The image lies with another provider. Send its bytes.",
    );
  if (isUncommonImageType(part.source) && target.abilities?.openaiFields !== false)
    return addLoss(
      losses,
      at,
      `This provider takes images of ${[...COMMON_IMAGE_TYPES].join(", ")}.`,
    );
  addSignatureLoss(losses, at, part.signature);
  return {
    type: "input_image",
    ...held,
    detail: part.detail ?? "auto",
    ...writeCache(part.cache, target, at, losses),
    ...takeNativeFields(part.native, "responses", at, losses),
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
    addLoss(losses, `${at}.context`, "This provider takes no note beside a document.");
  if (part.citable === true)
    addLoss(losses, `${at}.citations`, "This provider does not cite documents.");
  const key = source.kind === "url" ? "file_url" : "file_data";
  const held = writeFileReference(source, key, target);
  if (held === undefined)
    return addLoss(
      losses,
      at,
      source.kind === "url"
        ? "This provider does not fetch documents. Send the document's bytes."
        : "The document lies with another provider. Send its bytes.",
    );
  // A document in bytes needs a name here; callers of other APIs need not give one.
  const filename =
    name ?? (key === "file_data" && held["file_id"] === undefined ? "document" : undefined);
  return {
    type: "input_file",
    filename,
    ...held,
    ...writeCache(part.cache, target, at, losses),
    ...takeNativeFields(part.native, "responses", at, losses),
  };
}

function writeMedia(
  part: MediaPart,
  at: string,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  const { source } = part;
  // OpenAI's own models take neither over this API; others that follow it do.
  if (target.abilities?.openaiFields !== false)
    return addLoss(losses, at, `This provider takes no ${part.type} over this API.`);
  const cache = writeCache(part.cache, target, at, losses);
  if (part.type === "audio" && source.kind === "base64")
    return {
      type: "input_audio",
      input_audio: { data: source.data, format: audioFormat(source.mediaType) },
      ...cache,
    };
  const held = part.type === "video" ? writeFileReference(source, "video_url", target) : undefined;
  if (held !== undefined) return { type: "input_video", ...held, ...cache };
  return addLoss(losses, at, `This provider takes no ${part.type} in this form.`);
}

function writeFileReference(source: Source, key: string, target: Target): JsonObject | undefined {
  switch (source.kind) {
    case "base64":
      return { [key]: `data:${source.mediaType};base64,${source.data}` };
    case "url":
      return target.abilities?.urlSources === false ? undefined : { [key]: source.url };
    case "text":
      return {
        [key]: `data:${source.mediaType};base64,${Buffer.from(source.text).toString("base64")}`,
      };
    case "file_id":
      return source.wire === "chat" || source.wire === "responses"
        ? { file_id: source.id }
        : undefined;
  }
}

function audioFormat(mediaType: string): string {
  return mediaType === "audio/mpeg" ? "mp3" : mediaType.replace(/^audio\/(x-)?/, "");
}
