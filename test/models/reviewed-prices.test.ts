// Prices that were once wrong or missing, each as its provider publishes it.

import { describe, expect, test } from "bun:test";
import { builtInModels, catalogOf, findModel } from "../../src/models/catalog.ts";
import { cardAt } from "../../src/models/price-card.ts";
import type { PriceCard, Rates } from "../../src/models/price.ts";
import { ONE } from "../../src/models/ratio.ts";
import { REVIEWED } from "../support/prices/reviewed.ts";

const NOW = Date.parse("2026-11-23");
const PICOS_PER_USD_OF_A_MILLION = 1e6;
const PICOS_PER_USD = 1e12;
const models = builtInModels();
const catalog = catalogOf(models);

function card(id: string): PriceCard {
  const found = findModel(catalog, id);
  const dated = found && cardAt(found.model.prices, NOW);
  if (found === undefined || dated === undefined) throw new Error(`no price of ${id}`);
  expect([id, found.model.source !== "", /^\d{4}-\d\d-\d\d$/.test(found.model.checked)]).toEqual([
    id,
    true,
    true,
  ]);
  return dated;
}

/** The rates of each prompt length. */
function ratesOf(id: string): readonly Rates[] {
  const { base, tiers } = card(id);
  return [base, ...tiers.map(({ rates }) => rates)];
}

describe("the price of", () => {
  test.each(REVIEWED)("$id", ({ id, input, cacheRead, output }) => {
    const { base } = card(id);
    const usd = (picos: bigint | undefined) => Number(picos) / PICOS_PER_USD_OF_A_MILLION;
    expect([usd(base.input), usd(base.cache_read), usd(base.output)]).toEqual([
      input,
      cacheRead,
      output,
    ]);
  });

  test.each([
    ["openai/gpt-4.1", 0.01],
    ["openai/gpt-4.1-mini", 0.0132],
    ["openai/gpt-4o-mini", 0.0112],
  ])("a web search of %s", (id, usd) => {
    const { base } = card(id);
    const fees = [base.web_search_preview, base.web_search];
    expect(fees.map((picos) => Number(picos) / PICOS_PER_USD)).toEqual([0.025, usd]);
  });

  test("Claude Opus 4.6 on Vertex above 200,000 tokens is that of Anthropic, which has had no such tier since March", () => {
    expect(card("vertex/claude-opus-4-6").tiers).toEqual([]);
    expect(card("anthropic/claude-opus-4-6").tiers).toEqual([]);
  });

  test.each(
    "opus-4-5 opus-4-6 opus-4-7 opus-4-8 opus-5 opus-5-5 sonnet-4-5 sonnet-4-6 sonnet-5 sonnet-5-5 haiku-4-5 haiku-5-5".split(
      " ",
    ),
  )("Claude %s on Vertex is Anthropic's", (name) => {
    const vertex = card(`vertex/claude-${name}`);
    const anthropic = card(`anthropic/claude-${name}`);
    for (const meter of ["input", "cache_read", "output"] as const)
      expect([name, meter, Number(vertex.base[meter])]).toEqual([
        name,
        meter,
        Number(anthropic.base[meter]),
      ]);
  });
});

test("OpenAI's cache writes that are kept for 12 hours cost twice those of 30 minutes", () => {
  for (const name of ["gpt-5.6-terra", "gpt-6-luna", "gpt-6.1-sol", "gpt-6.1-terra", "gpt-6.2-sol"])
    for (const { cache_write_5m: short = 0n, cache_write_1h: long } of ratesOf(`openai/${name}`))
      expect([name, long]).toEqual([name, 2n * short]);
  // Its cache writes cost no more than other input.
  for (const rates of ratesOf("openai/gpt-5.5")) expect(rates.cache_write_1h).toBeUndefined();
});

test("priority costs 1.8 times at Gemini 4", () => {
  const { num, den } = card("google/gemini-4-argon").serviceTiers["priority"] ?? ONE;
  expect(Number(num) / Number(den)).toBe(1.8);
});

test("each model has the source of its price and the day it was checked", () => {
  const unsourced = models.filter(
    ({ source, checked }) => source === "" || !/^\d{4}-\d\d-\d\d$/.test(checked),
  );
  expect(unsourced.map(({ id }) => id)).toEqual([]);
});
