import {
  addLoss,
  addNativePartLoss,
  addToleratedLoss,
  type Loss,
  takeNativeFields,
} from "../../canonical/canonical-losses.ts";
import type {
  CacheBreakpoint,
  FilePart,
  ImagePart,
  MediaPart,
  Part,
  TextPart,
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

/** One part of a message's content, or undefined with a loss. */
export function writePart(
  part: Part,
  path: string,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  const written = writePartBody(part, path, target, losses);
  const extra =
    part.type === "native" ? undefined : takeNativeFields(part.native, "chat", path, losses);
  return written === undefined || extra === undefined ? written : { ...written, ...extra };
}

function writePartBody(
  part: Part,
  path: string,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  switch (part.type) {
    case "text":
      addTextPartLosses(part, path, losses);
      return { type: "text", text: part.text, ...writeCache(part.cache, target, path, losses) };
    case "image":
      return writeImage(part, path, target, losses);
    case "file":
      return writeFile(part, path, target, losses);
    case "audio":
    case "video":
      return writeMedia(part, path, target, losses);
    case "native":
      return part.wire === "chat" ? part.value : addNativePartLoss(losses, path, part);
    case "refusal":
      return { type: "refusal", refusal: part.text };
    case "reasoning":
    case "tool_call":
    case "tool_result":
      return addLoss(losses, path, `A ${part.type.replace("_", " ")} is not allowed here.`);
  }
}

function addTextPartLosses(part: TextPart, path: string, losses: Loss[]): void {
  if (part.citations !== undefined) {
    const reason = "This provider does not accept citations in earlier replies.";
    addToleratedLoss(losses, `${path}.citations`, reason);
  }
  addSignatureLoss(losses, path, part.signature);
}

export function writeCache(
  cache: CacheBreakpoint | undefined,
  { abilities }: Target,
  path: string,
  losses: Loss[],
): JsonObject | undefined {
  return writeCacheBreakpoint(cache, abilities?.cacheBreakpointField, path, losses);
}

function writeImage(
  part: ImagePart,
  path: string,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  const url = sourceUrl(part.source);
  if (url === undefined || (part.source.kind === "url" && target.abilities?.urlSources === false))
    return addSourceLoss(losses, path, part);
  if (!acceptsImageType(part, target, path, losses)) return undefined;
  addSignatureLoss(losses, path, part.signature);
  // OpenAI rejects a breakpoint on an image.
  const isOpenai = target.abilities?.cacheBreakpointField === "prompt_cache_breakpoint";
  return {
    type: "image_url",
    image_url: { url, detail: part.detail },
    ...writeCache(isOpenai ? undefined : part.cache, target, path, losses),
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
  const cache = writeCache(part.cache, target, path, losses);
  const id = fileIdOf(source);
  if (id !== undefined) return { type: "file", file: { file_id: id, filename: name }, ...cache };
  const isFetched = source.kind === "url" && target.abilities?.openaiFields === false;
  const data = source.kind === "url" && !isFetched ? undefined : sourceUrl(source);
  return data === undefined
    ? addSourceLoss(losses, path, part)
    : { type: "file", file: { filename: name, file_data: data }, ...cache };
}

function writeMedia(
  part: MediaPart,
  path: string,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  const audio = writeInputAudio(part);
  const url = part.type === "video" ? sourceUrl(part.source) : undefined;
  const acceptsVideo = target.abilities?.openaiFields === false;
  if (audio === undefined && (url === undefined || !acceptsVideo))
    return addLoss(losses, path, `This provider does not support this ${part.type} input.`);
  const cache = writeCache(part.cache, target, path, losses);
  return { ...(audio ?? { type: "video_url", video_url: { url } }), ...cache };
}
