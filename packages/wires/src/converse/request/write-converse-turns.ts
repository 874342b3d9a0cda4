import {
  addFatalLoss,
  addTurnNameLoss,
  type Loss,
  takeNativeFields,
} from "../../canonical/canonical-losses.ts";
import {
  type CanonicalRequest,
  isInstruction,
  type Turn,
  turnPath,
} from "../../canonical/canonical-request.ts";
import { withOpeningTurn } from "../../canonical/opening-turn.ts";
import { createCallIds } from "../../canonical/tools/call-ids.ts";
import type { Target } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import { createDocumentNames } from "./converse-document-names.ts";
import { type BlockWriteContext, writeBlock } from "./write-converse-blocks.ts";
import { moveCachePointsBeforeMedia, writeCachePoint } from "./write-converse-cache-points.ts";

interface Message {
  readonly role: "user" | "assistant";
  readonly content: JsonObject[];
  readonly path: string;
}

export interface WrittenTurns {
  readonly system?: readonly JsonObject[] | undefined;
  readonly messages: readonly JsonObject[];
}

/** Leading instructions go to `system`, later ones become user messages. Adjacent turns of one role are merged. */
export function writeTurns(
  request: CanonicalRequest,
  target: Target,
  losses: Loss[],
): WrittenTurns {
  const context: BlockWriteContext = {
    target,
    losses,
    ids: createCallIds("token64"),
    names: createDocumentNames(),
  };
  const { turns } = request;
  const first = turns.findIndex((turn) => !isInstruction(turn));
  const leading = first < 0 ? turns : turns.slice(0, first);
  const system = leading.flatMap((turn) => writeTurn(turn, context));
  const messages: Message[] = [];
  for (const turn of withOpeningTurn(turns.slice(leading.length), losses)) {
    const role = turn.role === "assistant" ? "assistant" : "user";
    addBlocks(messages, role, turnPath(turn), writeTurn(turn, context));
  }
  addFinalCachePoint(request, messages, context);
  addDocumentLosses(messages, context);
  if (messages.length === 0)
    losses.push({
      path: request.names?.turns ?? "messages",
      reason: "It has no content that this provider supports.",
    });
  return {
    system: system.length === 0 ? undefined : system,
    messages: messages.map(({ role, content, path }) => ({
      role,
      content: moveCachePointsBeforeMedia(content, path, losses),
    })),
  };
}

function addBlocks(
  messages: Message[],
  role: Message["role"],
  path: string,
  blocks: readonly JsonObject[],
): void {
  if (blocks.length === 0) return;
  const last = messages.at(-1);
  if (last?.role === role) last.content.push(...blocks);
  else messages.push({ role, content: [...blocks], path });
}

function writeTurn(turn: Turn, context: BlockWriteContext): JsonObject[] {
  const at = turnPath(turn);
  takeNativeFields(turn.native, "converse", turn.path, context.losses);
  addTurnNameLoss(context.losses, turn);
  return turn.parts.flatMap((part, index) => {
    const path = part.path ?? `${at}.content[${index}]`;
    if (!isInstruction(turn) || part.type === "text") return [...writeBlock(part, path, context)];
    context.losses.push({ path, reason: "This provider supports only text in instructions." });
    return [];
  });
}

// A request-level breakpoint becomes a cache point after the last block.
function addFinalCachePoint(
  { cache, names }: CanonicalRequest,
  messages: Message[],
  context: BlockWriteContext,
) {
  const last = messages.at(-1);
  if (cache === undefined || last === undefined || last.content.at(-1)?.["cachePoint"]) return;
  const at = names?.cache === "cache_control" ? "" : (names?.cache ?? "");
  const cachePoint = writeCachePoint(cache, at, context);
  if (cachePoint !== undefined) last.content.push(cachePoint);
}

function addDocumentLosses(messages: readonly Message[], { losses }: BlockWriteContext): void {
  for (const { content, path } of messages)
    if (content.some((block) => "document" in block) && !content.some((block) => "text" in block))
      addFatalLoss(losses, path, "This provider requires text in the same message as a document.");
}
