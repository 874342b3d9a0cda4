// Compactions and messages between agents that only OpenAI can read. A compaction can be dropped if the conversation still has the turns that it summarizes. OpenAI's
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
  const isUnreadable = (part: Part): boolean => isCompaction(part) || isEncrypted(part);
  if (wire === "responses" || !request.turns.some(({ parts }) => parts.some(isUnreadable)))
    return request;
  let isKept = false;
  const turns = request.turns.flatMap((turn): readonly Turn[] => {
    const parts = turn.parts.filter((part) => {
      if (isEncrypted(part)) {
        addHintLoss(losses, part.path ?? "input", "Only OpenAI can read it.");
        return false;
      }
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
  return (
    part.type === "native" &&
    part.wire === "responses" &&
    (part.value["type"] === "compaction" || part.value["type"] === "context_compaction")
  );
}

/** The text of a message between agents. */
function isEncrypted(part: Part): boolean {
  return (
    part.type === "native" &&
    part.wire === "responses" &&
    part.value["type"] === "encrypted_content"
  );
}
