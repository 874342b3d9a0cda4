// How hard to think. Claude takes an effort, or on older models a budget of tokens that must fit into max_tokens; it
// refuses to think where a tool is forced, and with a budget where the turn it goes on with did not begin with thinking.
import type { CanonicalRequest, Effort, JsonObject, Loss, Reasoning } from "../../canonical.ts";
import {
  budgetOfEffort,
  clampEffort,
  effortOfBudget,
  mayReplay,
} from "../../canonical-reasoning.ts";
import type { Target } from "../../canonical-wire.ts";

const BUDGET_MIN = 1_024;
const EFFORTS = ["low", "medium", "high", "xhigh", "max"] as const satisfies readonly Effort[];

export interface Thinking {
  readonly thinking?: JsonObject | undefined;
  readonly effort?: Effort | undefined;
}

interface Asked {
  readonly request: CanonicalRequest;
  readonly target: Target;
  readonly reasoning: Reasoning;
  readonly maxTokens: number;
  /** A tool call is forced. */
  readonly forced: boolean;
  /** Notes what a rule leaves out. */
  readonly note: (why: string) => void;
}

export function writeThinking(
  request: CanonicalRequest,
  target: Target,
  limits: { readonly maxTokens: number; readonly forced: boolean },
  losses: Loss[],
): Thinking {
  const { reasoning } = request;
  if (reasoning === undefined) return {};
  const path = request.names?.reasoning ?? "reasoning";
  const note = (why: string) => losses.push({ path, why, byRule: true });
  const { mode, effort, budgetTokens } = reasoning;
  if (effort === undefined && budgetTokens === undefined && mode === undefined) return {};
  const off = mode === "off" || effort === "none" || budgetTokens === 0;
  if (target.abilities?.reasoning !== "none")
    return think({ request, target, reasoning, ...limits, note }, off);
  if (!off) losses.push({ path, why: "This model does not think by request." });
  return {};
}

function think(asked: Asked, off: boolean): Thinking {
  const { mode } = asked.reasoning;
  if (off)
    return {
      thinking: { type: "disabled" },
      effort: mode === "off" ? fitEffort(asked) : undefined,
    };
  if (asked.forced) {
    asked.note("This provider does not think where a tool call is forced.");
    return { effort: fitEffort(asked) };
  }
  if (mode === "between_tools")
    return {
      thinking: { type: mode, display: displayOf(asked.reasoning) },
      effort: fitEffort(asked),
    };
  return asked.target.abilities?.reasoning !== "budget" && mode !== "on"
    ? writeAdaptive(asked)
    : writeBudget(asked);
}

// A caller of this API who sends an effort and no `thinking` has said all that is meant; of others, effort asks for thinking.
function writeAdaptive(asked: Asked): Thinking {
  const { mode, budgetTokens, effort } = asked.reasoning;
  if (mode === undefined && asked.request.names?.output === "output_config.format")
    return { effort: fitEffort(asked) };
  const known =
    effort !== undefined || budgetTokens === undefined
      ? fitEffort(asked)
      : fitEffort(asked, effortOfBudget(budgetTokens));
  return { thinking: { type: "adaptive", display: displayOf(asked.reasoning) }, effort: known };
}

function writeBudget(asked: Asked): Thinking {
  const { budgetTokens, effort: askedEffort } = asked.reasoning;
  const effort = fitEffort(asked);
  const wanted = Math.max(budgetTokens ?? budgetOfEffort(askedEffort ?? "medium"), BUDGET_MIN);
  const budget = Math.min(wanted, asked.maxTokens - 1);
  if (budget < BUDGET_MIN) {
    asked.note(`Thinking needs max_tokens above ${BUDGET_MIN}.`);
    return { effort };
  }
  if (lacksThinking(asked)) {
    asked.note(
      "The tool call to go on with came without this model's own thinking, and thinking cannot begin there.",
    );
    return { effort };
  }
  if (budget < wanted) asked.note(`The budget was lowered to ${budget} to stay below max_tokens.`);
  return {
    thinking: { type: "enabled", budget_tokens: budget, display: displayOf(asked.reasoning) },
    effort,
  };
}

// Models that take only a budget have no effort.
function fitEffort(
  { reasoning, target, note }: Asked,
  effort: Effort | undefined = reasoning.effort,
): Effort | undefined {
  if (
    effort === undefined ||
    effort === "none" ||
    (target.abilities?.reasoning ?? "effort") !== "effort"
  )
    return undefined;
  const fitted = clampEffort(effort, target.abilities?.efforts ?? EFFORTS);
  if (fitted !== effort) note(`This model has no effort ${effort}; ${fitted} is the nearest.`);
  return fitted;
}

function displayOf({ summary }: Reasoning): string | undefined {
  return summary === undefined ? undefined : summary === "none" ? "omitted" : "summarized";
}

function lacksThinking({ request, target }: Asked): boolean {
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
      mayReplay(part.blob, "messages", target),
  );
}
