import { describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { builtInModels, cardFor, findModel } from "../../src/models/catalog.ts";
import type { Catalog } from "../../src/models/catalog.ts";
import { createLiveCatalog, mergeModels, modelsFileAt } from "../../src/models/live-catalog.ts";
import type { ModelsFileSource } from "../../src/models/live-catalog.ts";
import { isHidden, parseModelsFile } from "../../src/models/models-file.ts";
import { cardAt } from "../../src/models/price-card.ts";

const NOW = Date.parse("2026-11-21T12:00:00Z");

function merged(file: unknown): Catalog {
  return mergeModels(builtInModels(), parseModelsFile(JSON.stringify(file)), NOW);
}

function inputPrice(catalog: Catalog, id: string, at = NOW): bigint | undefined {
  const found = findModel(catalog, id);
  return found && cardAt(found.model.prices, at)?.base.input;
}

describe("models file", () => {
  test("accepts the example in docs/site/models.md", () => {
    const docs = readFileSync(join(import.meta.dir, "../../docs/site/models.md"), "utf8");
    const example = /```json\n([\s\S]*?)\n```/.exec(docs)?.[1] ?? "";
    const catalog = mergeModels(builtInModels(), parseModelsFile(example), NOW);
    expect(catalog.providers.map(({ id }) => id)).toEqual(["local"]);
    expect(inputPrice(catalog, "local/llama-4-scout")).toBe(0n);
    expect(findModel(catalog, "openai/gpt-5.4-mini")).toBeUndefined();
    expect(inputPrice(catalog, "openai/gpt-5.6-luna", Date.parse("2026-12-01"))).toBe(150_000n);
    expect(inputPrice(catalog, "openai/gpt-5.6-luna", Date.parse("2026-11-30"))).toBe(200_000n);
    expect(findModel(catalog, "openai/gpt-6.2-sol-preview")?.model.maxOutputTokens).toBe(128_000);
  });

  test("adds a provider and its models, which inherit the provider's wires", () => {
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

  test("overrides a price or a limit and keeps the rest of the model", () => {
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

  test("prices a new model like an existing one with `priced_like`", () => {
    const catalog = merged({
      models: [{ id: "anthropic/claude-opus-6", priced_like: "anthropic/claude-opus-5" }],
    });
    expect(inputPrice(catalog, "anthropic/claude-opus-6")).toBe(5_000_000n);
    expect(findModel(catalog, "anthropic/claude-opus-6")?.model.wires).toEqual(["messages"]);
  });

  test("makes a retired model available again", () => {
    expect(
      findModel(merged({ models: [{ id: "openai/gpt-4-32k" }] }), "openai/gpt-4-32k")?.model
        .retired,
    ).toBe(false);
  });

  test("keeps the price of a hidden model, because another model may answer under its name", () => {
    const catalog = merged({ hide: ["xai/grok-4.3"] });
    expect(findModel(catalog, "xai/grok-4.3")).toBeUndefined();
    const requested = findModel(catalog, "xai/grok-3-mini");
    expect(requested && cardFor(catalog, requested.model, "grok-4.3", NOW)?.exact).toBe(true);
  });

  test("hides models that match a pattern with `*`", () => {
    const catalog = merged({ hide: ["openai/gpt-5.4*", "openrouter/*"] });
    expect(findModel(catalog, "openai/gpt-5.4-mini")).toBeUndefined();
    expect(catalog.models.some(({ provider }) => provider === "openrouter")).toBe(false);
    expect(isHidden(["a.c/*"], "abc/x")).toBe(false);
  });

  test.each<readonly [string, unknown, string]>([
    ["invalid JSON", "{", "not valid JSON"],
    ["an unknown key", { modles: [] }, "modles"],
    [
      "an id without a provider",
      { models: [{ id: "gpt" }] },
      "models[0].id: must be `<provider>/<name>`",
    ],
    [
      "a negative price",
      { models: [{ id: "a/b", pricing: { tokens: { input: "-1" } } }] },
      "models[0].pricing",
    ],
    [
      "a price that is not a decimal",
      { models: [{ id: "a/b", pricing: { tokens: { input: "1e-3" } } }] },
      "models[0].pricing",
    ],
    [
      "an unknown meter",
      { models: [{ id: "a/b", pricing: { tokens: { input: "1", prompt: "1" } } }] },
      "models[0].pricing",
    ],
    [
      "prices without a price for input",
      { models: [{ id: "a/b", pricing: { tokens: { output: "1" } } }] },
      "models[0].pricing",
    ],
    [
      "an invalid date",
      { models: [{ id: "a/b", pricing: { tokens: { input: "1" }, from: "soon" } }] },
      "models[0].pricing",
    ],
    [
      "an invalid time of day",
      {
        models: [
          { id: "a/b", pricing: { tokens: { input: "1" }, hours: { start: "25:00", end: "1:0" } } },
        ],
      },
      "models[0].pricing",
    ],
    [
      "a base URL that is not HTTP",
      { providers: [{ id: "x", base_url: "file:///etc/passwd", wires: ["chat"] }] },
      "providers[0].base_url",
    ],
    [
      "an unknown wire",
      { providers: [{ id: "x", base_url: "http://x", wires: ["smtp"] }] },
      "providers[0].wires[0]",
    ],
    ["a limit of zero", { models: [{ id: "a/b", context_length: 0 }] }, "models[0].context_length"],
    [
      "a key without a source",
      { credentials: [{ provider: "openai", name: "b" }] },
      "credentials[0]: needs either `api_key_env` or `api_key_file`",
    ],
    [
      "a key with two sources",
      { credentials: [{ provider: "openai", name: "b", api_key_env: "B", api_key_file: "/b" }] },
      "credentials[0]: needs either `api_key_env` or `api_key_file`",
    ],
    [
      "a key with the name of that in the settings",
      { credentials: [{ provider: "openai", name: "gateway", api_key_env: "B" }] },
      "credentials[0].name: is the name of the key in the settings",
    ],
    [
      "a negative weight",
      { credentials: [{ provider: "openai", name: "b", api_key_env: "B", weight: -1 }] },
      "credentials[0].weight",
    ],
    [
      "two keys with one name",
      {
        credentials: [
          { provider: "openai", name: "b", api_key_env: "B" },
          { provider: "openai", name: "b", api_key_env: "C" },
        ],
      },
      'credentials[1]: "openai/b" is defined twice',
    ],
    [
      "a duplicate model",
      { models: [{ id: "sim/echo" }, { id: "sim/echo" }] },
      'models[1].id: "sim/echo" is defined twice',
    ],
  ])("rejects %s and names its path", (_, file, message) => {
    expect(() => parseModelsFile(typeof file === "string" ? file : JSON.stringify(file))).toThrow(
      message,
    );
  });

  test("reports all errors at once", () => {
    const file = { models: [{ id: "nope" }, { id: "sim/echo", context_length: -1 }], hide: [""] };
    expect(() => parseModelsFile(JSON.stringify(file))).toThrow(
      /models\[0\]\.id[\s\S]*models\[1\]\.context_length[\s\S]*hide\[0\]/,
    );
  });

  test.each<readonly [string, unknown, string]>([
    [
      "a new model without a price",
      { models: [{ id: "openai/gpt-9" }] },
      "needs `pricing` or `priced_like`",
    ],
    [
      "a model of an undeclared provider",
      { models: [{ id: "unknown/x", pricing: { tokens: { input: "1" } } }] },
      'the provider "unknown" is unknown',
    ],
    [
      "a key at a provider without models",
      { credentials: [{ provider: "opnai", name: "b", api_key_env: "B" }] },
      'credentials[0]: the provider "opnai" has no models',
    ],
    [
      "a key file that is missing",
      { credentials: [{ provider: "openai", name: "b", api_key_file: "/nowhere/key" }] },
      "credentials[0]: Cannot read /nowhere/key (ENOENT)",
    ],
    [
      "an unknown model in `priced_like`",
      { models: [{ id: "openai/gpt-9", priced_like: "openai/gpt-8" }] },
      "which is not in the catalog",
    ],
  ])("rejects %s", (_, file, message) => {
    expect(() => merged(file)).toThrow(message);
  });
});

describe("live catalog", () => {
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

  test("without a file, is the built-in catalog and never changes", () => {
    const live = createLiveCatalog({ now: NOW });
    const before = live.current();
    expect(live.refresh(NOW)).toEqual({ changed: false });
    expect(live.current()).toBe(before);
  });

  test("does not read an unchanged file again", () => {
    const file = source();
    const live = createLiveCatalog({ file, now: NOW });
    for (let round = 0; round < 5; round++) live.refresh(NOW + round);
    expect(file.reads).toBe(1);
  });

  test("reloads a changed file without a restart", () => {
    const file = source();
    const live = createLiveCatalog({ file, now: NOW });
    file.text = JSON.stringify({ hide: ["sim/tiny"] });
    file.version = 2;
    expect(live.refresh(NOW)).toEqual({ changed: true });
    expect(findModel(live.current(), "sim/tiny")).toBeUndefined();
  });

  test("keeps the previous catalog and reports the error until an invalid file is fixed", () => {
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

  test("reloads a changed key file, and keeps the previous keys while it is invalid", () => {
    const keys = new Map([["/key", "first"]]);
    const credentials = [{ provider: "openai", name: "b", api_key_file: "/key" }];
    const file: ModelsFileSource = {
      stamp: (path) => (path === undefined ? "1" : keys.get(path)),
      read: (path) =>
        path === undefined ? JSON.stringify({ credentials }) : (keys.get(path) ?? ""),
    };
    const live = createLiveCatalog({ file, now: NOW });
    const current = () => live.current().credentials.map(({ apiKey }) => apiKey?.reveal());
    expect(current()).toEqual(["first"]);
    expect(live.refresh(NOW)).toEqual({ changed: false });
    keys.set("/key", "second\n");
    expect(live.refresh(NOW)).toEqual({ changed: true });
    expect(current()).toEqual(["second"]);
    for (const invalid of ["", "two lines\nof text", "a b"]) {
      keys.set("/key", invalid);
      expect(live.refresh(NOW).error).toContain("/key must hold one API key and nothing else");
      expect(current()).toEqual(["second"]);
    }
    keys.set("/key", "third");
    expect(live.refresh(NOW)).toEqual({ changed: true });
    expect(current()).toEqual(["third"]);
  });

  test("throws if the file is invalid at the start", () => {
    const file = { ...source(), read: () => "{" };
    expect(() => createLiveCatalog({ file, now: NOW })).toThrow("not valid JSON");
  });

  test("detects changes of a file on disk, and keeps the catalog if the file is deleted", () => {
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

  test("throws with the name of the setting if the file is missing at the start", () => {
    expect(() =>
      createLiveCatalog({ file: modelsFileAt("/nowhere/models.json"), now: NOW }),
    ).toThrow(
      "Cannot read /nowhere/models.json (ENOENT). Create the file, or change or unset POSTERN_MODELS_FILE.",
    );
  });
});
