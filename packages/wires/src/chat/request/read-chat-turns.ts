import type {
  CacheBreakpoint,
  Citation,
  FilePart,
  MediaPart,
  OpaqueBlob,
  Part,
  ReasoningPart,
  ToolCallPart,
  ToolResultPart,
} from "../../canonical/canonical-parts.ts";
import type { Turn } from "../../canonical/canonical-request.ts";
import { decodeBlob } from "../../canonical/reasoning-blobs.ts";
import { readArguments } from "../../canonical/tools/call-arguments.ts";
import { invalid } from "../../invalid-request.ts";
import {
  isObject,
  type JsonObject,
  mustBeArray,
  mustBeName,
  mustBeObject,
  mustBeString,
  oneOf,
  optionalArray,
  optionalObject,
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
import {
  readAnnotation,
  readReasoningDetails,
  readThinkingList,
} from "../reply/read-chat-reasoning.ts";

const ROLES = ["system", "developer", "user", "assistant", "tool", "function"] as const;
const MESSAGE_FIELDS: ReadonlySet<string> = new Set(
  "role content name tool_calls function_call tool_call_id refusal reasoning reasoning_content reasoning_details annotations audio cache_control".split(
    " ",
  ),
);
/** Images of an earlier reply are next to its content. */
const ASSISTANT_FIELDS: ReadonlySet<string> = new Set([
  ...MESSAGE_FIELDS,
  "images",
  "extra_content",
]);
const PART_FIELDS: ReadonlySet<string> = new Set(
  "type text refusal image_url input_audio video_url file thinking cache_control prompt_cache_breakpoint extra_content".split(
    " ",
  ),
);
const TOOL_CALL_FIELDS: ReadonlySet<string> = new Set([
  "id",
  "type",
  "index",
  "function",
  "custom",
  "extra_content",
  "cache_control",
]);

export function readTurns(messages: readonly unknown[]): readonly Turn[] {
  const legacyCalls: string[] = [];
  const pendingCalls = new Set<string>();
  return messages.map((value, at) => {
    const path = `messages[${at}]`;
    const message = withCallId(mustBeObject(value, path), pendingCalls);
    const turn = readTurn(message, path, legacyCalls);
    for (const part of turn.parts) {
      if (part.type === "tool_call") pendingCalls.add(part.id);
      if (part.type === "tool_result") pendingCalls.delete(part.callId);
    }
    return turn;
  });
}

// Some servers have no call ids: a result without one is that of the earliest call without a result.
function withCallId(message: JsonObject, pendingCalls: ReadonlySet<string>): JsonObject {
  const [earliest] = pendingCalls;
  const lacksId = (message["tool_call_id"] ?? "") === "";
  return message["role"] === "tool" && lacksId && earliest !== undefined
    ? { ...message, tool_call_id: earliest }
    : message;
}

function readTurn(message: JsonObject, path: string, legacyCalls: string[]): Turn {
  const role = oneOf(message["role"], `${path}.role`, ROLES);
  const fields = unknownFields(message, role === "assistant" ? ASSISTANT_FIELDS : MESSAGE_FIELDS);
  const native = fields && ({ wire: "chat", fields } as const);
  if (role === "tool" || role === "function")
    return { role: "tool", parts: [readResult(message, path, legacyCalls)], path, native };
  const name = optionalString(message["name"], `${path}.name`);
  const parts =
    role === "assistant"
      ? readAssistant(message, path, legacyCalls)
      : readContent(message["content"], `${path}.content`);
  const cache = readCacheBreakpoint(message, path);
  const last = parts.at(-1);
  if (cache !== undefined && last !== undefined && "cache" in last)
    parts[parts.length - 1] = { ...last, cache };
  return { role, parts, name, path, native };
}

function readAssistant(message: JsonObject, path: string, legacyCalls: string[]): Part[] {
  const parts: Part[] = attachTextSignature(
    readReasoning(message, path),
    readContent(message["content"], `${path}.content`),
  );
  const citations = optionalArray(message["annotations"], `${path}.annotations`)
    ?.map(readAnnotation)
    .filter((one): one is Citation => one !== undefined);
  const text = parts.findLastIndex((part) => part.type === "text");
  const cited = parts[text];
  if (citations !== undefined && citations.length > 0 && cited?.type === "text")
    parts[text] = { ...cited, citations };
  const refusal = optionalString(message["refusal"], `${path}.refusal`);
  if (refusal) parts.push({ type: "refusal", text: refusal, path: `${path}.refusal` });
  const images = optionalArray(message["images"], `${path}.images`) ?? [];
  for (const [at, image] of images.entries())
    parts.push(readPart(mustBeObject(image, `${path}.images[${at}]`), `${path}.images[${at}]`));
  const audio = optionalObject(message["audio"], `${path}.audio`);
  if (audio !== undefined) parts.push(readOutputAudio(audio, `${path}.audio`));
  for (const [at, call] of (
    optionalArray(message["tool_calls"], `${path}.tool_calls`) ?? []
  ).entries()) {
    parts.push(
      readCall(mustBeObject(call, `${path}.tool_calls[${at}]`), `${path}.tool_calls[${at}]`),
    );
  }
  const legacy = optionalObject(message["function_call"], `${path}.function_call`);
  if (legacy !== undefined) {
    const id = `call_function_${legacyCalls.length}`;
    legacyCalls.push(id);
    parts.push({
      type: "tool_call",
      id,
      name: mustBeName(legacy["name"], `${path}.function_call.name`),
      arguments: readArguments(legacy["arguments"], `${path}.function_call.arguments`),
      path: `${path}.function_call`,
    });
  }
  return attachMessageSignature(parts, readSignature(message, path, "call"));
}

// OpenAI's Agents SDK copies the extra content of a call to its message.
function attachMessageSignature(parts: Part[], signature: OpaqueBlob | undefined): Part[] {
  const at = parts.findIndex((part) => part.type === "tool_call");
  const call = parts[at];
  if (signature === undefined || call?.type !== "tool_call" || call.signature !== undefined)
    return parts;
  return parts.with(at, { ...call, signature });
}

// A text's signature comes as reasoning without text.
function attachTextSignature(
  reasoning: readonly ReasoningPart[],
  content: readonly Part[],
): Part[] {
  const signature = reasoning.find(({ text, blob }) => text === "" && blob?.kind === "text");
  const textAt = content.findIndex((part) => part.type === "text");
  const text = content[textAt];
  if (signature === undefined || text?.type !== "text") return [...reasoning, ...content];
  return [
    ...reasoning.filter((part) => part !== signature),
    ...content.with(textAt, { ...text, signature: signature.blob }),
  ];
}

function readReasoning(message: JsonObject, path: string): ReasoningPart[] {
  const details = optionalArray(message["reasoning_details"], `${path}.reasoning_details`);
  const read =
    details === undefined ? [] : readReasoningDetails(details, `${path}.reasoning_details`);
  if (read.length > 0) return read;
  const text =
    optionalString(message["reasoning_content"], `${path}.reasoning_content`) ||
    optionalString(message["reasoning"], `${path}.reasoning`);
  return text ? [{ type: "reasoning", text, path: `${path}.reasoning_content` }] : [];
}

function readCall(call: JsonObject, path: string): ToolCallPart {
  const custom = call["type"] === "custom" || isObject(call["custom"]);
  const key = custom ? "custom" : "function";
  const callee = mustBeObject(call[key], `${path}.${key}`);
  const fields = unknownFields(call, TOOL_CALL_FIELDS);
  return {
    type: "tool_call",
    id: mustBeName(call["id"], `${path}.id`),
    name: mustBeName(callee["name"], `${path}.${key}.name`),
    arguments: custom
      ? mustBeString(callee["input"], `${path}.custom.input`)
      : readArguments(callee["arguments"], `${path}.function.arguments`),
    custom: custom || undefined,
    signature: readSignature(call, path, "call"),
    cache: readCacheBreakpoint(call, path),
    native: fields && { wire: "chat", fields },
    path,
  };
}

function readSignature(
  value: JsonObject,
  path: string,
  kind: OpaqueBlob["kind"],
): OpaqueBlob | undefined {
  const google = optionalObject(
    optionalObject(value["extra_content"], `${path}.extra_content`)?.["google"],
    `${path}.extra_content.google`,
  );
  const signature = optionalString(
    google?.["thought_signature"],
    `${path}.extra_content.google.thought_signature`,
  );
  return signature === undefined ? undefined : decodeBlob(signature, "chat", kind);
}

function readResult(
  message: JsonObject,
  path: string,
  legacyCalls: readonly string[],
): ToolResultPart {
  const callId =
    message["role"] === "function"
      ? (legacyCalls.at(-1) ?? "")
      : mustBeName(message["tool_call_id"], `${path}.tool_call_id`);
  const content: ToolResultPart["content"][number][] = [];
  for (const part of readContent(message["content"], `${path}.content`)) {
    if (
      part.type !== "text" &&
      part.type !== "image" &&
      part.type !== "file" &&
      part.type !== "audio" &&
      part.type !== "video" &&
      part.type !== "native"
    ) {
      throw invalid(
        part.path,
        "A tool result can contain only text, images, files, audio and video.",
      );
    }
    content.push(part);
  }
  return { type: "tool_result", callId, content, cache: readCacheBreakpoint(message, path), path };
}

// Most providers reject empty text, so it is dropped.
function readContent(content: unknown, path: string): Part[] {
  if (content === undefined || content === null || content === "") return [];
  if (typeof content === "string") return [{ type: "text", text: content, cache: undefined, path }];
  const parts: Part[] = [];
  for (const [at, value] of mustBeArray(content, path).entries()) {
    const part = mustBeObject(value, `${path}[${at}]`);
    const read = withNativeFields(readPart(part, `${path}[${at}]`), part);
    if (read.type !== "text" || read.text !== "" || read.cache !== undefined) parts.push(read);
  }
  return parts;
}

function withNativeFields(read: Part, part: JsonObject): Part {
  const fields = read.type === "native" ? undefined : unknownFields(part, PART_FIELDS);
  return fields === undefined || read.type === "native"
    ? read
    : { ...read, native: { wire: "chat", fields } };
}

function readPart(part: JsonObject, path: string): Part {
  const cache = readCacheBreakpoint(part, path);
  const type = mustBeName(part["type"], `${path}.type`);
  switch (type) {
    case "text":
      return { type, text: mustBeString(part["text"], `${path}.text`), cache, path };
    case "refusal":
      return { type, text: mustBeString(part["refusal"], `${path}.refusal`), path };
    case "thinking":
      return { type: "reasoning", text: readThinkingList(part), path };
    case "image_url": {
      const image =
        typeof part["image_url"] === "string"
          ? { url: part["image_url"] }
          : mustBeObject(part["image_url"], `${path}.image_url`);
      const source = readUrlSource(image["url"], `${path}.image_url.url`, "image/");
      return {
        type: "image",
        source,
        detail: optionalOneOf(image["detail"], `${path}.image_url.detail`, IMAGE_DETAILS),
        cache,
        signature: readSignature(part, path, "image"),
        path,
      };
    }
    case "input_audio":
      return { type: "audio", source: readInputAudio(part, path), cache, path };
    case "video_url":
      return {
        type: "video",
        source: readUrlSource(
          mustBeObject(part["video_url"], `${path}.video_url`)["url"],
          `${path}.video_url.url`,
          "video/",
        ),
        cache,
        path,
      };
    case "file":
      return readFile(mustBeObject(part["file"], `${path}.file`), `${path}.file`, cache, path);
    default:
      return { type: "native", wire: "chat", value: part, path };
  }
}

function readFile(
  file: JsonObject,
  filePath: string,
  cache: CacheBreakpoint | undefined,
  path: string,
): FilePart {
  const name = optionalString(file["filename"], `${filePath}.filename`);
  const id = optionalString(file["file_id"], `${filePath}.file_id`);
  if (id !== undefined)
    return { type: "file", source: { kind: "file_id", wire: "chat", id }, name, cache, path };
  return {
    type: "file",
    source: readUrlSource(file["file_data"], `${filePath}.file_data`, ""),
    name,
    cache,
    path,
  };
}

function readOutputAudio(audio: JsonObject, path: string): MediaPart {
  return {
    type: "audio",
    id: mustBeName(audio["id"], `${path}.id`),
    source: { kind: "file_id", wire: "chat", id: mustBeName(audio["id"], `${path}.id`) },
    path,
  };
}
