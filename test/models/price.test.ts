import { describe, expect, test } from "bun:test";
import { FEE_METERS, TOKEN_METERS, type TokenMeter, type Usage } from "@postern/wires";
import * as fc from "fast-check";
import {
  possibleCards,
  builtInModels,
  cardFor,
  catalogOf,
  findModel,
} from "../../src/models/catalog.ts";
import { affordableOutput, costBound, priceUpperBound } from "../../src/models/price-bound.ts";
import { cardAt, datedCard, picoPerToken, ratioOf } from "../../src/models/price-card.ts";
import { INPUT_METERS, isPriced, OUTPUT_METERS, price, rateOf } from "../../src/models/price.ts";
import type { PriceCard } from "../../src/models/price.ts";
import { runs } from "../support/full.ts";

const NOW = Date.parse("2026-11-21T12:00:00Z");
const catalog = catalogOf(builtInModels());
const models = builtInModels().filter((model) => model.prices.length > 0);
const cards = models.flatMap((model) => model.prices.map((dated) => dated.card));

function usage(tokens: Usage["tokens"], more: Partial<Usage> = {}): Usage {
  return { tokens, fees: {}, ...more };
}

function card(id: string, at = NOW): PriceCard {
  const found = findModel(catalog, id);
  const dated = found && cardAt(found.model.prices, at);
  if (dated === undefined) throw new Error(`no card for ${id}`);
  return dated;
}

test("models with audio output have audio prices above their text prices", () => {
  const audioModels = models.filter(
    ({ provider, kind, outputModalities }) =>
      ["openai", "azure"].includes(provider) &&
      kind === "chat" &&
      outputModalities.includes("audio"),
  );
  expect(audioModels.length).toBeGreaterThan(0);
  for (const { id, prices } of audioModels)
    for (const { card } of prices) {
      const { input_audio: input = 0n, output_audio: output = 0n } = card.base;
      expect([id, input > rateOf(card.base, "input").unitPrice]).toEqual([id, true]);
      expect([id, output > rateOf(card.base, "output").unitPrice]).toEqual([id, true]);
    }
});

const anyCard = fc.constantFrom(...cards);
const tokens = fc.integer({ min: 0, max: 2_000_000 });
const anyTokens = fc.record(Object.fromEntries(TOKEN_METERS.map((meter) => [meter, tokens])), {
  requiredKeys: [],
});
const anyFees = fc.record(
  Object.fromEntries(FEE_METERS.map((meter) => [meter, fc.integer({ min: 0, max: 50 })])),
  { requiredKeys: [] },
);

function anyFactorName(table: object): fc.Arbitrary<string | undefined> {
  return fc.constantFrom(undefined, "standard", "default", ...Object.keys(table));
}

function callFields(card: PriceCard) {
  return {
    card: fc.constant(card),
    tokens: anyTokens,
    fees: anyFees,
    serviceTier: anyFactorName({ ...card.serviceTiers, ...card.requestFees }),
    speed: anyFactorName(card.speeds),
    region: anyFactorName(card.regions),
  };
}

const anyCall = anyCard.chain((card) => fc.record(callFields(card)));

function usageOfCall(call: {
  tokens: Usage["tokens"];
  fees: Usage["fees"];
  serviceTier: string | undefined;
  speed: string | undefined;
  region: string | undefined;
}): Usage {
  const { serviceTier, speed, region } = call;
  return {
    tokens: call.tokens,
    fees: call.fees,
    ...(serviceTier !== undefined && { serviceTier }),
    ...(speed !== undefined && { speed }),
    ...(region !== undefined && { region }),
  };
}

/** The cost computed independently, as a fraction of pico-USD. */
function exactCost(used: Usage, card: PriceCard): { readonly num: bigint; readonly den: bigint } {
  const { lines } = price(used, card);
  const den = lines.reduce((product, line) => product * line.multiplier.den, 1n);
  const num = lines.reduce(
    (sum, line) =>
      sum + BigInt(line.count) * line.unitPrice * line.multiplier.num * (den / line.multiplier.den),
    0n,
  );
  return { num, den };
}

