// How hard to think, in the words of each family of models. Claude takes an effort, or on older models a budget of tokens
// that must fit into the limit; it does not think where a tool is forced, and not where the turn that it goes on with
// began without thinking.
import type { CanonicalRequest, Effort, JsonObject, Loss, Reasoning } from "../../canonical.ts";
import {
  budgetOfEffort,
  clampEffort,
  effortOfBudget,
  mayReplay,
} from "../../canonical-reasoning.ts";
import type { Target } from "../../canonical-wire.ts";
import { familyOf, reasoningOf } from "./model-family.ts";

const BUDGET_MIN = 1_024;
const CLAUDE_EFFORTS = ["low", "medium", "high", "xhigh", "max"] as const satisfies Effort[];
const OPEN_EFFORTS = ["low", "medium", "high"] as const satisfies Effort[];
// With more, Nova takes no limit on its output.
const NOVA_EFFORTS = ["low", "medium"] as const satisfies Effort[];

export interface Limits {
  readonly maxTokens: number | undefined;
  /** A tool call is forced. */
  readonly forced: boolean;
}

interface Asked extends Limits {
  readonly request: CanonicalRequest;
  readonly target: Target;
  readonly reasoning: Reasoning;
  readonly off: boolean;
  readonly note: (why: string) => void;
}

/** Fields of `additionalModelRequestFields`. */
export function writeThinking(
  request: CanonicalRequest,
  target: Target,
  limits: Limits,
  losses: Loss[],
): JsonObject | undefined {
  const { reasoning } = request;
  if (reasoning === undefined || !isAsked(reasoning)) return undefined;
  const path = request.names?.reasoning ?? "reasoning";
  const off = isOff(reasoning);
  const way = reasoningOf(target);
  if (way === "none") {
    if (!off) losses.push({ path, why: "This model does not think by request." });
    return undefined;
  }
  const note = (why: string) => losses.push({ path, why, byRule: true });
  const asked: Asked = { request, target, reasoning, off, ...limits, note };
  switch (familyOf(target)) {
    case "claude":
      return thinkAsClaude(asked, way);
    case "nova":
      return off
        ? undefined
        : {
            reasoningConfig: { type: "enabled", maxReasoningEffort: effortOf(asked, NOVA_EFFORTS) },
          };
    case "gpt-oss":
    case "mistral":
    case "other":
      return { reasoning_effort: effortOf(asked, OPEN_EFFORTS) };
  }
}

function isAsked({ mode, effort, budgetTokens }: Reasoning): boolean {
  return mode !== undefined || effort !== undefined || budgetTokens !== undefined;
}

function isOff({ mode, effort, budgetTokens }: Reasoning): boolean {
  return mode === "off" || effort === "none" || budgetTokens === 0;
}

function thinkAsClaude(asked: Asked, way: "effort" | "budget"): JsonObject | undefined {
  const { off, forced, reasoning, note } = asked;
  const effort = way === "effort" && !off ? effortOf(asked, CLAUDE_EFFORTS) : undefined;
  const outputConfig = effort === undefined ? undefined : { output_config: { effort } };
  if (off) return { thinking: { type: "disabled" } };
  if (forced) {
    note("This model does not think where a tool call is forced.");
    return outputConfig;
  }
  if (way === "budget") return thinkByBudget(asked);
  const { summary } = reasoning;
  const display = summary === undefined ? undefined : summary === "none" ? "omitted" : "summarized";
  return { thinking: { type: "adaptive", display }, ...outputConfig };
}

function thinkByBudget(asked: Asked): JsonObject | undefined {
  const { reasoning, maxTokens, note } = asked;
  const wanted = Math.max(
    reasoning.budgetTokens ?? budgetOfEffort(reasoning.effort ?? "medium"),
    BUDGET_MIN,
  );
  const budget = maxTokens === undefined ? wanted : Math.min(wanted, maxTokens - 1);
  if (budget < BUDGET_MIN) {
    note(`Thinking needs a limit above ${BUDGET_MIN} tokens.`);
    return undefined;
  }
  if (lacksThinking(asked)) {
    note("The tool call to go on with came without this model's own thinking.");
    return undefined;
  }
  if (budget < wanted) note(`The budget was lowered to ${budget} to stay below the limit.`);
  return { thinking: { type: "enabled", budget_tokens: budget } };
}

function effortOf(
  { reasoning, off, target, note }: Asked,
  known: readonly Effort[],
): Effort | undefined {
  const { effort, budgetTokens } = reasoning;
  const wanted = off
    ? "none"
    : (effort ?? (budgetTokens === undefined ? undefined : effortOfBudget(budgetTokens)));
  if (wanted === undefined) return undefined;
  const fitted = clampEffort(wanted, target.abilities?.efforts ?? known);
  if (fitted !== wanted) note(`This model has no effort ${wanted}; ${fitted} is the nearest.`);
  return fitted;
}

function lacksThinking({ request, target }: Asked): boolean {
  const last = request.turns.findLast((turn) => turn.role === "assistant" || turn.role === "user");
  if (last?.role !== "assistant" || !last.parts.some((part) => part.type === "tool_call"))
    return false;
  return !last.parts.some(
    (part) =>
      part.type === "reasoning" &&
      part.blob !== undefined &&
      mayReplay(part.blob, "converse", target),
  );
}
