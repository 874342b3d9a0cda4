import { describe, expect, test } from "bun:test";
import { usdTextOfPico } from "../../src/base/money/money.ts";
import {
  builtInModels,
  cardFor,
  cardResolver,
  catalogOf,
  findModel,
  limitsOf,
  priceAge,
  OPERATOR_SOURCE,
} from "../../src/models/catalog.ts";
import type { Model } from "../../src/models/catalog.ts";
import { PRICE_TABLE } from "../../src/models/list-prices.ts";
import { modelNotFound, similarIds } from "../../src/models/model-not-found.ts";
import { cardAt } from "../../src/models/price-card.ts";

const NOW = Date.parse("2026-11-21T12:00:00Z");
const catalog = catalogOf(builtInModels());

function model(id: string): Model {
  const found = findModel(catalog, id);
  if (found === undefined) throw new Error(`no ${id}`);
  return found.model;
}

function usdPerMillion(id: string): readonly string[] {
  const card = cardAt(model(id).prices, NOW);
  return (["input", "cache_read", "cache_write_5m", "output"] as const).map((meter) =>
    usdTextOfPico((card?.base[meter] ?? 0n) * 1_000_000n),
  );
}

describe("catalog", () => {
  test("has models of every provider", () => {
    const providers = new Set(catalog.models.map(({ provider }) => provider));
    expect([...providers].toSorted()).toEqual([
      "anthropic",
      "azure",
      "bedrock",
      "cerebras",
      "cohere",
      "deepseek",
      "fireworks",
      "google",
      "groq",
      "jina",
      "mistral",
      "moonshot",
      "openai",
      "openrouter",
      "perplexity",
      "sim",
      "together",
      "vertex",
      "voyage",
      "xai",
      "zai",
    ]);
    expect(catalog.models.length).toBeGreaterThan(700);
  });

  test("every model has an input price at any time, and a wire", () => {
    for (const { id, prices, wires, retired } of catalog.models) {
      for (const at of [NOW, Date.parse("2026-11-23T02:00:00Z"), Date.parse("2027-06-01")]) {
        expect([id, (cardAt(prices, at)?.base.input ?? -1n) >= 0n]).toEqual([id, true]);
      }
      expect([id, wires.length > 0, retired]).toEqual([id, true, false]);
    }
  });

  test("models with image or audio output have a price for it, or are left out", () => {
    const media = /-image(-|$)|audio/;
    for (const { id, prices } of catalog.models.filter(({ id }) => media.test(id))) {
      const base = cardAt(prices, NOW)?.base;
      const price = base?.output_image ?? base?.output_audio ?? base?.image_generation;
      expect([id, price]).not.toEqual([id, undefined]);
    }
    for (const name of [
      "openai/gpt-audio",
      "openai/gpt-5-image",
      "mistralai/voxtral-small-24b-2507",
    ])
      expect([name, findModel(catalog, `openrouter/${name}`)]).toEqual([name, undefined]);
  });

  test("OpenRouter's Gemini models have Google's price for audio input", () => {
    const audioPrice = (id: string): bigint | undefined =>
      cardAt(catalog.byName.get(id)?.prices ?? [], NOW)?.base.input_audio;
    for (const name of ["gemini-2.5-flash", "gemini-2.5-flash-lite", "gemini-3-flash-preview"])
      expect([name, audioPrice(`openrouter/google/${name}`)]).toEqual([
        name,
        audioPrice(`google/${name}`),
      ]);
  });

  test("Gemini image models use the gemini wire, which reports image tokens separately", () => {
    for (const { id, wires } of catalog.models.filter(({ id }) =>
      /^google\/.*-(image|banana)/.test(id),
    ))
      expect([id, wires]).toEqual([id, ["gemini", "images", "image_edits"]]);
  });

  test("ids are unique, start with their provider, and are sorted", () => {
    const ids = catalog.models.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids).toEqual(ids.toSorted());
    for (const { id, provider } of catalog.models) expect(id.startsWith(`${provider}/`)).toBe(true);
  });

  test("finds every model by its id and its aliases", () => {
    for (const entry of catalog.models) {
      expect(findModel(catalog, entry.id)).toEqual({ model: entry, upstreamName: entry.name });
      for (const alias of entry.aliases)
        expect(catalog.byName.has(`${entry.provider}/${alias}`.toLowerCase())).toBe(true);
    }
  });

  test("has the current list prices of well-known models", () => {
    const table: Record<string, readonly string[]> = {
      "openai/gpt-4o": ["2.5", "1.25", "0", "10"],
      "openai/gpt-5.6-sol": ["4", "0.4", "5", "20"],
      "openai/gpt-6.2-sol": ["2", "0.1", "2.5", "10"],
      "openai/gpt-6.2-astra": ["8", "0.4", "10", "40"],
      "azure/gpt-6.2-astra": ["8", "0.4", "10", "40"],
      "bedrock/us.openai.gpt-6.2-astra": ["8.8", "0.44", "11", "44"],
      "bedrock/eu.xai.grok-4.7": ["2.2", "0.55", "0", "6.6"],
      "anthropic/claude-mythos-5-1": ["10", "0.25", "12.5", "50"],
      "google/gemini-4-hydrogen": ["1.5", "0.075", "0", "7.5"],
      "vertex/gemini-4-neon": ["3", "0.15", "0", "15"],
      "mistral/codestral-latest": ["0.3", "0.03", "0", "0.9"],
      "openrouter/qwen/qwen4-max": ["1.425", "0.07125", "1.78125", "4.275"],
      "anthropic/claude-opus-5-5": ["4", "0.2", "5", "20"],
      "anthropic/claude-sonnet-4-5": ["3", "0.3", "3.75", "15"],
      "anthropic/claude-haiku-5-5": ["0.1", "0.01", "0.125", "0.5"],
      "google/gemini-2.5-pro": ["1.25", "0.125", "0", "10"],
      "xai/grok-4.7": ["2", "0.5", "0", "6"],
      "deepseek/deepseek-v4-pro": ["0.66", "0.022", "0", "1.98"],
      "mistral/mistral-large-latest": ["0.7", "0.07", "0", "2.1"],
      "groq/openai/gpt-oss-120b": ["0.15", "0.075", "0", "0.6"],
      "moonshot/kimi-k3": ["3", "0.3", "3", "15"],
      "zai/glm-5.3": ["1.4", "0.26", "0", "4.4"],
      "zai/glm-5.3-flash": ["0.15", "0.03", "0", "0.5"],
      "openai/gpt-6.1-terra": ["1", "0.05", "1.25", "5"],
      "google/gemini-4-argon": ["2", "0.1", "0", "10"],
      "google/gemini-flash-latest": ["0.75", "0.075", "0", "3.75"],
      "google/gemini-flash-lite-latest": ["0.3", "0.03", "0", "2.5"],
      "vertex/claude-sonnet-5-5": ["2", "0.1", "2.5", "10"],
      "vertex/claude-haiku-4-5": ["1", "0.1", "1.25", "5"],
      "mistral/ministral-3b-latest": ["0.1", "0.01", "0", "0.1"],
      "together/deepseek-ai/DeepSeek-V4.1-Flash": ["0.3", "0.006", "0", "1.2"],
      "fireworks/deepseek-v4p1-flash": ["0.3", "0.006", "0", "1.2"],
      "fireworks/kimi-k3-us": ["4.5", "0.45", "0", "22.5"],
      "groq/openai/gpt-oss-safeguard-20b": ["0.075", "0.0375", "0", "0.3"],
      "bedrock/us.moonshotai.kimi-k3": ["3.3", "0.33", "4.125", "16.5"],
      "bedrock/zai.glm-4.7": ["0.6", "0", "0", "2.2"],
      "sim/echo": ["1", "0.1", "1.25", "2"],
      "sim/embed": ["1", "0", "0", "0"],
    };
    for (const [id, prices] of Object.entries(table))
      expect([id, usdPerMillion(id)]).toEqual([id, prices]);
  });

  test("has limits and abilities of the main models, and null for unknown limits", () => {
    expect(model("openai/gpt-5.4")).toMatchObject({
      contextLength: 1_050_000,
      maxOutputTokens: 128_000,
      inputModalities: ["text", "image", "file"],
    });
    expect(model("openai/gpt-5.4").supported).toEqual(
      expect.arrayContaining(["tools", "reasoning", "structured_output", "vision"]),
    );
    expect(model("anthropic/claude-haiku-4-5")).toMatchObject({
      contextLength: 200_000,
      maxOutputTokens: 64_000,
    });
    expect(model("google/gemini-2.5-flash")).toMatchObject({
      contextLength: 1_048_576,
      maxOutputTokens: 65_536,
    });
    expect(model("xai/grok-4.3").maxOutputTokens).toBeNull();
    for (const provider of ["openai", "anthropic", "deepseek"]) {
      for (const { id, kind, contextLength, maxOutputTokens } of catalog.models.filter(
        (entry) => entry.provider === provider,
      )) {
        expect([id, contextLength !== null, kind !== "chat" || maxOutputTokens !== null]).toEqual([
          id,
          true,
          true,
        ]);
      }
    }
  });

  test("an unknown limit counts as the longest possible one", () => {
    expect(limitsOf(model("xai/grok-4.3"))).toEqual({ input: 1_000_000, output: 1_000_000 });
    expect(limitsOf({ ...model("xai/grok-4.3"), contextLength: null })).toEqual({
      input: 2_000_000,
      output: 2_000_000,
    });
    expect(limitsOf(model("sim/tiny"))).toEqual({ input: 2048, output: 256 });
    expect(limitsOf(model("sim/embed")).output).toBe(0);
  });

  test("Gemini 4 has the limits and abilities of its generation", () => {
    const { contextLength, maxOutputTokens, inputModalities, supported } =
      model("google/gemini-4-argon");
    expect([contextLength, maxOutputTokens]).toEqual([1_048_576, 65_536]);
    expect(inputModalities).toContain("video");
    expect(supported).toEqual(expect.arrayContaining(["tools", "reasoning", "web_search"]));
  });

  test("each model lists the wires of its provider", () => {
    expect(model("openai/gpt-5.4").wires).toEqual(["chat", "responses"]);
    expect(model("openai/gpt-5.4-pro").wires).toEqual(["responses"]);
    expect(model("anthropic/claude-sonnet-5").wires).toEqual(["messages"]);
    expect(model("google/gemini-3.8-flash").wires).toEqual(["gemini", "chat"]);
    expect(model("openai/text-embedding-3-small").wires).toEqual(["embeddings"]);
    expect(model("sim/echo").wires).toEqual([
      "chat",
      "responses",
      "messages",
      "gemini",
      "converse",
    ]);
    expect(model("sim/embed").wires).toEqual(["embeddings"]);
  });

  test("the simulator's models are marked as simulated", () => {
    const simulated = catalog.models.filter((entry) => entry.provider === "sim");
    expect(simulated.map(({ id }) => id)).toEqual([
      "sim/echo",
      "sim/echo-decisions",
      "sim/embed",
      "sim/image",
      "sim/image-each",
      "sim/image-each-pixel",
      "sim/image-each-size",
      "sim/moderation",
      "sim/reason",
      "sim/rerank",
      "sim/rerank-tokens",
      "sim/speech",
      "sim/speech-tokens",
      "sim/tiny",
      "sim/transcribe",
      "sim/transcribe-tokens",
    ]);
    for (const entry of simulated)
      expect([entry.simulated, entry.title.startsWith("Simulator")]).toEqual([true, true]);
    expect(catalog.models.filter((entry) => entry.simulated)).toHaveLength(16);
  });
});