describe("price", () => {
  test("sums up all meters at list price", () => {
    const { cost, lines } = price(
      usage({ input: 1000, cache_read: 2000, output: 500 }),
      card("sim/echo"),
    );
    expect(cost).toBe(1_000_000n + 200_000n + 1_000_000n);
    expect(lines.map(({ meter, count }) => [meter, count])).toEqual([
      ["input", 1000],
      ["cache_read", 2000],
      ["output", 500],
    ]);
  });

  test("rounds the sum up to a whole nano-USD once, not line by line", () => {
    const thin = datedCard({ tokens: { input: "0.000001", output: "0.000001" } }).card;
    expect(price(usage({ input: 400, output: 400 }), thin).cost).toBe(1n);
    expect(price(usage({ input: 600, output: 600 }), thin).cost).toBe(2n);
  });

  test("charges nothing for empty usage", () => {
    expect(price(usage({}), card("sim/echo"))).toEqual({ cost: 0n, lines: [], missingPrices: [] });
  });

  test("bills reasoning as output unless the model has a price for it", () => {
    expect(price(usage({ reasoning: 1_000_000 }), card("openai/gpt-5")).cost).toBe(10_000_000_000n);
    expect(
      price(usage({ reasoning: 1_000_000 }), card("perplexity/sonar-deep-research")).cost,
    ).toBe(3_000_000_000n);
  });

  test("bills five-minute and one-hour cache writes at their own prices", () => {
    const sonnet = card("anthropic/claude-sonnet-4-5");
    expect(price(usage({ cache_write_5m: 100_000 }), sonnet).cost).toBe(375_000_000n);
    expect(price(usage({ cache_write_1h: 100_000 }), sonnet).cost).toBe(600_000_000n);
    expect(
      price(
        usage({ cache_write_1h: 100_000 }),
        card("bedrock/global.anthropic.claude-opus-4-8-v1:0"),
      ).cost,
    ).toBe(1_000_000_000n);
  });

  test("bills every meter at the tier of the whole prompt", () => {
    const sonnet = card("anthropic/claude-sonnet-4-5");
    expect(price(usage({ input: 200_000, output: 1000 }), sonnet).cost).toBe(
      600_000_000n + 15_000_000n,
    );
    expect(price(usage({ input: 1, cache_read: 200_000, output: 1000 }), sonnet).cost).toBe(
      6_000n + 120_000_000n + 22_500_000n,
    );
  });

  test("GPT-5.4 switches above 272,000 tokens, Grok 4.3 at exactly 200,000", () => {
    expect(price(usage({ input: 272_000 }), card("openai/gpt-5.4")).lines[0]?.unitPrice).toBe(
      2_500_000n,
    );
    expect(price(usage({ input: 272_001 }), card("openai/gpt-5.4")).lines[0]?.unitPrice).toBe(
      5_000_000n,
    );
    expect(price(usage({ input: 199_999 }), card("xai/grok-4.3")).lines[0]?.unitPrice).toBe(
      1_250_000n,
    );
    expect(price(usage({ input: 200_000 }), card("xai/grok-4.3")).lines[0]?.unitPrice).toBe(
      2_500_000n,
    );
  });

  test("divides the prompt sum of several tool rounds to choose the tier", () => {
    const card = {
      base: { input: 3n, output: 15n, web_search: 100n },
      tiers: [{ aboveInputTokens: 200_000, rates: { input: 6n, output: 22n, web_search: 100n } }],
      serviceTiers: {},
      speeds: {},
      regions: {},
      oncePerCall: [],
      requestFees: {},
    };
    const tokens = { input: 250_000, output: 1_000 };
    expect(price({ tokens, fees: { web_search: 4 } }, card).cost).toBe(766n);
    expect(price({ tokens, fees: {} }, card).cost).toBe(1_522n);
  });

  test("multiplies tokens, not fees, by the factors of the reported service tier, speed and region", () => {
    const flex = price(
      { tokens: { output: 1000 }, fees: { web_search: 1 }, serviceTier: "flex" },
      card("openai/gpt-5"),
    );
    expect(flex.cost).toBe(5_000_000n + 10_000_000n);
    expect(
      price(usage({ input: 9 }, { serviceTier: "priority" }), card("openai/gpt-4o-mini")).cost,
    ).toBe(2_250n);
    expect(
      price(
        usage({ output: 1000 }, { speed: "fast", region: "us" }),
        card("anthropic/claude-opus-5"),
      ).cost,
    ).toBe(55_000_000n);
  });

  test("halves what Google bills in a batch, except tokens that it read from its cache", () => {
    const tokens = { input: 1_000_000, cache_read: 1_000_000, output: 1_000_000 };
    const at = card("google/gemini-2.5-flash");
    expect(price(usage(tokens), at).cost).toBe(2_830_000_000n);
    const batch = price(usage(tokens, { serviceTier: "batch" }), at);
    expect(batch.cost).toBe(150_000_000n + 30_000_000n + 1_250_000_000n);
  });

  test("bills an unknown service tier at list price and reports it", () => {
    expect(
      price(usage({ input: 1 }, { serviceTier: "turbo" }), card("openai/gpt-5")).missingPrices,
    ).toEqual(["service_tier:turbo"]);
    expect(isPriced(card("openai/gpt-5"), { serviceTier: "turbo" })).toBe(false);
    expect(isPriced(card("openai/gpt-5"), { serviceTier: "auto" })).toBe(true);
    expect(isPriced(card("openai/gpt-5"), { serviceTier: "constructor" })).toBe(false);
  });

  test("distinguishes a tool without a known price from a free one", () => {
    expect(isPriced(card("openai/gpt-5"), { fees: ["web_search", "request"] })).toBe(true);
    expect(isPriced(card("openai/gpt-5"), { fees: ["grounding"] })).toBe(false);
    expect(isPriced(card("anthropic/claude-opus-5"), { fees: ["web_fetch"] })).toBe(true);
  });

  test("bills a meter without a price at the highest fallback price, and reports it if that may be too low", () => {
    const plain = datedCard({ tokens: { input: "1", output: "4" } }).card;
    const billed = price(
      {
        tokens: { cache_read: 10, cache_write_1h: 10, input_audio: 10, output_image: 10 },
        fees: { web_fetch: 3 },
      },
      plain,
    );
    expect(billed.lines.map((line) => line.unitPrice)).toEqual([
      1_000_000n,
      1_000_000n,
      1_000_000n,
      4_000_000n,
      0n,
    ]);
    expect(billed.missingPrices).toEqual([
      "cache_write_1h",
      "input_audio",
      "output_image",
      "web_fetch",
    ]);
  });

  test("bills additional usage at its own model's price and tier", () => {
    const main = card("anthropic/claude-sonnet-5");
    const used = usage(
      { input: 100 },
      { additional: [usage({ input: 100, output: 10 }, { model: "claude-opus-5" })] },
    );
    const billed = price(used, main, (name) =>
      name === "claude-opus-5" ? card("anthropic/claude-opus-5") : undefined,
    );
    expect(billed.cost).toBe(200_000n + 500_000n + 250_000n);
    expect(billed.lines.at(-1)?.model).toBe("claude-opus-5");
    expect(price(used, main).missingPrices).toEqual(["model:claude-opus-5"]);
  });

  test("charges Perplexity's request fee by search size, and the highest one if the size is unknown", () => {
    const sonar = card("perplexity/sonar");
    const call = (serviceTier?: string): Usage => ({
      tokens: {},
      fees: { request: 1 },
      ...(serviceTier !== undefined && { serviceTier }),
    });
    expect(price(call("low"), sonar).cost).toBe(5_000_000n);
    expect(price(call("medium"), sonar).cost).toBe(8_000_000n);
    expect(price(call(), sonar).cost).toBe(12_000_000n);
  });

  test("charges a grounded prompt once on Gemini 2.5, and each query since Gemini 3", () => {
    const searches: Usage = { tokens: {}, fees: { grounding: 3 } };
    expect(price(searches, card("google/gemini-2.5-flash")).cost).toBe(35_000_000n);
    expect(price(searches, card("google/gemini-3.5-flash")).cost).toBe(42_000_000n);
    expect(price(searches, card("google/gemini-4-argon")).cost).toBe(42_000_000n);
  });

  test("bills fractions of a second of audio", () => {
    const audio = datedCard({ tokens: { input: "1" }, fees: { audio_second: "0.0001" } }).card;
    expect(price({ tokens: {}, fees: { audio_second: 0.25 } }, audio).cost).toBe(25_000n);
  });

  test("never charges an invalid count", () => {
    expect(
      price(
        usage({ input: -5, output: Number.NaN, reasoning: Number.POSITIVE_INFINITY }),
        card("sim/echo"),
      ).cost,
    ).toBe(0n);
  });

  test("property: the cost is the exact sum, rounded up by less than a nano-USD, on every card", () => {
    fc.assert(
      fc.property(anyCall, (call) => {
        const used = usageOfCall(call);
        const { cost } = price(used, call.card);
        const { num, den } = exactCost(used, call.card);
        expect(cost * 1000n * den >= num).toBe(true);
        expect((cost - 1n) * 1000n * den < num || cost === 0n).toBe(true);
      }),
      { numRuns: runs(2000) },
    );
  });

  test("property: the cost is additive over disjoint meters of one call", () => {
    fc.assert(
      fc.property(anyCall, fc.nat({ max: 8 }), (call, cut) => {
        const whole = price(usageOfCall(call), call.card);
        const left = whole.lines.slice(0, cut).reduce((sum, line) => sum + line.pico, 0n);
        const right = whole.lines.slice(cut).reduce((sum, line) => sum + line.pico, 0n);
        // Each line is rounded up to a pico-USD, so the parts may exceed the whole by less than one pico-USD per line.
        expect(left + right >= (whole.cost - 1n) * 1000n).toBe(true);
        expect(left + right <= whole.cost * 1000n + BigInt(whole.lines.length)).toBe(true);
      }),
      { numRuns: runs(1000) },
    );
  });

  test("property: more usage never costs less", () => {
    fc.assert(
      fc.property(
        anyCall,
        fc.constantFrom<TokenMeter>(...TOKEN_METERS),
        fc.integer({ min: 1, max: 10_000 }),
        (call, meter, more) => {
          const before = price(usageOfCall(call), call.card).cost;
          const after = price(
            usageOfCall({
              ...call,
              tokens: { ...call.tokens, [meter]: (call.tokens[meter] ?? 0) + more },
            }),
            call.card,
          ).cost;
          expect(after >= before).toBe(true);
        },
      ),
      { numRuns: runs(1000) },
    );
  });
});

