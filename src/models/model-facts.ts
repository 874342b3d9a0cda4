// What a model is, beside its price: limits, abilities, wires, factors and fees. The tables in `tables/` are lists of rules;
// all rules that match a model are laid over one another in their order. A limit that nobody stated stays null.

import type { FeeMeter } from "../base/usage-meters.ts";
import type { Decimal, FeePrices, Pricing, TokenPrices } from "./price-card.ts";

export type Wire = "chat" | "responses" | "messages" | "embeddings" | "gemini" | "converse";
export type Modality = "text" | "image" | "audio" | "video" | "file";
export type Ability =
  | "tools"
  | "parallel_tools"
  | "structured_output"
  | "reasoning"
  | "vision"
  | "prompt_caching"
  | "web_search";

/** Where a fact can be read, and the day it was last compared with that; null where it was written from general knowledge. */
export interface Sourced {
  readonly source: string;
  readonly checked: string | null;
}

/** A statement about every model of a provider whose name matches. */
export interface FactRule extends Sourced {
  readonly providers: readonly string[];
  readonly match: RegExp;
  readonly context?: number;
  readonly maxOutput?: number;
  readonly input?: readonly Modality[];
  readonly output?: readonly Modality[];
  readonly supported?: readonly Ability[];
  readonly wires?: readonly Wire[];
  readonly released?: string;
}

/** What the published tables lack about a price. Tokens and fees fill in only where a table has none. */
export interface PriceRule extends Sourced {
  readonly providers: readonly string[];
  readonly match: RegExp;
  readonly serviceTiers?: Readonly<Record<string, Decimal>>;
  readonly speeds?: Readonly<Record<string, Decimal>>;
  readonly regions?: Readonly<Record<string, Decimal>>;
  readonly tokens?: TokenPrices;
  readonly fees?: FeePrices;
  readonly oncePerCall?: readonly FeeMeter[];
  readonly requestFees?: Readonly<Record<string, Decimal>>;
  /** The price of a cache write as a factor on input, where the provider documents it so. */
  readonly cacheWrite5m?: Decimal;
  readonly cacheWrite1h?: Decimal;
}

/** A model that the published tables do not have, or have wrong. */
export interface SupplementalModel extends Sourced {
  readonly checked: string;
  readonly provider: string;
  readonly name: string;
  readonly title: string;
  readonly released?: string;
  readonly aliases?: readonly string[];
  readonly kind?: "embedding";
  readonly simulated?: true;
  readonly pricing: readonly Pricing[];
}

export interface ModelFacts {
  readonly contextLength: number | null;
  readonly maxOutputTokens: number | null;
  readonly inputModalities: readonly Modality[];
  readonly outputModalities: readonly Modality[];
  readonly supported: readonly Ability[];
  readonly wires: readonly Wire[];
  readonly released: string | undefined;
}

const TEXT: readonly Modality[] = ["text"];

/** All that the rules say about one model. */
export function factsFor(rules: readonly FactRule[], provider: string, name: string): ModelFacts {
  let facts: ModelFacts = {
    contextLength: null,
    maxOutputTokens: null,
    inputModalities: TEXT,
    outputModalities: TEXT,
    supported: [],
    wires: [],
    released: undefined,
  };
  for (const rule of rules) {
    if (!rule.providers.includes(provider) || !rule.match.test(name)) continue;
    facts = {
      contextLength: rule.context ?? facts.contextLength,
      maxOutputTokens: rule.maxOutput ?? facts.maxOutputTokens,
      inputModalities: rule.input ?? facts.inputModalities,
      outputModalities: rule.output ?? facts.outputModalities,
      supported: rule.supported ?? facts.supported,
      wires: rule.wires ?? facts.wires,
      released: rule.released ?? facts.released,
    };
  }
  const lacksVision =
    facts.inputModalities.includes("image") && !facts.supported.includes("vision");
  return lacksVision ? { ...facts, supported: [...facts.supported, "vision"] } : facts;
}
