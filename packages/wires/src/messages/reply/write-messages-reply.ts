import { addLoss, addPartLoss, type Loss } from "../../canonical/canonical-losses.ts";
import type {
  Citation,
  Part,
  ReasoningPart,
  TextPart,
  ToolCallPart,
} from "../../canonical/canonical-parts.ts";
import type { CanonicalReply } from "../../canonical/canonical-reply.ts";
import { encodeBlob } from "../../canonical/reasoning-blobs.ts";
import { encodeCallId } from "../../canonical/tools/call-ids.ts";
import type { ReplyWriteContext, WrittenReply } from "../../canonical/wire-interfaces.ts";
import { type JsonObject, parseObject } from "../../json-fields.ts";
import { writeFinish } from "./map-messages-finish-reason.ts";
import { initialUsage, writeUsage } from "./map-messages-usage.ts";

/** The field of a custom tool's free text, since the tools of this API take objects. */
export const CUSTOM_TOOL_INPUT_FIELD = "input";

export function writeReply(reply: CanonicalReply, context: ReplyWriteContext): WrittenReply {
  const losses: Loss[] = [];
  const [choice] = reply.choices;
  if (reply.choices.length > 1)
    losses.push({ path: "choices", reason: "Replies of this API have only one choice." });
  const parts = choice?.parts ?? [];
  const content: JsonObject[] = [];
  for (const part of parts) content.push(...writePart(part, `content[${content.length}]`, losses));
  const hasRefusal = parts.some((part) => part.type === "refusal");
  const body = {
    id: reply.id ?? context.id,
    type: "message",
    role: "assistant",
    model: reply.model ?? context.model,
    content,
    ...writeFinish(choice?.finish ?? { reason: "error" }, hasRefusal),
    container: null,
    diagnostics: null,
    usage: reply.usage === undefined ? initialUsage(0) : writeUsage(reply.usage),
  };
  return { body, losses };
}

function writePart(part: Part, path: string, losses: Loss[]): readonly JsonObject[] {
  switch (part.type) {
    case "text":
      return writeText(part, path, losses);
    case "refusal":
      if (part.logprobs !== undefined) losses.push(logprobsLoss(path));
      return part.text === "" ? [] : [{ type: "text", text: part.text, citations: [] }];
    case "reasoning":
      return [writeThinking(part)];
    case "tool_call":
      return writeToolUse(part, path, losses);
    case "native":
      if (part.wire === "messages") return [part.value];
      return dropPart(part, path, losses);
    case "image":
    case "file":
    case "audio":
    case "video":
    case "tool_result":
      return dropPart(part, path, losses);
  }
}

function writeText(part: TextPart, path: string, losses: Loss[]): readonly JsonObject[] {
  const citations = part.citations
    ?.map((one) => writeCitation(one, path, losses))
    .filter((one) => one !== undefined);
  // An empty array, not null: the schema requires the field, and `@ai-sdk/anthropic` before 4 rejects null.
  const block = { type: "text", text: part.text, citations: citations ?? [] };
  if (part.logprobs !== undefined) losses.push(logprobsLoss(path));
  const blocks = part.text === "" ? [] : [block];
  // Before the text: clients show the last block, which must not be an empty thinking block.
  return part.signature === undefined
    ? blocks
    : [writeThinking({ type: "reasoning", text: "", blob: part.signature }), ...blocks];
}

export function logprobsLoss(path: string): Loss {
  return { path: `${path}.logprobs`, reason: "Replies of this API have no log probabilities." };
}

function dropPart(part: Part, path: string, losses: Loss[]): readonly JsonObject[] {
  addPartLoss(losses, path, part);
  return [];
}

/** A thinking block requires a signature, even if empty. */
export function writeThinking({ text, blob }: ReasoningPart): JsonObject {
  if (blob?.wire === "messages" && blob.kind === "encrypted" && text === "")
    return { type: "redacted_thinking", data: encodeBlob(blob, "messages") };
  return {
    type: "thinking",
    thinking: text,
    signature: blob === undefined ? "" : encodeBlob(blob, "messages"),
  };
}

// Arguments that were cut off are not an object; the block is kept with empty input.
function writeToolUse(part: ToolCallPart, path: string, losses: Loss[]): readonly JsonObject[] {
  const input =
    part.custom === true
      ? { [CUSTOM_TOOL_INPUT_FIELD]: part.arguments }
      : parseObject(part.arguments);
  if (input === undefined)
    losses.push({ path: `${path}.input`, reason: "The arguments are not a complete JSON object." });
  const use = {
    type: "tool_use",
    id: encodeCallId(part.id),
    name: part.name,
    input: input ?? {},
    caller: { type: "direct" },
  };
  return part.signature === undefined
    ? [use]
    : [writeThinking({ type: "reasoning", text: "", blob: part.signature }), use];
}

export function writeCitation(
  citation: Citation,
  path: string,
  losses: Loss[],
): JsonObject | undefined {
  const { url, title, citedText, native } = citation;
  if (native?.wire === "messages") return native.fields;
  if (url === undefined) {
    addLoss(losses, `${path}.citations`, "This API supports only URL citations.");
    return undefined;
  }
  return {
    type: "web_search_result_location",
    url,
    title: title ?? null,
    cited_text: citedText ?? "",
    encrypted_index: "",
  };
}
