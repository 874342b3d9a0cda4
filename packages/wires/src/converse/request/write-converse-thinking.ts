// Writes the reasoning settings of each model family. Claude takes an effort, or on older models a token budget that must
// fit into the output limit. It cannot think when a tool call is required, or when it continues a turn that began without
// thinking.

import { addHintLoss, type Loss } from "../../canonical/canonical-losses.ts";
import type { CanonicalRequest, Effort, Reasoning } from "../../canonical/canonical-request.ts";
import {
  clampEffort,
  isReasoningOff,
  isReasoningSet,
  requestedEffort,
  supportedEffort,
} from "../../canonical/reasoning-blobs.ts";
import type { Target } from "../../canonical/wire-interfaces.ts";
import {
  ALWAYS_REASONS,
  CLAUDE_EFFORTS,
  claudeBudget,
  thinkingDisplay,
} from "../../claude-thinking.ts";
import type { JsonObject } from "../../json-fields.ts";
import { effortFieldOf, familyOf, reasoningControl } from "./converse-model-family.ts";

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
  if (reasoning === undefined || !isReasoningSet(reasoning)) return undefined;
  const path = request.names?.reasoning ?? "reasoning";
  const off = isReasoningOff(reasoning);
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
  return { thinking: { type: "adaptive", display: thinkingDisplay(reasoning) }, ...outputConfig };
}

function writeOff({ target, addLoss }: ThinkingOptions): JsonObject {
  const off = target.abilities?.thinkingOff ?? "disabled";
  if (off !== "never") return { thinking: { type: off } };
  addLoss(ALWAYS_REASONS);
  return { output_config: { effort: "low" } };
}

function writeBudgetThinking(options: ThinkingOptions): JsonObject | undefined {
  const budget = claudeBudget(options, "converse");
  return budget === undefined
    ? undefined
    : { thinking: { type: "enabled", budget_tokens: budget } };
}

function clampedEffort(
  { reasoning, target, addLoss }: ThinkingOptions,
  defaults: readonly Effort[],
): Effort | undefined {
  const wanted = requestedEffort(reasoning);
  return wanted && supportedEffort(wanted, target.abilities?.efforts ?? defaults, addLoss);
}
