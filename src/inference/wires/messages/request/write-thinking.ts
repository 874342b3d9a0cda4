// How hard to think. Claude takes an effort, or on older models a budget of tokens that must fit into max_tokens; it
// refuses to think where a tool is forced, and with a budget where the turn it goes on with did not begin with thinking.
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

const BUDGET_MIN = 1_024;
const CLAUDE_EFFORTS = [
  "low",
  "medium",
  "high",
  "xhigh",
  "max",
] as const satisfies readonly Effort[];

export interface WrittenThinking {
  readonly thinking?: JsonObject | undefined;
  readonly effort?: Effort | undefined;
}

interface ThinkingOptions {
  readonly request: CanonicalRequest;
  readonly target: Target;
  readonly reasoning: Reasoning;
  readonly maxTokens: number;
  /** A tool call is forced. */
  readonly isToolForced: boolean;
  /** Notes what a rule leaves out. */
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
  const path = request.names?.reasoning ?? "reasoning";
  const addLoss = (reason: string) => losses.push({ path, reason, tolerated: true });
  const { mode, effort, budgetTokens } = reasoning;
  if (effort === undefined && budgetTokens === undefined && mode === undefined) return {};
  const off = mode === "off" || effort === "none" || budgetTokens === 0;
  if (target.abilities?.reasoning !== "none")
    return selectThinking({ request, target, reasoning, ...limits, addLoss }, off);
  if (!off) losses.push({ path, reason: "This model does not think by request." });
  return {};
}

function selectThinking(options: ThinkingOptions, off: boolean): WrittenThinking {
  const { mode } = options.reasoning;
  if (off)
    return {
      thinking: { type: "disabled" },
      effort: mode === "off" ? clampedEffort(options) : undefined,
    };
  if (options.isToolForced) {
    options.addLoss("This provider does not think where a tool call is forced.");
    return { effort: clampedEffort(options) };
  }
  if (mode === "between_tools")
    return {
      thinking: { type: mode, display: thinkingDisplay(options.reasoning) },
      effort: clampedEffort(options),
    };
  return options.target.abilities?.reasoning !== "budget" && mode !== "on"
    ? writeAdaptive(options)
    : writeBudget(options);
}

// A caller of this API who sends an effort and no `thinking` has said all that is meant; of others, effort asks for thinking.
function writeAdaptive(options: ThinkingOptions): WrittenThinking {
  const { mode, budgetTokens, effort } = options.reasoning;
  if (mode === undefined && options.request.names?.output === "output_config.format")
    return { effort: clampedEffort(options) };
  const known =
    effort !== undefined || budgetTokens === undefined
      ? clampedEffort(options)
      : clampedEffort(options, budgetToEffort(budgetTokens));
  return {
    thinking: { type: "adaptive", display: thinkingDisplay(options.reasoning) },
    effort: known,
  };
}

function writeBudget(options: ThinkingOptions): WrittenThinking {
  const { budgetTokens, effort: askedEffort } = options.reasoning;
  const effort = clampedEffort(options);
  const wanted = Math.max(budgetTokens ?? effortToBudget(askedEffort ?? "medium"), BUDGET_MIN);
  const budget = Math.min(wanted, options.maxTokens - 1);
  if (budget < BUDGET_MIN) {
    options.addLoss(`Thinking needs max_tokens above ${BUDGET_MIN}.`);
    return { effort };
  }
  if (lacksReplayableReasoning(options)) {
    options.addLoss(
      "The tool call to go on with came without this model's own thinking, and thinking cannot begin there.",
    );
    return { effort };
  }
  if (budget < wanted)
    options.addLoss(`The budget was lowered to ${budget} to stay below max_tokens.`);
  return {
    thinking: {
      type: "enabled",
      budget_tokens: budget,
      display: thinkingDisplay(options.reasoning),
    },
    effort,
  };
}

// Models that take only a budget have no effort.
function clampedEffort(
  { reasoning, target, addLoss }: ThinkingOptions,
  effort: Effort | undefined = reasoning.effort,
): Effort | undefined {
  if (
    effort === undefined ||
    effort === "none" ||
    (target.abilities?.reasoning ?? "effort") !== "effort"
  )
    return undefined;
  const fitted = clampEffort(effort, target.abilities?.efforts ?? CLAUDE_EFFORTS);
  if (fitted !== effort) addLoss(`This model has no effort ${effort}; ${fitted} is the nearest.`);
  return fitted;
}

function thinkingDisplay({ summary }: Reasoning): string | undefined {
  return summary === undefined ? undefined : summary === "none" ? "omitted" : "summarized";
}

function lacksReplayableReasoning({ request, target }: ThinkingOptions): boolean {
  const last = request.turns.findLast((turn) => turn.role === "assistant" || turn.role === "user");
  if (
    last === undefined ||
    last.role !== "assistant" ||
    !last.parts.some((part) => part.type === "tool_call")
  )
    return false;
  return !last.parts.some(
    (part) =>
      part.type === "reasoning" &&
      part.blob !== undefined &&
      canReplay(part.blob, "messages", target),
  );
}
