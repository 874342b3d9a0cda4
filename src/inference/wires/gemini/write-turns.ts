import type {
  CanonicalRequest,
  FilePart,
  ImagePart,
  JsonObject,
  Loss,
  MediaPart,
  Part,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  Turn,
} from "../../canonical.ts";
import { createCallIds } from "../../canonical-call-ids.ts";
import type { CallIds } from "../../canonical-call-ids.ts";
import { parseObject } from "../../canonical-json.ts";
import { loseSignature, mayReplay } from "../../canonical-reasoning.ts";
import { nativeFields } from "../../canonical-wire.ts";
import type { Target } from "../../canonical-wire.ts";
import { isMinted } from "./call-ids.ts";
import { isThirdGeneration } from "./model-generation.ts";
import { writeMedia } from "./write-parts.ts";
import { writeResults } from "./write-results.ts";

/** The documented word for a call that some other model made: newer models refuse a step whose first call has no signature. */
const NO_SIGNATURE = "skip_thought_signature_validator";

export interface TurnWriting {
  readonly target: Target;
  readonly losses: Loss[];
  readonly ids: CallIds;
  /** Calls have ids; older models go by name and order. */
  readonly named: boolean;
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
  const named = isThirdGeneration(target);
  const writing: TurnWriting = { target, losses, named, ids: createCallIds("any") };
  const { turns } = request;
  const first = turns.findIndex((turn) => !isInstruction(turn));
  const leading = first < 0 ? turns : turns.slice(0, first);
  const system = leading.flatMap((turn) => writeTurn(turn, placeOf(turn), writing));
  const contents: Content[] = [];
  let calls: readonly ToolCallPart[] = [];
  for (const turn of turns.slice(leading.length)) {
    const parts =
      turn.role === "tool"
        ? writeResults(turn, calls, writing)
        : writeTurn(turn, placeOf(turn), writing);
    if (turn.role === "assistant") calls = turn.parts.filter((part) => part.type === "tool_call");
    addContent(contents, turn.role === "assistant" ? "model" : "user", parts);
  }
  noteOrder(turns.slice(leading.length), writing);
  if (contents.length === 0)
    losses.push({
      path: request.names?.turns ?? "messages",
      why: "Nothing in it is of a kind that this provider takes.",
    });
  return {
    systemInstruction: system.length === 0 ? undefined : { parts: system },
    contents: contents.map(({ role, parts }) => ({ role, parts })),
  };
}

function isInstruction({ role }: Turn): boolean {
  return role === "system" || role === "developer";
}

function placeOf(turn: Turn): string {
  return turn.path ?? "messages";
}

function addContent(contents: Content[], role: Content["role"], parts: readonly JsonObject[]) {
  if (parts.length === 0) return;
  const last = contents.at(-1);
  if (last?.role === role) last.parts.push(...parts);
  else contents.push({ role, parts: [...parts] });
}

function noteOrder(turns: readonly Turn[], { target, losses }: TurnWriting): void {
  const [first] = turns;
  if (first?.role === "assistant" && first.parts.some((part) => part.type === "tool_call"))
    losses.push({
      path: placeOf(first),
      why: "At this provider a tool call comes after a user's message.",
      always: true,
    });
  const last = turns.at(-1);
  if (last?.role === "assistant" && target.abilities?.prefill === false)
    losses.push({
      path: placeOf(last),
      why: "This model does not go on with a trailing assistant message.",
      always: true,
    });
}

function writeTurn(turn: Turn, at: string, writing: TurnWriting): JsonObject[] {
  nativeFields(turn.native, "gemini", turn.path, writing.losses);
  if (turn.name !== undefined)
    writing.losses.push({ path: `${at}.name`, why: "This provider's messages have no name." });
  const firstCall = turn.parts.findIndex((part) => part.type === "tool_call");
  const written: JsonObject[] = [];
  for (const [index, part] of turn.parts.entries()) {
    const path = part.path ?? `${at}.content[${index}]`;
    const one = isInstruction(turn)
      ? writeInstruction(part, path, writing)
      : writePart(part, path, index === firstCall, writing);
    if (one !== undefined) written.push(one);
  }
  return written;
}

