// A row of the table of abilities: what the models of a provider with such names support, and who says so.

import type { Abilities } from "../canonical/wire-interfaces.ts";

export interface AbilitySource {
  /** The address of a page, or where the replies of providers were recorded. */
  readonly source: string;
  /** The day on which it was read. */
  readonly checked: string;
}

export interface AbilityRule extends AbilitySource {
  readonly providers: readonly string[];
  readonly match: RegExp;
  readonly abilities: Abilities;
}

/** Matches every provider that the operator declares. */
export const DECLARED_PROVIDER = "declared";

/** What servers have that support little beyond the common fields of the chat API. */
export const OPENAI_COMPATIBLE_ABILITIES: Abilities = {
  openaiFields: false,
  developerRole: false,
  maxTokensField: "max_tokens",
};

/** Rejections by the provider itself, in the traffic that the tests replay. */
export const RECORDED: AbilitySource = {
  source: "recorded replies of providers",
  checked: "2026-11-28",
};

/** LiteLLM's flags of each model, which `npm run prices` compares with the table. */
export const LITELLM: AbilitySource = {
  source: "https://github.com/BerriAI/litellm/blob/main/model_prices_and_context_window.json",
  checked: "2026-11-28",
};

/** The levels of thinking of each model, made from models.dev and compared in the same way. */
export const PI_AI: AbilitySource = {
  source: "https://www.npmjs.com/package/@earendil-works/pi-ai",
  checked: "2026-11-28",
};
