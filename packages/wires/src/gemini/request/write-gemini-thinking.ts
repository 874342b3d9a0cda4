// Writes the reasoning settings. Gemini 3 takes a level, Gemini 2.5 a token budget; not all models can turn reasoning off.

import { addHintLoss, type Loss } from "../../canonical/canonical-losses.ts";
import type { CanonicalRequest, Effort, Reasoning } from "../../canonical/canonical-request.ts";
import {
  effortToBudget,
  isReasoningOff,
  isReasoningSet,
  requestedEffort,
  supportedEffort,
} from "../../canonical/reasoning-blobs.ts";
import type { Target } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import { reasoningControl } from "./gemini-model-generation.ts";

const LEVELS = ["minimal", "low", "medium", "high"] as const satisfies readonly Effort[];
const PRO_LEVELS = ["low", "medium", "high"] as const satisfies readonly Effort[];
const DYNAMIC_BUDGET = -1;

interface ThinkingOptions {
  readonly reasoning: Reasoning;
  readonly target: Target;
  readonly isOff: boolean;
  readonly addLoss: (reason: string) => void;
}

export function writeThinking(
  request: CanonicalRequest,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  const { reasoning, names } = request;
  if (reasoning === undefined) return undefined;
  const isConfigured = isReasoningSet(reasoning);
  if (!isConfigured && reasoning.summary === undefined) return undefined;
  const path = names?.reasoning ?? "reasoning";
  const off = isReasoningOff(reasoning);
  const control = reasoningControl(target);
  if (control === "none") {
    if (isConfigured && !off)
      addHintLoss(losses, path, "This model's reasoning cannot be configured.");
    return undefined;
  }
  const addLoss = (reason: string) => losses.push({ path, reason, tolerated: true });
  const options: ThinkingOptions = { reasoning, target, isOff: off, addLoss };
  return {
    ...(control === "effort"
      ? { thinkingLevel: levelFor(options)?.toUpperCase() }
      : { thinkingBudget: budgetFor(options) }),
    includeThoughts: off || reasoning.summary === "none" ? undefined : true,
  };
}

function levelFor({ reasoning, target, addLoss }: ThinkingOptions): Effort | undefined {
  const wanted = requestedEffort(reasoning);
  if (wanted === undefined) return undefined;
  const defaults = target.model.includes("pro") ? PRO_LEVELS : LEVELS;
  const supported = target.abilities?.efforts?.filter((one) => one !== "none") ?? defaults;
  return supportedEffort(wanted, supported, addLoss);
}

function budgetFor({ reasoning, target, isOff, addLoss }: ThinkingOptions): number | undefined {
  const { effort, budgetTokens, mode } = reasoning;
  const { min, max, canDisable } = budgetRange(target.model);
  if (isOff && canDisable) return 0;
  if (isOff) {
    addLoss("This model's reasoning cannot be turned off.");
    return min;
  }
  const wanted = budgetTokens ?? (effort === undefined ? undefined : effortToBudget(effort));
  if (wanted === undefined) return mode === undefined ? undefined : DYNAMIC_BUDGET;
  const budget = Math.min(Math.max(wanted, min), max);
  if (budget !== wanted)
    addLoss(`This model accepts a reasoning budget of ${min} to ${max} tokens.`);
  return budget;
}

function budgetRange(model: string): { min: number; max: number; canDisable: boolean } {
  if (model.includes("pro")) return { min: 128, max: 32_768, canDisable: false };
  if (model.includes("lite")) return { min: 512, max: 24_576, canDisable: true };
  return { min: 1, max: 24_576, canDisable: true };
}
