// The table of list prices: its form, its age, and the comparison of two tables.

import { describe, expect, test } from "bun:test";
import { DAY_MS } from "../../src/base/time.ts";
import {
  parsePriceTable,
  PRICE_TABLE,
  priceTableText,
  type PriceRow,
} from "../../src/models/list-prices.ts";
import { readPriceTable } from "../../src/models/live-catalog.ts";
import { comparePrices, differenceText } from "../../src/models/price-differences.ts";

const STALE_DAYS = 30;

describe("the built-in price table", () => {
  test("is valid, and each price names the lists that have it", () => {
    expect(parsePriceTable(priceTableText(PRICE_TABLE))).toEqual(PRICE_TABLE);
    for (const { sources } of PRICE_TABLE.models)
      for (const source of sources) expect(PRICE_TABLE.sources).toHaveProperty([source]);
  });

  test("has each model once", () => {
    const ids = PRICE_TABLE.models
      .filter(({ provider }) => provider !== "azure")
      .map(({ provider, slug, name }) => `${provider}/${slug ?? name}`);
    expect(ids.length - new Set(ids).size).toBe(0);
  });

  // A warning, because a checkout of an old release must still pass its tests.
  test("is dated, and a warning says when it is older than 30 days", () => {
    const days = Math.floor((Date.now() - Date.parse(PRICE_TABLE.checked)) / DAY_MS);
    expect(days).toBeGreaterThanOrEqual(-1);
    if (days > STALE_DAYS)
      console.warn(`The list prices are ${days} days old: run "npm run prices" and commit.`);
  });
});

describe("parsePriceTable", () => {
  test("names the line of an invalid row", () => {
    const header = '{"checked":"2026-11-23","sources":{}}';
    const row = '{"provider":"openai","name":"x","pricing":[{"tokens":{}}],"sources":["own"]}';
    expect(() => parsePriceTable(`${header}\n${row}\n`)).toThrow(
      "Line 2 of the price table is not valid",
    );
    expect(() => parsePriceTable("no table")).toThrow("Line 1 of the price table is not valid");
  });

  test("names the setting of a missing file", () => {
    expect(() => readPriceTable("/nowhere/prices.jsonl")).toThrow("POSTERN_PRICES_FILE");
  });
});

describe("comparePrices", () => {
  const row = (name: string, input: string, more: Partial<PriceRow> = {}): PriceRow => ({
    provider: "openai",
    name,
    pricing: [{ tokens: { input, output: "10" } }],
    sources: ["own"],
    ...more,
  });
  const tableOf = (...models: readonly PriceRow[]) => ({
    checked: "2026-11-23",
    sources: { own: "1" },
    models,
  });

  test("lists changed, added and removed prices, with percentages", () => {
    const tiers = [{ above_input_tokens: 200_000, tokens: { input: "6" } }];
    const before = tableOf(row("a", "2"), row("b", "1"), row("same", "1"));
    const after = tableOf(
      row("a", "3", { pricing: [{ tokens: { input: "3", output: "10" }, tiers }] }),
      row("c", "1"),
      row("same", "1"),
    );
    expect(differenceText(comparePrices(before, after))).toBe(
      [
        "changed  openai/a: input 2 → 3 (+50%); input above 200000 none → 6",
        "added    openai/c: input 1, output 10",
        "removed  openai/b: input 1, output 10",
      ].join("\n"),
    );
    expect(differenceText(comparePrices(before, before))).toBe("No price differs.");
  });

  test("shows a price that only applies later", () => {
    const later = [{ tokens: { input: "1" } }, { tokens: { input: "2" }, from: "2026-12-01" }];
    expect(
      comparePrices(tableOf(row("a", "1")), tableOf(row("a", "1", { pricing: later })))[0]?.details,
    ).toContain("from 2026-12-01 input none → 2");
  });
});
