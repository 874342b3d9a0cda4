// Reads the content of a message or of a tool's output.

import type {
  CacheBreakpoint,
  FilePart,
  NativeFields,
  Part,
  Source,
} from "../../canonical/canonical-parts.ts";
import { invalid } from "../../invalid-request.ts";
import {
  type JsonObject,
  mustBeArray,
  mustBeName,
  mustBeObject,
  mustBeString,
  optionalOneOf,
  optionalString,
  unknownFields,
} from "../../json-fields.ts";
import {
  IMAGE_DETAILS,
  readCacheBreakpoint,
  readInputAudio,
  readUrlSource,
} from "../../openai-parts.ts";
import { readAnnotations } from "../items/read-responses-output-items.ts";

const PART_FIELDS: ReadonlySet<string> = new Set(
  (
    "type text refusal annotations logprobs detail image_url file_id filename file_url file_data input_audio video_url " +
    "cache_control prompt_cache_breakpoint"
  ).split(" "),
);
const PDF_BASE64_PREFIX = "JVBER";

/** Most providers reject empty text, so it is dropped. */
export function readContent(content: unknown, path: string, native?: NativeFields): Part[] {
  if (content === undefined || content === null || content === "") return [];
  if (typeof content === "string") return [{ type: "text", text: content, native, path }];
  const parts: Part[] = [];
  for (const [at, value] of mustBeArray(content, path).entries()) {
    const object = mustBeObject(value, `${path}[${at}]`);
    const part = withNativeFields(readPart(object, `${path}[${at}]`), object, native);
    if (part.type !== "text" || part.text !== "" || part.cache !== undefined) parts.push(part);
  }
  return parts;
}

/** `messageFields` are those of a message that are kept with each of its texts. */
function withNativeFields(
  part: Part,
  object: JsonObject,
  messageFields: NativeFields | undefined,
): Part {
  if (part.type === "native") return part;
  const isText = part.type === "text" || part.type === "refusal";
  const fields = {
    ...part.native?.fields,
    ...unknownFields(object, PART_FIELDS),
    ...(isText ? messageFields?.fields : undefined),
  };
  return Object.keys(fields).length === 0
    ? part
    : { ...part, native: { wire: "responses", fields } };
}

function readPart(part: JsonObject, path: string): Part {
  const type = mustBeName(part["type"], `${path}.type`);
  const cache = readCacheBreakpoint(part, path);
  switch (type) {
    case "input_text":
    case "output_text":
    case "text":
      return {
        type: "text",
        text: mustBeString(part["text"], `${path}.text`),
        citations: readAnnotations(part["annotations"]),
        cache,
        path,
      };
    case "refusal":
      return { type, text: mustBeString(part["refusal"], `${path}.refusal`), path };
    case "input_image":
      return {
        type: "image",
        source: readSource(part, "image_url", path),
        detail: optionalOneOf(part["detail"], `${path}.detail`, IMAGE_DETAILS),
        cache,
        path,
      };
    case "input_file":
      return readFile(part, path, cache);
    case "input_audio":
      return { type: "audio", source: readInputAudio(part, path), cache, path };
    case "input_video":
      return {
        type: "video",
        source: readUrlSource(part["video_url"], `${path}.video_url`, "video/"),
        cache,
        path,
      };
    default:
      return { type: "native", wire: "responses", value: part, path };
  }
}

function readFile(part: JsonObject, path: string, cache: CacheBreakpoint | undefined): FilePart {
  const name = optionalString(part["filename"], `${path}.filename`);
  const detail = optionalString(part["detail"], `${path}.detail`);
  const key = typeof part["file_url"] === "string" ? "file_url" : "file_data";
  return {
    type: "file",
    source:
      key === "file_data" ? readFileData(part, path, name) : readSource(part, "file_url", path),
    name,
    cache,
    native: detail === undefined ? undefined : { wire: "responses", fields: { detail } },
    path,
  };
}

// Some callers send a PDF as bare base64 instead of a data: URL.
function readFileData(part: JsonObject, path: string, name: string | undefined): Source {
  const data = part["file_data"];
  if (typeof data !== "string" || data.startsWith("data:"))
    return readSource(part, "file_data", path);
  if (!data.startsWith(PDF_BASE64_PREFIX) && !/\.pdf$/i.test(name ?? ""))
    throw invalid(
      `${path}.file_data`,
      `\`${path}.file_data\` must be a base64 \`data:\` URL with the document's media type.`,
    );
  return { kind: "base64", mediaType: "application/pdf", data };
}

function readSource(
  part: JsonObject,
  key: "image_url" | "file_url" | "file_data",
  path: string,
): Source {
  const id = optionalString(part["file_id"], `${path}.file_id`);
  if (id !== undefined && (part[key] === undefined || part[key] === null))
    return { kind: "file_id", wire: "responses", id };
  return readUrlSource(part[key], `${path}.${key}`, key === "image_url" ? "image/" : "");
}
