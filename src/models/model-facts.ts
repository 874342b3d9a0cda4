// Facts about models besides their price: limits, abilities and wires. The tables in `tables/` are lists of rules; all rules
// that match a model apply in order, the later ones winning. A limit that no rule states stays null.

import type { FeeMeter, ModelKind, RelayedApi, TokenMeter } from "@postern/wires";
import type { Decimal, FeePrices, Pricing, TokenPrices } from "./price-card.ts";

export type Wire = "chat" | "responses" | "messages" | "gemini" | "converse" | RelayedApi;
export type Modality = "text" | "image" | "audio" | "video" | "file";
export type Ability =
  | "tools"
  | "parallel_tools"
  | "structured_output"
  | "reasoning"
  | "vision"
  | "prompt_caching"
  | "web_search";

/** The source of a fact and the day it was last checked; null if it was never checked against the source. */
export interface Sourced {
  readonly source: string;
  readonly checked: string | null;
}

/** Applies to every model of the providers whose name matches. */
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

/** Price data that the published tables lack. Tokens and fees apply only if a table has no price for the meter. */
export interface PriceRule extends Sourced {
  readonly providers: readonly string[];
  readonly match: RegExp;
  readonly serviceTiers?: Readonly<Record<string, Decimal>>;
  readonly speeds?: Readonly<Record<string, Decimal>>;
  readonly regions?: Readonly<Record<string, Decimal>>;
  readonly tokens?: TokenPrices;
  readonly fees?: FeePrices;
  readonly oncePerCall?: readonly FeeMeter[];
  readonly notCheaperInBatches?: readonly TokenMeter[];
  readonly requestFees?: Readonly<Record<string, Decimal>>;
  /** The price of a cache write as a multiple of the input price. */
  readonly cacheWrite5m?: Decimal;
  readonly cacheWrite1h?: Decimal;
}

/** A model that the published tables lack or have wrong. */
export interface SupplementalModel extends Sourced {
  readonly checked: string;
  readonly provider: string;
  readonly name: string;
  readonly title: string;
  readonly released?: string;
  readonly aliases?: readonly string[];
  readonly kind?: ModelKind;
  readonly simulated?: true;
  readonly pricing: readonly Pricing[];
}

/** Makes the rows of a table, which state only what differs from its defaults. */
export function rowsOf<T extends object>() {
  return <D extends Partial<T>>(
    defaults: D,
    rows: readonly (Omit<T, keyof D> & Partial<T>)[],
  ): readonly T[] =>
    // Safe because a row has what the defaults lack.
    rows.map((row) => ({ ...defaults, ...row }) as unknown as T);
}

export const factRules = rowsOf<FactRule>();
export const priceRules = rowsOf<PriceRule>();

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

/** The facts that the rules state about one model. */
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
