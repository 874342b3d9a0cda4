// Settings that a model rejects even on its own API, in the form that it takes: so that a call which changes only `model` is
// answered.

import { API_TRAITS, type ApiName, type ApiTraits } from "../api-traits.ts";
import { EFFORTS } from "../canonical/canonical-request.ts";
import { clampEffort } from "../canonical/reasoning-blobs.ts";
import { isStrictCompatible } from "../canonical/structured-output.ts";
import type { Abilities } from "../canonical/wire-interfaces.ts";
import { isObject, isSet, type JsonObject, valueAt } from "../json-fields.ts";
import { computerToolAsFunction } from "../messages/messages-client-tools.ts";
import { canSample } from "../openai-parameters.ts";
import { CLOSING_TEXT } from "../passes/closing-turn.ts";
import { callInstruction } from "../passes/forced-tools.ts";

/** Fields that a model takes in another form. */
export interface AdaptedFields {
  /** The fields' new values as JSON text; undefined removes a field. */
  readonly members: Readonly<Record<string, string | undefined>>;
  readonly dropped: readonly string[];
}

/** What `adaptSettings` returns for a request that the model takes as it is. */
export const UNADAPTED: AdaptedFields = { members: {}, dropped: [] };

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
  { applies: ({ adapts }) => adapts === "tools", adapt: repairChat },
  { applies: ({ adapts }) => adapts === "tools", adapt: relaxTools },
  { applies: ({ adapts }) => adapts === "tools", adapt: omitLogprobs },
  { applies: ({ adapts }) => adapts === "tools", adapt: askForChatTools },
  { applies: ({ adapts }) => adapts === "tools", adapt: omitOpenaiFields },
  { applies: ({ adapts }) => adapts === "claude", adapt: adaptToolChoice },
  { applies: ({ adapts }) => adapts === "claude", adapt: adaptComputerTool },
];

export function adaptSettings(api: ApiName, sent: JsonObject, abilities: Abilities): AdaptedFields {
  const traits = API_TRAITS[api];
  let all = UNADAPTED;
  let json = sent;
  for (const { applies, adapt } of ADAPTATIONS) {
    const adapted = applies(traits) ? adapt(json, abilities, api) : undefined;
    if (adapted === undefined || Object.keys(adapted.members).length === 0) continue;
    const { members, dropped } = adapted;
    all = { members: { ...all.members, ...members }, dropped: all.dropped.concat(dropped) };
    json = withParsed(json, members);
  }
  return all;
}

/** What the next adaptation sees. */
function withParsed(json: JsonObject, members: AdaptedFields["members"]): JsonObject {
  const parsed = Object.entries(members).map(([name, text]): [string, unknown] => [
    name,
    text === undefined ? undefined : JSON.parse(text),
  ]);
  return { ...json, ...Object.fromEntries(parsed) };
}

const NOTHING: readonly string[] = [];

