import type {
  OpaqueBlob,
  Citation,
  ImagePart,
  MediaPart,
  Part,
  TokenLogprob,
} from "../../../canonical/parts.ts";
import type { CanonicalReply, Choice } from "../../../canonical/reply.ts";
import {
  type JsonObject,
  arrayIn,
  isObject,
  numberIn,
  objectIn,
  stringIn,
} from "../../../../base/json.ts";
import { mintCallId } from "../../../canonical/call-ids.ts";
import type { ReplyReadContext } from "../../../canonical/wire.ts";
import { readFinish } from "./map-finish-reason.ts";
import { readAnnotation, readReasoningDetails, readThinkingList } from "./read-reasoning.ts";

export function readReply(input: unknown, context: ReplyReadContext): CanonicalReply {
  const body = objectIn(input) ?? {};
  const sources = readSources(body);
  const choices = arrayIn(body["choices"])
    .filter(isObject)
    .map((choice) => readChoice(choice, context, { id: stringIn(body["id"]) ?? "", sources }));
  const usage = context.readUsage(body);
  return {
    id: stringIn(body["id"]),
    model: stringIn(body["model"]),
    createdSeconds: numberIn(body["created"]),
    choices: choices.length > 0 ? choices : [{ parts: [], finish: { reason: "content_filter" } }],
    usage: usage && { usage },
    serviceTier: stringIn(body["service_tier"]) || undefined,
  };
}

interface ReplyHead {
  readonly id: string;
  readonly sources: readonly Citation[];
}

function readChoice(choice: JsonObject, context: ReplyReadContext, head: ReplyHead): Choice {
  const message = objectIn(choice["message"]) ?? objectIn(choice["delta"]) ?? {};
  const parts: Part[] = readMessage(
    message,
    { logprobs: objectIn(choice["logprobs"]), sources: head.sources },
    context,
  );
  let hasToolCalls = false;
  for (const part of readCalls(message, head.id, context)) {
    const emulated = part.name === context.emulation?.outputTool;
    hasToolCalls ||= !emulated;
    parts.push(emulated ? { type: "text", text: part.arguments } : part);
  }
  const hasRefusal = parts.some((part) => part.type === "refusal");
  const finish = readFinish(
    stringIn(choice["finish_reason"]),
    stringIn(choice["native_finish_reason"]),
    {
      hasToolCalls,
      hasRefusal,
      stopSequence: stringIn(choice["stop_reason"]),
    },
  );
  return { parts, finish };
}

interface ChoiceContext {
  readonly logprobs: JsonObject | undefined;
  readonly sources: readonly Citation[];
}

function readMessage(
  message: JsonObject,
  { logprobs, sources }: ChoiceContext,
  context: ReplyReadContext,
): Part[] {
  const parts: Part[] = [];
  for (const part of readReasoningDetails(arrayIn(message["reasoning_details"]))) {
    parts.push(part.blob === undefined ? part : { ...part, blob: withOrigin(part.blob, context) });
  }
  const plain = stringIn(message["reasoning_content"]) || stringIn(message["reasoning"]);
  if (parts.length === 0 && plain) parts.push({ type: "reasoning", text: plain });
  for (const part of contentParts(message["content"])) parts.push(part);
  const last = parts.findLastIndex((part) => part.type === "text");
  const text = parts[last];
  const citations = readCitations(message, sources);
  const probabilities = readLogprobs(logprobs?.["content"]);
  if (text?.type === "text")
    parts[last] = {
      ...text,
      citations: citations.length > 0 ? citations : undefined,
      logprobs: probabilities,
    };
  const refusal = stringIn(message["refusal"]);
  if (refusal)
    parts.push({ type: "refusal", text: refusal, logprobs: readLogprobs(logprobs?.["refusal"]) });
  const audio = objectIn(message["audio"]);
  if (audio?.["data"]) parts.push(readAudio(audio));
  for (const image of readImages(message["images"])) parts.push(image);
  return parts;
}

const DATA_URL = /^data:([^;,]+)(?:;[^;,]*)*;base64,/i;

/** Images that the model made, as OpenRouter and servers like it give them. */
export function readImages(value: unknown): readonly ImagePart[] {
  return arrayIn(value).flatMap((one): readonly ImagePart[] => {
    const url = stringIn(objectIn(objectIn(one)?.["image_url"])?.["url"]);
    if (url === undefined) return [];
    const data = DATA_URL.exec(url);
    return data?.[1] === undefined
      ? [{ type: "image", source: { kind: "url", url } }]
      : [
          {
            type: "image",
            source: { kind: "base64", mediaType: data[1], data: url.slice(data[0].length) },
          },
        ];
  });
}

