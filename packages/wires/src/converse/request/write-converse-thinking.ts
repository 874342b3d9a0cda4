// Writes the reasoning settings of each model family. Claude takes an effort, or on older models a token budget that must
// fit into the output limit. It cannot think when a tool call is required, or when it continues a turn that began without
// thinking.

import { addHintLoss, type Loss } from "../../canonical/canonical-losses.ts";
import type { CanonicalRequest, Effort, Reasoning } from "../../canonical/canonical-request.ts";
import {
  ALWAYS_REASONS,
  budgetToEffort,
  canReplay,
  clampEffort,
  effortToBudget,
} from "../../canonical/reasoning-blobs.ts";
import type { Target } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import { effortFieldOf, familyOf, reasoningControl } from "./converse-model-family.ts";

const BUDGET_MIN = 1_024;
const CLAUDE_EFFORTS = ["low", "medium", "high", "xhigh", "max"] as const satisfies Effort[];

export interface ThinkingLimits {
  readonly maxTokens: number | undefined;
  /** A tool call is required. */
  readonly isToolRequired: boolean;
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
    if (!off) addHintLoss(losses, path, "This model's reasoning cannot be configured.");
    return undefined;
  }
  const addLoss = (reason: string) => losses.push({ path, reason, tolerated: true });
  const options: ThinkingOptions = { request, target, reasoning, isOff: off, ...limits, addLoss };
  if (familyOf(target) === "claude") return writeClaudeThinking(options, control);
  const field = effortFieldOf(target);
  if (field === undefined || (off && field.isOffByDefault === true)) return undefined;
  // A request to think without an effort changes nothing at a model that thinks by default.
  const unset = field.isOffByDefault === true ? clampEffort("medium", field.efforts) : undefined;
  const effort = clampedEffort(options, field.efforts) ?? unset;
  return effort === undefined ? undefined : field.write(effort);
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
  const { isOff, isToolRequired, reasoning, addLoss } = options;
  const effort =
    control === "effort" && !isOff ? clampedEffort(options, CLAUDE_EFFORTS) : undefined;
  const outputConfig = effort === undefined ? undefined : { output_config: { effort } };
  if (isOff) return writeOff(options);
  if (isToolRequired) {
    addLoss("This model does not reason when a tool call is required.");
    return outputConfig;
  }
  if (control === "budget") return writeBudgetThinking(options);
  const { summary } = reasoning;
  const display = summary === undefined ? undefined : summary === "none" ? "omitted" : "summarized";
  return { thinking: { type: "adaptive", display }, ...outputConfig };
}

function writeOff({ target, addLoss }: ThinkingOptions): JsonObject {
  const off = target.abilities?.thinkingOff ?? "disabled";
  if (off !== "never") return { thinking: { type: off } };
  addLoss(ALWAYS_REASONS);
  return { output_config: { effort: "low" } };
}

function writeBudgetThinking(options: ThinkingOptions): JsonObject | undefined {
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
  if (lacksReplayableReasoning(options)) {
    addLoss(
      "This model can only continue to reason if the last tool call has its reasoning, and this one has none.",
    );
    return undefined;
  }
  if (budget < wanted)
    addLoss(`The reasoning budget was lowered to ${budget} to fit into the output limit.`);
  return { thinking: { type: "enabled", budget_tokens: budget } };
}

function clampedEffort(
  { reasoning, isOff, target, addLoss }: ThinkingOptions,
  defaults: readonly Effort[],
): Effort | undefined {
  const { effort, budgetTokens } = reasoning;
  const wanted = isOff
    ? "none"
    : (effort ?? (budgetTokens === undefined ? undefined : budgetToEffort(budgetTokens)));
  if (wanted === undefined) return undefined;
  const effortUsed = clampEffort(wanted, target.abilities?.efforts ?? defaults);
  if (effortUsed !== wanted)
    addLoss(`This model does not support the effort ${wanted}; ${effortUsed} is used instead.`);
  return effortUsed;
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