describe("findModel", () => {
  test("resolves a dated snapshot to its model, and keeps the snapshot name for the provider", () => {
    expect(findModel(catalog, "anthropic/claude-sonnet-4-5-20250929")).toMatchObject({
      model: { id: "anthropic/claude-sonnet-4-5" },
      upstreamName: "claude-sonnet-4-5-20250929",
    });
    expect(findModel(catalog, "openai/gpt-4o-2024-08-06")).toMatchObject({
      model: { id: "openai/gpt-4o" },
      upstreamName: "gpt-4o-2024-08-06",
    });
  });

  test("replaces a spelling by the provider's name, and keeps the region of an inference profile", () => {
    expect(findModel(catalog, "anthropic/claude-haiku-4.5")?.upstreamName).toBe("claude-haiku-4-5");
    expect(findModel(catalog, "fireworks/kimi-k3")?.upstreamName).toBe(
      "accounts/fireworks/models/kimi-k3",
    );
    expect(findModel(catalog, "bedrock/eu.anthropic.claude-opus-4-8")?.upstreamName).toBe(
      "eu.anthropic.claude-opus-4-8",
    );
  });

  test("does not resolve an unknown version to a known one", () => {
    expect(findModel(catalog, "anthropic/claude-sonnet-5-7")).toBeUndefined();
    expect(findModel(catalog, "openai/gpt-5.9")).toBeUndefined();
  });

  test("does not find models that are retired, without a price, or for other endpoints", () => {
    for (const id of [
      "openai/gpt-4-32k",
      "openai/whisper-2",
      "openai/gpt-3.5-turbo-instruct",
      "openrouter/deepseek-chat-v3-0324:free",
      "anthropic/claude-2",
    ]) {
      expect([id, findModel(catalog, id)]).toEqual([id, undefined]);
    }
  });

  test("does not find malformed ids, and does not throw", () => {
    for (const id of [
      "",
      "/",
      "openai",
      "openai/",
      "/gpt-4o",
      "__proto__/constructor",
      "openai/__proto__",
      "x".repeat(5000),
    ])
      expect(findModel(catalog, id)).toBeUndefined();
  });

  test("suggests similar ids in the 404", () => {
    expect(similarIds(catalog, "gpt-5.4")).toContain("openai/gpt-5.4");
    const fault = modelNotFound(catalog, "claude-opus-5-5");
    expect([fault.status, fault.code]).toEqual([404, "model_not_found"]);
    expect(fault.publicMessage).toContain('"anthropic/claude-opus-5-5"');
    expect(fault.publicMessage).toContain("GET /v1/models");
  });

  test("suggests no id with the name inside of a word", () => {
    expect(similarIds(catalog, "sim/ech")).toEqual(["sim/echo", "sim/echo-decisions"]);
    expect(similarIds(catalog, "codechat-bison")).toEqual([
      "openrouter/google/palm-2-codechat-bison",
    ]);
    expect(similarIds(catalog, "OPUS-5-5")).toContain("anthropic/claude-opus-5-5");
  });
});

