import {
  addLoss,
  addNativePartLoss,
  addTurnNameLoss,
  addToleratedLoss,
  type Loss,
  takeNativeFields,
} from "../../canonical/canonical-losses.ts";
import type {
  FilePart,
  ImagePart,
  MediaPart,
  Part,
  ReasoningPart,
  TextPart,
  ToolCallPart,
} from "../../canonical/canonical-parts.ts";
import {
  type CanonicalRequest,
  isInstruction,
  type Turn,
  turnPath,
} from "../../canonical/canonical-request.ts";
import { withOpeningTurn } from "../../canonical/opening-turn.ts";
import { addReasoningLoss, addSignatureLoss, canReplay } from "../../canonical/reasoning-blobs.ts";
import { createCallIds } from "../../canonical/tools/call-ids.ts";
import type { Target } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import { checkToolInput } from "../../tool-checks.ts";
import { isGenerated } from "../reply/gemini-call-ids.ts";
import { isGenerationThreeOrLater } from "./gemini-model-generation.ts";
import { type TurnWriteContext, writeMedia } from "./write-gemini-parts.ts";
import { writeToolResults } from "./write-gemini-tool-results.ts";

/** Google's documented signature for another model's call: Gemini 3 rejects a step whose first call has no signature. */
export const SKIP_SIGNATURE_CHECK = "skip_thought_signature_validator";
/** Google's two documented texts that are no signature. */
export const SIGNATURES_WITHOUT_CHECK: ReadonlySet<string> = new Set([
  SKIP_SIGNATURE_CHECK,
  "context_engineering_is_the_way_to_go",
]);

interface Content {
  readonly role: "user" | "model";
  readonly parts: JsonObject[];
}

export interface WrittenTurns {
  readonly systemInstruction?: JsonObject | undefined;
  readonly contents: readonly JsonObject[];
}

/** Leading instructions go to `systemInstruction`, later ones become user content. Adjacent turns of one role are merged. */
export function writeTurns(
  request: CanonicalRequest,
  target: Target,
  losses: Loss[],
): WrittenTurns {
  const hasCallIds = isGenerationThreeOrLater(target);
  const context: TurnWriteContext = { target, losses, hasCallIds, ids: createCallIds("any") };
  const { turns } = request;
  const first = turns.findIndex((turn) => !isInstruction(turn));
  const leading = first < 0 ? turns : turns.slice(0, first);
  const system = leading.flatMap((turn) => writeTurn(turn, turnPath(turn), context));
  const contents: Content[] = [];
  let calls: readonly ToolCallPart[] = [];
  for (const turn of openingTurns(turns.slice(leading.length), losses)) {
    const parts =
      turn.role === "tool"
        ? writeToolResults(turn, calls, context)
        : writeTurn(turn, turnPath(turn), context);
    if (turn.role === "assistant") calls = turn.parts.filter((part) => part.type === "tool_call");
    addContent(contents, turn.role === "assistant" ? "model" : "user", parts);
  }
  if (contents.length === 0)
    losses.push({
      path: request.names?.turns ?? "messages",
      reason: "It has no content that this provider supports.",
    });
  return {
    systemInstruction: system.length === 0 ? undefined : { parts: system },
    contents: contents.map(({ role, parts }) => ({ role, parts })),
  };
}

// An assistant may speak first, but not with a call.
function openingTurns(turns: readonly Turn[], losses: Loss[]): readonly Turn[] {
  const startsWithCall = turns[0]?.parts.some((part) => part.type === "tool_call") === true;
  return startsWithCall ? withOpeningTurn(turns, losses) : turns;
}

function addContent(contents: Content[], role: Content["role"], parts: readonly JsonObject[]) {
  if (parts.length === 0) return;
  const last = contents.at(-1);
  if (last?.role === role) last.parts.push(...parts);
  else contents.push({ role, parts: [...parts] });
}

