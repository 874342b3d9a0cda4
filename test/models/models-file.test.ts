import { describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cardAt } from "../../src/models/price-card.ts";
import { builtInModels, cardFor, findModel } from "../../src/models/catalog.ts";
import type { Catalog } from "../../src/models/catalog.ts";
import { createLiveCatalog, mergeModels, modelsFileAt } from "../../src/models/live-catalog.ts";
import type { ModelsFileSource } from "../../src/models/live-catalog.ts";
import { isHidden, parseModelsFile } from "../../src/models/models-file.ts";

const NOW = Date.parse("2026-11-21T12:00:00Z");

function merged(file: unknown): Catalog {
  return mergeModels(builtInModels(), parseModelsFile(JSON.stringify(file)), NOW);
}

function inputPrice(catalog: Catalog, id: string, at = NOW): bigint | undefined {
  const found = findModel(catalog, id);
  return found && cardAt(found.model.prices, at)?.base.input;
}

describe("the operator's models file", () => {
  test("the example of the documentation is valid and does what it says", () => {
    const docs = readFileSync(join(import.meta.dir, "../../docs/models.md"), "utf8");
    const example = /```json\n([\s\S]*?)\n```/.exec(docs)?.[1] ?? "";
    const catalog = mergeModels(builtInModels(), parseModelsFile(example), NOW);
    expect(catalog.providers.map(({ id }) => id)).toEqual(["local"]);
    expect(inputPrice(catalog, "local/llama-4-scout")).toBe(0n);
    expect(findModel(catalog, "openai/gpt-3.5-turbo")).toBeUndefined();
    expect(inputPrice(catalog, "openai/gpt-5.6-luna", Date.parse("2026-12-01"))).toBe(150_000n);
    expect(inputPrice(catalog, "openai/gpt-5.6-luna", Date.parse("2026-11-30"))).toBe(200_000n);
    expect(findModel(catalog, "openai/gpt-6.2-sol-preview")?.model.maxOutputTokens).toBe(128_000);
  });

  test("it adds a provider and its models, whose wires are the provider's", () => {
    const catalog = merged({
      providers: [
        {
          id: "local",
          base_url: "http://127.0.0.1:11434/v1",
          wires: ["chat", "embeddings"],
          api_key_env: "LOCAL_API_KEY",
          stops_billing_on_abort: true,
        },
      ],
      models: [
        {
          id: "local/qwen",
          context_length: 32768,
          pricing: { tokens: { input: "0", output: "0" } },
        },
        { id: "local/nomic", kind: "embedding", pricing: { tokens: { input: 0.01 } } },
      ],
    });
    expect(catalog.providers[0]).toMatchObject({ id: "local", stops_billing_on_abort: true });
    expect(findModel(catalog, "local/qwen")).toMatchObject({
      model: { wires: ["chat"], kind: "chat", contextLength: 32768, maxOutputTokens: null },
      upstreamName: "qwen",
    });
    expect(findModel(catalog, "local/nomic")?.model).toMatchObject({
      wires: ["embeddings"],
      kind: "embedding",
    });
  });

  test("it changes a price or a limit and leaves the rest of the model as it was", () => {
    const catalog = merged({
      models: [
        { id: "openai/gpt-5.4", pricing: { tokens: { input: "9", output: "10" } } },
        { id: "xai/grok-4.3", max_output_tokens: 4096 },
      ],
    });
    expect(inputPrice(catalog, "openai/gpt-5.4")).toBe(9_000_000n);
    expect(findModel(catalog, "openai/gpt-5.4")?.model).toMatchObject({
      contextLength: 1_050_000,
      wires: ["chat", "responses"],
      source: "the operator's file",
      checked: "2026-11-21",
    });
    expect(findModel(catalog, "xai/grok-4.3")?.model.maxOutputTokens).toBe(4096);
    expect(inputPrice(catalog, "xai/grok-4.3")).toBe(1_250_000n);
  });

  test("a new model of a known provider is priced like another one", () => {
    const catalog = merged({
      models: [{ id: "anthropic/claude-opus-6", priced_like: "anthropic/claude-opus-5" }],
    });
    expect(inputPrice(catalog, "anthropic/claude-opus-6")).toBe(5_000_000n);
    expect(findModel(catalog, "anthropic/claude-opus-6")?.model.wires).toEqual(["messages"]);
  });

  test("it brings back what is retired", () => {
    expect(
      findModel(merged({ models: [{ id: "openai/gpt-4-32k" }] }), "openai/gpt-4-32k")?.model
        .retired,
    ).toBe(false);
  });

  test("a model that is hidden keeps its price, for when another is answered under its name", () => {
    const catalog = merged({ hide: ["xai/grok-4.3"] });
    expect(findModel(catalog, "xai/grok-4.3")).toBeUndefined();
    const asked = findModel(catalog, "xai/grok-3-mini");
    expect(asked && cardFor(catalog, asked.model, "grok-4.3", NOW)?.exact).toBe(true);
  });

  test("it hides models by name, with `*` for anything", () => {
    const catalog = merged({ hide: ["openai/gpt-3.5*", "openrouter/*"] });
    expect(findModel(catalog, "openai/gpt-3.5-turbo")).toBeUndefined();
    expect(catalog.models.some(({ provider }) => provider === "openrouter")).toBe(false);
    expect(isHidden(["a.c/*"], "abc/x")).toBe(false);
  });

  test.each<readonly [string, unknown, string]>([
    ["JSON that cannot be read", "{", "not valid JSON"],
    ["a key that is not known", { modles: [] }, "modles"],
    [
      "an id without a provider",
      { models: [{ id: "gpt" }] },
      "models[0].id: must be `<provider>/<name>`",
    ],
    [
      "a price below zero",
      { models: [{ id: "a/b", pricing: { tokens: { input: "-1" } } }] },
      "models[0].pricing",
    ],
    [
      "a price that is no decimal",
      { models: [{ id: "a/b", pricing: { tokens: { input: "1e-3" } } }] },
      "models[0].pricing",
    ],
    [
      "a meter that is not known",
      { models: [{ id: "a/b", pricing: { tokens: { input: "1", prompt: "1" } } }] },
      "models[0].pricing",
    ],
    [
      "prices without one for input",
      { models: [{ id: "a/b", pricing: { tokens: { output: "1" } } }] },
      "models[0].pricing",
    ],
    [
      "a date that is none",
      { models: [{ id: "a/b", pricing: { tokens: { input: "1" }, from: "soon" } }] },
      "models[0].pricing",
    ],
    [
      "an hour that is none",
      {
        models: [
          { id: "a/b", pricing: { tokens: { input: "1" }, hours: { start: "25:00", end: "1:0" } } },
        ],
      },
      "models[0].pricing",
    ],
    [
      "a base URL that is not of the web",
      { providers: [{ id: "x", base_url: "file:///etc/passwd", wires: ["chat"] }] },
      "providers[0].base_url",
    ],
    [
      "a wire that is not known",
      { providers: [{ id: "x", base_url: "http://x", wires: ["smtp"] }] },
      "providers[0].wires[0]",
    ],
    ["a limit of zero", { models: [{ id: "a/b", context_length: 0 }] }, "models[0].context_length"],
    [
      "the same model twice",
      { models: [{ id: "sim/echo" }, { id: "sim/echo" }] },
      'models[1].id: "sim/echo" is there twice',
    ],
  ])("%s is refused with the path to it", (_, file, sentence) => {
    expect(() => parseModelsFile(typeof file === "string" ? file : JSON.stringify(file))).toThrow(
      sentence,
    );
  });

  test("every mistake is named at once", () => {
    const file = { models: [{ id: "nope" }, { id: "sim/echo", context_length: -1 }], hide: [""] };
    expect(() => parseModelsFile(JSON.stringify(file))).toThrow(
      /models\[0\]\.id[\s\S]*models\[1\]\.context_length[\s\S]*hide\[0\]/,
    );
  });

  test.each<readonly [string, unknown, string]>([
    [
      "a new model without a price",
      { models: [{ id: "openai/gpt-9" }] },
      "without a price it has no route",
    ],
    [
      "a provider that nobody declares",
      { models: [{ id: "nobody/x", pricing: { tokens: { input: "1" } } }] },
      'nobody declares the provider "nobody"',
    ],
    [
      "a likeness that is not there",
      { models: [{ id: "openai/gpt-9", priced_like: "openai/gpt-8" }] },
      "which is not in the catalog",
    ],
  ])("%s is refused", (_, file, sentence) => {
    expect(() => merged(file)).toThrow(sentence);
  });
});

