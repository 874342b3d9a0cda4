import type { CanonicalReply } from "../../../canonical/reply.ts";
import type {
  Citation,
  Part,
  ReasoningPart,
  TextPart,
  ToolCallPart,
} from "../../../canonical/parts.ts";
import { type Loss, addPartLoss } from "../../../canonical/loss.ts";
import { type JsonObject, parseObject } from "../../../../base/json.ts";
import { encodeCallId } from "../../../canonical/call-ids.ts";
import { encodeBlob } from "../../../canonical/reasoning.ts";
import type { ReplyWriteContext, WrittenReply } from "../../../canonical/wire.ts";
import { writeFinish } from "./map-finish-reason.ts";
import { initialUsage, writeUsage } from "./map-usage.ts";

/** Where the free text of a custom tool's call stands, on an API whose tools take objects. */
export const CUSTOM_TOOL_INPUT_FIELD = "input";

export function writeReply(reply: CanonicalReply, context: ReplyWriteContext): WrittenReply {
  const losses: Loss[] = [];
  const [choice] = reply.choices;
  if (reply.choices.length > 1)
    losses.push({ path: "choices", reason: "This API has one choice a reply." });
  const parts = choice?.parts ?? [];
  const content: JsonObject[] = [];
  for (const part of parts) content.push(...writePart(part, `content[${content.length}]`, losses));
  const refused = parts.some((part) => part.type === "refusal");
  const body = {
    id: reply.id ?? context.id,
    type: "message",
    role: "assistant",
    model: reply.model ?? context.model,
    content,
    ...writeFinish(choice?.finish ?? { reason: "error" }, refused),
    container: null,
    diagnostics: null,
    usage: reply.usage === undefined ? initialUsage(0) : writeUsage(reply.usage),
  };
  return { body, losses };
}

function writePart(part: Part, at: string, losses: Loss[]): readonly JsonObject[] {
  switch (part.type) {
    case "text":
      return writeText(part, at, losses);
    case "refusal":
      if (part.logprobs !== undefined) losses.push(logprobsLoss(at));
      return part.text === "" ? [] : [{ type: "text", text: part.text, citations: [] }];
    case "reasoning":
      return [writeThinking(part)];
    case "tool_call":
      return writeToolUse(part, at, losses);
    case "native":
      if (part.wire === "messages") return [part.value];
      return dropPart(part, at, losses);
    case "image":
    case "file":
    case "audio":
    case "video":
    case "tool_result":
      return dropPart(part, at, losses);
  }
}

function writeText(part: TextPart, at: string, losses: Loss[]): readonly JsonObject[] {
  const citations = part.citations
    ?.map((one) => writeCitation(one, at, losses))
    .filter((one) => one !== undefined);
  // A list, though it be empty: the published schema demands the field, and `@ai-sdk/anthropic` before 4 takes no null.
  const block = { type: "text", text: part.text, citations: citations ?? [] };
  if (part.logprobs !== undefined) losses.push(logprobsLoss(at));
  const said = part.text === "" ? [] : [block];
  return part.signature === undefined
    ? said
    : [...said, writeThinking({ type: "reasoning", text: "", blob: part.signature })];
}

export function logprobsLoss(at: string): Loss {
  return { path: `${at}.logprobs`, reason: "This API's replies have no place for it." };
}

function dropPart(part: Part, path: string, losses: Loss[]): readonly JsonObject[] {
  addPartLoss(losses, path, part);
  return [];
}

/** What proves the reasoning is bare where it is this API's own, else sealed. A thinking block needs a signature, if only "". */
export function writeThinking({ text, blob }: ReasoningPart): JsonObject {
  if (blob?.wire === "messages" && blob.kind === "encrypted" && text === "")
    return { type: "redacted_thinking", data: encodeBlob(blob, "messages") };
  return {
    type: "thinking",
    thinking: text,
    signature: blob === undefined ? "" : encodeBlob(blob, "messages"),
  };
}

// Arguments that were cut short are no object; the block stays, with what is certain: that the tool was called.
function writeToolUse(part: ToolCallPart, at: string, losses: Loss[]): readonly JsonObject[] {
  const input =
    part.custom === true
      ? { [CUSTOM_TOOL_INPUT_FIELD]: part.arguments }
      : parseObject(part.arguments);
  if (input === undefined)
    losses.push({ path: `${at}.input`, reason: "The arguments are not a whole JSON object." });
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
  at: string,
  losses: Loss[],
): JsonObject | undefined {
  const { url, title, citedText, native } = citation;
  if (native?.wire === "messages") return native.fields;
  if (url === undefined) {
    losses.push({ path: `${at}.citations`, reason: "This API has no citation of that form." });
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
