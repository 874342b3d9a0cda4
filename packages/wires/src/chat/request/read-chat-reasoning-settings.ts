import { EFFORTS, type Reasoning } from "../../canonical/canonical-request.ts";
// The reasoning settings of a chat request, in the forms of OpenAI, OpenRouter, DeepSeek, Z.ai, Qwen and vLLM.
import {
  isObject,
  type JsonObject,
  optionalBoolean,
  optionalInteger,
  optionalObject,
  optionalOneOf,
} from "../../json-fields.ts";
import { TOKENS_MAX } from "../../scalar-fields.ts";

export function readReasoning(body: JsonObject): Reasoning | undefined {
  const effort = optionalOneOf(body["reasoning_effort"], "reasoning_effort", EFFORTS);
  const object = optionalObject(body["reasoning"], "reasoning");
  const dialect = readDialect(body);
  if (object === undefined && dialect === undefined) return effort && { effort };
  const isOff = optionalBoolean(object?.["enabled"], "reasoning.enabled") === false;
  const isHidden = optionalBoolean(object?.["exclude"], "reasoning.exclude") === true;
  return {
    // `reasoning_effort` takes precedence over the effort in OpenRouter's object.
    effort: effort ?? optionalOneOf(object?.["effort"], "reasoning.effort", EFFORTS),
    budgetTokens:
      optionalInteger(object?.["max_tokens"], "reasoning.max_tokens", 0, TOKENS_MAX) ??
      dialect?.budgetTokens,
    mode: isOff ? "off" : dialect?.mode,
    summary: isHidden ? "none" : undefined,
  };
}

// `thinking` is DeepSeek's and Z.ai's, `enable_thinking` Qwen's, and `chat_template_kwargs` vLLM's way to send it.
function readDialect(body: JsonObject): Pick<Reasoning, "mode" | "budgetTokens"> | undefined {
  const { thinking, chat_template_kwargs: template } = body;
  const type = isObject(thinking) ? thinking["type"] : undefined;
  const enabled = [
    body["enable_thinking"],
    isObject(template) ? (template["enable_thinking"] ?? template["thinking"]) : undefined,
  ].find((value) => typeof value === "boolean");
  const isOn = type === undefined ? enabled : type !== "disabled";
  const budgetTokens = [
    body["thinking_budget"],
    isObject(thinking) ? thinking["budget_tokens"] : undefined,
  ].find((value) => typeof value === "number");
  if (isOn === undefined && budgetTokens === undefined) return undefined;
  return { mode: isOn === false ? "off" : isOn && "adaptive", budgetTokens };
}
