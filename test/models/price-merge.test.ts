// `npm run prices`: how published price lists are merged into our table.

import { describe, expect, test } from "bun:test";
import { builtInModels, catalogOf } from "../../src/models/catalog.ts";
import { abilityDifferences } from "../support/prices/ability-differences.ts";
import { mergePrices } from "../support/prices/merge.ts";
import { missingModels } from "../support/prices/missing-models.ts";
import type { PriceSources } from "../support/prices/sources.ts";

const TODAY = "2026-11-23";

interface Lists {
  readonly genai: Record<string, string>;
  readonly litellm?: Record<string, number>;
  readonly pi?: { readonly input: number; readonly output: number };
}

/** The price of one OpenAI model in three lists, in US dollars per million tokens. */
function sourcesOf(name: string, { genai, litellm, pi }: Lists, provider = "openai"): PriceSources {
  const prices = Object.entries(genai).map(([meter, price]) => [`${meter}_mtok`, price]);
  return {
    versions: { "genai-prices": "1", litellm: "2", "pi-ai": "3", tokenlens: "4" },
    genaiPrices: [
      {
        id: provider,
        models: [
          {
            id: name,
            match: { equals: name },
            prices: { type: "ModelPrice", ...Object.fromEntries(prices) },
          },
        ],
      },
    ],
    liteLlm: litellm === undefined ? {} : { [name]: liteLlmEntry(litellm) },
    piAi:
      pi === undefined
        ? {}
        : {
            openai: {
              api: {
                [name]: {
                  id: name,
                  name,
                  type: "chat",
                  cost: { ...pi, cacheRead: 0, cacheWrite: 0 },
                },
              },
            },
          },
    tokenlens: Object.fromEntries(
      [
        "openai",
        "anthropic",
        "mistral",
        "groq",
        "xai",
        "togetherai",
        "fireworks-ai",
        "cerebras",
        "openrouter",
        "perplexity",
        "moonshotai",
        "zai",
        "google",
        "amazon-bedrock",
      ].map((file) => [file, { models: {} }]),
    ),
  };
}

function liteLlmEntry(rates: Record<string, number>): Record<string, unknown> {
  const costs = Object.entries(rates).map(([key, price]) => [key, price / 1_000_000]);
  return { litellm_provider: "openai", mode: "chat", ...Object.fromEntries(costs) };
}

function merged(lists: Lists, name = "gpt-9") {
  const { table, disagreements } = mergePrices(sourcesOf(name, lists), TODAY);
  const row = table.models.find((model) => model.provider === "openai");
  return { tokens: row?.pricing[0]?.tokens, sources: row?.sources, disagreements };
}

