// Compactions that only OpenAI can read. A conversation that still has the turns before one loses nothing without it: OpenAI's
// own compaction drops the assistant's turns, so where one of them precedes it, the client has kept the conversation.

import { addHintLoss, type Loss } from "../../canonical/loss.ts";
import type { Part, WireName } from "../../canonical/parts.ts";
import type { CanonicalRequest, Turn } from "../../canonical/request.ts";

const REASON = "Only OpenAI can read it; the conversation before it is sent instead.";

export function withoutCompactions(
  request: CanonicalRequest,
  wire: WireName,
  losses: Loss[],
): CanonicalRequest {
  if (wire === "responses" || !request.turns.some(({ parts }) => parts.some(isCompaction)))
    return request;
  let isKept = false;
  const turns = request.turns.flatMap((turn): readonly Turn[] => {
    const parts = turn.parts.filter((part) => {
      if (!isCompaction(part)) {
        isKept ||= turn.role === "assistant" && part.type !== "native";
        return true;
      }
      if (isKept && part.type === "native") addHintLoss(losses, part.path ?? "input", REASON);
      return !isKept;
    });
    return parts.length === 0 && turn.parts.length > 0 ? [] : [{ ...turn, parts }];
  });
  return { ...request, turns };
}

function isCompaction(part: Part): boolean {
  return part.type === "native" && part.wire === "responses" && part.value["type"] === "compaction";
}
