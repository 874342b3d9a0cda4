// Writes images, documents, audio and video, as bytes or as an S3 location.

import type { Loss } from "../../canonical/canonical-losses.ts";
import type { FilePart, ImagePart, MediaPart, Source } from "../../canonical/canonical-parts.ts";
import { addSignatureLoss } from "../../canonical/reasoning-blobs.ts";
import type { Target } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import type { DocumentNames } from "./converse-document-names.ts";
import { familyOf } from "./converse-model-family.ts";

type Media = ImagePart | FilePart | MediaPart;

const FORMAT_BY_MEDIA_TYPE: Readonly<Record<Media["type"], ReadonlyMap<string, string>>> = {
  image: new Map([
    ["image/png", "png"],
    ["image/jpeg", "jpeg"],
    ["image/jpg", "jpeg"],
    ["image/gif", "gif"],
    ["image/webp", "webp"],
  ]),
  file: new Map([
    ["application/pdf", "pdf"],
    ["text/csv", "csv"],
    ["application/msword", "doc"],
    ["application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"],
    ["application/vnd.ms-excel", "xls"],
    ["application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"],
    ["text/html", "html"],
    ["text/plain", "txt"],
    ["text/markdown", "md"],
  ]),
  audio: new Map([
    ["audio/mpeg", "mp3"],
    ["audio/mp3", "mp3"],
    ["audio/wav", "wav"],
    ["audio/x-wav", "wav"],
    ["audio/flac", "flac"],
    ["audio/ogg", "ogg"],
    ["audio/opus", "opus"],
    ["audio/aac", "aac"],
    ["audio/mp4", "m4a"],
    ["audio/webm", "webm"],
  ]),
  video: new Map([
    ["video/mp4", "mp4"],
    ["video/quicktime", "mov"],
    ["video/x-matroska", "mkv"],
    ["video/webm", "webm"],
    ["video/x-flv", "flv"],
    ["video/mpeg", "mpeg"],
    ["video/x-ms-wmv", "wmv"],
    ["video/3gpp", "three_gp"],
  ]),
};
const S3_URL = /^s3:\/\/.+\.([a-z0-9]+)$/i;

export interface MediaWriteContext {
  readonly target: Target;
  readonly losses: Loss[];
  readonly names: DocumentNames;
}

export function writeMedia(
  part: Media,
  at: string,
  { target, losses, names }: MediaWriteContext,
): JsonObject | undefined {
  const written = mediaBody(part, target);
  if (typeof written === "string") {
    losses.push({ path: at, reason: written });
    return undefined;
  }
  if (part.type === "image") {
    addSignatureLoss(losses, at, part.signature);
    if (part.detail !== undefined && part.detail !== "auto")
      losses.push({
        path: `${at}.detail`,
        reason: "This provider does not support an image detail level.",
        tolerated: true,
      });
    return { image: written };
  }
  if (part.type !== "file") return { [part.type]: written };
  return {
    document: {
      ...written,
      name: names(part.name),
      ...(part.context === undefined ? undefined : { context: part.context }),
      ...(part.citable === true ? { citations: { enabled: true } } : undefined),
    },
  };
}

/** The media block's body, or the reason why it cannot be sent. */
function mediaBody(part: Media, target: Target): JsonObject | string {
  const { type, source } = part;
  if ((type === "audio" || type === "video") && familyOf(target) === "claude")
    return `This model does not support ${type} input.`;
  const format = formatOf(type, source);
  if (format === undefined)
    return `This provider accepts ${type} input only in these formats: ${[...new Set(FORMAT_BY_MEDIA_TYPE[type].values())].join(", ")}.`;
  switch (source.kind) {
    case "base64":
      return { format, source: { bytes: source.data } };
    case "text":
      return { format, source: { bytes: Buffer.from(source.text).toString("base64") } };
    case "url":
      return S3_URL.test(source.url)
        ? { format, source: { s3Location: { uri: source.url } } }
        : (source.problem ?? "This provider does not fetch URLs. Send the content as base64.");
    case "file_id":
      return `The ${type} is stored at another provider. Send its content as base64.`;
  }
}

function formatOf(type: Media["type"], source: Source): string | undefined {
  if (source.kind === "file_id") return "";
  const formats = FORMAT_BY_MEDIA_TYPE[type];
  const mediaType = source.mediaType?.toLowerCase();
  const known = mediaType === undefined ? undefined : formats.get(mediaType);
  if (known !== undefined) return known;
  if (source.kind === "url") {
    const extension = S3_URL.exec(source.url)?.[1]?.toLowerCase();
    return extension === undefined || [...formats.values()].includes(extension)
      ? (extension ?? "")
      : undefined;
  }
  return type === "file" && mediaType?.startsWith("text/") === true ? "txt" : undefined;
}
