import { addLoss, addPartLoss, type Loss } from "../../canonical/canonical-losses.ts";
import type {
  OpaqueBlob,
  Part,
  ReasoningPart,
  RefusalPart,
  TextPart,
  ToolCallPart,
} from "../../canonical/canonical-parts.ts";
import type { CanonicalReply, Choice } from "../../canonical/canonical-reply.ts";
import type { Tool } from "../../canonical/canonical-request.ts";
import { encodeBlob } from "../../canonical/reasoning-blobs.ts";
import type { ReplyWriteContext, WrittenReply } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import { IMAGE_ID_PREFIX } from "../items/read-responses-output-items.ts";
import { CALL_ID_PREFIXES } from "../items/responses-client-tools.ts";
import { toNamespacedCall } from "../items/responses-namespaces.ts";
import {
  continuesReasoningItem,
  reasoningItem,
  writeAnnotation,
  writeLogprobs,
} from "../items/write-responses-output-items.ts";
import { writeResponse } from "./write-responses-response-object.ts";

export function writeReply(reply: CanonicalReply, context: ReplyWriteContext): WrittenReply {
  const losses: Loss[] = [];
  const [choice = { parts: [], finish: { reason: "error" } }, ...others] = reply.choices;
  if (others.length > 0) addLoss(losses, "choices[1]", "Replies of this API have only one choice.");
  const parts = [...choice.parts, ...refusalParts(choice)];
  const hasRefusal = parts.some((part) => part.type === "refusal");
  const base = idBase(reply.id ?? context.id);
  const output = writeOutput(parts, base, context.request.tools, losses);
  const head = writeResponse(reply, context, {
    finish: choice.finish,
    hasRefusal,
    usage: reply.usage,
  });
  if (head["status"] !== "completed") markIncomplete(output);
  return { body: { ...head, output }, losses };
}

/** The provider's explanation of a refusal becomes a refusal part. */
export function refusalParts({ parts, finish }: Choice): readonly RefusalPart[] {
  const { reason, detail } = finish;
  if (reason !== "refusal" || !detail || parts.some((part) => part.type === "refusal")) return [];
  return [{ type: "refusal", text: detail }];
}

/** The base of generated item ids. */
export function idBase(id: string): string {
  return id.replaceAll(/[^A-Za-z0-9]/g, "").slice(-32);
}

type OutputItem = Record<string, unknown>;

interface WriterState {
  readonly output: OutputItem[];
  readonly idBase: string;
  readonly tools: readonly Tool[] | undefined;
  readonly losses: Loss[];
  /** The content of the message that the last part belongs to. */
  messageContent: JsonObject[] | undefined;
  /** The reasoning parts of the item that the last part belongs to. */
  reasoningParts: ReasoningPart[];
}

function writeOutput(
  parts: readonly Part[],
  idBase: string,
  tools: readonly Tool[] | undefined,
  losses: Loss[],
): OutputItem[] {
  const state: WriterState = {
    output: [],
    idBase,
    tools,
    losses,
    messageContent: undefined,
    reasoningParts: [],
  };
  for (const part of parts) {
    if (part.type !== "text" && part.type !== "refusal") state.messageContent = undefined;
    if (part.type !== "reasoning") state.reasoningParts = [];
    pushPart(state, part);
  }
  return state.output;
}

function pushPart(state: WriterState, part: Part): void {
  const { output, losses } = state;
  const path = `output[${output.length}]`;
  switch (part.type) {
    case "text":
    case "refusal":
      return pushMessagePart(state, part);
    case "reasoning":
      return pushReasoning(state, part);
    case "tool_call":
      pushSignature(state, part.signature);
      output.push(
        callItem(
          toNamespacedCall(state.tools, part),
          mintId(state, callIdPrefix(part)),
          part.arguments,
          "completed",
        ),
      );
      return;
    case "native":
      if (part.wire === "responses") output.push({ ...part.value });
      else addPartLoss(losses, path, part);
      return;
    case "image":
    case "file":
    case "audio":
    case "video": {
      const item = imageItem(part, "");
      if (item === undefined) addPartLoss(losses, path, part);
      else {
        if (part.type === "image") pushSignature(state, part.signature);
        output.push({ ...item, id: mintId(state, IMAGE_ID_PREFIX) });
      }
      return;
    }
    case "tool_result":
      addPartLoss(losses, path, part);
  }
}

