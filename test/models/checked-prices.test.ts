// The table of prices that were compared with a second list by hand: the catalog has the same.

import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { FEE_METERS, TOKEN_METERS } from "@postern/wires";
import { builtInModels } from "../../src/models/catalog.ts";
import { cardAt } from "../../src/models/price-card.ts";
import { factorNamed, type PriceCard, rateOf } from "../../src/models/price.ts";

const CHECKED_AT = Date.parse("2026-11-29T12:00:00Z");
const PICO_PER_USD = 1e12;
const TOKENS = 1e6;
/** The lists round prices of a second differently. */
const ROUNDING = 0.001;

const OWN_PAGE = /^https:\/\/(developers\.openai|platform\.claude|docs\.x|ai\.google)\./;

const text = readFileSync("docs/checked-prices.md", "utf8");
const rows = [
  ...text.matchAll(/^\| `([^`]+)` \| ([^|]+) \| ([\d.]+) \| ([^|]+) \| ([^|]+) \|$/gm),
].map(([, id = "", meter = "", usd = "", source = "", second = ""]) => ({
  id,
  meter,
  usd: Number(usd),
  source,
  second,
}));

function priceOf(card: PriceCard, meter: string): number | undefined {
  const image = card.imageFees?.[meter];
  if (image !== undefined) return Number(image) / PICO_PER_USD;
  const fee = FEE_METERS.find((one) => one === meter);
  if (fee !== undefined) return Number(card.base[fee] ?? 0n) / PICO_PER_USD;
  const [, batch, name] = /^(batch )?(.*)$/.exec(meter) ?? [];
  const token = TOKEN_METERS.find((one) => one === name);
  if (token === undefined) return undefined;
  const { num, den } = factorNamed(card.serviceTiers, batch?.trim());
  const { unitPrice } = rateOf(card.base, token);
  return (Number(unitPrice) / PICO_PER_USD) * TOKENS * (Number(num) / Number(den));
}

test("the catalog has the prices that were checked, of at least thirty models", () => {
  const models = new Map(builtInModels().map((model) => [model.id, model]));
  const checked = rows.map(({ id, meter, usd }) => {
    const model = models.get(id);
    const card = model?.retired === false ? cardAt(model.prices, CHECKED_AT) : undefined;
    const own = card === undefined ? undefined : priceOf(card, meter);
    return { id, meter, usd, isSame: own !== undefined && Math.abs(own - usd) <= usd * ROUNDING };
  });
  expect(checked.filter(({ isSame }) => !isSame)).toEqual([]);
  expect(new Set(rows.map(({ id }) => id)).size).toBeGreaterThanOrEqual(30);
});

test("each checked price says what was read", () => {
  expect(rows.filter(({ source }) => !/^(LiteLLM \d|https:)/.test(source))).toEqual([]);
});

test("the text says how many prices have which source", () => {
  const own = rows.filter(({ source }) => OWN_PAGE.test(source)).length;
  const one = rows.filter(({ source, second }) => !OWN_PAGE.test(source) && second === "–").length;
  const two = rows.length - own - one;
  expect(text).toContain(
    `Of the ${rows.length} prices, ${own} are from the provider, ${two} from two lists and ${one} from one.`,
  );
});