describe("cardFor", () => {
  test("uses the price of the model that answered", () => {
    const found = cardFor(catalog, model("xai/grok-3-mini"), "grok-4.3", NOW);
    expect([found?.model.id, found?.exact, found?.card.base.input]).toEqual([
      "xai/grok-4.3",
      true,
      1_250_000n,
    ]);
  });

  test("uses the model's price for a dated name that answered", () => {
    expect(
      cardFor(catalog, model("openai/gpt-5.6-sol"), "gpt-5.6-sol-2026-07-09", NOW),
    ).toMatchObject({ exact: true, model: { id: "openai/gpt-5.6-sol" } });
    expect(
      cardFor(catalog, model("google/gemini-2.5-pro"), "models/gemini-2.5-pro", NOW)?.exact,
    ).toBe(true);
  });

  test("uses the requested model's price for an unknown name, and marks it as not exact", () => {
    expect(cardFor(catalog, model("xai/grok-4.3"), "grok-secret", NOW)).toMatchObject({
      exact: false,
      model: { id: "xai/grok-4.3" },
    });
  });

  test("uses the operator's own price, whichever model answers", () => {
    const own = { ...model("xai/grok-3-mini"), source: OPERATOR_SOURCE };
    expect(cardFor(catalog, own, "grok-4.3", NOW)).toMatchObject({ exact: true, model: own });
  });

  test("keeps past prices with their dates", () => {
    const at = (day: string): bigint | undefined =>
      cardFor(catalog, model("openai/gpt-5.6-sol"), undefined, Date.parse(day))?.card.base.input;
    expect([at("2026-08-01"), at("2026-08-21"), at("2026-11-21")]).toEqual([
      5_000_000n,
      4_000_000n,
      4_000_000n,
    ]);
  });

  test("resolves the cards of additional models by name", () => {
    const cards = cardResolver(catalog, "anthropic", NOW);
    expect(cards("claude-opus-5-20260724")?.base.input).toBe(5_000_000n);
    expect(cards("claude-nothing")).toBeUndefined();
    expect(cardResolver(catalog, "openai", NOW)("gpt-image-1")?.base).toMatchObject({
      input_image: 10_000_000n,
      output: 40_000_000n,
    });
  });
});

describe("priceAge", () => {
  test("reports the age of the oldest price", () => {
    const { newest, ...age } = priceAge(catalog, Date.parse("2026-11-25"));
    expect(age).toEqual({ oldest: "2026-11-21", days: 4 });
    // Tables that are written by hand can be newer than the one that is generated.
    expect(newest >= PRICE_TABLE.checked).toBe(true);
  });
});
