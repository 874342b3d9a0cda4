// The parts of a message's content, and of a tool's output, as a caller writes them.
import { invalid } from "../../../../base/fault.ts";
import type {
  CacheBreakpoint,
  FilePart,
  NativeFields,
  Part,
  Source,
} from "../../../canonical/parts.ts";
import {
  type JsonObject,
  mustBeArray,
  mustBeName,
  mustBeObject,
  mustBeString,
  optionalObject,
  optionalOneOf,
  optionalString,
} from "../../../../base/json.ts";
import { readAnnotations } from "../items/read-output-items.ts";

const DATA_URL = /^data:([^;,]*)(?:;[^;,]*)*;base64,/i;
const PDF_BASE64_PREFIX = "JVBER";

/** Empty texts are left out: they say nothing, and most providers refuse them. */
export function readContent(content: unknown, path: string, native?: NativeFields): Part[] {
  if (content === undefined || content === null || content === "") return [];
  if (typeof content === "string") return [{ type: "text", text: content, native, path }];
  const parts: Part[] = [];
  for (const [at, value] of mustBeArray(content, path).entries()) {
    const part = readPart(mustBeObject(value, `${path}[${at}]`), `${path}[${at}]`);
    if (part.type === "text") {
      if (part.text !== "" || part.cache !== undefined) parts.push({ ...part, native });
    } else parts.push(part.type === "refusal" ? { ...part, native } : part);
  }
  return parts;
}

function readPart(part: JsonObject, path: string): Part {
  const type = mustBeName(part["type"], `${path}.type`);
  const cache = readCache(part, path);
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
        detail: optionalOneOf(part["detail"], `${path}.detail`, [
          "auto",
          "low",
          "high",
          "original",
        ]),
        cache,
        path,
      };
    case "input_file":
      return readFile(part, path, cache);
    case "input_audio": {
      const held = mustBeObject(part["input_audio"], `${path}.input_audio`);
      const format = mustBeName(held["format"], `${path}.input_audio.format`);
      const data = mustBeName(held["data"], `${path}.input_audio.data`);
      const mediaType = format === "mp3" ? "audio/mpeg" : `audio/${format}`;
      return { type: "audio", source: { kind: "base64", mediaType, data }, cache, path };
    }
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

// Some callers send the bare base64 of a PDF, which the type of a data: URL would have named.
function readFileData(part: JsonObject, path: string, name: string | undefined): Source {
  const data = part["file_data"];
  if (typeof data !== "string" || data.startsWith("data:"))
    return readSource(part, "file_data", path);
  if (!data.startsWith(PDF_BASE64_PREFIX) && !/\.pdf$/i.test(name ?? ""))
    throw invalid(
      `${path}.file_data`,
      `${path}.file_data must be a data: URL in base64 with the document's media type.`,
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

function readUrlSource(value: unknown, path: string, mustBe: string): Source {
  const url = mustBeName(value, path);
  const match = DATA_URL.exec(url);
  if (match === null) {
    if (!/^(https?|gs):\/\/./i.test(url))
      throw invalid(path, `${path} must be an https: URL or a data: URL in base64.`);
    return { kind: "url", url };
  }
  const mediaType = (match[1] ?? "").toLowerCase();
  if (!mediaType.startsWith(mustBe) || mediaType === "") {
    throw invalid(
      path,
      `${path} must be a data: URL of type ${mustBe || "a document's"}…, not ${mediaType || "untyped"}.`,
    );
  }
  if (match[0].length === url.length) throw invalid(path, `${path} holds no data.`);
  return { kind: "base64", mediaType, data: url.slice(match[0].length) };
}

// `prompt_cache_breakpoint` is OpenAI's own; `cache_control` is what callers of Claude send by convention.
function readCache(part: JsonObject, path: string): CacheBreakpoint | undefined {
  const mark =
    optionalObject(part["prompt_cache_breakpoint"], `${path}.prompt_cache_breakpoint`) ??
    optionalObject(part["cache_control"], `${path}.cache_control`);
  return (
    mark && {
      ttl: optionalOneOf(mark["ttl"], `${path}.prompt_cache_breakpoint.ttl`, [
        "5m",
        "30m",
        "1h",
        "12h",
      ]),
    }
  );
}
