// Compactions that only OpenAI can read. One can be dropped if the conversation still has the turns that it summarizes. OpenAI's
// own compaction removes the assistant's turns, so a turn of the assistant before it means that the client has kept them.

import { addHintLoss, type Loss } from "../canonical/canonical-losses.ts";
import type { Part, WireName } from "../canonical/canonical-parts.ts";
import type { CanonicalRequest, Turn } from "../canonical/canonical-request.ts";

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