function mintId({ output, idBase }: WriterState, prefix: string): string {
  return `${prefix}_${idBase}_${output.length}`;
}

function pushMessagePart(state: WriterState, part: TextPart | RefusalPart): void {
  if (state.messageContent === undefined) {
    state.messageContent = [];
    state.output.push(messageItem(mintId(state, "msg"), state.messageContent, "completed"));
  }
  const path = `output[${state.output.length - 1}]`;
  state.messageContent.push(writeMessageContent(part, path, state.losses));
  if (part.type !== "text" || part.signature === undefined) return;
  pushSignature(state, part.signature);
  state.messageContent = undefined;
}

function pushSignature(state: WriterState, signature: OpaqueBlob | undefined): void {
  if (signature !== undefined)
    state.output.push(signatureItem(mintId(state, "rs"), encodeBlob(signature, "responses")));
}

function pushReasoning(state: WriterState, part: ReasoningPart): void {
  const { output, reasoningParts } = state;
  const before = reasoningParts.at(-1);
  if (before !== undefined && continuesReasoningItem(before, part)) {
    reasoningParts.push(part);
    output.pop();
  } else state.reasoningParts = [part];
  const encrypted = part.blob && encodeBlob(part.blob, "responses");
  // Some providers reuse an id, but clients identify items by it.
  const isUsed = part.id !== undefined && output.some((item) => item["id"] === part.id);
  const id = isUsed ? undefined : part.id;
  output.push({
    id: id ?? mintId(state, "rs"),
    type: "reasoning",
    ...reasoningItem(state.reasoningParts, encrypted),
  });
}

function writeMessageContent(
  part: TextPart | RefusalPart,
  path: string,
  losses: Loss[],
): JsonObject {
  if (part.type === "refusal") return { type: "refusal", refusal: part.text };
  const annotations: JsonObject[] = [];
  for (const citation of part.citations ?? []) {
    const written = writeAnnotation(citation, part.text.length);
    if (written !== undefined) annotations.push(written);
    else addLoss(losses, `${path}.annotations`, "This API supports only URL citations.");
  }
  return textPart(part.text, annotations, writeLogprobs(part.logprobs));
}

export function textPart(
  text: string,
  annotations: readonly JsonObject[],
  logprobs: readonly JsonObject[],
): JsonObject {
  return { type: "output_text", text, annotations, logprobs };
}

export function messageItem(
  id: string,
  content: readonly JsonObject[],
  status: string,
): OutputItem {
  return { id, type: "message", status, role: "assistant", content };
}

/** Images are written as generated by the image tool, which is where clients of this API expect them. */
export function imageItem(part: Part, id: string): OutputItem | undefined {
  if (part.type !== "image" || part.source.kind !== "base64") return undefined;
  const { mediaType, data } = part.source;
  const format = mediaType.replace("image/", "");
  return {
    id,
    type: "image_generation_call",
    status: "completed",
    result: data,
    output_format: format,
  };
}

/** The signature of a call, an image or a text, as a reasoning item without text. */
export function signatureItem(id: string, encoded: string): OutputItem {
  return { id, type: "reasoning", summary: [], encrypted_content: encoded };
}

export function callIdPrefix({ custom, item }: Pick<ToolCallPart, "custom" | "item">): string {
  if (item !== undefined) return CALL_ID_PREFIXES[String(item["type"])] ?? "item";
  return custom === true ? "ctc" : "fc";
}

export function callItem(
  call: Pick<ToolCallPart, "id" | "name" | "custom" | "native" | "item">,
  id: string,
  text: string,
  status: string,
): OutputItem {
  const own = call.native?.wire === "responses" ? call.native.fields : undefined;
  const { id: callId, name } = call;
  if (call.item !== undefined) return { id, ...call.item, status, call_id: callId };
  return call.custom === true
    ? { id, type: "custom_tool_call", status, call_id: callId, name, input: text, ...own }
    : { id, type: "function_call", status, call_id: callId, name, arguments: text, ...own };
}

// If a reply was cut off, its last item is incomplete.
function markIncomplete(output: OutputItem[]): void {
  const last = output.at(-1);
  if (
    last?.["status"] === "completed" &&
    ["message", "function_call", "custom_tool_call"].includes(String(last["type"]))
  )
    last["status"] = "incomplete";
}
