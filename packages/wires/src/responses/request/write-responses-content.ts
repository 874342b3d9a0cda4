import {
  addLoss,
  addNativePartLoss,
  type Loss,
  takeNativeFields,
} from "../../canonical/canonical-losses.ts";
import type {
  CacheBreakpoint,
  FilePart,
  ImagePart,
  MediaPart,
  Part,
  Source,
} from "../../canonical/canonical-parts.ts";
import { addSignatureLoss } from "../../canonical/reasoning-blobs.ts";
import type { Target } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import {
  acceptsImageType,
  addDocumentLosses,
  addSourceLoss,
  fileIdOf,
  sourceUrl,
  writeCacheBreakpoint,
  writeInputAudio,
} from "../../openai-parts.ts";

/** One part of a user message or of a tool's output, or undefined with a loss. */
export function writePart(
  part: Part,
  path: string,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  switch (part.type) {
    case "text": {
      const cache = writeCache(part.cache, target, path, losses);
      return { type: "input_text", text: part.text, ...cache };
    }
    case "image":
      return writeImage(part, path, target, losses);
    case "file":
      return writeFile(part, path, target, losses);
    case "audio":
    case "video":
      return writeMedia(part, path, target, losses);
    case "native":
      return part.wire === "responses" ? part.value : addNativePartLoss(losses, path, part);
    case "refusal":
    case "reasoning":
    case "tool_call":
    case "tool_result":
      return addLoss(losses, path, `A ${part.type.replace("_", " ")} is not allowed here.`);
  }
}

export function writeCache(
  cache: CacheBreakpoint | undefined,
  { abilities }: Target,
  path: string,
  losses: Loss[],
): JsonObject | undefined {
  const field = abilities?.cacheBreakpointField;
  const supported = field === "prompt_cache_breakpoint" ? field : undefined;
  return writeCacheBreakpoint(cache, supported, path, losses);
}

function writeImage(
  part: ImagePart,
  path: string,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  const reference = writeReference(part.source, "image_url", target);
  if (reference === undefined) return addSourceLoss(losses, path, part);
  if (!acceptsImageType(part, target, path, losses)) return undefined;
  addSignatureLoss(losses, path, part.signature);
  return {
    type: "input_image",
    ...reference,
    detail: part.detail ?? "auto",
    ...writeCache(part.cache, target, path, losses),
    ...takeNativeFields(part.native, "responses", path, losses),
  };
}

function writeFile(
  part: FilePart,
  path: string,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  const { source, name } = part;
  addDocumentLosses(part, path, losses);
  const key = source.kind === "url" ? "file_url" : "file_data";
  const reference = writeReference(source, key, target);
  if (reference === undefined) return addSourceLoss(losses, path, part);
  // This API requires a name for `file_data`; other APIs do not.
  const filename = name ?? (reference["file_data"] === undefined ? undefined : "document");
  return {
    type: "input_file",
    filename,
    ...reference,
    ...writeCache(part.cache, target, path, losses),
    ...takeNativeFields(part.native, "responses", path, losses),
  };
}

function writeMedia(
  part: MediaPart,
  path: string,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  // OpenAI's models support neither on this API; other providers' do.
  const isSupported = target.abilities?.openaiFields === false;
  const audio = writeInputAudio(part);
  const video =
    part.type === "video" ? writeReference(part.source, "video_url", target) : undefined;
  if (!isSupported || (audio ?? video) === undefined)
    return addLoss(losses, path, `This provider does not support this ${part.type} input.`);
  const cache = writeCache(part.cache, target, path, losses);
  return { ...(audio ?? { type: "input_video", ...video }), ...cache };
}

function writeReference(
  source: Source,
  key: string,
  { abilities }: Target,
): JsonObject | undefined {
  const id = fileIdOf(source);
  if (id !== undefined) return { file_id: id };
  const url = sourceUrl(source);
  const canSend = source.kind !== "url" || abilities?.urlSources !== false;
  return url === undefined || !canSend ? undefined : { [key]: url };
}