/** What a provider that searches read, told beside the choices and for no passage of them. */
export function readSources(body: JsonObject): readonly Citation[] {
  const found = arrayIn(body["search_results"])
    .filter(isObject)
    .map((one): Citation => ({ url: stringIn(one["url"]), title: stringIn(one["title"]) }))
    .filter(({ url }) => url !== undefined);
  if (found.length > 0) return found;
  return arrayIn(body["citations"])
    .filter((one) => typeof one === "string")
    .map((url) => ({ url }));
}

// Where a passage names its sources, those hold; else the sources of the whole.
function readCitations(message: JsonObject, sources: readonly Citation[]): readonly Citation[] {
  const own = arrayIn(message["annotations"])
    .map(readAnnotation)
    .filter((one): one is Citation => one !== undefined);
  return own.length > 0 ? own : sources;
}

/** What a provider sends is its own, whatever it looks like. */
export function withOrigin(
  blob: OpaqueBlob | undefined,
  { origin }: ReplyReadContext,
): OpaqueBlob | undefined {
  return blob === undefined || blob.origin !== undefined ? blob : { ...blob, origin };
}

/** A reply's content is a string, or at Mistral a list with `thinking` in it. */
export function contentParts(content: unknown): Part[] {
  if (typeof content === "string") return content === "" ? [] : [{ type: "text", text: content }];
  const parts: Part[] = [];
  for (const value of arrayIn(content)) {
    if (!isObject(value)) continue;
    const text = stringIn(value["text"]);
    if (value["type"] === "thinking")
      parts.push({ type: "reasoning", text: readThinkingList(value) });
    else if (text !== undefined && text !== "") parts.push({ type: "text", text });
    else if (text === undefined) parts.push({ type: "native", wire: "chat", value });
  }
  return parts;
}

export function readAudio(audio: { readonly [key: string]: unknown }): MediaPart {
  const data = stringIn(audio["data"]) ?? "";
  return {
    type: "audio",
    source: { kind: "base64", mediaType: "audio/wav", data },
    id: stringIn(audio["id"]),
    transcript: stringIn(audio["transcript"]),
  };
}

type ToolCall = Extract<Part, { type: "tool_call" }>;

function readCalls(
  message: JsonObject,
  replyId: string,
  context: ReplyReadContext,
): readonly ToolCall[] {
  const calls: ToolCall[] = [];
  for (const [at, call] of arrayIn(message["tool_calls"]).entries()) {
    if (!isObject(call)) continue;
    const custom = customCallOf(call);
    const held = custom ?? objectIn(call["function"]) ?? {};
    calls.push({
      type: "tool_call",
      id: stringIn(call["id"]) || mintCallId(replyId, at),
      name: stringIn(held["name"]) ?? "",
      arguments: argumentsOf(custom === undefined ? held["arguments"] : held["input"]),
      custom: custom === undefined ? undefined : true,
      signature: callSignature(call, context),
    });
  }
  const legacy = objectIn(message["function_call"]);
  if (legacy !== undefined && calls.length === 0 && legacy["name"] !== "") {
    calls.push({
      type: "tool_call",
      id: mintCallId(replyId, 0),
      name: stringIn(legacy["name"]) ?? "",
      arguments: argumentsOf(legacy["arguments"]),
    });
  }
  return calls;
}

/** What a custom tool was given. Some servers send an empty `custom` beside every function. */
export function customCallOf(call: JsonObject): JsonObject | undefined {
  const custom = objectIn(call["custom"]);
  return call["type"] === "custom" || !isObject(call["function"]) ? custom : undefined;
}

export function callSignature(
  call: JsonObject,
  { origin }: ReplyReadContext,
): ToolCall["signature"] {
  const google = objectIn(objectIn(call["extra_content"])?.["google"]);
  const signature = stringIn(google?.["thought_signature"]);
  return signature ? { wire: "chat", kind: "call", data: signature, origin } : undefined;
}

function argumentsOf(value: unknown): string {
  if (isObject(value)) return JSON.stringify(value);
  return stringIn(value)?.trim() || "{}";
}

export function readLogprobs(value: unknown): readonly TokenLogprob[] | undefined {
  const list = arrayIn(value);
  if (list.length === 0) return undefined;
  return list.filter(isObject).map((one): TokenLogprob => ({
    token: stringIn(one["token"]) ?? "",
    logprob: numberIn(one["logprob"]) ?? 0,
    bytes:
      one["bytes"] === undefined
        ? undefined
        : Array.isArray(one["bytes"])
          ? one["bytes"].map(Number)
          : null,
    top: Array.isArray(one["top_logprobs"]) ? (readLogprobs(one["top_logprobs"]) ?? []) : undefined,
  }));
}
