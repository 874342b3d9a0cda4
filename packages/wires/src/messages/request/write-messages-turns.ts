import {
  addLoss,
  addTurnNameLoss,
  type Loss,
  takeNativeFields,
} from "../../canonical/canonical-losses.ts";
import type { Part } from "../../canonical/canonical-parts.ts";
import {
  type CanonicalRequest,
  isInstruction,
  type Turn,
} from "../../canonical/canonical-request.ts";
import { withOpeningTurn } from "../../canonical/opening-turn.ts";
import { createCallIds } from "../../canonical/tools/call-ids.ts";
import type { Target } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import { type BlockWriteContext, writeBlock } from "./write-messages-blocks.ts";

type Role = "user" | "assistant" | "system";

interface Message {
  readonly role: Role;
  readonly content: JsonObject[];
  readonly extraFields: JsonObject | undefined;
  /** Tool results have to be first in a message. */
  readonly hasOnlyResults: boolean;
}

export interface WrittenTurns {
  readonly system?: unknown;
  readonly messages: readonly JsonObject[];
}

/** Leading instructions are written to `system`, later ones in place. Consecutive turns of a role become one message. */
export function writeTurns(
  request: CanonicalRequest,
  target: Target,
  losses: Loss[],
): WrittenTurns {
  const context: BlockWriteContext = { target, losses, ids: createCallIds("token64") };
  const { turns } = request;
  const first = turns.findIndex((turn) => turn.role !== "system" && turn.role !== "developer");
  const system = turns
    .slice(0, Math.max(0, first))
    .flatMap((turn) => writeInstructions(turn, context));
  const messages: Message[] = [];
  for (const turn of withOpeningTurn(turns.slice(Math.max(0, first)), losses))
    addTurn(messages, turn, context);
  return { system: collapseText(system), messages: messages.map(toMessageObject) };
}

function toMessageObject({ role, content, extraFields }: Message): JsonObject {
  return Object.assign({ role, content: collapseText(content) ?? [] }, extraFields);
}

function addTurn(messages: Message[], turn: Turn, context: BlockWriteContext): void {
  const role = roleOf(turn, context.target);
  const content = isInstruction(turn)
    ? writeInstructions(turn, context)
    : writeParts(turn, context);
  const extraFields = takeNativeFields(turn.native, "messages", turn.path, context.losses);
  addTurnNameLoss(context.losses, turn);
  if (content.length === 0) return;
  const last = messages.at(-1);
  // Tool results have to be first in a message, so they do not join one with other content.
  const joins =
    last !== undefined &&
    last.role === role &&
    extraFields === undefined &&
    last.extraFields === undefined &&
    (turn.role !== "tool" || last.hasOnlyResults);
  if (joins) last.content.push(...content);
  else messages.push({ role, content, extraFields, hasOnlyResults: turn.role === "tool" });
}

function roleOf(turn: Turn, target: Target): Role {
  if (turn.role === "assistant") return "assistant";
  if (turn.role === "user" || turn.role === "tool") return "user";
  return target.abilities?.midConversationInstructions === true ? "system" : "user";
}

function writeInstructions(turn: Turn, context: BlockWriteContext): JsonObject[] {
  const blocks: JsonObject[] = [];
  for (const [at, part] of turn.parts.entries()) {
    const path = part.path ?? `${turn.path ?? turn.role}[${at}]`;
    if (part.type === "text" || (part.type === "native" && part.wire === "messages"))
      blocks.push(...writeBlock(part, path, context));
    else addLoss(context.losses, path, "This provider supports only text in instructions.");
  }
  return blocks;
}

function writeParts(turn: Turn, context: BlockWriteContext): JsonObject[] {
  return turn.parts.flatMap((part: Part, at) => [
    ...writeBlock(part, part.path ?? `${turn.path ?? "messages"}.content[${at}]`, context),
  ]);
}

// A single plain text is written as a string, as most callers do.
function collapseText(blocks: readonly JsonObject[]): unknown {
  const [only] = blocks;
  if (only === undefined) return undefined;
  return blocks.length === 1 &&
    only["type"] === "text" &&
    only["cache_control"] === undefined &&
    only["citations"] === undefined
    ? only["text"]
    : blocks;
}
