// Claude's rules for sampling parameters and thinking, on Anthropic's API and Bedrock; other models take any combination.

import type { JsonObject } from "../json-readers.ts";
import type { ToolChoice } from "../reply/normalized-request.ts";

/** Claude 4.1, 4.5 and 4.6, with or without an inference profile. */
const SINGLE_SAMPLING_MODELS = /claude-(opus-4-1|(opus|sonnet|haiku)-4-[56])/;
/** Claude Opus 4.7 and later take no token budget for thinking. */
const ADAPTIVE_MODELS = /claude-(opus-4-[7-9]|(opus|sonnet|haiku|fable)-[5-9])/;
/** Models whose thinking cannot be disabled and whose tool calls cannot be forced. */
const THINKING_MODELS = /claude-((opus|sonnet)-5-5|fable-5-[12])/;
const THINKING_TOP_P_MIN = 0.95;

export interface ClaudeSettings {
  readonly model: string;
  readonly temperature: unknown;
  readonly topP: unknown;
  readonly topK: unknown;
  readonly thinking: JsonObject;
  readonly toolChoice: ToolChoice;
}

/** The message of Claude's error. */
export function claudeRulesError(settings: ClaudeSettings): string | undefined {
  const { model, temperature, topP, topK, thinking } = settings;
  if (temperature !== undefined && topP !== undefined && SINGLE_SAMPLING_MODELS.test(model))
    return "`temperature` and `top_p` cannot both be specified for this model. Please use only one.";
  const rejected = modelRulesError(settings);
  if (rejected !== undefined) return rejected;
  const thinks = thinking["type"] === "enabled" || thinking["type"] === "adaptive";
  if (!thinks || !model.includes("claude")) return undefined;
  if (isForced(settings)) return "Thinking may not be enabled when tool_choice forces tool use.";
  if (temperature !== undefined && temperature !== 1)
    return "`temperature` may only be set to 1 when thinking is enabled.";
  if (typeof topP === "number" && topP < THINKING_TOP_P_MIN)
    return "`top_p` must be greater than or equal to 0.95 when thinking is enabled.";
  return topK === undefined ? undefined : "`top_k` must be unset when thinking is enabled.";
}

/** What newer models no longer take. */
function modelRulesError(settings: ClaudeSettings): string | undefined {
  const { model, thinking } = settings;
  const { type } = thinking;
  if (
    (type === "disabled" && THINKING_MODELS.test(model)) ||
    (type === "enabled" && ADAPTIVE_MODELS.test(model))
  )
    return `"thinking.type.${type}" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`;
  return isForced(settings) && THINKING_MODELS.test(model)
    ? "Forced tool use is not supported for this model."
    : undefined;
}

function isForced({ toolChoice }: ClaudeSettings): boolean {
  return toolChoice.kind === "required" || toolChoice.kind === "named";
}