function writeTurn(turn: Turn, at: string, context: TurnWriteContext): JsonObject[] {
  takeNativeFields(turn.native, "gemini", turn.path, context.losses);
  addTurnNameLoss(context.losses, turn);
  const firstCall = turn.parts.findIndex((part) => part.type === "tool_call");
  const written: JsonObject[] = [];
  for (const [index, part] of turn.parts.entries()) {
    const path = part.path ?? `${at}.content[${index}]`;
    const writtenPart = isInstruction(turn)
      ? writeInstruction(part, path, context)
      : writePart(part, path, index === firstCall, context);
    if (writtenPart !== undefined) written.push(writtenPart);
  }
  return written;
}

function writeInstruction(
  part: Part,
  at: string,
  context: TurnWriteContext,
): JsonObject | undefined {
  addCacheLoss(part, at, context);
  if (part.type === "text") return writeText(part, at, context);
  return addLoss(context.losses, at, "This provider supports only text in instructions.");
}

function writePart(
  part: Part,
  at: string,
  isFirstCall: boolean,
  context: TurnWriteContext,
): JsonObject | undefined {
  addCacheLoss(part, at, context);
  switch (part.type) {
    case "text":
      return writeText(part, at, context);
    case "refusal":
      return part.text === "" ? undefined : { text: part.text };
    case "image":
    case "file":
    case "audio":
    case "video":
      return writeMediaPart(part, at, context);
    case "reasoning":
      return writeReasoning(part, at, context);
    case "tool_call":
      return writeCall(part, at, isFirstCall, context);
    case "native":
      return part.wire === "gemini" ? part.value : addNativePartLoss(context.losses, at, part);
    case "tool_result":
      return addLoss(context.losses, at, "A tool result is not allowed here.");
  }
}

function addCacheLoss(part: Part, at: string, { losses }: TurnWriteContext): void {
  if (!("cache" in part) || part.cache === undefined) return;
  addToleratedLoss(losses, `${at}.cache_control`, "This provider caches automatically.");
}

/** The part's signature if the target model produced it; another model's signature is a loss. */
function replayableSignature(
  part: TextPart | ImagePart | ToolCallPart,
  at: string,
  { target, losses }: TurnWriteContext,
): string | undefined {
  const { signature } = part;
  if (signature === undefined) return undefined;
  if (canReplay(signature, "gemini", target)) return signature.data;
  addSignatureLoss(losses, at, signature);
  return undefined;
}

function writeMediaPart(
  part: ImagePart | FilePart | MediaPart,
  at: string,
  context: TurnWriteContext,
): JsonObject | undefined {
  const written = writeMedia(part, at, context.target, context.losses);
  if (written === undefined) return undefined;
  return {
    ...written,
    thoughtSignature: part.type === "image" ? replayableSignature(part, at, context) : undefined,
    ...takeNativeFields(part.native, "gemini", at, context.losses),
  };
}

function writeText(part: TextPart, at: string, context: TurnWriteContext): JsonObject | undefined {
  const extra = takeNativeFields(part.native, "gemini", at, context.losses);
  const thoughtSignature = replayableSignature(part, at, context);
  if (part.text === "" && thoughtSignature === undefined) return undefined;
  return { text: part.text, thoughtSignature, ...extra };
}

function writeReasoning(
  { text, blob }: ReasoningPart,
  at: string,
  { target, losses }: TurnWriteContext,
): JsonObject | undefined {
  if (blob !== undefined && canReplay(blob, "gemini", target))
    return { text, thought: true, thoughtSignature: blob.data };
  return addReasoningLoss(losses, at);
}

function writeCall(
  part: ToolCallPart,
  at: string,
  isFirstCall: boolean,
  context: TurnWriteContext,
): JsonObject | undefined {
  const args = checkToolInput(part, at, context.losses);
  if (args === undefined) return undefined;
  const id = context.ids.forCall(part.id);
  return {
    functionCall: {
      id: context.hasCallIds && !isGenerated(part.id) ? id : undefined,
      name: part.name,
      args,
    },
    thoughtSignature:
      replayableSignature(part, at, context) ??
      (isFirstCall && context.hasCallIds ? SKIP_SIGNATURE_CHECK : undefined),
    ...takeNativeFields(part.native, "gemini", at, context.losses),
  };
}
