// Claude's reasoning is set by an effort, or on older models by a token budget below `max_tokens`. Claude rejects thinking
// with a forced tool call, and a budget when it continues a turn that did not start with its own thinking.

import {
  addHintLoss,
  addToleratedLoss,
  fieldPath,
  type Loss,
} from "../../canonical/canonical-losses.ts";
import type { CanonicalRequest, Effort, Reasoning } from "../../canonical/canonical-request.ts";
import {
  budgetToEffort,
  isReasoningOff,
  isReasoningSet,
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

export interface WrittenThinking {
  readonly thinking?: JsonObject | undefined;
  readonly effort?: Effort | undefined;
}

interface ThinkingOptions {
  readonly request: CanonicalRequest;
  readonly target: Target;
  readonly reasoning: Reasoning;
  readonly maxTokens: number;
  readonly isToolForced: boolean;
  readonly addLoss: (reason: string) => void;
}

export function writeThinking(
  request: CanonicalRequest,
  target: Target,
  limits: { readonly maxTokens: number; readonly isToolForced: boolean },
  losses: Loss[],
): WrittenThinking {
  const { reasoning } = request;
  if (reasoning === undefined) return {};
  const path = fieldPath(request, "reasoning");
  const addLoss = (reason: string) => addToleratedLoss(losses, path, reason);
  if (!isReasoningSet(reasoning)) return {};
  const isOff = isReasoningOff(reasoning);
  if (target.abilities?.reasoning !== "none")
    return selectThinking({ request, target, reasoning, ...limits, addLoss }, isOff);
  if (!isOff) addHintLoss(losses, path, "This model's reasoning cannot be configured.");
  return {};
}

function selectThinking(options: ThinkingOptions, isOff: boolean): WrittenThinking {
  const { mode } = options.reasoning;
  if (isOff) return writeOff(options);
  if (options.isToolForced) {
    options.addLoss("This provider does not reason when a tool call is required.");
    return { effort: clampedEffort(options) };
  }
  if (mode === "between_tools")
    return {
      thinking: { type: mode, display: thinkingDisplay(options.reasoning) },
      effort: clampedEffort(options),
    };
  const { reasoning, thinkingBudget } = options.target.abilities ?? {};
  const takesBudget = reasoning === "budget" || (mode === "on" && thinkingBudget !== false);
  return takesBudget ? writeBudget(options) : writeAdaptive(options);
}

function writeOff(options: ThinkingOptions): WrittenThinking {
  const { reasoning, target, addLoss } = options;
  const off = target.abilities?.thinkingOff ?? "disabled";
  if (off === "never") {
    addLoss(ALWAYS_REASONS);
    return { effort: "low" };
  }
  const effort = reasoning.mode === "off" ? clampedEffort(options) : undefined;
  return { thinking: { type: off }, effort };
}

// In this API an effort without `thinking` requests no thinking; in the other APIs it does.
function writeAdaptive(options: ThinkingOptions): WrittenThinking {
  const { mode, budgetTokens, effort } = options.reasoning;
  if (mode === undefined && options.request.names?.output === "output_config.format")
    return { effort: clampedEffort(options) };
  const adaptiveEffort =
    effort !== undefined || budgetTokens === undefined
      ? clampedEffort(options)
      : clampedEffort(options, budgetToEffort(budgetTokens));
  return {
    thinking: { type: "adaptive", display: thinkingDisplay(options.reasoning) },
    effort: adaptiveEffort,
  };
}

function writeBudget(options: ThinkingOptions): WrittenThinking {
  const effort = clampedEffort(options);
  const budget = claudeBudget(options, "messages");
  if (budget === undefined) return { effort };
  const display = thinkingDisplay(options.reasoning);
  return { thinking: { type: "enabled", budget_tokens: budget, display }, effort };
}

// Models with a reasoning budget do not accept an effort.
function clampedEffort(
  { reasoning, target, addLoss }: ThinkingOptions,
  effort: Effort | undefined = reasoning.effort,
): Effort | undefined {
  const { reasoning: control = "effort", efforts = CLAUDE_EFFORTS } = target.abilities ?? {};
  if (effort === undefined || effort === "none" || control !== "effort") return undefined;
  return supportedEffort(effort, efforts, addLoss);
}
