// What each model supports, as one table: the rules of the wires decide how requests are written and adapted, and the model's
// record and the documentation show the same.

import { type Abilities, abilitySources, findAbilities, WIRE_TRAITS } from "@postern/wires";
import { z } from "zod";
import type { Model } from "./catalog.ts";
import type { PriceCard } from "./price.ts";

/** By model of a catalog: several stages of a call ask for them. */
const known = new WeakMap<Model, Abilities>();

export function abilitiesOf(model: Model): Abilities {
  const cached = known.get(model);
  if (cached !== undefined) return cached;
  const found = findAbilities(model);
  known.set(model, found);
  return found;
}

const Restricted = z.union([z.boolean(), z.enum(["without_reasoning", "without_effort"])]);

export const AbilityRecord = z
  .object({
    reasoning: z.enum(["effort", "budget"]).nullable().meta({
      description: "How reasoning is set: by an effort, by a token budget, or not at all.",
    }),
    efforts: z
      .array(z.string())
      .nullable()
      .meta({
        description: "The efforts that it takes; null if no limit is known.",
        example: ["low", "medium", "high"],
      }),
    sampling: Restricted.meta({
      description:
        "Takes `temperature` and `top_p`; `without_reasoning` and `without_effort`: only if the call does not reason, or names no effort.",
    }),
    tools: z.record(z.string(), Restricted).meta({
      description: "The provider's APIs on which it takes functions; empty if it takes none.",
      example: { chat: "without_reasoning", responses: true },
    }),
    forced_tools: Restricted.meta({ description: "Takes a choice that forces a tool call." }),
    json_schema: z.boolean().meta({
      description: "Enforces a JSON schema of the output; otherwise Postern asks for it.",
    }),
    stop: z.enum(["provider", "gateway"]).meta({
      description: "Who ends the reply at a stop sequence.",
    }),
    seed: z.boolean().meta({ description: "Takes a seed." }),
    n: z.boolean().meta({ description: "Returns several choices." }),
    logprobs: z.boolean().meta({ description: "Returns log probabilities." }),
    prefill: z.boolean().meta({ description: "Takes a last message of the assistant." }),
    service_tiers: z
      .array(z.string())
      .meta({ description: "The tiers that have a price.", example: ["flex", "priority"] }),
    sources: z
      .array(
        z.object({
          source: z.string().meta({ description: "An address, or what was read." }),
          checked: z.string().meta({ description: "The day.", example: "2026-11-28" }),
        }),
      )
      .meta({ description: "Where the restrictions are from, and when they were checked." }),
  })
  .nullable()
  .meta({
    id: "ModelAbilities",
    description:
      "What the provider accepts for this model. Postern adapts what it does not. Null for models of embeddings.",
  });

export type AbilityRecordJson = z.infer<typeof AbilityRecord>;

export function toAbilityRecord(model: Model, card: PriceCard | undefined): AbilityRecordJson {
  if (model.kind === "embedding") return null;
  const abilities = abilitiesOf(model);
  const { sampling = true, forcedTools = true } = abilities;
  const traits = model.wires.map((wire) => WIRE_TRAITS[wire]);
  const isOn = (trait: keyof WireFlags, ability?: boolean): boolean =>
    ability !== false && traits.some((one) => one[trait]);
  return {
    ...reasoningOf(model, abilities),
    sampling,
    tools: functionsOf(model, abilities),
    forced_tools: forcedTools,
    json_schema: abilities.jsonSchema !== false,
    stop: isOn("takesStops", abilities.stop) ? "provider" : "gateway",
    seed: isOn("takesSeed"),
    n: isOn("takesChoices", abilities.choices),
    logprobs: isOn("returnsLogprobs", abilities.logprobs),
    prefill: abilities.prefill !== false,
    service_tiers: Object.keys(card?.serviceTiers ?? {}),
    sources: [...abilitySources(model)],
  };
}

type WireFlags = Pick<
  (typeof WIRE_TRAITS)["chat"],
  "takesStops" | "takesSeed" | "takesChoices" | "returnsLogprobs"
>;

function reasoningOf(
  { supported }: Model,
  { reasoning, efforts }: Abilities,
): Pick<NonNullable<AbilityRecordJson>, "reasoning" | "efforts"> {
  const isListed = reasoning !== undefined || supported.includes("reasoning");
  if (reasoning === "none" || !isListed) return { reasoning: null, efforts: [] };
  if (reasoning === "budget") return { reasoning, efforts: null };
  return { reasoning: "effort", efforts: efforts === undefined ? null : [...efforts] };
}

function functionsOf(
  { wires, supported }: Model,
  abilities: Abilities,
): NonNullable<AbilityRecordJson>["tools"] {
  if (!supported.includes("tools")) return {};
  return Object.fromEntries(
    wires.map((wire) => [wire, functionsOn(WIRE_TRAITS[wire].takesFunctions, abilities)]),
  );
}

/** Whether a wire takes functions, and beside which effort. */
function functionsOn(
  takes: (abilities: Abilities, effort: unknown) => boolean,
  abilities: Abilities,
): z.infer<typeof Restricted> {
  if (takes(abilities, "high")) return true;
  if (takes(abilities, undefined)) return "without_effort";
  return takes(abilities, "none") ? "without_reasoning" : false;
}
