import {
  addLoss,
  addToleratedLoss,
  addToolErrorLoss,
  type Loss,
  takeNativeFields,
} from "../../canonical/canonical-losses.ts";
import type {
  Part,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from "../../canonical/canonical-parts.ts";
import type { CanonicalRequest, Turn } from "../../canonical/canonical-request.ts";
import { addReasoningLoss, addSignatureLoss, canReplay } from "../../canonical/reasoning-blobs.ts";
import { type CallIds, createCallIds } from "../../canonical/tools/call-ids.ts";
import type { Target } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import { writePart } from "./write-chat-parts.ts";

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
  const idFormat = target.abilities?.callIdFormat ?? "any";
  const context: WriteContext = {
    target,
    losses,
    ids: idFormat === "any" ? undefined : createCallIds(idFormat),
  };
  const messages: JsonObject[] = [];
  for (const [index, turn] of request.turns.entries()) {
    const at = turn.path ?? `${request.names?.turns ?? "messages"}[${index}]`;
    const extra = takeNativeFields(turn.native, "chat", at, losses);
    if (turn.role === "tool") messages.push(...writeResults(turn, at, context));
    else if (turn.role === "assistant") {
      const message = writeAssistant(turn, at, context);
      if (message !== undefined || extra !== undefined)
        messages.push({ role: "assistant", name: turn.name, ...message, ...extra });
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

function writeContent(
  parts: readonly Part[],
  path: string,
  { target, losses }: WriteContext,
): unknown {
  const first = parts[0];
  if (parts.length === 1 && first !== undefined && isPlainText(first)) return first.text;
  return parts
    .map((part, index) => writePart(part, part.path ?? `${path}.content[${index}]`, target, losses))
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

function writeAssistant(turn: Turn, path: string, context: WriteContext): JsonObject | undefined {
  const { content, reasoning, calls, refusal, audio } = groupParts(turn);
  const written = content.length === 0 ? [] : writeContent(content, path, context);
  const isEmpty = Array.isArray(written) && written.length === 0;
  const writtenReasoning = writeReasoning(reasoning, path, context);
  const others = calls[0] ?? refusal ?? audio;
  // The turn may consist only of reasoning that cannot be sent back.
  if (isEmpty && (others ?? writtenReasoning) === undefined) return undefined;
  const emptyContent = others === undefined ? "" : null;
  return {
    content: isEmpty ? emptyContent : written,
    refusal,
    audio,
    ...writtenReasoning,
    tool_calls:
      calls.length === 0 ? undefined : calls.map((call) => writeCall(call, path, context)),
  };
}

// Reasoning with a blob of this provider is sent in `reasoning_details`; plain text in the field that the provider reads.
function writeReasoning(
  parts: readonly ReasoningPart[],
  path: string,
  { target, losses }: WriteContext,
): JsonObject | undefined {
  if (parts.length === 0) return undefined;
  const kept = parts.filter(
    (part) => part.blob !== undefined && canReplay(part.blob, "chat", target),
  );
  if (kept.length > 0) {
    if (kept.length < parts.length) addReasoningLoss(losses, parts[0]?.path ?? path);
    return { reasoning_details: kept.map((part, index) => writeDetail(part, index)) };
  }
  const field = target.abilities?.reasoningField;
  const plain = parts.filter((part) => part.blob === undefined && part.text !== "");
  if (field === undefined || field === "content" || plain.length === 0) {
    addReasoningLoss(losses, parts[0]?.path ?? path);
    return undefined;
  }
  return { [field]: plain.map((part) => part.text).join("\n\n") };
}

function writeDetail({ text, summary, id, blob }: ReasoningPart, index: number): JsonObject {
  const data = blob?.kind === "encrypted" ? { data: blob.data } : { signature: blob?.data };
  if (summary === true) return { type: "reasoning.summary", summary: text, id, index, ...data };
  return text === "" && blob?.kind === "encrypted"
    ? { type: "reasoning.encrypted", id, index, ...data }
    : { type: "reasoning.text", text, id, index, ...data };
}

function writeCall(
  call: ToolCallPart,
  path: string,
  { target, losses, ids }: WriteContext,
): JsonObject {
  const { signature } = call;
  addCacheLoss(call, call.path ?? path, losses);
  const id = ids?.forCall(call.id) ?? call.id;
  const google =
    signature !== undefined && canReplay(signature, "chat", target)
      ? { extra_content: { google: { thought_signature: signature.data } } }
      : undefined;
  if (google === undefined) addSignatureLoss(losses, call.path ?? path, signature);
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

function addCacheLoss(
  { cache }: ToolCallPart | ToolResultPart,
  path: string,
  losses: Loss[],
): void {
  const reason = "This API has no cache breakpoint on a tool call or its result.";
  if (cache !== undefined) addToleratedLoss(losses, `${path}.cache_control`, reason);
}

function writeResults(turn: Turn, path: string, context: WriteContext): readonly JsonObject[] {
  const attached: unknown[] = [];
  const messages: JsonObject[] = turn.parts
    .filter((part) => part.type === "tool_result")
    .map((part) => {
      const at = part.path ?? path;
      const media = part.content.filter((one) => isAttachable(one, context.target));
      const content = writeResult(part, at, media, context);
      if (media.length > 0) attached.push({ type: "text", text: `Result of ${part.name}:` });
      for (const one of media)
        attached.push(writePart(one, one.path ?? at, context.target, context.losses));
      return {
        role: "tool",
        tool_call_id: context.ids?.forResult(part.callId) ?? part.callId,
        content,
      };
    });
  const content = attached.filter((one) => one !== undefined);
  if (content.length > 0) messages.push({ role: "user", content });
  return messages;
}

/** Tool messages have only text, so images and files of a result follow in a user message, where that is allowed. */
function isAttachable({ type }: Part, { abilities }: Target): boolean {
  return (type === "image" || type === "file") && abilities?.userAfterTool !== false;
}

function writeResult(
  part: ToolResultPart,
  path: string,
  attached: readonly Part[],
  { target, losses }: WriteContext,
): unknown {
  if (part.isError === true) addToolErrorLoss(losses, path);
  addCacheLoss(part, path, losses);
  takeNativeFields(part.native, "chat", path, losses);
  const [first] = part.content;
  if (first === undefined) return "";
  if (part.content.length === 1 && isPlainText(first)) return first.text;
  const texts = part.content.filter((one): one is TextPart => one.type === "text");
  for (const one of part.content)
    if (one.type !== "text" && !attached.includes(one))
      addLoss(losses, one.path ?? path, "This provider supports only text in tool results.");
  if (texts.length === 0) return attached.length === 0 ? "" : "The result is in the next message.";
  return texts.map((one) => writePart(one, one.path ?? path, target, losses));
}

/** A text that can be written as a string. */
function isPlainText(part: Part): part is TextPart {
  return (
    part.type === "text" &&
    part.cache === undefined &&
    part.native === undefined &&
    part.citations === undefined &&
    part.signature === undefined
  );
}