describe("priceUpperBound", () => {
  test("prices all input at the highest input rate and all output at the highest output rate", () => {
    expect(priceUpperBound({ inputTokens: 1000, outputTokens: 1000 }, card("sim/echo"))).toBe(
      2_000_000n + 2_000_000n,
    );
  });

  test("prices an invalid bound above any balance, and does not throw", () => {
    for (const invalid of [Number.NaN, Number.POSITIVE_INFINITY, 1e300]) {
      const bounds = { inputTokens: invalid, outputTokens: invalid };
      expect(priceUpperBound(bounds, card("sim/echo")) > 9_000_000_000_000_000n).toBe(true);
      expect(affordableOutput(costBound(bounds, card("sim/echo")), 1_000_000_000n, invalid)).toBe(
        0,
      );
    }
    expect(priceUpperBound({ inputTokens: -5, outputTokens: 0.5 }, card("sim/echo"))).toBe(2_000n);
  });

  test("ignores a tier that the prompt cannot reach", () => {
    const sonnet = card("anthropic/claude-sonnet-4-5");
    expect(priceUpperBound({ inputTokens: 200_000, outputTokens: 0 }, sonnet)).toBe(1_200_000_000n);
    expect(priceUpperBound({ inputTokens: 200_001, outputTokens: 0 }, sonnet)).toBe(2_400_012_000n);
  });

  test("covers every model that may answer", () => {
    const found = findModel(catalog, "xai/grok-3-mini");
    const possible = found && possibleCards(catalog, found.model, NOW);
    expect(possible).toHaveLength(2);
    expect(priceUpperBound({ inputTokens: 1_000_000, outputTokens: 0 }, possible ?? [])).toBe(
      2_500_000_000n,
    );
  });

  test("property: no usage within the bounds costs more than the upper bound, on every card", () => {
    const within = (card: PriceCard) =>
      fc.record({
        ...callFields(card),
        slack: fc.nat({ max: 100_000 }),
        isRegionKnown: fc.boolean(),
      });
    for (const card of cards) {
      fc.assert(
        fc.property(within(card), (call) => {
          const count = (meters: readonly TokenMeter[]): number =>
            meters.reduce((sum, meter) => sum + (call.tokens[meter] ?? 0), 0);
          const bounds = {
            inputTokens: count(INPUT_METERS) + call.slack,
            outputTokens: count(OUTPUT_METERS) + call.slack,
            fees: call.fees,
            ...(call.serviceTier !== undefined && { serviceTier: call.serviceTier }),
            ...(call.speed !== undefined && { speed: call.speed }),
            ...(call.isRegionKnown && call.region !== undefined && { region: call.region }),
          };
          const { cost } = price(usageOfCall(call), card);
          expect(cost <= priceUpperBound(bounds, card)).toBe(true);
          expect(cost <= priceUpperBound({ ...bounds, serviceTier: "any" }, card)).toBe(true);
        }),
        { numRuns: runs(20) },
      );
    }
  });

  test("property: an answer from the standard tier costs no more than the upper bound of the requested tier", () => {
    fc.assert(
      fc.property(
        anyCard,
        anyTokens,
        fc.constantFrom("priority", "fast", "flex", "standard"),
        (card, used, requestedTier) => {
          const input = INPUT_METERS.reduce((sum, meter) => sum + (used[meter] ?? 0), 0);
          const output = OUTPUT_METERS.reduce((sum, meter) => sum + (used[meter] ?? 0), 0);
          const bound = priceUpperBound(
            { inputTokens: input, outputTokens: output, serviceTier: requestedTier },
            card,
          );
          expect(price(usage(used, { serviceTier: "default" }), card).cost <= bound).toBe(true);
          expect(price(usage(used, { serviceTier: requestedTier }), card).cost <= bound).toBe(true);
        },
      ),
      { numRuns: runs(500) },
    );
  });
});

