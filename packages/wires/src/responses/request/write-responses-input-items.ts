import {
  addTurnNameLoss,
  addToolErrorLoss,
  type Loss,
  takeNativeFields,
} from "../../canonical/canonical-losses.ts";
import type {
  ReasoningPart,
  RefusalPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from "../../canonical/canonical-parts.ts";
import type { CanonicalRequest, Tool, Turn } from "../../canonical/canonical-request.ts";
import { addReasoningLoss, addSignatureLoss, canReplay } from "../../canonical/reasoning-blobs.ts";
import { type CallIds, createCallIds } from "../../canonical/tools/call-ids.ts";
import type { Target } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import { toNamespacedCall } from "../items/responses-namespaces.ts";
import {
  continuesReasoningItem,
  reasoningItem,
  writeAnnotation,
} from "../items/write-responses-output-items.ts";
import { writeCache, writePart } from "./write-responses-content.ts";

interface WriteContext {
  readonly tools: readonly Tool[] | undefined;
  readonly target: Target;
  readonly losses: Loss[];
  readonly items: JsonObject[];
  readonly ids: CallIds;
  /** The results of custom tools have a type of their own. */
  readonly customCallIds: Set<string>;
  /** The request contains reasoning of this provider. */
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
    addTurnNameLoss(losses, turn);
    if (turn.role === "tool") writeResults(turn, at, context);
    else if (turn.role === "assistant") {
      writeAssistant(turn, at, context);
    } else writeMessage(turn, at, context);
  }
  return { items: context.items, replaysReasoning: context.replaysReasoning };
}

function writeMessage(turn: Turn, path: string, { target, losses, items }: WriteContext): void {
  const role =
    turn.role === "developer" && target.abilities?.developerRole === false ? "system" : turn.role;
  const extra = takeNativeFields(turn.native, "responses", path, losses);
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
    const written = writePart(part, part.path ?? `${path}.content[${index}]`, target, losses);
    if (written !== undefined) content.push(written);
  }
  flush();
}

function isMessageContent(value: JsonObject): boolean {
  return typeof value["type"] === "string" && /^(input|output)_/.test(value["type"]);
}

// The parts keep the order in which the model produced them.
function writeAssistant(turn: Turn, path: string, context: WriteContext): void {
  const extra = takeNativeFields(turn.native, "responses", path, context.losses);
  let reasoning: ReasoningPart[] = [];
  for (const [index, part] of turn.parts.entries()) {
    if (part.type === "reasoning") {
      const next = turn.parts[index + 1];
      reasoning.push(part);
      if (next?.type === "reasoning" && continuesReasoningItem(part, next)) continue;
      writeReasoning(reasoning, path, context);
      reasoning = [];
    } else if (part.type === "text" || part.type === "refusal")
      context.items.push({ ...writeMessageContent(part, path, context), ...extra });
    else if (part.type === "tool_call") writeCall(part, path, context);
    else if (part.type === "native" && part.wire === "responses") context.items.push(part.value);
    else
      context.losses.push({
        path: part.path ?? path,
        reason: `This provider does not support ${part.type} content in assistant messages.`,
      });
  }
}

// A string is valid without the ids that this API assigns to its messages.
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
  addSignatureLoss(losses, path, part.signature);
  // Citations without a URL refer to sources that this provider does not have; the cited text is kept.
  const annotations = (part.citations ?? [])
    .map((citation) => writeAnnotation(citation, part.text.length))
    .filter((one) => one !== undefined);
  const cache = writeCache(part.cache, target, path, losses);
  if (annotations.length === 0 && cache === undefined) return { ...message, content: part.text };
  return { ...message, content: [{ type: "output_text", text: part.text, annotations, ...cache }] };
}

// Without ids, since the provider stores no items; the encrypted content is sufficient.
function writeReasoning(
  parts: readonly ReasoningPart[],
  path: string,
  context: WriteContext,
): void {
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
  else addReasoningLoss(losses, parts[0]?.path ?? path);
}

function writeCall(part: ToolCallPart, at: string, context: WriteContext): void {
  const { tools, target, losses, items, ids, customCallIds } = context;
  if (part.item !== undefined) {
    items.push(part.item);
    return;
  }
  const call = toNamespacedCall(tools, part);
  const path = call.path ?? at;
  if (call.cache !== undefined) writeCache(call.cache, { ...target, abilities: {} }, path, losses);
  addSignatureLoss(losses, path, call.signature);
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
    if (part.item !== undefined) {
      items.push(part.item);
      continue;
    }
    const path = part.path ?? at;
    items.push({
      type: customCallIds.has(part.callId) ? "custom_tool_call_output" : "function_call_output",
      call_id: ids.forResult(part.callId),
      output: writeResult(part, path, context),
      ...takeNativeFields(part.native, "responses", path, losses),
    });
  }
}

function writeResult(
  part: ToolResultPart,
  path: string,
  { target, losses }: WriteContext,
): unknown {
  if (part.isError === true) addToolErrorLoss(losses, path);
  if (part.cache !== undefined) writeCache(part.cache, { ...target, abilities: {} }, path, losses);
  const [first] = part.content;
  if (first === undefined) return "";
  if (part.content.length === 1 && first.type === "text" && first.cache === undefined)
    return first.text;
  return part.content
    .map((one, index) => writePart(one, one.path ?? `${path}.content[${index}]`, target, losses))
    .filter((one) => one !== undefined);
}
