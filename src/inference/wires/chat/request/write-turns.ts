import type { CanonicalRequest, Turn } from "../../../canonical/request.ts";
import { type Loss, takeNativeFields } from "../../../canonical/loss.ts";
import type {
  Part,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from "../../../canonical/parts.ts";
import type { JsonObject } from "../../../../base/json.ts";
import { createCallIds, type CallIds } from "../../../canonical/call-ids.ts";
import { canReplay } from "../../../canonical/reasoning.ts";
import type { Target } from "../../../canonical/wire.ts";
import { writePart } from "./write-parts.ts";

interface WriteContext {
  readonly target: Target;
  readonly losses: Loss[];
  readonly ids: CallIds | undefined;
}

export function writeTurns(
  request: CanonicalRequest,
  target: Target,
  losses: Loss[],
): readonly JsonObject[] {
  const grammar = target.abilities?.callIdFormat ?? "any";
  const context: WriteContext = {
    target,
    losses,
    ids: grammar === "any" ? undefined : createCallIds(grammar),
  };
  const messages: JsonObject[] = [];
  for (const [index, turn] of request.turns.entries()) {
    const at = turn.path ?? `${request.names?.turns ?? "messages"}[${index}]`;
    const extra = takeNativeFields(turn.native, "chat", at, losses);
    if (turn.role === "tool") messages.push(...writeResults(turn, at, context));
    else if (turn.role === "assistant") {
      if (index === request.turns.length - 1) addPrefillLoss(at, context);
      const said = writeAssistant(turn, at, context);
      if (said !== undefined || extra !== undefined)
        messages.push({ role: "assistant", name: turn.name, ...said, ...extra });
    } else {
      const content = writeContent(turn.parts, at, context);
      messages.push({ role: roleOf(turn, target), content, name: turn.name, ...extra });
    }
  }
  return messages;
}

function roleOf({ role }: Turn, { abilities }: Target): string {
  return role === "developer" && abilities?.developerRole === false ? "system" : role;
}

function addPrefillLoss(path: string, { target, losses }: WriteContext): void {
  if (target.abilities?.prefill === false)
    losses.push({
      path,
      reason: "This model does not go on with a trailing assistant message.",
      fatal: true,
    });
}

function writeContent(
  parts: readonly Part[],
  at: string,
  { target, losses }: WriteContext,
): unknown {
  const first = parts[0];
  if (parts.length === 1 && first !== undefined && isPlainText(first)) return first.text;
  return parts
    .map((part, index) => writePart(part, part.path ?? `${at}.content[${index}]`, target, losses))
    .filter((part) => part !== undefined);
}

interface PartsByKind {
  readonly content: Part[];
  readonly reasoning: ReasoningPart[];
  readonly calls: ToolCallPart[];
  refusal: string | undefined;
  audio: JsonObject | undefined;
}

function groupParts({ parts }: Turn): PartsByKind {
  const out: PartsByKind = {
    content: [],
    reasoning: [],
    calls: [],
    refusal: undefined,
    audio: undefined,
  };
  for (const part of parts) {
    if (part.type === "reasoning") out.reasoning.push(part);
    else if (part.type === "tool_call") out.calls.push(part);
    else if (part.type === "refusal") out.refusal = (out.refusal ?? "") + part.text;
    else if (part.type === "audio" && part.id !== undefined && part.source.kind === "file_id")
      out.audio = { id: part.id };
    else out.content.push(part);
  }
  return out;
}

function writeAssistant(turn: Turn, at: string, context: WriteContext): JsonObject | undefined {
  const { content, reasoning, calls, refusal, audio } = groupParts(turn);
  const said = content.length === 0 ? [] : writeContent(content, at, context);
  const isSilent = Array.isArray(said) && said.length === 0;
  const thoughts = writeReasoning(reasoning, at, context);
  const others = calls[0] ?? refusal ?? audio;
  // Reasoning that could not go back may have been all there was.
  if (isSilent && (others ?? thoughts) === undefined) return undefined;
  const nothing = others === undefined ? "" : null;
  return {
    content: isSilent ? nothing : said,
    refusal,
    audio,
    ...thoughts,
    tool_calls: calls.length === 0 ? undefined : calls.map((call) => writeCall(call, at, context)),
  };
}

// Reasoning that its maker signed goes back in `reasoning_details`; plain text goes in the field that the provider reads.
function writeReasoning(
  parts: readonly ReasoningPart[],
  at: string,
  { target, losses }: WriteContext,
): JsonObject | undefined {
  if (parts.length === 0) return undefined;
  const kept = parts.filter(
    (part) => part.blob !== undefined && canReplay(part.blob, "chat", target),
  );
  if (kept.length > 0) {
    if (kept.length < parts.length) addReasoningLosses(parts, at, losses);
    return { reasoning_details: kept.map((part, index) => writeDetail(part, index)) };
  }
  const field = target.abilities?.reasoningField;
  const plain = parts.filter((part) => part.blob === undefined && part.text !== "");
  if (field === undefined || field === "content" || plain.length === 0) {
    addReasoningLosses(parts, at, losses);
    return undefined;
  }
  return { [field]: plain.map((part) => part.text).join("\n\n") };
}

function addReasoningLosses(parts: readonly ReasoningPart[], at: string, losses: Loss[]): void {
  losses.push({
    path: parts[0]?.path ?? at,
    reason: "Earlier reasoning goes back only to the provider and model that made it.",
    tolerated: true,
  });
}

function writeDetail({ text, summary, id, blob }: ReasoningPart, index: number): JsonObject {
  const held = blob?.kind === "encrypted" ? { data: blob.data } : { signature: blob?.data };
  if (summary === true) return { type: "reasoning.summary", summary: text, id, index, ...held };
  return text === "" && blob?.kind === "encrypted"
    ? { type: "reasoning.encrypted", id, index, ...held }
    : { type: "reasoning.text", text, id, index, ...held };
}

function writeCall(
  call: ToolCallPart,
  at: string,
  { target, losses, ids }: WriteContext,
): JsonObject {
  const { signature } = call;
  addCacheLoss(call, call.path ?? at, losses);
  const id = ids?.forCall(call.id) ?? call.id;
  const google =
    signature !== undefined && canReplay(signature, "chat", target)
      ? { extra_content: { google: { thought_signature: signature.data } } }
      : undefined;
  if (signature !== undefined && google === undefined)
    losses.push({
      path: call.path ?? at,
      reason: "A call's signature goes back only to the provider and model that made it.",
      tolerated: true,
    });
  if (call.custom === true)
    return { id, type: "custom", custom: { name: call.name, input: call.arguments } };
  return {
    id,
    type: "function",
    function: { name: call.name, arguments: call.arguments },
    ...google,
    ...takeNativeFields(call.native, "chat", call.path, losses),
  };
}

// A call and a result have no cache mark here.
function addCacheLoss({ cache }: ToolCallPart | ToolResultPart, at: string, losses: Loss[]): void {
  if (cache !== undefined)
    losses.push({
      path: `${at}.cache_control`,
      reason: "This API has no such cache mark.",
      tolerated: true,
    });
}

function writeResults(turn: Turn, at: string, context: WriteContext): readonly JsonObject[] {
  return turn.parts
    .filter((part) => part.type === "tool_result")
    .map((part) => {
      const content = writeResult(part, part.path ?? at, context);
      return {
        role: "tool",
        tool_call_id: context.ids?.forResult(part.callId) ?? part.callId,
        content,
      };
    });
}

function writeResult(part: ToolResultPart, at: string, { target, losses }: WriteContext): unknown {
  if (part.isError === true)
    losses.push({
      path: `${at}.is_error`,
      reason: "This API has no mark for a failed tool; the result itself says so.",
      tolerated: true,
    });
  addCacheLoss(part, at, losses);
  takeNativeFields(part.native, "chat", at, losses);
  const [first] = part.content;
  if (first === undefined) return "";
  if (part.content.length === 1 && isPlainText(first)) return first.text;
  const texts = part.content.filter((one): one is TextPart => one.type === "text");
  for (const one of part.content)
    if (one.type !== "text")
      losses.push({
        path: one.path ?? at,
        reason: "A tool result holds only text on this provider's API.",
      });
  if (texts.length === 0) return "";
  return texts.map((one) => writePart(one, one.path ?? at, target, losses));
}

/** A text that a string says whole. */
function isPlainText(part: Part): part is TextPart {
  return (
    part.type === "text" &&
    part.cache === undefined &&
    part.native === undefined &&
    part.citations === undefined &&
    part.signature === undefined
  );
}