describe("affordableOutput", () => {
  test("property: the result is affordable, and one token more is not", () => {
    fc.assert(
      fc.property(
        anyCard,
        fc.bigInt({ min: 0n, max: 2_000_000_000n }),
        fc.integer({ min: 0, max: 100_000 }),
        (card, available, inputTokens) => {
          const limit = 200_000;
          const affordable = affordableOutput(costBound({ inputTokens }, card), available, limit);
          if (affordable > 0)
            expect(
              priceUpperBound({ inputTokens, outputTokens: affordable }, card) <= available,
            ).toBe(true);
          if (affordable < limit)
            expect(
              priceUpperBound({ inputTokens, outputTokens: affordable + 1 }, card) > available,
            ).toBe(true);
        },
      ),
      { numRuns: runs(500) },
    );
  });
});

describe("rateOf", () => {
  test("every meter has a rate on every card, and a fallback is never below the five-minute cache write", () => {
    for (const card of cards) {
      for (const meter of TOKEN_METERS) expect(rateOf(card.base, meter).unitPrice >= 0n).toBe(true);
      const write = rateOf(card.base, "cache_write_1h");
      if (write.isEstimated)
        expect(write.unitPrice >= rateOf(card.base, "cache_write_5m").unitPrice).toBe(true);
    }
  });
});