/** Leaves out sampling parameters. The value 1 is every model's default and accepted. */
function omitSampling(
  json: JsonObject,
  abilities: Abilities,
  api: ApiName,
): AdaptedFields | undefined {
  const dropped = rejectedSampling(json, abilities, api);
  if (dropped.length === 0) return undefined;
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

/** Forms of tools and settings that clients of other servers send, in that of the API. Nothing is lost. */
function repairChat(json: JsonObject): AdaptedFields | undefined {
  const { tools, tool_choice: choice, logprobs } = json;
  const members: Record<string, string> = {};
  if (Array.isArray(tools)) {
    const nested = tools.map(nestTool);
    if (nested.some((tool, index) => tool !== tools[index]))
      members["tools"] = JSON.stringify(nested);
  }
  const word = isObject(choice) ? CHOICE_WORDS.find((one) => one === choice["type"]) : undefined;
  if (word !== undefined) members["tool_choice"] = JSON.stringify(word);
  if (typeof logprobs === "number") members["logprobs"] = String(logprobs > 0);
  return { members, dropped: NOTHING };
}

const CHOICE_WORDS = ["auto", "none", "required"] as const;

/** Cursor sends functions and custom tools as on Responses; llama-stack repeats the type in the function. */
function nestTool(tool: unknown): unknown {
  if (!isObject(tool)) return tool;
  const { type, function: fn, custom, ...fields } = tool;
  if (isObject(fn) && fn["type"] === "function") {
    const { type: _type, ...definition } = fn;
    return { ...tool, function: definition };
  }
  if (typeof fields["name"] !== "string") return tool;
  if (type === "function" && fn === undefined) return { type, function: fields };
  if (type !== "custom" || custom !== undefined) return tool;
  const { format } = fields;
  const isGrammar =
    isObject(format) && format["type"] === "grammar" && !isObject(format["grammar"]);
  if (!isGrammar) return { type, custom: fields };
  const { type: grammarType, ...grammar } = format;
  return { type, custom: { ...fields, format: { type: grammarType, grammar } } };
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

function omitLogprobs(json: JsonObject, abilities: Abilities): AdaptedFields | undefined {
  if (abilities.logprobs !== false) return undefined;
  return omitted(["logprobs", "top_logprobs"].filter((name) => isSet(json[name])));
}

function omitted(dropped: readonly string[]): AdaptedFields {
  return { members: Object.fromEntries(dropped.map((name) => [name, undefined])), dropped };
}

// DeepSeek's models reject a choice that forces a tool call while they think.
function askForChatTools(json: JsonObject, abilities: Abilities): AdaptedFields | undefined {
  const { tool_choice: choice, messages, thinking } = json;
  const isNamed = isObject(choice) && choice["type"] === "function";
  if ((!isNamed && choice !== "required") || !Array.isArray(messages)) return undefined;
  const isOff = isObject(thinking) && thinking["type"] === "disabled";
  if (abilities.forcedTools !== "without_reasoning" || isOff) return undefined;
  const fn = isObject(choice) ? choice["function"] : undefined;
  const name = isObject(fn) && typeof fn["name"] === "string" ? fn["name"] : "";
  const asked = [...(messages as readonly unknown[])]; // Array.isArray gives any[].
  asked.unshift({ role: "system", content: callInstruction(name) });
  return {
    members: { tool_choice: '"auto"', messages: JSON.stringify(asked) },
    dropped: ["tool_choice"],
  };
}

/** Fields of OpenAI's API that tune the reply or label the call, and that Mistral does not have: it has `prompt_cache_key`. */
const OPENAI_HINTS = [
  "store",
  "metadata",
  "user",
  "service_tier",
  "logit_bias",
  "logprobs",
  "top_logprobs",
  "verbosity",
  "safety_identifier",
  "prompt_cache_retention",
] as const;

// Mistral answers 422 to fields that it does not have; it has `seed` under another name, and no role `developer`.
function omitOpenaiFields(json: JsonObject, abilities: Abilities): AdaptedFields | undefined {
  const { rejectsUnknownFields, seedField = "seed" } = abilities;
  if (rejectsUnknownFields !== true) return undefined;
  const { dropped, members } = omitted(OPENAI_HINTS.filter((name) => isSet(json[name])));
  const { seed, messages } = json;
  const isRenamed = isSet(seed) && seedField !== "seed" && !isSet(json[seedField]);
  const renamed = isRenamed ? { seed: undefined, [seedField]: JSON.stringify(seed) } : {};
  const hasDeveloper =
    Array.isArray(messages) && messages.some((one) => isObject(one) && one["role"] === "developer");
  const asSystem = hasDeveloper
    ? { messages: JSON.stringify(messages.map(developerAsSystem)) }
    : {};
  const changed = [...(isRenamed ? ["seed"] : []), ...(hasDeveloper ? ["messages.role"] : [])];
  return { members: { ...members, ...renamed, ...asSystem }, dropped: [...dropped, ...changed] };
}

function developerAsSystem(message: unknown): unknown {
  return isObject(message) && message["role"] === "developer"
    ? { ...message, role: "system" }
    : message;
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

export interface RejectableFields {
  /** How providers reject the setting. */
  readonly reason: RegExp;
  readonly adapted: AdaptedFields;
}

/**
 * Settings of reasoning are sent as written first, because a client recovers from the provider's own error; the adapted request
 * follows a rejection. Undefined if the model takes the fields as they are.
 */
export function adaptRejectable(
  api: ApiName,
  json: JsonObject,
  abilities: Abilities,
): RejectableFields | undefined {
  const thinking = adaptThinking(json, abilities);
  if (thinking !== undefined) return { reason: /thinking/i, adapted: thinking };
  const closing = API_TRAITS[api].adapts === "claude" ? adaptPrefill(json, abilities) : undefined;
  if (closing !== undefined) return { reason: /prefill/i, adapted: closing };
  const effort = adaptEffort(api, json, abilities);
  return effort && { reason: EFFORT_REJECTED, adapted: effort };
}

/** A message of the user after a last message of the assistant, which the model does not continue. */
function adaptPrefill({ messages }: JsonObject, abilities: Abilities): AdaptedFields | undefined {
  if (abilities.prefill !== false || !Array.isArray(messages)) return undefined;
  const last: unknown = messages.at(-1);
  if (!isObject(last) || last["role"] !== "assistant") return undefined;
  const closing = { role: "user", content: CLOSING_TEXT };
  return {
    members: { messages: JSON.stringify([...(messages as readonly unknown[]), closing]) }, // Array.isArray gives any[].
    dropped: [`messages[${messages.length - 1}]`],
  };
}

/** OpenAI's text names the value only: "Unsupported value: 'minimal' is not supported with the 'gpt-5.1' model". */
const EFFORT_REJECTED = /effort|unsupported value: '(?:none|minimal|low|medium|high|xhigh|max)'/i;

/** The nearest effort that the model takes. */
function adaptEffort(
  api: ApiName,
  json: JsonObject,
  abilities: Abilities,
): AdaptedFields | undefined {
  const path = API_TRAITS[api].effortPath;
  if (path === undefined) return undefined;
  const [field = "", member] = path;
  if (json[field] === undefined) return undefined;
  const sent = EFFORTS.find((one) => one === valueAt(json, path));
  const nearest = sent && clampEffort(sent, abilities.efforts);
  if (nearest === undefined || nearest === sent) return undefined;
  const parent = json[field];
  const value =
    member !== undefined && isObject(parent) ? { ...parent, [member]: nearest } : nearest;
  return { members: { [field]: JSON.stringify(value) }, dropped: [path.join(".")] };
}

function adaptThinking({ thinking }: JsonObject, abilities: Abilities): AdaptedFields | undefined {
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
