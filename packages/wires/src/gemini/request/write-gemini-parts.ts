// Writes the media parts of messages and tool results.

import { addHintLoss, type Loss } from "../../canonical/canonical-losses.ts";
import type { FilePart, ImagePart, MediaPart, Source } from "../../canonical/canonical-parts.ts";
import type { CallIds } from "../../canonical/tools/call-ids.ts";
import type { Target } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import { isGenerationThreeOrLater } from "./gemini-model-generation.ts";

const RESOLUTION_BY_DETAIL = {
  low: "MEDIA_RESOLUTION_LOW",
  high: "MEDIA_RESOLUTION_HIGH",
  original: "MEDIA_RESOLUTION_ULTRA_HIGH",
} as const;

export interface TurnWriteContext {
  readonly target: Target;
  readonly losses: Loss[];
  readonly ids: CallIds;
  /** Calls have ids. Older models match results by name and order. */
  readonly hasCallIds: boolean;
}

type Media = ImagePart | FilePart | MediaPart;

/** A fetched file needs a media type; these apply if neither the caller nor the URL gives one. */
const DEFAULT_MEDIA_TYPES = {
  image: "image/jpeg",
  file: "application/pdf",
  audio: "audio/mpeg",
  video: "video/mp4",
} as const satisfies Record<Media["type"], string>;

const MEDIA_TYPE_BY_EXTENSION: ReadonlyMap<string, string> = new Map([
  ["jpg", "image/jpeg"],
  ["jpeg", "image/jpeg"],
  ["png", "image/png"],
  ["webp", "image/webp"],
  ["gif", "image/gif"],
  ["heic", "image/heic"],
  ["heif", "image/heif"],
  ["avif", "image/avif"],
  ["pdf", "application/pdf"],
  ["json", "application/json"],
  ["txt", "text/plain"],
  ["md", "text/markdown"],
  ["html", "text/html"],
  ["csv", "text/csv"],
  ["mp3", "audio/mpeg"],
  ["wav", "audio/wav"],
  ["flac", "audio/flac"],
  ["ogg", "audio/ogg"],
  ["m4a", "audio/mp4"],
  ["aac", "audio/aac"],
  ["mp4", "video/mp4"],
  ["mov", "video/quicktime"],
  ["webm", "video/webm"],
  ["mpeg", "video/mpeg"],
]);
const GOOGLE_FILE_URL = /^(?:gs:|https:\/\/generativelanguage\.googleapis\.com\/|files\/)/;

export function writeMedia(
  part: Media,
  at: string,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  const data = dataOf(part, target);
  if (data === undefined) {
    losses.push({
      path: at,
      reason:
        part.source.kind === "url"
          ? "This provider cannot fetch this URL. Send the content as base64."
          : `The ${part.type} is stored at another provider. Send its content as base64.`,
    });
    return undefined;
  }
  if (part.type === "file") addFileLosses(part, at, losses);
  return part.type === "image" ? { ...data, ...resolutionOf(part, at, target, losses) } : data;
}

function dataOf({ type, source }: Media, { abilities }: Target): JsonObject | undefined {
  switch (source.kind) {
    case "base64":
      return { inlineData: { mimeType: source.mediaType, data: source.data } };
    case "text":
      return {
        inlineData: {
          mimeType: source.mediaType,
          data: Buffer.from(source.text).toString("base64"),
        },
      };
    case "url":
      if (abilities?.urlSources === false && !GOOGLE_FILE_URL.test(source.url)) return undefined;
      return {
        fileData: { fileUri: source.url, mimeType: mediaTypeOf(source, DEFAULT_MEDIA_TYPES[type]) },
      };
    case "file_id":
      return source.wire === "gemini" ? { fileData: { fileUri: source.id } } : undefined;
  }
}

function mediaTypeOf(source: Extract<Source, { kind: "url" }>, fallback: string): string {
  const extension = /\.([a-z0-9]{2,4})(?:[?#]|$)/i.exec(source.url)?.[1];
  return (
    source.mediaType ?? MEDIA_TYPE_BY_EXTENSION.get(extension?.toLowerCase() ?? "") ?? fallback
  );
}

function addFileLosses({ name, context, citable }: FilePart, at: string, losses: Loss[]): void {
  if (name !== undefined)
    losses.push({
      path: `${at}.filename`,
      reason: "This provider does not support file names.",
      tolerated: true,
    });
  if (context !== undefined)
    losses.push({
      path: `${at}.context`,
      reason: "This provider does not support document context.",
    });
  if (citable === true)
    addHintLoss(losses, `${at}.citations`, "This provider does not support citations.");
}

function resolutionOf(
  { detail }: ImagePart,
  at: string,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  if (detail === undefined || detail === "auto") return undefined;
  if (isGenerationThreeOrLater(target))
    return { mediaResolution: { level: RESOLUTION_BY_DETAIL[detail] } };
  losses.push({
    path: `${at}.detail`,
    reason: "This model does not support an image detail level.",
    tolerated: true,
  });
  return undefined;
}
