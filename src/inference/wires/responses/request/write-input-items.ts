import type { CanonicalRequest, Tool, Turn } from "../../../canonical/request.ts";
import { type Loss, takeNativeFields } from "../../../canonical/loss.ts";
import type {
  ReasoningPart,
  RefusalPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from "../../../canonical/parts.ts";
import type { JsonObject } from "../../../../base/json.ts";
import { createCallIds, type CallIds } from "../../../canonical/call-ids.ts";
import { canReplay } from "../../../canonical/reasoning.ts";
import type { Target } from "../../../canonical/wire.ts";
import { toNamespacedCall } from "../items/namespaces.ts";
import { writeCache, writePart } from "./write-content.ts";
import {
  continuesReasoningItem,
  reasoningItem,
  writeAnnotation,
} from "../items/write-output-items.ts";

interface WriteContext {
  readonly tools: readonly Tool[] | undefined;
  readonly target: Target;
  readonly losses: Loss[];
  readonly items: JsonObject[];
  readonly ids: CallIds;
  /** The calls of custom tools, whose results have a type of their own. */
  readonly customCallIds: Set<string>;
  /** Whether reasoning of this provider's own goes back. */
  replaysReasoning: boolean;
}

export interface WrittenItems {
  readonly items: readonly JsonObject[];
  readonly replaysReasoning: boolean;
}

export function writeItems(
  request: CanonicalRequest,
  target: Target,
  losses: Loss[],
): WrittenItems {
  const context: WriteContext = {
    tools: request.tools,
    target,
    losses,
    items: [],
    ids: createCallIds(target.abilities?.callIdFormat ?? "token64"),
    customCallIds: new Set(),
    replaysReasoning: false,
  };
  for (const [index, turn] of request.turns.entries()) {
    const at = turn.path ?? `${request.names?.turns ?? "messages"}[${index}]`;
    if (turn.name !== undefined)
      losses.push({ path: `${at}.name`, reason: "This API has no names for who speaks." });
    if (turn.role === "tool") writeResults(turn, at, context);
    else if (turn.role === "assistant") {
      if (index === request.turns.length - 1 && target.abilities?.prefill === false)
        losses.push({
          path: at,
          reason: "This model does not go on with a trailing assistant message.",
          fatal: true,
        });
      writeAssistant(turn, at, context);
    } else writeMessage(turn, at, context);
  }
  return { items: context.items, replaysReasoning: context.replaysReasoning };
}

function writeMessage(turn: Turn, at: string, { target, losses, items }: WriteContext): void {
  const role =
    turn.role === "developer" && target.abilities?.developerRole === false ? "system" : turn.role;
  const extra = takeNativeFields(turn.native, "responses", at, losses);
  const only = turn.parts[0];
  if (turn.parts.length === 1 && only?.type === "text" && only.cache === undefined) {
    items.push({ type: "message", role, content: only.text, ...extra });
    return;
  }
  let content: JsonObject[] = [];
  const flush = () => {
    if (content.length > 0) items.push({ type: "message", role, content, ...extra });
    content = [];
  };
  for (const [index, part] of turn.parts.entries()) {
    if (part.type === "native" && part.wire === "responses" && !isMessageContent(part.value)) {
      flush();
      items.push(part.value);
      continue;
    }
    const written = writePart(part, part.path ?? `${at}.content[${index}]`, target, losses);
    if (written !== undefined) content.push(written);
  }
  flush();
}

function isMessageContent(value: JsonObject): boolean {
  return typeof value["type"] === "string" && /^(input|output)_/.test(value["type"]);
}

// Every part in the very order in which the model made it.
function writeAssistant(turn: Turn, at: string, context: WriteContext): void {
  const extra = takeNativeFields(turn.native, "responses", at, context.losses);
  let thoughts: ReasoningPart[] = [];
  for (const [index, part] of turn.parts.entries()) {
    if (part.type === "reasoning") {
      const next = turn.parts[index + 1];
      thoughts.push(part);
      if (next?.type === "reasoning" && continuesReasoningItem(part, next)) continue;
      writeReasoning(thoughts, at, context);
      thoughts = [];
    } else if (part.type === "text" || part.type === "refusal")
      context.items.push({ ...writeMessageContent(part, at, context), ...extra });
    else if (part.type === "tool_call") writeCall(part, at, context);
    else if (part.type === "native" && part.wire === "responses") context.items.push(part.value);
    else
      context.losses.push({
        path: part.path ?? at,
        reason: `A ${part.type} of the assistant's cannot be given back to this provider.`,
      });
  }
}

// Plain text goes as a string: that is valid without the ids that this API gives its own messages.
function writeMessageContent(
  part: TextPart | RefusalPart,
  at: string,
  { target, losses }: WriteContext,
): JsonObject {
  const path = part.path ?? at;
  const phase = part.native?.wire === "responses" ? part.native.fields["phase"] : undefined;
  const message = { type: "message", role: "assistant", ...(phase === undefined ? {} : { phase }) };
  if (part.type === "refusal")
    return { ...message, content: [{ type: "refusal", refusal: part.text }] };
  if (part.signature !== undefined)
    losses.push({
      path,
      reason: "A text's signature goes back only to the provider and model that made it.",
      tolerated: true,
    });
  // Citations without an address point into nothing that this provider has seen; the text that they stand in is kept.
  const annotations = (part.citations ?? [])
    .map((citation) => writeAnnotation(citation, part.text.length))
    .filter((one) => one !== undefined);
  const cache = writeCache(part.cache, target, path, losses);
  if (annotations.length === 0 && cache === undefined) return { ...message, content: part.text };
  return { ...message, content: [{ type: "output_text", text: part.text, annotations, ...cache }] };
}

// Without its id: a provider that stored nothing knows none, and the encrypted content says it all.
function writeReasoning(parts: readonly ReasoningPart[], at: string, context: WriteContext): void {
  const { target, losses, items } = context;
  const blob = parts.at(-1)?.blob;
  if (blob !== undefined && blob.kind === "encrypted" && canReplay(blob, "responses", target)) {
    context.replaysReasoning = true;
    items.push({ type: "reasoning", ...reasoningItem(parts, blob.data) });
    return;
  }
  const plain = parts.filter((part) => part.text !== "");
  if (blob === undefined && plain.length > 0 && target.abilities?.reasoningField !== undefined)
    items.push({ type: "reasoning", ...reasoningItem(plain, undefined) });
  else
    losses.push({
      path: parts[0]?.path ?? at,
      reason: "Earlier reasoning goes back only to the provider and model that made it.",
      tolerated: true,
    });
}

function writeCall(part: ToolCallPart, at: string, context: WriteContext): void {
  const { tools, target, losses, items, ids, customCallIds } = context;
  const call = toNamespacedCall(tools, part);
  const path = call.path ?? at;
  if (call.cache !== undefined) writeCache(call.cache, { ...target, abilities: {} }, path, losses);
  if (call.signature !== undefined)
    losses.push({
      path,
      reason: "A call's signature goes back only to the provider and model that made it.",
      tolerated: true,
    });
  const head = { call_id: ids.forCall(call.id), name: call.name };
  const extra = takeNativeFields(call.native, "responses", path, losses);
  if (call.custom === true) customCallIds.add(call.id);
  else customCallIds.delete(call.id);
  items.push(
    call.custom === true
      ? { type: "custom_tool_call", ...head, input: call.arguments, ...extra }
      : { type: "function_call", ...head, arguments: call.arguments, ...extra },
  );
}

function writeResults(turn: Turn, at: string, context: WriteContext): void {
  const { items, ids, customCallIds, losses } = context;
  for (const part of turn.parts) {
    if (part.type !== "tool_result") continue;
    const path = part.path ?? at;
    items.push({
      type: customCallIds.has(part.callId) ? "custom_tool_call_output" : "function_call_output",
      call_id: ids.forResult(part.callId),
      output: writeResult(part, path, context),
      ...takeNativeFields(part.native, "responses", path, losses),
    });
  }
}

function writeResult(part: ToolResultPart, at: string, { target, losses }: WriteContext): unknown {
  if (part.isError === true)
    losses.push({
      path: `${at}.is_error`,
      reason: "This API has no mark for a failed tool; the result itself says so.",
      tolerated: true,
    });
  if (part.cache !== undefined) writeCache(part.cache, { ...target, abilities: {} }, at, losses);
  const [first] = part.content;
  if (first === undefined) return "";
  if (part.content.length === 1 && first.type === "text" && first.cache === undefined)
    return first.text;
  return part.content
    .map((one, index) => writePart(one, one.path ?? `${at}.content[${index}]`, target, losses))
    .filter((one) => one !== undefined);
}
