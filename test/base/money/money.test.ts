import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import {
  creditsOf,
  MAX_NANO,
  NANO_PER_USD,
  nanoFromPico,
  nanoFromUsd,
  toNano,
  usdOf,
  usdText,
  usdTextOfPico,
} from "../../../src/base/money/money.ts";

const amount = fc.bigInt({ min: -MAX_NANO, max: MAX_NANO });
const nonNegativeAmount = fc.bigInt({ min: 0n, max: MAX_NANO });

describe("amounts", () => {
  test("$0.05 is 50,000 credits", () => {
    const start = nanoFromUsd("0.05") ?? 0n;
    expect([start, creditsOf(start), usdOf(start), usdText(start)]).toEqual([
      50_000_000n,
      50_000,
      0.05,
      "0.05",
    ]);
  });

  test("credits are rounded down, also below zero", () => {
    for (const [nano, credits] of [
      [999n, 0],
      [1_000n, 1],
      [1_999n, 1],
      [-1n, -1],
      [-1_000n, -1],
      [-1_001n, -2],
      [0n, 0],
    ] as const)
      expect(creditsOf(nano)).toBe(credits);
  });

  test("a cost is rounded up to a whole nano-USD", () => {
    for (const [pico, nano] of [
      [0n, 0n],
      [1n, 1n],
      [999n, 1n],
      [1_000n, 1n],
      [1_001n, 2n],
    ] as const)
      expect(nanoFromPico(pico)).toBe(nano);
  });

  test("usdText and nanoFromUsd round-trip every amount", () => {
    fc.assert(fc.property(amount, (nano) => nanoFromUsd(usdText(nano)) === nano));
  });

  test("nanoFromUsd reads numbers like decimal text", () => {
    fc.assert(
      fc.property(nonNegativeAmount, (nano) => {
        const number = Number(usdText(nano));
        const read = nanoFromUsd(number);
        return read === undefined || Number(usdText(read)) === number;
      }),
    );
  });

  test("nanoFromUsd rejects numbers finer than a nano-USD", () => {
    for (const usd of [1e-10, 1.5e-9, 5e-10, 0.1 + 0.2, 1.0000000001, Number.MIN_VALUE])
      expect([usd, nanoFromUsd(usd)]).toEqual([usd, undefined]);
    expect([nanoFromUsd(1e-9), nanoFromUsd(1e-7), nanoFromUsd(2.5e-8)]).toEqual([1n, 100n, 25n]);
  });

  test("nanoFromUsd rejects text that is not a decimal", () => {
    for (const usd of [
      "",
      " 1",
      "1 ",
      "+1",
      "1.",
      ".5",
      "1e3",
      "0x10",
      "1,000",
      "1_000",
      "--1",
      "１",
      "1\n",
      "NaN",
      "Infinity",
      "12345678901",
      "1.0000000000",
    ])
      expect([usd, nanoFromUsd(usd)]).toEqual([usd, undefined]);
    for (const usd of [Number.NaN, Number.POSITIVE_INFINITY, 1e21, -1e300])
      expect([usd, nanoFromUsd(usd)]).toEqual([usd, undefined]);
  });

  test("nanoFromUsd and usdText handle signs and zeros", () => {
    expect(nanoFromUsd("-0")).toBe(0n);
    expect(nanoFromUsd(-0)).toBe(0n);
    expect(nanoFromUsd("-1.5")).toBe(-1_500_000_000n);
    expect(nanoFromUsd("007.50")).toBe(7_500_000_000n);
    expect(usdText(-1n)).toBe("-0.000000001");
    expect(usdText(0n)).toBe("0");
    expect(usdText(10n * NANO_PER_USD)).toBe("10");
  });

  test("usdTextOfPico shows every digit", () => {
    expect(usdTextOfPico(2_800n)).toBe("0.0000000028");
    expect(usdTextOfPico(1n)).toBe("0.000000000001");
  });

  test("toNano rejects columns that are not exact integers", () => {
    expect([toNano("5"), toNano(5), toNano(5n), toNano("-7")]).toEqual([5n, 5n, 5n, -7n]);
    for (const column of [1.5, 2 ** 53, "1.5", "", null, undefined, "1e3", Number.NaN])
      expect(() => toNano(column)).toThrow("not an exact amount");
  });

  test("MAX_NANO is a safe integer", () => {
    expect(Number.isSafeInteger(Number(MAX_NANO))).toBe(true);
  });
});
