// Compares what our tables say of each model with LiteLLM's flags. A person decides which is right.

import { findAbilities } from "@postern/wires";
import { type Catalog, type Model, modelAt } from "../../../src/models/catalog.ts";
import { liteLlmModels } from "./quotes.ts";
import type { PriceSources } from "./sources.ts";

export interface AbilityDifference {
  readonly id: string;
  readonly ability: string;
  /** Whether our tables say that the model has it; LiteLLM says the opposite. */
  readonly ours: boolean;
}

type Abilities = ReturnType<typeof findAbilities>;
type Flag = readonly [
  flag: string,
  ability: string,
  ours: (abilities: Abilities, model: Model) => boolean,
];

/** The providers that LiteLLM's flags describe by model; those of hosts are copies. */
const COMPARED: ReadonlySet<string> = new Set([
  "openai",
  "anthropic",
  "google",
  "mistral",
  "xai",
  "deepseek",
  "groq",
  "moonshot",
  "zai",
]);

function effortFlag(name: string): Flag {
  return [
    `supports_${name}_reasoning_effort`,
    `effort ${name}`,
    ({ reasoning, efforts }) =>
      reasoning !== "none" && (efforts === undefined || efforts.some((one) => one === name)),
  ];
}

const FLAGS: readonly Flag[] = [
  ...["none", "minimal", "low", "xhigh", "max"].map(effortFlag),
  ["supports_sampling_params", "sampling", ({ sampling }) => sampling !== false],
  ["supports_assistant_prefill", "prefill", ({ prefill }) => prefill !== false],
  ["supports_forced_tool_use", "forced tools", ({ forcedTools }) => forcedTools !== false],
  ["supports_response_schema", "JSON schema", ({ jsonSchema }) => jsonSchema !== false],
  ["supports_reasoning", "reasoning", (_, { supported }) => supported.includes("reasoning")],
  ["supports_function_calling", "tools", (_, { supported }) => supported.includes("tools")],
  ["supports_vision", "images", (_, { inputModalities }) => inputModalities.includes("image")],
];

/** A flag that LiteLLM leaves out says nothing. */
export function abilityDifferences(sources: PriceSources, catalog: Catalog): AbilityDifference[] {
  return liteLlmModels(sources).flatMap(({ provider, name, entry }) => {
    const model = COMPARED.has(provider) ? modelAt(catalog, provider, name) : undefined;
    if (model === undefined || model.retired || model.kind === "embedding") return [];
    const { wires, supported } = model;
    const abilities = findAbilities({ provider, name, wires, supported, isDeclared: false });
    return FLAGS.flatMap(([flag, ability, oursOf]) => {
      const theirs = entry[flag];
      const ours = oursOf(abilities, model);
      if (typeof theirs !== "boolean" || theirs === ours) return [];
      return [{ id: `${provider}/${name}`, ability, ours }];
    });
  });
}
