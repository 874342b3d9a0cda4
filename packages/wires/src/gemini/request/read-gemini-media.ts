// Media parts: data in the request, or a file by its URI.

import type { FilePart, ImagePart, MediaPart, Source } from "../../canonical/canonical-parts.ts";
import {
  type JsonObject,
  lookUp,
  mustBeName,
  objectIn,
  optionalObject,
  optionalString,
  stringIn,
} from "../../json-fields.ts";

const YOUTUBE = /^https?:\/\/(?:[\w-]+\.)?youtu(?:be\.com|\.be)\//i;
const DETAILS: Readonly<Record<string, NonNullable<ImagePart["detail"]>>> = {
  MEDIA_RESOLUTION_LOW: "low",
  MEDIA_RESOLUTION_HIGH: "high",
  MEDIA_RESOLUTION_ULTRA_HIGH: "original",
};

/** Undefined for a part without media. */
export function readMedia(
  part: JsonObject,
  path: string,
): ImagePart | FilePart | MediaPart | undefined {
  const data = optionalObject(part["inlineData"], `${path}.inlineData`);
  if (data !== undefined) {
    const mediaType = mustBeName(data["mimeType"], `${path}.inlineData.mimeType`).toLowerCase();
    const encoded = mustBeName(data["data"], `${path}.inlineData.data`);
    return mediaPart(part, path, {
      source: { kind: "base64", mediaType, data: standardBase64(encoded) },
      mediaType,
      name: optionalString(data["displayName"], `${path}.inlineData.displayName`),
    });
  }
  const file = optionalObject(part["fileData"], `${path}.fileData`);
  if (file === undefined) return undefined;
  const uri = mustBeName(file["fileUri"], `${path}.fileData.fileUri`);
  const given = optionalString(file["mimeType"], `${path}.fileData.mimeType`)?.toLowerCase();
  const mediaType = given ?? (YOUTUBE.test(uri) ? "video/*" : "");
  return mediaPart(part, path, {
    source: URL.canParse(uri)
      ? { kind: "url", url: uri, mediaType: given }
      : { kind: "file_id", wire: "gemini", id: uri },
    mediaType,
    name: optionalString(file["displayName"], `${path}.fileData.displayName`),
  });
}

interface Media {
  readonly source: Source;
  readonly mediaType: string;
  readonly name: string | undefined;
}

function mediaPart(
  part: JsonObject,
  path: string,
  { source, mediaType, name }: Media,
): ImagePart | FilePart | MediaPart {
  if (mediaType.startsWith("image/")) {
    const level = stringIn(objectIn(part["mediaResolution"])?.["level"]) ?? "";
    return { type: "image", source, detail: lookUp(DETAILS, level), path };
  }
  if (mediaType.startsWith("audio/")) return { type: "audio", source, path };
  if (mediaType.startsWith("video/")) return { type: "video", source, path };
  return { type: "file", source, name, path };
}

/** Google takes both alphabets of base64. */
function standardBase64(data: string): string {
  return /[-_]/.test(data) ? data.replaceAll("-", "+").replaceAll("_", "/") : data;
}
