// Content blocks of a request.

import type {
  CacheBreakpoint,
  Citation,
  FilePart,
  Part,
  Source,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from "../../canonical/canonical-parts.ts";
import { COMMON_IMAGE_TYPES } from "../../canonical/media-sources.ts";
import { decodeBlob } from "../../canonical/reasoning-blobs.ts";
import { decodeCallId } from "../../canonical/tools/call-ids.ts";
import { invalid } from "../../invalid-request.ts";
import {
  type JsonObject,
  mustBeArray,
  mustBeName,
  mustBeObject,
  mustBeString,
  oneOf,
  optionalArray,
  optionalBoolean,
  optionalObject,
  optionalOneOf,
  optionalString,
  unknownFields,
} from "../../json-fields.ts";
import { readCitation } from "../reply/read-messages-citation.ts";

const TOOL_USE_FIELDS: ReadonlySet<string> = new Set([
  "type",
  "id",
  "name",
  "input",
  "cache_control",
  "caller",
]);
const TOOL_RESULT_FIELDS: ReadonlySet<string> = new Set([
  "type",
  "tool_use_id",
  "content",
  "is_error",
  "cache_control",
]);
const CONTENT_FIELDS: ReadonlySet<string> = new Set(
  "type text thinking signature data source title context citations cache_control".split(" "),
);

/** Most providers reject empty text, so it is dropped. */
export function readBlocks(blocks: readonly unknown[], path: string): Part[] {
  const parts: Part[] = [];
  for (const [at, value] of blocks.entries()) {
    const block = mustBeObject(value, `${path}[${at}]`);
    const part = withNativeFields(readBlock(block, `${path}[${at}]`), block);
    if (part.type !== "text" || part.text !== "" || part.cache !== undefined) parts.push(part);
  }
  return parts;
}

// Calls and results have fields of their own.
function withNativeFields(part: Part, block: JsonObject): Part {
  if (part.type === "native" || part.type === "tool_call" || part.type === "tool_result")
    return part;
  const fields = unknownFields(block, CONTENT_FIELDS);
  return fields === undefined ? part : { ...part, native: { wire: "messages", fields } };
}

export function readText(text: string, path: string): TextPart {
  return { type: "text", text, path };
}

export function readCache(value: JsonObject, path: string): CacheBreakpoint | undefined {
  const at = path === "" ? "cache_control" : `${path}.cache_control`;
  const control = optionalObject(value["cache_control"], at);
  if (control === undefined) return undefined;
  oneOf(control["type"], `${at}.type`, ["ephemeral"]);
  return { ttl: optionalOneOf(control["ttl"], `${at}.ttl`, ["5m", "1h"]) };
}

function readBlock(block: JsonObject, path: string): Part {
  const type = mustBeName(block["type"], `${path}.type`);
  switch (type) {
    case "text": {
      const citations = optionalArray(block["citations"], `${path}.citations`)
        ?.map(readCitation)
        .filter((one): one is Citation => one !== undefined);
      return {
        type,
        text: mustBeString(block["text"], `${path}.text`),
        cache: readCache(block, path),
        citations: citations?.length ? citations : undefined,
        path,
      };
    }
    case "thinking": {
      const signature = optionalString(block["signature"], `${path}.signature`);
      return {
        type: "reasoning",
        text: mustBeString(block["thinking"], `${path}.thinking`),
        blob: signature ? decodeBlob(signature, "messages", "signature") : undefined,
        path,
      };
    }
    case "redacted_thinking":
      return {
        type: "reasoning",
        text: "",
        blob: decodeBlob(mustBeName(block["data"], `${path}.data`), "messages", "encrypted"),
        path,
      };
    case "tool_use":
      return readToolUse(block, path);
    case "tool_result":
      return readToolResult(block, path);
    case "image":
      return {
        type,
        source: readImageSource(mustBeObject(block["source"], `${path}.source`), `${path}.source`),
        cache: readCache(block, path),
        path,
      };
    case "document":
      return readDocument(block, path);
    default:
      return { type: "native", wire: "messages", value: block, path };
  }
}

function readToolUse(block: JsonObject, path: string): ToolCallPart {
  const direct =
    block["caller"] === undefined ||
    block["caller"] === null ||
    optionalObject(block["caller"], `${path}.caller`)?.["type"] === "direct";
  const native: JsonObject = {
    ...unknownFields(block, TOOL_USE_FIELDS),
    ...(direct ? undefined : { caller: block["caller"] }),
  };
  return {
    type: "tool_call",
    id: decodeCallId(mustBeName(block["id"], `${path}.id`)),
    name: mustBeName(block["name"], `${path}.name`),
    arguments: JSON.stringify(mustBeObject(block["input"] ?? {}, `${path}.input`)),
    cache: readCache(block, path),
    native: Object.keys(native).length === 0 ? undefined : { wire: "messages", fields: native },
    path,
  };
}

function readToolResult(block: JsonObject, path: string): ToolResultPart {
  const { content } = block;
  const read =
    content === undefined || content === null || content === ""
      ? []
      : typeof content === "string"
        ? [readText(content, `${path}.content`)]
        : readBlocks(mustBeArray(content, `${path}.content`), `${path}.content`);
  const parts: ToolResultPart["content"][number][] = [];
  for (const part of read) {
    if (
      part.type !== "text" &&
      part.type !== "image" &&
      part.type !== "file" &&
      part.type !== "native"
    )
      throw invalid(part.path, "A tool result can contain only text, images and documents.");
    parts.push(part);
  }
  const native = unknownFields(block, TOOL_RESULT_FIELDS);
  return {
    type: "tool_result",
    callId: decodeCallId(mustBeName(block["tool_use_id"], `${path}.tool_use_id`)),
    content: parts,
    isError: optionalBoolean(block["is_error"], `${path}.is_error`) || undefined,
    cache: readCache(block, path),
    native: native && { wire: "messages", fields: native },
    path,
  };
}

function readImageSource(source: JsonObject, path: string): Source {
  const type = oneOf(source["type"], `${path}.type`, ["base64", "url", "file"]);
  if (type === "url") return { kind: "url", url: mustBeName(source["url"], `${path}.url`) };
  if (type === "file")
    return {
      kind: "file_id",
      wire: "messages",
      id: mustBeName(source["file_id"], `${path}.file_id`),
    };
  const mediaType = mustBeName(source["media_type"], `${path}.media_type`);
  oneOf(mediaType, `${path}.media_type`, [...COMMON_IMAGE_TYPES]);
  return { kind: "base64", mediaType, data: mustBeName(source["data"], `${path}.data`) };
}

function readDocument(block: JsonObject, path: string): Part {
  const source = mustBeObject(block["source"], `${path}.source`);
  const type = oneOf(source["type"], `${path}.source.type`, [
    "base64",
    "text",
    "content",
    "url",
    "file",
  ]);
  if (type === "content") return { type: "native", wire: "messages", value: block, path };
  const at = `${path}.source`;
  const read = {
    base64: (): Source => ({
      kind: "base64",
      mediaType: mustBeName(source["media_type"], `${at}.media_type`),
      data: mustBeName(source["data"], `${at}.data`),
    }),
    text: (): Source => ({
      kind: "text",
      mediaType: "text/plain",
      text: mustBeString(source["data"], `${at}.data`),
    }),
    url: (): Source => ({ kind: "url", url: mustBeName(source["url"], `${at}.url`) }),
    file: (): Source => ({
      kind: "file_id",
      wire: "messages",
      id: mustBeName(source["file_id"], `${at}.file_id`),
    }),
  };
  const citations = optionalObject(block["citations"], `${path}.citations`);
  const part: FilePart = {
    type: "file",
    source: read[type](),
    name: optionalString(block["title"], `${path}.title`),
    context: optionalString(block["context"], `${path}.context`),
    citable: optionalBoolean(citations?.["enabled"], `${path}.citations.enabled`) || undefined,
    cache: readCache(block, path),
    path,
  };
  return part;
}
