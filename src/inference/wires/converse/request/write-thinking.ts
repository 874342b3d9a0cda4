// How hard to think, in the words of each family of models. Claude takes an effort, or on older models a budget of tokens
// that must fit into the limit; it does not think where a tool is forced, and not where the turn that it goes on with
// began without thinking.
import type { CanonicalRequest, Effort, Reasoning } from "../../../canonical/request.ts";
import type { Loss } from "../../../canonical/loss.ts";
import type { JsonObject } from "../../../../base/json.ts";
import {
  effortToBudget,
  clampEffort,
  budgetToEffort,
  canReplay,
} from "../../../canonical/reasoning.ts";
import type { Target } from "../../../canonical/wire.ts";
import { familyOf, reasoningControl } from "./model-family.ts";

const BUDGET_MIN = 1_024;
const CLAUDE_EFFORTS = ["low", "medium", "high", "xhigh", "max"] as const satisfies Effort[];
const GPT_OSS_EFFORTS = ["low", "medium", "high"] as const satisfies Effort[];
// With more, Nova takes no limit on its output.
const NOVA_EFFORTS = ["low", "medium"] as const satisfies Effort[];

export interface ThinkingLimits {
  readonly maxTokens: number | undefined;
  /** A tool call is forced. */
  readonly isToolForced: boolean;
}

interface ThinkingOptions extends ThinkingLimits {
  readonly request: CanonicalRequest;
  readonly target: Target;
  readonly reasoning: Reasoning;
  readonly isOff: boolean;
  readonly addLoss: (reason: string) => void;
}

/** Fields of `additionalModelRequestFields`. */
export function writeThinking(
  request: CanonicalRequest,
  target: Target,
  limits: ThinkingLimits,
  losses: Loss[],
): JsonObject | undefined {
  const { reasoning } = request;
  if (reasoning === undefined || !isRequested(reasoning)) return undefined;
  const path = request.names?.reasoning ?? "reasoning";
  const off = isOff(reasoning);
  const control = reasoningControl(target);
  if (control === "none") {
    if (!off) losses.push({ path, reason: "This model does not think by request." });
    return undefined;
  }
  const addLoss = (reason: string) => losses.push({ path, reason, tolerated: true });
  const options: ThinkingOptions = { request, target, reasoning, isOff: off, ...limits, addLoss };
  switch (familyOf(target)) {
    case "claude":
      return writeClaudeThinking(options, control);
    case "nova":
      return off
        ? undefined
        : {
            reasoningConfig: {
              type: "enabled",
              maxReasoningEffort: clampedEffort(options, NOVA_EFFORTS),
            },
          };
    case "gpt-oss":
    case "mistral":
    case "other":
      return { reasoning_effort: clampedEffort(options, GPT_OSS_EFFORTS) };
  }
}

function isRequested({ mode, effort, budgetTokens }: Reasoning): boolean {
  return mode !== undefined || effort !== undefined || budgetTokens !== undefined;
}

function isOff({ mode, effort, budgetTokens }: Reasoning): boolean {
  return mode === "off" || effort === "none" || budgetTokens === 0;
}

function writeClaudeThinking(
  options: ThinkingOptions,
  control: "effort" | "budget",
): JsonObject | undefined {
  const { isOff, isToolForced, reasoning, addLoss } = options;
  const effort =
    control === "effort" && !isOff ? clampedEffort(options, CLAUDE_EFFORTS) : undefined;
  const outputConfig = effort === undefined ? undefined : { output_config: { effort } };
  if (isOff) return { thinking: { type: "disabled" } };
  if (isToolForced) {
    addLoss("This model does not think where a tool call is forced.");
    return outputConfig;
  }
  if (control === "budget") return writeBudgetThinking(options);
  const { summary } = reasoning;
  const display = summary === undefined ? undefined : summary === "none" ? "omitted" : "summarized";
  return { thinking: { type: "adaptive", display }, ...outputConfig };
}

function writeBudgetThinking(options: ThinkingOptions): JsonObject | undefined {
  const { reasoning, maxTokens, addLoss } = options;
  const wanted = Math.max(
    reasoning.budgetTokens ?? effortToBudget(reasoning.effort ?? "medium"),
    BUDGET_MIN,
  );
  const budget = maxTokens === undefined ? wanted : Math.min(wanted, maxTokens - 1);
  if (budget < BUDGET_MIN) {
    addLoss(`Thinking needs a limit above ${BUDGET_MIN} tokens.`);
    return undefined;
  }
  if (lacksReplayableReasoning(options)) {
    addLoss("The tool call to go on with came without this model's own thinking.");
    return undefined;
  }
  if (budget < wanted) addLoss(`The budget was lowered to ${budget} to stay below the limit.`);
  return { thinking: { type: "enabled", budget_tokens: budget } };
}

function clampedEffort(
  { reasoning, isOff, target, addLoss }: ThinkingOptions,
  known: readonly Effort[],
): Effort | undefined {
  const { effort, budgetTokens } = reasoning;
  const wanted = isOff
    ? "none"
    : (effort ?? (budgetTokens === undefined ? undefined : budgetToEffort(budgetTokens)));
  if (wanted === undefined) return undefined;
  const fitted = clampEffort(wanted, target.abilities?.efforts ?? known);
  if (fitted !== wanted) addLoss(`This model has no effort ${wanted}; ${fitted} is the nearest.`);
  return fitted;
}

function lacksReplayableReasoning({ request, target }: ThinkingOptions): boolean {
  const last = request.turns.findLast((turn) => turn.role === "assistant" || turn.role === "user");
  if (last?.role !== "assistant" || !last.parts.some((part) => part.type === "tool_call"))
    return false;
  return !last.parts.some(
    (part) =>
      part.type === "reasoning" &&
      part.blob !== undefined &&
      canReplay(part.blob, "converse", target),
  );
}
