import type { CanonicalRequest, Turn } from "../../../canonical/request.ts";
import type {
  FilePart,
  ImagePart,
  MediaPart,
  Part,
  ReasoningPart,
  TextPart,
  ToolCallPart,
} from "../../../canonical/parts.ts";
import { type Loss, takeNativeFields } from "../../../canonical/loss.ts";
import { type JsonObject, parseObject } from "../../../../base/json.ts";
import { createCallIds, type CallIds } from "../../../canonical/call-ids.ts";
import { addSignatureLoss, canReplay } from "../../../canonical/reasoning.ts";
import type { Target } from "../../../canonical/wire.ts";
import { isGenerated } from "../reply/call-ids.ts";
import { isThirdGeneration } from "./model-generation.ts";
import { writeMedia } from "./write-parts.ts";
import { writeToolResults } from "./write-tool-results.ts";

/** The documented word for a call that some other model made: newer models refuse a step whose first call has no signature. */
const SKIP_SIGNATURE_CHECK = "skip_thought_signature_validator";

export interface TurnWriteContext {
  readonly target: Target;
  readonly losses: Loss[];
  readonly ids: CallIds;
  /** Calls have ids; older models go by name and order. */
  readonly hasCallIds: boolean;
}

interface Content {
  readonly role: "user" | "model";
  readonly parts: JsonObject[];
}

export interface WrittenTurns {
  readonly systemInstruction?: JsonObject | undefined;
  readonly contents: readonly JsonObject[];
}

/** Leading instructions are hoisted, part by part; later ones keep their place as the user's. Neighbours of one role become one content. */
export function writeTurns(
  request: CanonicalRequest,
  target: Target,
  losses: Loss[],
): WrittenTurns {
  const hasCallIds = isThirdGeneration(target);
  const context: TurnWriteContext = { target, losses, hasCallIds, ids: createCallIds("any") };
  const { turns } = request;
  const first = turns.findIndex((turn) => !isInstruction(turn));
  const leading = first < 0 ? turns : turns.slice(0, first);
  const system = leading.flatMap((turn) => writeTurn(turn, turnPath(turn), context));
  const contents: Content[] = [];
  let calls: readonly ToolCallPart[] = [];
  for (const turn of turns.slice(leading.length)) {
    const parts =
      turn.role === "tool"
        ? writeToolResults(turn, calls, context)
        : writeTurn(turn, turnPath(turn), context);
    if (turn.role === "assistant") calls = turn.parts.filter((part) => part.type === "tool_call");
    addContent(contents, turn.role === "assistant" ? "model" : "user", parts);
  }
  addOrderLosses(turns.slice(leading.length), context);
  if (contents.length === 0)
    losses.push({
      path: request.names?.turns ?? "messages",
      reason: "Nothing in it is of a kind that this provider takes.",
    });
  return {
    systemInstruction: system.length === 0 ? undefined : { parts: system },
    contents: contents.map(({ role, parts }) => ({ role, parts })),
  };
}

function isInstruction({ role }: Turn): boolean {
  return role === "system" || role === "developer";
}

function turnPath(turn: Turn): string {
  return turn.path ?? "messages";
}

function addContent(contents: Content[], role: Content["role"], parts: readonly JsonObject[]) {
  if (parts.length === 0) return;
  const last = contents.at(-1);
  if (last?.role === role) last.parts.push(...parts);
  else contents.push({ role, parts: [...parts] });
}

function addOrderLosses(turns: readonly Turn[], { target, losses }: TurnWriteContext): void {
  const [first] = turns;
  if (first?.role === "assistant" && first.parts.some((part) => part.type === "tool_call"))
    losses.push({
      path: turnPath(first),
      reason: "At this provider a tool call comes after a user's message.",
      fatal: true,
    });
  const last = turns.at(-1);
  if (last?.role === "assistant" && target.abilities?.prefill === false)
    losses.push({
      path: turnPath(last),
      reason: "This model does not go on with a trailing assistant message.",
      fatal: true,
    });
}

function writeTurn(turn: Turn, at: string, context: TurnWriteContext): JsonObject[] {
  takeNativeFields(turn.native, "gemini", turn.path, context.losses);
  if (turn.name !== undefined)
    context.losses.push({ path: `${at}.name`, reason: "This provider's messages have no name." });
  const firstCall = turn.parts.findIndex((part) => part.type === "tool_call");
  const written: JsonObject[] = [];
  for (const [index, part] of turn.parts.entries()) {
    const path = part.path ?? `${at}.content[${index}]`;
    const one = isInstruction(turn)
      ? writeInstruction(part, path, context)
      : writePart(part, path, index === firstCall, context);
    if (one !== undefined) written.push(one);
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
  return addLoss(context, at, "Instructions are text at this provider.");
}

function writePart(
  part: Part,
  at: string,
  opensStep: boolean,
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
      return writeCall(part, at, opensStep, context);
    case "native":
      if (part.wire === "gemini") return part.value;
      return addLoss(
        context,
        at,
        `This content is of the ${part.wire} API and has no equivalent at this model's provider.`,
      );
    case "tool_result":
      return addLoss(context, at, "A tool result cannot stand here.");
  }
}

function addCacheLoss(part: Part, at: string, { losses }: TurnWriteContext): void {
  if (!("cache" in part) || part.cache === undefined) return;
  losses.push({
    path: `${at}.cache_control`,
    reason: "This provider caches by itself.",
    tolerated: true,
  });
}

/** The signature of a thing goes back only to its maker. */
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
  losses.push({
    path: at,
    reason: "Earlier reasoning goes back only to the provider and model that made it.",
    tolerated: true,
  });
  return undefined;
}

function writeCall(
  part: ToolCallPart,
  at: string,
  opensStep: boolean,
  context: TurnWriteContext,
): JsonObject | undefined {
  if (part.custom === true)
    return addLoss(context, at, "This provider has no tools with free text for input.");
  const args = parseObject(part.arguments);
  if (args === undefined)
    return addLoss(context, at, "The arguments of a tool call must be a JSON object.");
  const id = context.ids.forCall(part.id);
  return {
    functionCall: {
      id: context.hasCallIds && !isGenerated(part.id) ? id : undefined,
      name: part.name,
      args,
    },
    thoughtSignature:
      replayableSignature(part, at, context) ??
      (opensStep && context.hasCallIds ? SKIP_SIGNATURE_CHECK : undefined),
    ...takeNativeFields(part.native, "gemini", at, context.losses),
  };
}

function addLoss({ losses }: TurnWriteContext, path: string, reason: string): undefined {
  losses.push({ path, reason });
  return undefined;
}
