// A call without an output limit is held for what the balance affords, but at least for a short answer of each choice.

import { expect, test } from "bun:test";
import { estimateCost } from "../../../src/inference/metering/cost-estimate.ts";
import { PROVIDERS } from "../../../src/inference/providers/providers.ts";
import { parseRequest } from "../../../src/inference/request/parse-request.ts";
import { builtInModels, catalogOf, findModel } from "../../../src/models/catalog.ts";

const NOW = Date.parse("2026-11-23");
const catalog = catalogOf(builtInModels());

function smallestHold(choices: number): bigint {
  const model = findModel(catalog, "openai/gpt-4.1")?.model;
  const provider = PROVIDERS.find(({ id }) => id === "openai");
  if (model === undefined || provider === undefined) throw new Error("no such model");
  const body = { model: model.id, messages: [{ role: "user", content: "hi" }], n: choices };
  const request = parseRequest("chat", JSON.stringify(body));
  const { minimum } = estimateCost(request, model, provider, { catalog, now: NOW, byok: false });
  return minimum ?? 0n;
}

test("the smallest hold of a call covers a short answer of each of its choices", () => {
  const [one, two, five] = [smallestHold(1), smallestHold(2), smallestHold(5)];
  const ofChoice = two - one;
  expect(ofChoice > 0n).toBe(true);
  expect(five - one).toBe(4n * ofChoice);
  // The input is paid once.
  expect(one > ofChoice).toBe(true);
});
