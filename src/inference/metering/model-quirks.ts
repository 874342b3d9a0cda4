// Models that use tools in every call, even if the request has none.

import type { FeeMeter } from "@postern/wires";
import { memoize } from "../../base/memoize.ts";
import type { Model } from "../../models/catalog.ts";

export interface ModelQuirk {
  readonly model: RegExp;
  readonly searches: number;
  readonly searchMeter: FeeMeter;
  /** What one search adds to the prompt at most. */
  readonly tokensPerSearch: number;
  /** The caller's output limit does not cover reasoning. */
  readonly hasUnboundedReasoning?: true;
}

const MODEL_QUIRKS: readonly ModelQuirk[] = [
  {
    model: /^(openai|azure|openrouter\/openai)\/.*-search-preview/,
    searches: 1,
    searchMeter: "web_search_preview",
    tokensPerSearch: 8_000,
  },
  {
    model: /^(openai|azure)\/.*-search-api/,
    searches: 1,
    searchMeter: "web_search",
    tokensPerSearch: 8_000,
  },
  {
    model: /^(openrouter\/)?perplexity\/.*deep-research/,
    searches: 50,
    searchMeter: "web_search",
    tokensPerSearch: 4_000,
    hasUnboundedReasoning: true,
  },
  // OpenRouter adds the search that OpenAI requires in the request.
  {
    model: /^openrouter\/openai\/.*deep-research/,
    searches: 50,
    searchMeter: "web_search",
    tokensPerSearch: 4_000,
  },
];

export function quirkOf({ id }: Pick<Model, "id">): ModelQuirk | undefined {
  const found = quirks(id);
  return found === "none" ? undefined : found;
}

const quirks = memoize(
  (id: string): ModelQuirk | "none" => MODEL_QUIRKS.find(({ model }) => model.test(id)) ?? "none",
);