function writeInstruction(part: Part, at: string, writing: TurnWriting): JsonObject | undefined {
  noteCache(part, at, writing);
  if (part.type === "text") return writeText(part, at, writing);
  return lose(writing, at, "Instructions are text at this provider.");
}

function writePart(
  part: Part,
  at: string,
  opensStep: boolean,
  writing: TurnWriting,
): JsonObject | undefined {
  noteCache(part, at, writing);
  switch (part.type) {
    case "text":
      return writeText(part, at, writing);
    case "refusal":
      return part.text === "" ? undefined : { text: part.text };
    case "image":
    case "file":
    case "audio":
    case "video":
      return writeSeen(part, at, writing);
    case "reasoning":
      return writeReasoning(part, at, writing);
    case "tool_call":
      return writeCall(part, at, opensStep, writing);
    case "native":
      if (part.wire === "gemini") return part.value;
      return lose(
        writing,
        at,
        `This content is of the ${part.wire} API and has no equivalent at this model's provider.`,
      );
    case "tool_result":
      return lose(writing, at, "A tool result cannot stand here.");
  }
}

function noteCache(part: Part, at: string, { losses }: TurnWriting): void {
  if (!("cache" in part) || part.cache === undefined) return;
  losses.push({
    path: `${at}.cache_control`,
    why: "This provider caches by itself.",
    byRule: true,
  });
}

/** The signature of a thing goes back only to its maker. */
function signatureOf(
  part: TextPart | ImagePart | ToolCallPart,
  at: string,
  { target, losses }: TurnWriting,
): string | undefined {
  const { signature } = part;
  if (signature === undefined) return undefined;
  if (mayReplay(signature, "gemini", target)) return signature.data;
  loseSignature(losses, at, signature);
  return undefined;
}

function writeSeen(
  part: ImagePart | FilePart | MediaPart,
  at: string,
  writing: TurnWriting,
): JsonObject | undefined {
  const written = writeMedia(part, at, writing.target, writing.losses);
  if (written === undefined) return undefined;
  return {
    ...written,
    thoughtSignature: part.type === "image" ? signatureOf(part, at, writing) : undefined,
    ...nativeFields(part.native, "gemini", at, writing.losses),
  };
}

function writeText(part: TextPart, at: string, writing: TurnWriting): JsonObject | undefined {
  const extra = nativeFields(part.native, "gemini", at, writing.losses);
  const thoughtSignature = signatureOf(part, at, writing);
  if (part.text === "" && thoughtSignature === undefined) return undefined;
  return { text: part.text, thoughtSignature, ...extra };
}

function writeReasoning(
  { text, blob }: ReasoningPart,
  at: string,
  { target, losses }: TurnWriting,
): JsonObject | undefined {
  if (blob !== undefined && mayReplay(blob, "gemini", target))
    return { text, thought: true, thoughtSignature: blob.data };
  losses.push({
    path: at,
    why: "Earlier reasoning goes back only to the provider and model that made it.",
    byRule: true,
  });
  return undefined;
}

function writeCall(
  part: ToolCallPart,
  at: string,
  opensStep: boolean,
  writing: TurnWriting,
): JsonObject | undefined {
  if (part.custom === true)
    return lose(writing, at, "This provider has no tools with free text for input.");
  const args = parseObject(part.arguments);
  if (args === undefined)
    return lose(writing, at, "The arguments of a tool call must be a JSON object.");
  const id = writing.ids.ofCall(part.id);
  return {
    functionCall: {
      id: writing.named && !isMinted(part.id) ? id : undefined,
      name: part.name,
      args,
    },
    thoughtSignature:
      signatureOf(part, at, writing) ?? (opensStep && writing.named ? NO_SIGNATURE : undefined),
    ...nativeFields(part.native, "gemini", at, writing.losses),
  };
}

function lose({ losses }: TurnWriting, path: string, why: string): undefined {
  losses.push({ path, why });
  return undefined;
}