describe("decimals", () => {
  test("converts USD per million tokens to pico-USD per token, rounded up", () => {
    expect(picoPerToken("0.003625")).toBe(3_625n);
    expect(picoPerToken("0.0000001")).toBe(1n);
    expect(picoPerToken(0.1 + 0.2)).toBe(300_000n);
    expect(picoPerToken(12.5)).toBe(12_500_000n);
  });

  test("reads factors as reduced fractions", () => {
    expect(ratioOf("0.5")).toEqual({ num: 1n, den: 2n });
    expect(ratioOf("5/3")).toEqual({ num: 5n, den: 3n });
    expect(ratioOf(1.1)).toEqual({ num: 11n, den: 10n });
  });

  test("rejects values that are not decimals", () => {
    for (const invalid of ["", "-1", "1e3", "0x10", "1,5", "∞", Number.NaN, -1])
      expect(() => picoPerToken(invalid)).toThrow("not a decimal");
    expect(() => ratioOf("1/0")).toThrow("zero");
  });
});

describe("cardAt", () => {
  test("doubles DeepSeek's price at peak hours on weekdays", () => {
    const found = findModel(catalog, "deepseek/deepseek-flash");
    const input = (at: string): bigint | undefined =>
      found && cardFor(catalog, found.model, undefined, Date.parse(at))?.card.base.input;
    expect(input("2026-11-23T00:59:59Z")).toBe(150_000n);
    expect(input("2026-11-23T01:00:00Z")).toBe(300_000n);
    expect(input("2026-11-23T04:00:00Z")).toBe(150_000n);
    expect(input("2026-11-23T06:00:00Z")).toBe(300_000n);
    expect(input("2026-11-23T10:00:00Z")).toBe(150_000n);
    expect(input("2026-11-22T02:00:00Z")).toBe(150_000n);
  });

  test("applies a price from its date on", () => {
    const found = findModel(catalog, "google/gemini-3.8-flash");
    const input = (at: string): bigint | undefined =>
      found && cardFor(catalog, found.model, undefined, Date.parse(at))?.card.base.input;
    expect(input("2026-12-31T23:59:59Z")).toBe(750_000n);
    expect(input("2027-01-01T00:00:00Z")).toBe(1_500_000n);
  });

  test("supports hours past midnight", () => {
    const dated = [
      datedCard({ tokens: { input: "1" } }),
      datedCard({ tokens: { input: "2" }, hours: { start: "22:00", end: "02:00" } }),
    ];
    const input = (at: string): bigint | undefined => cardAt(dated, Date.parse(at))?.base.input;
    expect(input("2026-11-21T23:00:00Z")).toBe(2_000_000n);
    expect(input("2026-11-21T01:59:00Z")).toBe(2_000_000n);
    expect(input("2026-11-21T12:00:00Z")).toBe(1_000_000n);
  });
});
