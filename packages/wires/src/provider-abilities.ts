// What each model supports, for the wires that write requests to it. An absent ability means what the newest models do;
// the rules list the exceptions, each with its source.

import {
  type AbilityRule,
  type AbilitySource,
  DECLARED_PROVIDER,
  OPENAI_COMPATIBLE_ABILITIES,
} from "./abilities/ability-rule.ts";
import { CLAUDE_RULES } from "./abilities/claude-abilities.ts";
import { COMPATIBLE_RULES } from "./abilities/compatible-abilities.ts";
import { OPENAI_RULES } from "./abilities/openai-abilities.ts";
import type { Abilities } from "./canonical/wire-interfaces.ts";
import { type UpstreamWireName, WIRE_TRAITS } from "./wire-traits.ts";

/** Later rules override earlier ones. */
const RULES: readonly AbilityRule[] = [...OPENAI_RULES, ...COMPATIBLE_RULES, ...CLAUDE_RULES];
const SIMULATOR = "sim";

/** The providers that the rules know; the operator has declared any other. */
const KNOWN_PROVIDERS: ReadonlySet<string> = new Set(
  RULES.flatMap(({ providers }) => providers).concat(SIMULATOR),
);

interface ModelAtProvider {
  readonly provider: string;
  /** The provider's own name for it. */
  readonly name: string;
  readonly wires: readonly UpstreamWireName[];
  /** What the catalog lists; empty if it lists nothing. */
  readonly supported: readonly string[];
}

export function findAbilities(model: ModelAtProvider): Abilities {
  const { provider, wires, supported } = model;
  // Of a declared chat server, assume only the common fields.
  const openaiFields = new Set(wires.map((wire) => WIRE_TRAITS[wire].openaiFields));
  const isPlainChatServer =
    !KNOWN_PROVIDERS.has(provider) && openaiFields.has("common") && !openaiFields.has("all");
  const abilities: Abilities = Object.assign(
    {},
    isPlainChatServer ? OPENAI_COMPATIBLE_ABILITIES : {},
    ...rulesOf(model).map((rule) => rule.abilities),
  );
  return supported.includes("reasoning") ||
    abilities.reasoning !== undefined ||
    supported.length === 0
    ? abilities
    : { ...abilities, reasoning: "none" };
}

/** Who says what a model supports, each once. */
export function abilitySources(model: ModelAtProvider): readonly AbilitySource[] {
  const sources = new Map<string, AbilitySource>();
  for (const { source, checked } of rulesOf(model)) sources.set(source, { source, checked });
  return [...sources.values()];
}

function rulesOf({ provider, name }: ModelAtProvider): readonly AbilityRule[] {
  const host = KNOWN_PROVIDERS.has(provider) ? provider : DECLARED_PROVIDER;
  return RULES.filter((rule) => rule.providers.includes(host) && rule.match.test(name));
}
