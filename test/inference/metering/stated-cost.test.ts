// The cost that a provider states is what is charged.

import { describe, expect, test } from "bun:test";
import { type Usage, usageOf } from "@postern/wires";
import { chargeFor, estimatedUsage } from "../../../src/inference/metering/charge.ts";
import { estimateCost } from "../../../src/inference/metering/cost-estimate.ts";
import { PROVIDERS } from "../../../src/inference/providers/providers.ts";
import { parseRequest } from "../../../src/inference/request/parse-request.ts";
import { builtInModels, type Catalog, catalogOf, findModel } from "../../../src/models/catalog.ts";
import { mergeModels } from "../../../src/models/live-catalog.ts";
import { parseModelsFile } from "../../../src/models/models-file.ts";

const NOW = Date.parse("2026-11-23");
const MODEL = "openrouter/openai/gpt-4o-mini";
const catalog = catalogOf(builtInModels());
const usage: Usage = { tokens: { input: 900, output: 69 }, fees: {} };
/** 900 × 0.15 and 69 × $0.6 per million tokens. */
const LIST_PRICE = 176_400n;

function charge(
  stated: number | undefined,
  from: Catalog = catalog,
  id = MODEL,
  plausibleTokens = 1_000_000,
) {
  const model = findModel(from, id)?.model;
  if (model === undefined) throw new Error(`no model ${id}`);
  const bounds = { inputTokens: plausibleTokens, outputTokens: plausibleTokens };
  return chargeFor(stated === undefined ? usage : { ...usage, statedCostUsd: stated }, {
    catalog: from,
    model,
    // Safe: a charge reads no other fields of the estimate.
    estimate: { plausible: bounds, bounds, toolTerms: undefined } as unknown as Parameters<
      typeof chargeFor
    >[1]["estimate"],
    held: 1_000_000n,
    at: NOW,
    durationMs: 0,
    outputBytes: 0,
    hasUnknownFields: () => false,
  });
}

describe("a stated cost", () => {
  test("is charged, also above the list price and above the hold: it includes tools", () => {
    expect(charge(0.0160614)).toMatchObject({
      cost: 16_061_400n,
      lines: [{ meter: "provider_cost", count: 1, usd: "0.0160614" }],
      exact: true,
    });
  });

  test("is charged also where the reported tokens are implausible", () => {
    expect(charge(0.0160614, catalog, MODEL, 10)).toMatchObject({ cost: 16_061_400n, exact: true });
    expect(charge(undefined, catalog, MODEL, 10)).toMatchObject({ cost: LIST_PRICE, exact: false });
  });

  test("is charged below the list price", () => {
    expect(charge(0.0001).cost).toBe(100_000n);
  });

  test("that equals the list price leaves the lines of each meter", () => {
    expect(charge(0.0001764).lines).toEqual(charge(undefined).lines);
    expect(charge(0.0001764).cost).toBe(LIST_PRICE);
  });

  test("of 0 is ignored: a key stored at the provider may have paid", () => {
    expect(charge(0).cost).toBe(LIST_PRICE);
  });

  test("does not replace a price that the operator has set", () => {
    const file = { models: [{ id: MODEL, pricing: { tokens: { input: "10", output: "10" } } }] };
    const own = mergeModels(builtInModels(), parseModelsFile(JSON.stringify(file)), NOW);
    expect(charge(0.0001, own).cost).toBe(9_690_000n);
  });

  test("of a provider that the operator has added is ignored", () => {
    const provider = { id: "local", base_url: "http://127.0.0.1:1/v1", wires: ["chat"] };
    const file = {
      providers: [provider],
      models: [{ id: "local/m", priced_like: MODEL }],
    };
    const own = mergeModels(builtInModels(), parseModelsFile(JSON.stringify(file)), NOW);
    expect(charge(5, own, "local/m").cost).toBe(LIST_PRICE);
  });

  test("before the end of a stream is not the cost of the call", () => {
    const partial = {
      reported: { ...usage, statedCostUsd: 0.00001 },
      outputTokens: 0,
      outputAudioBytes: 0,
      fees: {},
      model: undefined,
    };
    expect(estimatedUsage(partial, {}).statedCostUsd).toBeUndefined();
  });

  test("of a broken stream counts reasoning once, and keeps what the provider has reported", () => {
    const partial = (reported: Usage["tokens"], outputTokens: number) =>
      estimatedUsage(
        {
          reported: { tokens: reported, fees: {} },
          outputTokens,
          outputAudioBytes: 0,
          fees: {},
          model: undefined,
        },
        { input: 7 },
      ).tokens;
    // The relayed text includes the reasoning.
    expect(partial({ input: 5, output: 10, reasoning: 60 }, 100)).toEqual({
      input: 5,
      output: 40,
      reasoning: 60,
    });
    expect(partial({ input: 5, output: 90, reasoning: 60 }, 100).output).toBe(90);
    expect(partial({ reasoning: 60 }, 20)).toEqual({ input: 7, output: 0, reasoning: 60 });
  });

  test("includes what a key stored at OpenRouter paid to another provider", () => {
    const reply = (more: object) => ({
      model: "openai/gpt-4o-mini",
      usage: { prompt_tokens: 1, completion_tokens: 1, cost: 0.01, is_byok: true, ...more },
    });
    const stated = (body: object) => usageOf("chat", body, "openrouter")?.statedCostUsd;
    expect(stated(reply({ cost_details: { upstream_inference_cost: 0.2 } }))).toBeCloseTo(0.21);
    expect(stated(reply({}))).toBeUndefined();
    expect(stated(reply({ is_byok: false }))).toBe(0.01);
  });
});

describe("the hold of a model that searches in every call covers", () => {
  const openrouter = PROVIDERS.find(({ id }) => id === "openrouter");
  if (openrouter === undefined) throw new Error("no provider");
  const held = (name: string): number => {
    const model = findModel(catalog, `openrouter/${name}`)?.model;
    if (model === undefined) throw new Error(`no model ${name}`);
    const body = { model: model.id, messages: [{ role: "user", content: "hi" }], max_tokens: 16 };
    const request = parseRequest("chat", JSON.stringify(body));
    const { amount } = estimateCost(request, model, openrouter, { catalog, now: NOW, byok: false });
    return Number(amount) / 1e9;
  };

  // What OpenRouter's pages list for a request, or for 30 searches of a deep research.
  test.each([
    ["perplexity/sonar", 0.012],
    ["perplexity/sonar-pro", 0.014],
    ["perplexity/sonar-reasoning-pro", 0.014],
    ["perplexity/sonar-pro-search", 0.018],
    ["openai/gpt-4o-search-preview", 0.035],
    ["perplexity/sonar-deep-research", 0.15],
    ["openai/o4-mini-deep-research", 0.3],
  ])("the fee of %s", (name, usd) => {
    expect(held(name)).toBeGreaterThanOrEqual(usd);
  });

  test("no fee of other models", () => {
    expect(held("openai/gpt-4o-mini")).toBeLessThan(0.001);
  });
});
