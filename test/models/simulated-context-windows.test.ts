import { expect, test } from "bun:test";
import { contextWindow } from "@postern/simulator";
import { builtInModels } from "../../src/models/catalog.ts";

test("the simulator's models named like those of providers have the context of the catalog", () => {
  const models = builtInModels().filter(
    ({ provider, name, contextLength }) =>
      ["anthropic", "openai", "google", "sim"].includes(provider) &&
      contextLength !== null &&
      contextWindow(name) !== undefined,
  );
  expect(models.length).toBeGreaterThan(60);
  expect(models.map(({ id, name }) => [id, contextWindow(name)])).toEqual(
    models.map(({ id, contextLength }) => [id, contextLength ?? undefined]),
  );
});