describe("createCatalog", () => {
  function source(): ModelsFileSource & { text: string; version: number; reads: number } {
    const file = {
      text: "{}",
      version: 1,
      reads: 0,
      stamp: () => String(file.version),
      read: () => (file.reads++, file.text),
    };
    return file;
  }

  test("without a file it is the built-in catalog and never changes", () => {
    const live = createLiveCatalog({ now: NOW });
    const before = live.current();
    expect(live.refresh(NOW)).toEqual({ changed: false });
    expect(live.current()).toBe(before);
  });

  test("a file that did not change is not read again", () => {
    const file = source();
    const live = createLiveCatalog({ file, now: NOW });
    for (let round = 0; round < 5; round++) live.refresh(NOW + round);
    expect(file.reads).toBe(1);
  });

  test("a file that changed is read without a restart", () => {
    const file = source();
    const live = createLiveCatalog({ file, now: NOW });
    file.text = JSON.stringify({ hide: ["sim/tiny"] });
    file.version = 2;
    expect(live.refresh(NOW)).toEqual({ changed: true });
    expect(findModel(live.current(), "sim/tiny")).toBeUndefined();
  });

  test("a file that broke keeps the catalog that was there and says what is wrong, until it is mended", () => {
    const file = source();
    const live = createLiveCatalog({ file, now: NOW });
    const before = live.current();
    file.text = JSON.stringify({ models: [{ id: "openai/gpt-9" }] });
    file.version = 2;
    expect(live.refresh(NOW + 1)).toMatchObject({
      changed: false,
      error: expect.stringContaining("models[0]"),
    });
    expect(live.current()).toBe(before);
    expect(live.refresh(NOW + 2).error).toBeDefined();
    expect(live.problem()?.since).toBe(NOW + 1);
    expect(file.reads).toBe(2);
    file.text = "{}";
    file.version = 3;
    expect(live.refresh(NOW + 3)).toEqual({ changed: true });
    expect(live.problem()).toBeUndefined();
  });

  test("a file that is broken at the start is an error at the start", () => {
    const file = { ...source(), read: () => "{" };
    expect(() => createLiveCatalog({ file, now: NOW })).toThrow("not valid JSON");
  });

  test("a file on disk is watched by its stamp, and one that goes away keeps the catalog that was there", () => {
    const folder = mkdtempSync(join(tmpdir(), "models-"));
    try {
      const path = join(folder, "models.json");
      const hiding = JSON.stringify({ hide: ["sim/*"] });
      writeFileSync(path, hiding);
      const live = createLiveCatalog({ file: modelsFileAt(path), now: NOW });
      rmSync(path);
      expect(live.refresh(NOW).error).toContain("(ENOENT)");
      expect(live.problem()?.since).toBe(NOW);
      expect(findModel(live.current(), "sim/echo")).toBeUndefined();
      writeFileSync(path, hiding);
      expect(live.refresh(NOW)).toEqual({ changed: true });
      expect(live.problem()).toBeUndefined();
      writeFileSync(path, "{}");
      utimesSync(path, 1_700_000_000, 1_700_000_000);
      expect(live.refresh(NOW)).toEqual({ changed: true });
      expect(findModel(live.current(), "sim/echo")).toBeDefined();
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("a file that is not there at the start is an error that names the setting", () => {
    expect(() =>
      createLiveCatalog({ file: modelsFileAt("/nowhere/models.json"), now: NOW }),
    ).toThrow("POSTERN_MODELS_FILE names /nowhere/models.json, which cannot be read (ENOENT)");
  });
});
