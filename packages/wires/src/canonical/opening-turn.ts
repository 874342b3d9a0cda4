// For providers that require a conversation to start with a user message.

import { addHintLoss, type Loss } from "./canonical-losses.ts";
import type { Turn } from "./canonical-request.ts";

const OPENING_TEXT = "Continue.";

/** Inserts a neutral user message if the first turn after the leading instructions is the assistant's, and lists a loss. */
export function withOpeningTurn(turns: readonly Turn[], losses: Loss[]): readonly Turn[] {
  const [first] = turns;
  if (first?.role !== "assistant") return turns;
  const path = first.path ?? "messages";
  const reason = `This provider requires a user message first: "${OPENING_TEXT}" is sent before it.`;
  addHintLoss(losses, path, reason);
  return [{ role: "user", parts: [{ type: "text", text: OPENING_TEXT }], path }, ...turns];
}
