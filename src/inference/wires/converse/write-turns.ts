import type { CanonicalRequest, JsonObject, Loss, Turn } from "../../canonical.ts";
import { createCallIds } from "../../canonical-call-ids.ts";
import { nativeFields } from "../../canonical-wire.ts";
import type { Target } from "../../canonical-wire.ts";
import { createDocumentNames } from "./document-names.ts";
import { writeBlock } from "./write-blocks.ts";
import type { BlockWriting } from "./write-blocks.ts";
import { settleMarks, writeCache } from "./write-cache.ts";

interface Message {
  readonly role: "user" | "assistant";
  readonly content: JsonObject[];
  readonly at: string;
}

export interface WrittenTurns {
  readonly system?: readonly JsonObject[] | undefined;
  readonly messages: readonly JsonObject[];
}

/** Leading instructions go to `system`; later ones keep their place as the user's. Neighbours of one role become one message. */
export function writeTurns(
  request: CanonicalRequest,
  target: Target,
  losses: Loss[],
): WrittenTurns {
  const writing: BlockWriting = {
    target,
    losses,
    ids: createCallIds("token64"),
    names: createDocumentNames(),
  };
  const { turns } = request;
  const first = turns.findIndex((turn) => !isInstruction(turn));
  const leading = first < 0 ? turns : turns.slice(0, first);
  const system = leading.flatMap((turn) => writeTurn(turn, writing));
  const messages: Message[] = [];
  for (const turn of turns.slice(leading.length)) {
    const role = turn.role === "assistant" ? "assistant" : "user";
    addBlocks(messages, role, placeOf(turn), writeTurn(turn, writing));
  }
  markEnd(request, messages, writing);
  noteOrder(turns.slice(leading.length), messages, writing);
  if (messages.length === 0)
    losses.push({
      path: request.names?.turns ?? "messages",
      why: "Nothing in it is of a kind that this provider takes.",
    });
  return {
    system: system.length === 0 ? undefined : system,
    messages: messages.map(({ role, content, at }) => ({
      role,
      content: settleMarks(content, at, losses),
    })),
  };
}

function isInstruction({ role }: Turn): boolean {
  return role === "system" || role === "developer";
}

function placeOf(turn: Turn): string {
  return turn.path ?? "messages";
}

function addBlocks(
  messages: Message[],
  role: Message["role"],
  at: string,
  blocks: readonly JsonObject[],
): void {
  if (blocks.length === 0) return;
  const last = messages.at(-1);
  if (last?.role === role) last.content.push(...blocks);
  else messages.push({ role, content: [...blocks], at });
}

function writeTurn(turn: Turn, writing: BlockWriting): JsonObject[] {
  const at = placeOf(turn);
  nativeFields(turn.native, "converse", turn.path, writing.losses);
  if (turn.name !== undefined)
    writing.losses.push({ path: `${at}.name`, why: "This provider's messages have no name." });
  return turn.parts.flatMap((part, index) => {
    const path = part.path ?? `${at}.content[${index}]`;
    if (!isInstruction(turn) || part.type === "text") return [...writeBlock(part, path, writing)];
    writing.losses.push({ path, why: "Instructions are text at this provider." });
    return [];
  });
}

// "Cache all of it" is a mark after the last block.
function markEnd({ cache, names }: CanonicalRequest, messages: Message[], writing: BlockWriting) {
  const last = messages.at(-1);
  if (cache === undefined || last === undefined || last.content.at(-1)?.["cachePoint"]) return;
  const at = names?.cache === "cache_control" ? "" : (names?.cache ?? "");
  const mark = writeCache(cache, at, writing);
  if (mark !== undefined) last.content.push(mark);
}

function noteOrder(
  turns: readonly Turn[],
  messages: readonly Message[],
  { target, losses }: BlockWriting,
): void {
  const [first] = turns;
  if (first?.role === "assistant")
    losses.push({
      path: placeOf(first),
      why: "At this provider a conversation begins with a user message.",
      always: true,
    });
  const last = turns.at(-1);
  if (last?.role === "assistant" && target.abilities?.prefill === false)
    losses.push({
      path: placeOf(last),
      why: "This model does not go on with a trailing assistant message.",
      always: true,
    });
  for (const { content, at } of messages)
    if (content.some((block) => "document" in block) && !content.some((block) => "text" in block))
      losses.push({
        path: at,
        why: "At this provider a document needs a text beside it.",
        always: true,
      });
}