describe("mergePrices", () => {
  test("keeps a price on which lists agree, and names them", () => {
    const found = merged({
      genai: { input: "2", output: "10" },
      litellm: { input_cost_per_token: 2, output_cost_per_token: 10.01 },
    });
    expect(found).toEqual({
      tokens: { input: "2", output: "10" },
      sources: ["genai-prices", "litellm"],
      disagreements: [],
    });
  });

  test("uses the price that two of three lists have", () => {
    const found = merged({
      genai: { input: "3", output: "10" },
      litellm: { input_cost_per_token: 2, output_cost_per_token: 10 },
      pi: { input: 2, output: 10 },
    });
    expect(found.tokens).toEqual({ input: "2", output: "10" });
    expect(found.disagreements).toEqual([
      {
        id: "openai/gpt-9",
        meter: "input",
        prices: { "genai-prices": 3, litellm: 2, "pi-ai": 2 },
        price: 2,
        reason: "Two lists agree.",
      },
    ]);
  });

  test("uses the price that two lists have if the third has a higher one", () => {
    const found = merged({
      genai: { input: "2", output: "10" },
      litellm: { input_cost_per_token: 2, output_cost_per_token: 10 },
      pi: { input: 3, output: 10 },
    });
    expect(found.tokens).toEqual({ input: "2", output: "10" });
    expect(found.disagreements.map(({ price, reason }) => [price, reason])).toEqual([
      [2, "Two lists agree."],
    ]);
  });

  test("takes the higher price if two lists disagree", () => {
    const found = merged({
      genai: { input: "2", output: "10" },
      litellm: { input_cost_per_token: 1, output_cost_per_token: 12 },
    });
    expect(found.tokens).toEqual({ input: "2", output: "12" });
    expect(found.disagreements.map(({ meter, price }) => [meter, price])).toEqual([
      ["input", 2],
      ["output", 12],
    ]);
  });

  test("takes the price of cache reads from a list that has the other prices", () => {
    const cacheReadOf = (input: number, cacheRead: number) =>
      merged({
        genai: { input: "2", output: "10" },
        litellm: {
          input_cost_per_token: input,
          output_cost_per_token: 10,
          cache_read_input_token_cost: cacheRead,
        },
      }).tokens?.cache_read;
    expect([cacheReadOf(2, 0.2), cacheReadOf(1, 0.2), cacheReadOf(2, 3)]).toEqual([
      "0.2",
      undefined,
      undefined,
    ]);
  });

  describe("a second name of a model", () => {
    const entry = (input: number): Record<string, unknown> =>
      liteLlmEntry({ input_cost_per_token: input, output_cost_per_token: 10 });
    const mergedNames = (own: number, second: number) => {
      const sources = sourcesOf("gpt-9", { genai: { input: "2", output: "10" } });
      const [provider] = sources.genaiPrices as [{ models: [{ match: object }] }];
      provider.models[0].match = { or_: [{ equals: "gpt-9" }, { equals: "gpt-9-0801" }] };
      const liteLlm = { "gpt-9": entry(own), "gpt-9-0801": entry(second) };
      const { table, disagreements } = mergePrices({ ...sources, liteLlm }, TODAY);
      const rows = table.models.filter((model) => model.provider === "openai");
      return {
        rows: rows.map(({ name, aliases, pricing }) => [
          name,
          aliases,
          pricing[0]?.tokens["input"],
        ]),
        disagreements: disagreements.map(({ id, price }) => [id, price]),
      };
    };

    test("becomes a model if a list has a higher price for it", () => {
      expect(mergedNames(2, 3)).toEqual({
        rows: [
          ["gpt-9", [], "2"],
          ["gpt-9-0801", undefined, "3"],
        ],
        disagreements: [["openai/gpt-9-0801", 3]],
      });
    });

    test("stays an alias, and is listed, if the price of the model is used", () => {
      expect(mergedNames(2, 1)).toEqual({
        rows: [["gpt-9", ["gpt-9-0801"], "2"]],
        disagreements: [["openai/gpt-9-0801", 2]],
      });
    });

    test("stays an alias if a list has one price for both", () => {
      expect(mergedNames(3, 3).rows).toEqual([["gpt-9", ["gpt-9-0801"], "3"]]);
    });
  });

  test("leaves out a model with a price that no meter counts", () => {
    const found = merged({ genai: { input: "2", output: "10", input_video: "3" } });
    expect(found.tokens).toBeUndefined();
  });

  test("adds a model that only other lists have, if it is allowed", () => {
    const sources = sourcesOf("gpt-9", { genai: { input: "2", output: "10" } });
    const { table } = mergePrices(
      {
        ...sources,
        liteLlm: {
          "zai/glm-9": {
            litellm_provider: "zai",
            mode: "chat",
            input_cost_per_token: 1e-6,
            output_cost_per_token: 3e-6,
          },
          "fireworks_ai/old": {
            litellm_provider: "fireworks_ai",
            mode: "chat",
            input_cost_per_token: 1e-6,
            output_cost_per_token: 3e-6,
          },
        },
      },
      TODAY,
    );
    const added = table.models.filter(({ sources: lists }) => lists.includes("litellm"));
    expect(added).toEqual([
      {
        provider: "zai",
        name: "glm-9",
        title: "glm-9",
        pricing: [{ tokens: { input: "1", output: "3" } }],
        sources: ["litellm"],
      },
    ]);
  });
});

describe("missingModels", () => {
  const missing = (name: string, rates: Record<string, number>) => {
    const sources = sourcesOf("gpt-9", { genai: { input: "2", output: "10" } });
    const { table } = mergePrices(sources, TODAY);
    const lists = { ...sources, liteLlm: { [name]: liteLlmEntry(rates) } };
    return missingModels(lists, table, TODAY).map(({ id, rates: text }) => `${id} ${text}`);
  };
  const rates = { input_cost_per_token: 8, output_cost_per_token: 40 };

  test("lists a model that a provider makes and sells, and that our tables lack", () => {
    expect(missing("gpt-9-astra", rates)).toEqual(["openai/gpt-9-astra input 8, output 40"]);
  });

  test("leaves out a known one, its snapshots, a free one, and one left out for a reason", () => {
    for (const name of ["gpt-9", "gpt-9-2026-11-28", "gpt-6.2-astra", "ft:gpt-4o-2024-08-06"])
      expect(missing(name, rates)).toEqual([]);
    expect(missing("gpt-9-free", { ...rates, input_cost_per_token: 0 })).toEqual([]);
  });
});

test("abilityDifferences lists where other lists say otherwise of what a model supports", () => {
  const entry = {
    ...liteLlmEntry({ input_cost_per_token: 8 }),
    supports_none_reasoning_effort: true,
    supports_xhigh_reasoning_effort: true,
    supports_function_calling: false,
  };
  const modelsDev = { id: "gpt-6.2-astra", tool_call: false, temperature: true, reasoning: true };
  const pi = {
    id: "gpt-6.2-astra",
    type: "chat",
    input: ["text", "image"],
    thinkingLevelMap: { off: "none", high: "high", max: null },
  };
  const sources: PriceSources = {
    ...sourcesOf("gpt-9", { genai: {} }),
    liteLlm: { "gpt-6.2-astra": entry },
    tokenlens: { openai: { models: { [modelsDev.id]: modelsDev } } },
    piAi: { openai: { openai: { [pi.id]: pi } } },
  };
  const id = "openai/gpt-6.2-astra";
  expect(abilityDifferences(sources, catalogOf(builtInModels()))).toEqual([
    { id, ability: "effort none", ours: false, list: "litellm" },
    { id, ability: "tools", ours: true, list: "litellm" },
    { id, ability: "tools", ours: true, list: "tokenlens" },
    { id, ability: "effort none", ours: false, list: "pi-ai" },
    { id, ability: "effort max", ours: true, list: "pi-ai" },
  ]);
});
