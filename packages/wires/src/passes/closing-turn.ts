// A conversation that ends with the assistant's turn, for models that do not continue it: a user message asks them to.

import { addHintLoss } from "../canonical/canonical-losses.ts";
import type { CanonicalRequest, Turn } from "../canonical/canonical-request.ts";
import type { ChangedRequest, StepContext } from "./translation-step.ts";

export const CLOSING_TEXT = "Continue.";

export function withClosingTurn(
  request: CanonicalRequest,
  { losses }: Pick<StepContext, "losses">,
): ChangedRequest {
  const last = request.turns.at(-1);
  if (last?.role !== "assistant") return { request };
  const path = last.path ?? request.names?.turns ?? "messages";
  const reason = `This model does not continue a message of the assistant: "${CLOSING_TEXT}" is sent after it.`;
  addHintLoss(losses, path, reason);
  const turn: Turn = { role: "user", parts: [{ type: "text", text: CLOSING_TEXT }], path };
  return { request: { ...request, turns: [...request.turns, turn] } };
}
