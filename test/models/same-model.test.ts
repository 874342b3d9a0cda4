import { describe, expect, test } from "bun:test";
import { builtInModels, catalogOf, findModel } from "../../src/models/catalog.ts";
import { createLiveCatalog } from "../../src/models/live-catalog.ts";
import { modelsNamed, sameModels } from "../../src/models/same-model.ts";
import { FAMILY_BY_ID } from "../../src/models/tables/same-models.ts";

const NOW = Date.parse("2026-11-21T12:00:00Z");
const catalog = catalogOf(builtInModels());

function sameModelIds(id: string): string[] {
  const found = findModel(catalog, id);
  if (found === undefined) throw new Error(`no model ${id}`);
  return sameModels(catalog, found.model, NOW).map((model) => model.id);
}

describe("same models at other providers", () => {
  const families: readonly (readonly [id: string, ...others: string[]])[] = [
    [
      "anthropic/claude-sonnet-4-5",
      "bedrock/global.anthropic.claude-sonnet-4-5-20250929-v1:0",
      "openrouter/anthropic/claude-sonnet-4.5",
      "vertex/claude-sonnet-4-5",
    ],
    ["openai/gpt-5.4", "azure/gpt-5.4", "openrouter/openai/gpt-5.4", "bedrock/openai.gpt-5.4"],
    ["google/gemini-3.5-flash", "openrouter/google/gemini-3.5-flash", "vertex/gemini-3.5-flash"],
    [
      "groq/llama-3.3-70b-versatile",
      "bedrock/meta.llama3-3-70b-instruct-v1:0",
      "openrouter/meta-llama/llama-3.3-70b-instruct",
    ],
    ["moonshot/kimi-k2.6", "fireworks/kimi-k2p6", "openrouter/moonshotai/kimi-k2.6"],
    ["bedrock/amazon.nova-lite-v1:0", "openrouter/amazon/nova-lite-v1"],
  ];
  for (const [id, ...others] of families)
    test(`${id} has ${others.length} others`, () => {
      const [own, ...rest] = sameModelIds(id);
      expect([own, ...rest.toSorted()]).toEqual([id, ...others.toSorted()]);
    });

  test("come after the model's own provider: first the maker, then each provider once, by its cheapest model", () => {
    expect(
      sameModelIds("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0").slice(0, 2),
    ).toEqual([
      "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
      "anthropic/claude-sonnet-4-5",
    ]);
    expect(modelsNamed(catalog, "claude-sonnet-4.5", NOW)[0]?.id).toBe(
      "anthropic/claude-sonnet-4-5",
    );
  });

  test("exclude variants, quantized weights, other sizes, floating names and simulator models", () => {
    for (const id of [
      "together/meta-llama/Llama-3.3-70B-Instruct-Turbo",
      "mistral/mistral-large-latest",
      "sim/echo",
    ])
      expect(sameModelIds(id)).toEqual([id]);
    for (const model of catalog.models) {
      const others = sameModels(catalog, model, NOW);
      const kinds = new Set(others.map(({ kind }) => kind));
      expect(`${model.id} ${kinds.size}`).toBe(`${model.id} 1`);
      const sizes = new Set(
        others.flatMap(({ id }) => /\d+b(?![a-z])/i.exec(id)?.[0].toLowerCase() ?? []),
      );
      expect(`${model.id} ${[...sizes].join(" ")}`).toBe(
        `${model.id} ${[...sizes].slice(0, 1).join(" ")}`,
      );
      const free = new Set(others.map(({ id }) => id.endsWith(":free")));
      expect(`${model.id} ${free.size}`).toBe(`${model.id} 1`);
    }
  });

  test("every id in FAMILY_BY_ID is in the catalog", () => {
    const missing = Object.keys(FAMILY_BY_ID).filter((id) => !catalog.byName.has(id.toLowerCase()));
    expect(missing).toEqual([]);
  });

  test("follow `same_as` of the operator's models: the id of a model, or a shared name", () => {
    const file = {
      providers: ["here", "there"].map((id) => ({
        id,
        base_url: "http://127.0.0.1:1",
        wires: ["chat"],
      })),
      models: [
        {
          id: "here/llama",
          same_as: "groq/llama-3.3-70b-versatile",
          pricing: { tokens: { input: "0" } },
        },
        { id: "here/ours", same_as: "ours", pricing: { tokens: { input: "0" } } },
        { id: "there/ours-2", same_as: "ours", pricing: { tokens: { input: "0" } } },
        { id: "there/llama-3.3-70b-instruct", pricing: { tokens: { input: "0" } } },
      ],
    };
    const source = { stamp: () => "1", read: () => JSON.stringify(file) };
    const own = createLiveCatalog({ file: source, now: NOW }).current();
    const named = (name: string): string[] => modelsNamed(own, name, NOW).map(({ id }) => id);
    expect(named("llama-3.3-70b-instruct")).toContain("here/llama");
    expect(named("llama-3.3-70b-instruct")).not.toContain("there/llama-3.3-70b-instruct");
    expect(named("ours")).toEqual(["here/ours", "there/ours-2"]);
  });
});
