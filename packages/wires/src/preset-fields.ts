// Adds what a preset states to the body of a conversation, in the form of each API. What the body itself states stays.

import { normalizeGeminiRequest } from "./gemini/request/normalize-gemini-request.ts";
import { isObject, type JsonObject } from "./json-fields.ts";

/** Settings that all APIs of conversations have, in one spelling. */
export interface PresetFields {
  readonly system?: string | undefined;
  readonly temperature?: number | undefined;
  readonly top_p?: number | undefined;
  readonly max_output_tokens?: number | undefined;
  readonly reasoning_effort?: string | undefined;
}

/** The members that a body gets; those that are undefined are left out. */
export type WithPreset = (body: JsonObject, preset: PresetFields) => JsonObject;

export const chatWithPreset: WithPreset = (body, preset) => ({
  ...samplingOf(preset),
  reasoning_effort: preset.reasoning_effort,
  ...(body["max_tokens"] === undefined && { max_completion_tokens: preset.max_output_tokens }),
  ...body,
  messages: withSystemMessage(body["messages"], preset.system),
});

export const responsesWithPreset: WithPreset = (body, preset) => ({
  ...samplingOf(preset),
  max_output_tokens: preset.max_output_tokens,
  ...(preset.reasoning_effort !== undefined && { reasoning: { effort: preset.reasoning_effort } }),
  ...body,
  instructions: joinTexts(preset.system, body["instructions"]),
});

export const messagesWithPreset: WithPreset = (body, preset) => ({
  ...samplingOf(preset),
  max_tokens: preset.max_output_tokens,
  ...(preset.reasoning_effort !== undefined && {
    output_config: { effort: preset.reasoning_effort },
  }),
  ...body,
  system: joinTexts(preset.system, body["system"]),
});

export const geminiWithPreset: WithPreset = (body, preset) => {
  const given = normalizeGeminiRequest(body);
  const config = isObject(given["generationConfig"]) ? given["generationConfig"] : {};
  const thinking = isObject(config["thinkingConfig"]) ? config["thinkingConfig"] : {};
  return {
    ...given,
    systemInstruction: joinParts(preset.system, given["systemInstruction"]),
    generationConfig: {
      temperature: preset.temperature,
      topP: preset.top_p,
      maxOutputTokens: preset.max_output_tokens,
      ...config,
      thinkingConfig: { ...geminiThinking(preset.reasoning_effort, thinking), ...thinking },
    },
  };
};

/** Google's API refuses a level together with a budget. */
function geminiThinking(effort: string | undefined, given: JsonObject): JsonObject {
  if (effort === undefined || given["thinkingBudget"] !== undefined) return {};
  return effort === "none" ? { thinkingBudget: 0 } : { thinkingLevel: effort.toUpperCase() };
}

function joinParts(text: string | undefined, instruction: unknown): unknown {
  if (text === undefined) return instruction;
  const sent = isObject(instruction) ? instruction["parts"] : instruction;
  const parts: readonly unknown[] = Array.isArray(sent) ? sent : [];
  return { parts: [{ text }, ...parts] };
}

function samplingOf({ temperature, top_p }: PresetFields): JsonObject {
  return { temperature, top_p };
}

/** Before the conversation: a system message of the request follows it. */
function withSystemMessage(messages: unknown, system: string | undefined): unknown {
  if (system === undefined || !Array.isArray(messages)) return messages;
  return [{ role: "system", content: system }, ...messages];
}

/** The texts of the preset and of the request, in this order; the latter may be a list of parts. */
function joinTexts(first: string | undefined, second: unknown): unknown {
  if (first === undefined) return second;
  if (typeof second === "string" && second !== "") return `${first}\n\n${second}`;
  if (!Array.isArray(second)) return first;
  return isObject(second[0]) ? [{ type: "text", text: first }, ...second] : first;
}
