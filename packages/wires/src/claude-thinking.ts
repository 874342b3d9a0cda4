// Claude's reasoning on Anthropic's API and on Bedrock: an effort, or on older models a token budget below the output limit.

import type { CanonicalRequest, Effort, Reasoning } from "./canonical/canonical-request.ts";
import { canReplay, effortToBudget } from "./canonical/reasoning-blobs.ts";
import type { Target } from "./canonical/wire-interfaces.ts";

export const CLAUDE_EFFORTS = [
  "low",
  "medium",
  "high",
  "xhigh",
  "max",
] as const satisfies readonly Effort[];

/** For models whose reasoning cannot be turned off. */
export const ALWAYS_REASONS = "This model always reasons; it gets its lowest effort.";

const BUDGET_MIN = 1_024;

interface BudgetOptions {
  readonly request: CanonicalRequest;
  readonly target: Target;
  readonly reasoning: Reasoning;
  readonly maxTokens: number | undefined;
  readonly addLoss: (reason: string) => void;
}

/** Undefined, with a loss, if the model cannot reason with a budget here. */
export function claudeBudget(
  options: BudgetOptions,
  wire: "messages" | "converse",
): number | undefined {
  const { reasoning, maxTokens, addLoss } = options;
  const wanted = Math.max(
    reasoning.budgetTokens ?? effortToBudget(reasoning.effort ?? "medium"),
    BUDGET_MIN,
  );
  const budget = maxTokens === undefined ? wanted : Math.min(wanted, maxTokens - 1);
  if (budget < BUDGET_MIN) {
    addLoss(`Reasoning requires an output limit above ${BUDGET_MIN} tokens.`);
    return undefined;
  }
  if (lacksReplayableReasoning(options, wire)) {
    addLoss(
      "This model can only continue to reason if the last tool call has its reasoning, and this one has none.",
    );
    return undefined;
  }
  if (budget < wanted)
    addLoss(`The reasoning budget was lowered to ${budget} to fit into the output limit.`);
  return budget;
}

function lacksReplayableReasoning(
  { request, target }: BudgetOptions,
  wire: "messages" | "converse",
): boolean {
  const last = request.turns.findLast((turn) => turn.role === "assistant" || turn.role === "user");
  if (last?.role !== "assistant" || !last.parts.some((part) => part.type === "tool_call"))
    return false;
  return !last.parts.some(
    (part) =>
      part.type === "reasoning" && part.blob !== undefined && canReplay(part.blob, wire, target),
  );
}

export function thinkingDisplay({ summary }: Reasoning): string | undefined {
  return summary === undefined ? undefined : summary === "none" ? "omitted" : "summarized";
}
