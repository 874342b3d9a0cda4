import type { CanonicalRequest, JsonObject, Loss, Part, Turn } from "../../canonical.ts";
import { createCallIds } from "../../canonical-call-ids.ts";
import { nativeFields } from "../../canonical-wire.ts";
import type { Target } from "../../canonical-wire.ts";
import { writeBlock } from "./write-blocks.ts";
import type { BlockWriting } from "./write-blocks.ts";

type Role = "user" | "assistant" | "system";

interface Message {
  readonly role: Role;
  readonly content: JsonObject[];
  readonly extra: JsonObject | undefined;
  /** True where the blocks so far are tool results, which stand before all else. */
  readonly results: boolean;
}

export interface WrittenTurns {
  readonly system?: unknown;
  readonly messages: readonly JsonObject[];
}

/** Leading instructions go to `system`, later ones keep their place. Neighbours of one role become one message. */
export function writeTurns(
  request: CanonicalRequest,
  target: Target,
  losses: Loss[],
): WrittenTurns {
  const writing: BlockWriting = { target, losses, ids: createCallIds("token64") };
  const { turns } = request;
  const first = turns.findIndex((turn) => turn.role !== "system" && turn.role !== "developer");
  const system = turns
    .slice(0, Math.max(0, first))
    .flatMap((turn) => writeInstructions(turn, writing));
  const messages: Message[] = [];
  for (const turn of turns.slice(Math.max(0, first))) addTurn(messages, turn, writing);
  const opening = turns[first];
  if (opening?.role === "assistant")
    losses.push({
      path: opening.path ?? "messages",
      why: "At this provider a conversation begins with a user message.",
      always: true,
    });
  const closing = turns.at(-1);
  if (closing?.role === "assistant" && target.abilities?.prefill === false) {
    losses.push({
      path: closing.path ?? "messages",
      why: "This model does not go on with a trailing assistant message.",
      always: true,
    });
  }
  return { system: simplify(system), messages: messages.map(closeMessage) };
}

function closeMessage({ role, content, extra }: Message): JsonObject {
  return Object.assign({ role, content: simplify(content) ?? [] }, extra);
}

function addTurn(messages: Message[], turn: Turn, writing: BlockWriting): void {
  const role = roleOf(turn, writing.target);
  const content =
    turn.role === "system" || turn.role === "developer"
      ? writeInstructions(turn, writing)
      : writeParts(turn, writing);
  const extra = nativeFields(turn.native, "messages", turn.path, writing.losses);
  if (turn.name !== undefined)
    writing.losses.push({
      path: `${turn.path ?? "messages"}.name`,
      why: "This provider's messages have no name.",
    });
  if (content.length === 0) return;
  const last = messages.at(-1);
  // A tool result never joins a message that has begun with something else: it must come first.
  const joins =
    last !== undefined &&
    last.role === role &&
    extra === undefined &&
    last.extra === undefined &&
    (turn.role !== "tool" || last.results);
  if (joins) last.content.push(...content);
  else messages.push({ role, content, extra, results: turn.role === "tool" });
}

function roleOf(turn: Turn, target: Target): Role {
  if (turn.role === "assistant") return "assistant";
  if (turn.role === "user" || turn.role === "tool") return "user";
  return target.abilities?.laterInstructions === true ? "system" : "user";
}

function writeInstructions(turn: Turn, writing: BlockWriting): JsonObject[] {
  const blocks: JsonObject[] = [];
  for (const [at, part] of turn.parts.entries()) {
    const path = part.path ?? `${turn.path ?? turn.role}[${at}]`;
    if (part.type === "text" || (part.type === "native" && part.wire === "messages"))
      blocks.push(...writeBlock(part, path, writing));
    else writing.losses.push({ path, why: "Instructions are text at this provider." });
  }
  return blocks;
}

function writeParts(turn: Turn, writing: BlockWriting): JsonObject[] {
  return turn.parts.flatMap((part: Part, at) => [
    ...writeBlock(part, part.path ?? `${turn.path ?? "messages"}.content[${at}]`, writing),
  ]);
}

// One text without marks is written as a string, as most callers write it.
function simplify(blocks: readonly JsonObject[]): unknown {
  const [only] = blocks;
  if (only === undefined) return undefined;
  return blocks.length === 1 &&
    only["type"] === "text" &&
    only["cache_control"] === undefined &&
    only["citations"] === undefined
    ? only["text"]
    : blocks;
}
