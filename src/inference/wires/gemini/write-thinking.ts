// How hard to think. Models of the third generation take a level, those of 2.5 a budget of tokens; which of them can be
// told not to think at all differs.
import type { CanonicalRequest, Effort, JsonObject, Loss, Reasoning } from "../../canonical.ts";
import { budgetOfEffort, clampEffort, effortOfBudget } from "../../canonical-reasoning.ts";
import type { Target } from "../../canonical-wire.ts";
import { reasoningOf } from "./model-generation.ts";

const LEVELS = ["minimal", "low", "medium", "high"] as const satisfies readonly Effort[];
const LEVELS_PRO = ["low", "medium", "high"] as const satisfies readonly Effort[];
const DYNAMIC = -1;

interface Asked {
  readonly reasoning: Reasoning;
  readonly target: Target;
  readonly off: boolean;
  readonly note: (why: string) => void;
}

export function writeThinking(
  request: CanonicalRequest,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  const { reasoning, names } = request;
  if (reasoning === undefined) return undefined;
  const asks = isAsked(reasoning);
  if (!asks && reasoning.summary === undefined) return undefined;
  const path = names?.reasoning ?? "reasoning";
  const off = isOff(reasoning);
  const way = reasoningOf(target);
  if (way === "none") {
    if (asks && !off) losses.push({ path, why: "This model does not think by request." });
    return undefined;
  }
  const note = (why: string) => losses.push({ path, why, byRule: true });
  const asked: Asked = { reasoning, target, off, note };
  return {
    ...(way === "effort"
      ? { thinkingLevel: levelOf(asked)?.toUpperCase() }
      : { thinkingBudget: budgetOf(asked) }),
    includeThoughts: off || reasoning.summary === "none" ? undefined : true,
  };
}

function isAsked({ mode, effort, budgetTokens }: Reasoning): boolean {
  return mode !== undefined || effort !== undefined || budgetTokens !== undefined;
}

function isOff({ mode, effort, budgetTokens }: Reasoning): boolean {
  return mode === "off" || effort === "none" || budgetTokens === 0;
}

function levelOf({ reasoning, target, off, note }: Asked): Effort | undefined {
  const { effort, budgetTokens } = reasoning;
  const wanted = off
    ? "none"
    : (effort ?? (budgetTokens === undefined ? undefined : effortOfBudget(budgetTokens)));
  if (wanted === undefined) return undefined;
  const usual = target.model.includes("pro") ? LEVELS_PRO : LEVELS;
  const known = target.abilities?.efforts?.filter((one) => one !== "none") ?? usual;
  const level = clampEffort(wanted, known);
  if (level !== wanted) note(`This model has no effort ${wanted}; ${level} is the nearest.`);
  return level;
}

function budgetOf({ reasoning, target, off, note }: Asked): number | undefined {
  const { effort, budgetTokens, mode } = reasoning;
  const { min, max, canStop } = rangeOf(target.model);
  if (off && canStop) return 0;
  if (off) {
    note("This model always thinks.");
    return min;
  }
  const wanted = budgetTokens ?? (effort === undefined ? undefined : budgetOfEffort(effort));
  if (wanted === undefined) return mode === undefined ? undefined : DYNAMIC;
  const budget = Math.min(Math.max(wanted, min), max);
  if (budget !== wanted) note(`This model thinks with ${min} to ${max} tokens.`);
  return budget;
}

function rangeOf(model: string): { min: number; max: number; canStop: boolean } {
  if (model.includes("pro")) return { min: 128, max: 32_768, canStop: false };
  if (model.includes("lite")) return { min: 512, max: 24_576, canStop: true };
  return { min: 1, max: 24_576, canStop: true };
}
