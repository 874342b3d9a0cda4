import type {
  ImagePart,
  OpaqueBlob,
  Part,
  ReasoningPart,
  ToolCallPart,
} from "../../canonical/canonical-parts.ts";
import type { CanonicalReply } from "../../canonical/canonical-reply.ts";
import { mintCallId } from "../../canonical/tools/call-ids.ts";
import type { ReplyReadContext } from "../../canonical/wire-interfaces.ts";
import {
  arrayIn,
  isObject,
  type JsonObject,
  numberIn,
  objectIn,
  stringIn,
  unknownFields,
} from "../../json-fields.ts";
import { readLogprobs } from "../../openai-parts.ts";
import {
  generatedImageOf,
  phaseOf,
  readAnnotations,
  readReasoningItem,
  signsNextPart,
} from "../items/read-responses-output-items.ts";
import { readFinish } from "./map-responses-finish-reason.ts";

const TOOL_CALL_FIELDS: ReadonlySet<string> = new Set(
  "type id item_id output_index call_id name arguments input status".split(" "),
);

export function readReply(input: unknown, context: ReplyReadContext): CanonicalReply {
  const body = objectIn(input) ?? {};
  const parts = readOutput(body, context);
  const finish = readFinish(body, {
    hasToolCalls: parts.some((part) => part.type === "tool_call"),
    hasRefusal: parts.some((part) => part.type === "refusal"),
  });
  const usage = context.readUsage(body);
  return { ...readReplyHead(body), choices: [{ parts, finish }], usage: usage && { usage } };
}

// The signature of a call or an image is reasoning without text before it, that of a text after it.
function readOutput(body: JsonObject, context: ReplyReadContext): readonly Part[] {
  const parts: Part[] = [];
  let signature: OpaqueBlob | undefined;
  for (const [at, item] of arrayIn(body["output"]).entries()) {
    if (!isObject(item)) continue;
    const read = readItem(item, mintCallId(stringIn(body["id"]) ?? "", at), context);
    const [first] = read;
    const blob = first?.type === "reasoning" && first.text === "" ? first.blob : undefined;
    const last = parts.at(-1);
    if (signsNextPart(blob)) signature = blob;
    else if (blob?.kind === "text" && last?.type === "text")
      parts[parts.length - 1] = { ...last, signature: blob };
    else if (
      first !== undefined &&
      signature !== undefined &&
      canCarrySignature(first, signature)
    ) {
      parts.push({ ...first, signature });
      signature = undefined;
    } else parts.push(...read);
  }
  return parts;
}

function canCarrySignature(part: Part, { kind }: OpaqueBlob): part is ToolCallPart | ImagePart {
  return part.type === "tool_call" ? kind === "call" : part.type === "image" && kind === "image";
}

export function readReplyHead(
  response: JsonObject,
): Pick<CanonicalReply, "id" | "model" | "createdSeconds" | "serviceTier"> {
  return {
    id: stringIn(response["id"]) || undefined,
    model: stringIn(response["model"]) || undefined,
    createdSeconds: numberIn(response["created_at"]),
    serviceTier: stringIn(response["service_tier"]),
  };
}

function readItem(item: JsonObject, mintedId: string, context: ReplyReadContext): readonly Part[] {
  switch (item["type"]) {
    case "message":
      return readMessage(item);
    case "reasoning":
      return readReasoningItem(item).map((part) => withOrigin(part, context));
    case "function_call":
    case "custom_tool_call":
      return [readCall(item, mintedId)];
    default:
      return [generatedImageOf(item) ?? { type: "native", wire: "responses", value: item }];
  }
}

/** A blob without origin belongs to the provider that sent it. */
function withOrigin(part: ReasoningPart, { origin }: ReplyReadContext): ReasoningPart {
  const { blob } = part;
  return blob === undefined ? part : { ...part, blob: { ...blob, origin: blob.origin ?? origin } };
}

function readMessage(item: JsonObject): readonly Part[] {
  const native = phaseOf(item);
  const parts: Part[] = [];
  for (const value of arrayIn(item["content"])) {
    if (!isObject(value)) continue;
    const text = stringIn(value["text"]);
    const refusal = stringIn(value["refusal"]);
    if (value["type"] === "refusal") {
      if (refusal) parts.push({ type: "refusal", text: refusal, native });
    } else if (text === undefined) parts.push({ type: "native", wire: "responses", value });
    else if (text !== "") {
      const citations = readAnnotations(value["annotations"]);
      const logprobs = readLogprobs(value["logprobs"]);
      parts.push({ type: "text", text, citations, logprobs, native });
    }
  }
  return parts;
}

function readCall(item: JsonObject, mintedId: string): ToolCallPart {
  const text = argumentsIn(item);
  const head = callHead(item, mintedId);
  return { ...head, arguments: text === "" && head.custom !== true ? "{}" : text };
}

/** A call without its arguments. */
export function callHead(item: JsonObject, mintedId: string): Omit<ToolCallPart, "arguments"> {
  const fields = unknownFields(item, TOOL_CALL_FIELDS);
  return {
    type: "tool_call",
    id: stringIn(item["call_id"]) || stringIn(item["id"]) || mintedId,
    name: stringIn(item["name"]) ?? "",
    custom: item["type"] === "custom_tool_call" || undefined,
    native: fields && { wire: "responses", fields },
  };
}

export function argumentsIn(item: JsonObject): string {
  const value = item["type"] === "custom_tool_call" ? item["input"] : item["arguments"];
  if (isObject(value)) return JSON.stringify(value);
  const text = stringIn(value) ?? "";
  return text.trim() === "" && item["type"] !== "custom_tool_call" ? "" : text;
}
