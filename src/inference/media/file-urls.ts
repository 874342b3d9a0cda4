// The URLs of images and documents in a request of any API.

import { isObject, type JsonObject } from "../../base/json.ts";
import { countMedia } from "../metering/input-bound.ts";

export type FileKind = "image" | "document";

const KINDS: ReadonlyMap<unknown, FileKind> = new Map([
  ["image_url", "image"],
  ["input_image", "image"],
  ["image", "image"],
  ["file", "document"],
  ["input_file", "document"],
  ["document", "document"],
]);
const SOURCE_FIELDS = ["image_url", "file_url", "file_data", "file", "source", "url"] as const;
const WEB_URL = /^https?:/i;

/** Each URL once, as it is in the request. */
export function fileUrlsOf(json: JsonObject): ReadonlyMap<string, FileKind> {
  const urls = new Map<string, FileKind>();
  countMedia(json, (_kind, part) => {
    const kind = KINDS.get(part["type"]);
    if (kind !== undefined) addUrls(part, kind, urls);
    return 0;
  });
  return urls;
}

function addUrls(holder: JsonObject, kind: FileKind, urls: Map<string, FileKind>): void {
  for (const field of SOURCE_FIELDS) {
    const value = holder[field];
    if (isObject(value)) addUrls(value, kind, urls);
    else if (typeof value === "string" && WEB_URL.test(value)) urls.set(value, kind);
  }
}
