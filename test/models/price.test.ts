import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { FEE_METERS, TOKEN_METERS } from "../../src/base/usage-meters.ts";
import type { TokenMeter, Usage } from "../../src/base/usage-meters.ts";
import { cardAt, datedCard, picoPerToken, ratioOf } from "../../src/models/price-card.ts";
import {
  possibleCards,
  builtInModels,
  cardFor,
  catalogOf,
  findModel,
} from "../../src/models/catalog.ts";
import { isPriced, price, rateOf } from "../../src/models/price.ts";
import { affordableOutput, priceUpperBound } from "../../src/models/price-bound.ts";
import type { PriceCard } from "../../src/models/price.ts";

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

test("a model that speaks has a price for sound, and none is the text's", () => {
  const speaking = models.filter(
    ({ provider, outputModalities }) =>
      ["openai", "azure"].includes(provider) && outputModalities.includes("audio"),
  );
  expect(speaking.length).toBeGreaterThan(0);
  for (const { id, prices } of speaking)
    for (const { card: one } of prices) {
      const { input_audio: heard = 0n, output_audio: said = 0n } = one.base;
      expect([id, heard > rateOf(one.base, "input").unitPrice]).toEqual([id, true]);
      expect([id, said > rateOf(one.base, "output").unitPrice]).toEqual([id, true]);
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

const anyCall = anyCard.chain((card) =>
  fc.record({
    card: fc.constant(card),
    tokens: anyTokens,
    fees: anyFees,
    serviceTier: anyFactorName({ ...card.serviceTiers, ...card.requestFees }),
    speed: anyFactorName(card.speeds),
    region: anyFactorName(card.regions),
  }),
);

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

/** The same sum, done the long way in fractions of a pico. */
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
  test("a call costs the sum of its meters at list price", () => {
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

  test("a sum is rounded up to a whole nano-USD once, not line by line", () => {
    const thin = datedCard({ tokens: { input: "0.000001", output: "0.000001" } }).card;
    expect(price(usage({ input: 400, output: 400 }), thin).cost).toBe(1n);
    expect(price(usage({ input: 600, output: 600 }), thin).cost).toBe(2n);
  });

  test("nothing used costs nothing", () => {
    expect(price(usage({}), card("sim/echo"))).toEqual({ cost: 0n, lines: [], missingPrices: [] });
  });

  test("reasoning is billed as output unless the model prices it apart", () => {
    expect(price(usage({ reasoning: 1_000_000 }), card("openai/gpt-5")).cost).toBe(10_000_000_000n);
    expect(
      price(usage({ reasoning: 1_000_000 }), card("perplexity/sonar-deep-research")).cost,
    ).toBe(3_000_000_000n);
  });

  test("cache writes of five minutes and of an hour have their own prices", () => {
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

  test("a long prompt is billed by its tier for every meter, chosen by the whole prompt", () => {
    const sonnet = card("anthropic/claude-sonnet-4-5");
    expect(price(usage({ input: 200_000, output: 1000 }), sonnet).cost).toBe(
      600_000_000n + 15_000_000n,
    );
    expect(price(usage({ input: 1, cache_read: 200_000, output: 1000 }), sonnet).cost).toBe(
      6_000n + 120_000_000n + 22_500_000n,
    );
  });

  test("GPT-5.4 switches at exactly 272,000 tokens, Grok 4.3 at exactly 200,000", () => {
    expect(price(usage({ input: 271_999 }), card("openai/gpt-5.4")).lines[0]?.unitPrice).toBe(
      2_500_000n,
    );
    expect(price(usage({ input: 272_000 }), card("openai/gpt-5.4")).lines[0]?.unitPrice).toBe(
      5_000_000n,
    );
    expect(price(usage({ input: 199_999 }), card("xai/grok-4.3")).lines[0]?.unitPrice).toBe(
      1_250_000n,
    );
    expect(price(usage({ input: 200_000 }), card("xai/grok-4.3")).lines[0]?.unitPrice).toBe(
      2_500_000n,
    );
  });

  test("the prompt of several rounds, told as a sum, is at the tier of a round", () => {
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

  test("the service tier, speed and region that the reply names are exact factors on tokens, not on fees", () => {
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

  test("a service tier without a known price is billed at list price and named", () => {
    expect(
      price(usage({ input: 1 }, { serviceTier: "turbo" }), card("openai/gpt-5")).missingPrices,
    ).toEqual(["service_tier:turbo"]);
    expect(isPriced(card("openai/gpt-5"), { serviceTier: "turbo" })).toBe(false);
    expect(isPriced(card("openai/gpt-5"), { serviceTier: "auto" })).toBe(true);
    expect(isPriced(card("openai/gpt-5"), { serviceTier: "constructor" })).toBe(false);
  });

  test("a tool without a known price is told apart from one that is free", () => {
    expect(isPriced(card("openai/gpt-5"), { fees: ["web_search", "request"] })).toBe(true);
    expect(isPriced(card("openai/gpt-5"), { fees: ["image_generation"] })).toBe(false);
    expect(isPriced(card("anthropic/claude-opus-5"), { fees: ["web_fetch"] })).toBe(true);
  });

  test("a meter without a price is billed as the dearest of its relatives and named where that may be too low", () => {
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

  test("a further leg is billed by its own model, at that model's own tier", () => {
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

  test("Perplexity's fee for a request follows the size of its search, and is the dearest where that is not told", () => {
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

  test("Gemini 2.5 charges a grounded prompt once, Gemini 3 each query", () => {
    const searches: Usage = { tokens: {}, fees: { grounding: 3 } };
    expect(price(searches, card("google/gemini-2.5-flash")).cost).toBe(35_000_000n);
    expect(price(searches, card("google/gemini-3.5-flash")).cost).toBe(42_000_000n);
  });

  test("parts of a second of audio are counted", () => {
    const heard = datedCard({ tokens: { input: "1" }, fees: { audio_second: "0.0001" } }).card;
    expect(price({ tokens: {}, fees: { audio_second: 0.25 } }, heard).cost).toBe(25_000n);
  });

  test("an absurd count is never charged", () => {
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
      { numRuns: 2000 },
    );
  });

  test("property: the cost is additive over disjoint meters of one call", () => {
    fc.assert(
      fc.property(anyCall, fc.nat({ max: 8 }), (call, cut) => {
        const whole = price(usageOfCall(call), call.card);
        const left = whole.lines.slice(0, cut).reduce((sum, line) => sum + line.pico, 0n);
        const right = whole.lines.slice(cut).reduce((sum, line) => sum + line.pico, 0n);
        // A line is rounded up to a pico by itself, so the parts may exceed the whole by less than one pico a line.
        expect(left + right >= (whole.cost - 1n) * 1000n).toBe(true);
        expect(left + right <= whole.cost * 1000n + BigInt(whole.lines.length)).toBe(true);
      }),
      { numRuns: 1000 },
    );
  });

  test("property: using more never costs less, on every card that has no cheaper tier for longer prompts", () => {
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
      { numRuns: 1000 },
    );
  });
});

describe("priceUpperBound", () => {
  test("it counts all input as the dearest input and all output as the dearest output", () => {
    expect(priceUpperBound({ inputTokens: 1000, outputTokens: 1000 }, card("sim/echo"))).toBe(
      2_000_000n + 2_000_000n,
    );
  });

  test("an absurd bound costs more than anybody has, and never throws", () => {
    for (const absurd of [Number.NaN, Number.POSITIVE_INFINITY, 1e300]) {
      const bounds = { inputTokens: absurd, outputTokens: absurd };
      expect(priceUpperBound(bounds, card("sim/echo")) > 9_000_000_000_000_000n).toBe(true);
      expect(affordableOutput(1_000_000_000n, bounds, card("sim/echo"), absurd)).toBe(0);
    }
    expect(priceUpperBound({ inputTokens: -5, outputTokens: 0.5 }, card("sim/echo"))).toBe(2_000n);
  });

  test("a tier that the prompt cannot reach is not counted", () => {
    const sonnet = card("anthropic/claude-sonnet-4-5");
    expect(priceUpperBound({ inputTokens: 200_000, outputTokens: 0 }, sonnet)).toBe(1_200_000_000n);
    expect(priceUpperBound({ inputTokens: 200_001, outputTokens: 0 }, sonnet)).toBe(2_400_012_000n);
  });

  test("a model that another may answer for is held at the dearer of the two", () => {
    const found = findModel(catalog, "xai/grok-3-mini");
    const held = found && possibleCards(catalog, found.model, NOW);
    expect(held).toHaveLength(2);
    expect(priceUpperBound({ inputTokens: 1_000_000, outputTokens: 0 }, held ?? [])).toBe(
      2_500_000_000n,
    );
  });

  test("property: no call within its bounds costs more than its bound, over every card of the catalog", () => {
    const within = (card: PriceCard) =>
      fc.record({
        card: fc.constant(card),
        tokens: anyTokens,
        fees: anyFees,
        serviceTier: anyFactorName({ ...card.serviceTiers, ...card.requestFees }),
        speed: anyFactorName(card.speeds),
        region: anyFactorName(card.regions),
        slack: fc.nat({ max: 100_000 }),
        tellsRegion: fc.boolean(),
      });
    for (const card of cards) {
      fc.assert(
        fc.property(within(card), (call) => {
          const count = (meters: readonly TokenMeter[]): number =>
            meters.reduce((sum, meter) => sum + (call.tokens[meter] ?? 0), 0);
          const bounds = {
            inputTokens: count(TOKEN_METERS.slice(0, 7)) + call.slack,
            outputTokens: count(TOKEN_METERS.slice(7)) + call.slack,
            fees: call.fees,
            ...(call.serviceTier !== undefined && { serviceTier: call.serviceTier }),
            ...(call.speed !== undefined && { speed: call.speed }),
            ...(call.tellsRegion && call.region !== undefined && { region: call.region }),
          };
          const { cost } = price(usageOfCall(call), card);
          expect(cost <= priceUpperBound(bounds, card)).toBe(true);
          expect(cost <= priceUpperBound({ ...bounds, serviceTier: "any" }, card)).toBe(true);
        }),
        { numRuns: 20 },
      );
    }
  });

  test("property: a cheaper tier, or the standard one, may answer any call without passing its bound", () => {
    fc.assert(
      fc.property(
        anyCard,
        anyTokens,
        fc.constantFrom("priority", "fast", "flex", "standard"),
        (card, used, asked) => {
          const input = TOKEN_METERS.slice(0, 7).reduce(
            (sum, meter) => sum + (used[meter] ?? 0),
            0,
          );
          const output = TOKEN_METERS.slice(7).reduce((sum, meter) => sum + (used[meter] ?? 0), 0);
          const bound = priceUpperBound(
            { inputTokens: input, outputTokens: output, serviceTier: asked },
            card,
          );
          expect(price(usage(used, { serviceTier: "default" }), card).cost <= bound).toBe(true);
          expect(price(usage(used, { serviceTier: asked }), card).cost <= bound).toBe(true);
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe("affordableOutput", () => {
  test("property: the output that it names fits, and one token more does not", () => {
    fc.assert(
      fc.property(
        anyCard,
        fc.bigInt({ min: 0n, max: 2_000_000_000n }),
        fc.integer({ min: 0, max: 100_000 }),
        (card, available, inputTokens) => {
          const limit = 200_000;
          const affordable = affordableOutput(available, { inputTokens }, card, limit);
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
      { numRuns: 500 },
    );
  });
});

describe("rateOf", () => {
  test("every meter has a rule on every card, and no relative is cheaper than what is known", () => {
    for (const card of cards) {
      for (const meter of TOKEN_METERS) expect(rateOf(card.base, meter).unitPrice >= 0n).toBe(true);
      const write = rateOf(card.base, "cache_write_1h");
      if (write.isEstimated)
        expect(write.unitPrice >= rateOf(card.base, "cache_write_5m").unitPrice).toBe(true);
    }
  });
});

describe("decimals", () => {
  test("a price in USD per million tokens becomes whole pico-USD, what is finer is rounded up", () => {
    expect(picoPerToken("0.003625")).toBe(3_625n);
    expect(picoPerToken("0.0000001")).toBe(1n);
    expect(picoPerToken(0.1 + 0.2)).toBe(300_000n);
    expect(picoPerToken(12.5)).toBe(12_500_000n);
  });

  test("factors are exact fractions in lowest terms", () => {
    expect(ratioOf("0.5")).toEqual({ num: 1n, den: 2n });
    expect(ratioOf("5/3")).toEqual({ num: 5n, den: 3n });
    expect(ratioOf(1.1)).toEqual({ num: 11n, den: 10n });
  });

  test("what is not a decimal is refused", () => {
    for (const wrong of ["", "-1", "1e3", "0x10", "1,5", "∞", Number.NaN, -1])
      expect(() => picoPerToken(wrong)).toThrow("not a decimal");
    expect(() => ratioOf("1/0")).toThrow("zero");
  });
});

describe("cardAt", () => {
  test("DeepSeek costs twice as much at its peak hours on weekdays", () => {
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

  test("a price holds from its day on, and the one before it until then", () => {
    const found = findModel(catalog, "google/gemini-3.8-flash");
    const input = (at: string): bigint | undefined =>
      found && cardFor(catalog, found.model, undefined, Date.parse(at))?.card.base.input;
    expect(input("2026-12-31T23:59:59Z")).toBe(750_000n);
    expect(input("2027-01-01T00:00:00Z")).toBe(1_500_000n);
  });

  test("hours may run over midnight", () => {
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
