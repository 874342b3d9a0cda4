import { describe, expect, test } from "bun:test";
import { array, assert, bigInt, property } from "fast-check";
import {
  formatAge,
  formatDateTime,
  formatDuration,
  formatInteger,
  formatCosts,
  formatSpend,
  formatSum,
  formatUsd,
  formatUsdExact,
  formatUsdShort,
  pluralize,
} from "../../../src/base/text/format.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../../src/base/time.ts";
import { TEST_SEED } from "../../support/random.ts";

describe("formatUsd", () => {
  test.each([
    [0n, "$0.00"],
    [999n, "less than $0.000001"],
    [1_000n, "$0.000001"],
    [3_500_000n, "$0.0035"],
    [50_000_000n, "$0.05"],
    [955_424_250n, "$0.955424"],
    [999_999_999n, "$0.999999"],
    [1_000_000_000n, "$1.00"],
    [2_149_999_999n, "$2.14"],
    [1_234_560_000_000n, "$1,234.56"],
    [9_000_000_000_000_000n, "$9,000,000.00"],
    [-2_500_000_000n, "−$2.50"],
    [-1_500_000n, "−$0.0015"],
  ])("formats %s nano-USD as %s", (amount, text) => {
    expect(formatUsd(amount)).toBe(text);
  });
});

describe("formatUsdExact", () => {
  test.each([
    [0n, "$0.00"],
    [1n, "$0.000000001"],
    [2_500_000_000n, "$2.50"],
    [1_234_567_800_001n, "$1,234.567800001"],
    [-1_050_000_000n, "−$1.05"],
  ])("formats %s nano-USD as %s", (amount, text) => {
    expect(formatUsdExact(amount)).toBe(text);
  });
});

describe("formatDuration and formatAge", () => {
  test.each([
    [0, "less than a minute"],
    [MINUTE_MS, "1 minute"],
    [HOUR_MS - 1, "59 minutes"],
    [HOUR_MS, "1 hour"],
    [2 * DAY_MS - 1, "47 hours"],
    [2 * DAY_MS, "2 days"],
  ])("formats %d ms as %s", (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
    expect(formatAge(1_000, 1_000 + ms)).toBe(`${text} ago`);
  });

  test("counts a time in the future as now", () => {
    expect(formatAge(HOUR_MS, 0)).toBe("less than a minute ago");
  });
});

test("formats a date in UTC to the minute", () => {
  expect(formatDateTime(Date.UTC(2026, 10, 21, 14, 5, 59))).toBe("2026-11-21 14:05 UTC");
});

test("groups thousands and counts nouns", () => {
  expect(formatInteger(1_234_567)).toBe("1,234,567");
  expect(pluralize(1, "key")).toBe("1 key");
  expect(pluralize(0, "key")).toBe("0 keys");
  expect(pluralize(1_200, "key")).toBe("1,200 keys");
});

test("formatDateTime shows a time in another time zone, with its offset", () => {
  const at = Date.parse("2026-07-01T22:05:00Z");
  expect(formatDateTime(at)).toBe("2026-07-01 22:05 UTC");
  expect(formatDateTime(at, "Europe/Berlin")).toBe("2026-07-02 00:05 GMT+2");
});

test("gives the amounts of a column equally many decimals", () => {
  expect(formatCosts([26_930_000_000n, 620_400_000n, 3_000_000n, 0n])).toEqual([
    "$26.93",
    "$0.62",
    "<$0.01",
    "$0.00",
  ]);
  expect(formatCosts([40_500_000n, 2_810_000n])).toEqual(["$0.0405", "$0.0028"]);
  expect(formatCosts([1_234_000n, 18_000n, 1n])).toEqual(["$0.001234", "$0.000018", "<$0.000001"]);
  expect(formatCosts([1_200_000_000n, 378_000n], 4)).toEqual(["$1.2000", "$0.0003"]);
  expect(formatCosts([50_000_000n, 0n])).toEqual(["$0.05", "$0.00"]);
  expect(formatCosts([-2_500_000_000n, 0n])).toEqual(["−$2.50", "$0.00"]);
});

test("rounds the parts of a sum so that they add up to the total", () => {
  expect(formatSum([3_337_000_000n, 16_663_000_000n])).toEqual({
    parts: ["$3.34", "$16.66"],
    total: "$20.00",
  });
  expect(formatSum([120_000_000_000n, 2_000_000n])).toEqual({
    parts: ["$120.00", "<$0.01"],
    total: "$120.00",
  });
  expect(formatSum([1_000_000_000n], 3_000_000_000n)).toEqual({ parts: ["$1.00"], total: "$3.00" });
  assert(
    property(array(bigInt({ min: -(10n ** 13n), max: 10n ** 13n })), (amounts) => {
      const { parts, total } = formatSum(amounts);
      const digits = (text: string): bigint =>
        text.startsWith("<") ? 0n : BigInt(text.replace("−", "-").replaceAll(/[$,.]/g, ""));
      const decimals = new Set([...parts, total].map((text) => text.split(".")[1]?.length));
      expect(decimals.size).toBe(1);
      expect(parts.map(digits).reduce((sum, part) => sum + part, 0n)).toBe(digits(total));
    }),
    { seed: TEST_SEED },
  );
});

test.each([
  [0, "$0"],
  [0.6, "$0.60"],
  [2.4, "$2.40"],
  [12, "$12"],
  [0.0005, "$0.0005"],
  [1_250, "$1.25K"],
])("shortens %p dollars to %s for charts", (usd, text) => {
  expect(formatUsdShort(usd)).toBe(text);
});

test("shows spend in whole cents, unless it is less than one", () => {
  expect(formatSpend(440_469_000n)).toBe("$0.44");
  expect(formatSpend(1_234_000n)).toBe("$0.001234");
});
