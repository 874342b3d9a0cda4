// Settings that a model rejects even on its own API, in the form that it takes: so that a call which changes only `model` is
// answered.

import { API_TRAITS, type ApiName, type ApiTraits } from "../api-traits.ts";
import { EFFORTS } from "../canonical/canonical-request.ts";
import { isStrictCompatible } from "../canonical/structured-output.ts";
import type { Abilities } from "../canonical/wire-interfaces.ts";
import { isObject, isSet, type JsonObject, valueAt } from "../json-fields.ts";
import { computerToolAsFunction } from "../messages/messages-client-tools.ts";
import { canSample } from "../openai-parameters.ts";
import { callInstruction } from "../passes/forced-tools.ts";

/** Fields that a model takes in another form. */
export interface AdaptedFields {
  /** The fields' new values as JSON text; undefined removes a field. */
  readonly members: Readonly<Record<string, string | undefined>>;
  readonly dropped: readonly string[];
}

interface Adaptation {
  readonly applies: (traits: ApiTraits) => boolean;
  /** Undefined if the model takes the request as it is. */
  readonly adapt: (
    json: JsonObject,
    abilities: Abilities,
    api: ApiName,
  ) => AdaptedFields | undefined;
}

const ADAPTATIONS: readonly Adaptation[] = [
  { applies: ({ generates }) => generates, adapt: omitSampling },
  { applies: ({ adapts }) => adapts === "tools", adapt: relaxTools },
  { applies: ({ adapts }) => adapts === "claude", adapt: adaptToolChoice },
  { applies: ({ adapts }) => adapts === "claude", adapt: adaptComputerTool },
];

export function adaptSettings(api: ApiName, json: JsonObject, abilities: Abilities): AdaptedFields {
  const traits = API_TRAITS[api];
  const members: Record<string, string | undefined> = {};
  let dropped = NOTHING;
  for (const { applies, adapt } of ADAPTATIONS) {
    const adapted = applies(traits) ? adapt(json, abilities, api) : undefined;
    if (adapted === undefined || adapted.dropped.length === 0) continue;
    Object.assign(members, adapted.members);
    dropped = dropped.concat(adapted.dropped);
  }
  return { members, dropped };
}

const NOTHING: readonly string[] = [];

/** Leaves out sampling parameters. The value 1 is every model's default and accepted. */
function omitSampling(
  json: JsonObject,
  abilities: Abilities,
  api: ApiName,
): AdaptedFields | undefined {
  const dropped = rejectedSampling(json, abilities, api);
  return { members: Object.fromEntries(dropped.map((name) => [name, undefined])), dropped };
}

function rejectedSampling(json: JsonObject, abilities: Abilities, api: ApiName): readonly string[] {
  const { temperature, top_p: topP, top_k: topK } = json;
  if (!isSet(temperature) && !isSet(topP) && !isSet(topK)) return NOTHING;
  if (takesSampling(api, json, abilities))
    return abilities.singleSampling === true && isSet(temperature) && isSet(topP)
      ? ["top_p"]
      : NOTHING;
  return [
    ...(isSet(temperature) && temperature !== 1 ? ["temperature"] : []),
    ...(isSet(topP) && topP !== 1 ? ["top_p"] : []),
    ...(isSet(topK) ? ["top_k"] : []),
  ];
}

function takesSampling(api: ApiName, json: JsonObject, abilities: Abilities): boolean {
  const { effortPath } = API_TRAITS[api];
  if (effortPath === undefined) return abilities.sampling !== false;
  const effort = valueAt(json, effortPath);
  return canSample(
    abilities,
    EFFORTS.find((one) => one === effort),
  );
}

// OpenAI rejects strict tools with open schemas, which other chat providers take. `strict` is a hint, so it is left out.
function relaxTools({ tools }: JsonObject, abilities: Abilities): AdaptedFields | undefined {
  if (!Array.isArray(tools) || abilities.openaiFields !== true) return undefined;
  const dropped: string[] = [];
  const relaxed = tools.map((tool: unknown, index) => {
    const fn = isObject(tool) ? tool["function"] : undefined;
    if (!isObject(tool) || !isObject(fn) || fn["strict"] !== true) return tool;
    if (isStrictCompatible(fn["parameters"] ?? { type: "object" })) return tool;
    dropped.push(`tools[${index}].function.strict`);
    // Leaves `strict` out of the text.
    return Object.assign({}, tool, { function: Object.assign({}, fn, { strict: undefined }) });
  });
  return dropped.length === 0
    ? undefined
    : { members: { tools: JSON.stringify(relaxed) }, dropped };
}

// Claude 5.5 rejects a choice that forces a tool call. It is asked in its instructions instead, and the choice is listed as
// dropped: the provider does not enforce the call.
function adaptToolChoice(json: JsonObject, abilities: Abilities): AdaptedFields | undefined {
  const { tool_choice: choice, system } = json;
  if (!isObject(choice) || (choice["type"] !== "any" && choice["type"] !== "tool"))
    return undefined;
  if (abilities.forcedTools !== false) return undefined;
  const { name, ...rest } = choice;
  const text = callInstruction(typeof name === "string" ? name : "");
  const asked = Array.isArray(system)
    ? [...(system as readonly unknown[]), { type: "text", text }] // Array.isArray gives any[].
    : typeof system === "string" && system !== ""
      ? `${system}\n\n${text}`
      : text;
  const auto = { ...rest, type: "auto" };
  return {
    members: { tool_choice: JSON.stringify(auto), system: JSON.stringify(asked) },
    dropped: ["tool_choice"],
  };
}

// Claude 5.5 takes only its computer toolset at Anthropic and Google. The earlier tool becomes a function with the published
// schema, so that calls and results keep their form.
// Source: platform.claude.com/docs/en/agents-and-tools/tool-use/computer-use-tool, read on 2026-11-23.
function adaptComputerTool({ tools }: JsonObject, abilities: Abilities): AdaptedFields | undefined {
  if (!Array.isArray(tools) || abilities.computerTool !== false) return undefined;
  const dropped: string[] = [];
  const sent = tools.map((tool: unknown, index) => {
    const written = isObject(tool) ? computerToolAsFunction(tool) : undefined;
    if (written !== undefined) dropped.push(`tools[${index}].type`);
    return written ?? tool;
  });
  return dropped.length === 0 ? undefined : { members: { tools: JSON.stringify(sent) }, dropped };
}

/** How providers reject a setting of thinking. */
export const THINKING_REJECTED = /thinking/i;

/**
 * Settings of Claude's thinking are sent as written first, because a client recovers from the provider's own error; the adapted
 * request follows a rejection. Undefined if the model takes the field as it is.
 */
export function adaptThinking(
  { thinking }: JsonObject,
  abilities: Abilities,
): AdaptedFields | undefined {
  if (!isObject(thinking)) return undefined;
  const { type, budget_tokens: _budget, ...rest } = thinking;
  if (type !== "disabled" && type !== "enabled") return undefined;
  const { thinkingOff, thinkingBudget } = abilities;
  if (type === "enabled")
    return thinkingBudget === false
      ? {
          members: { thinking: JSON.stringify({ ...rest, type: "adaptive" }) },
          dropped: ["thinking.budget_tokens"],
        }
      : undefined;
  if (thinkingOff === undefined) return undefined;
  const text = thinkingOff === "never" ? undefined : JSON.stringify({ type: thinkingOff });
  return { members: { thinking: text }, dropped: ["thinking"] };
}
