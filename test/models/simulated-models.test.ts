import { expect, test } from "bun:test";
import { contextWindow, createSimulator } from "@postern/simulator";
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

test("the simulator has each of its models in the catalog", async () => {
  const simulator = createSimulator({ now: Date.now });
  const response = await simulator.fetch(new Request("http://localhost/v1/models"));
  const { data } = (await response.json()) as { readonly data: readonly { id: string }[] };
  const listed = data.map(({ id }) => id);
  // The gateway asks for a decision of `echo-decisions` by the name `echo`.
  const offered = builtInModels().filter(
    ({ provider, name }) => provider === "sim" && !name.endsWith("-decisions"),
  );
  expect(listed).toEqual(expect.arrayContaining(offered.map(({ id }) => id)));
});
