import { describe, expect, test } from "bun:test";
import { add, ceilOf, maxRatio, multiply, ONE, product } from "../../src/models/ratio.ts";

const HALF = { num: 1n, den: 2n };
const FIVE_THIRDS = { num: 5n, den: 3n };

describe("product", () => {
  test("multiplies a whole count by price and factor", () => {
    expect(ceilOf(product(6, 100n, FIVE_THIRDS))).toBe(1_000n);
  });

  test("multiplies a fractional count by price and factor", () => {
    expect(ceilOf(product(1.5, 600n, FIVE_THIRDS))).toBe(1_500n);
    expect(ceilOf(product(1.5, 600n, HALF))).toBe(450n);
  });

  test("rounds a fractional count up to a millionth", () => {
    expect(ceilOf(product(0.000_000_1, 1_000_000n, ONE))).toBe(1n);
  });
});

test("adds and multiplies fractions exactly", () => {
  expect(add(HALF, FIVE_THIRDS)).toEqual({ num: 13n, den: 6n });
  expect(multiply(HALF, FIVE_THIRDS)).toEqual({ num: 5n, den: 6n });
});

test("compares fractions exactly", () => {
  expect(maxRatio(HALF, FIVE_THIRDS)).toBe(FIVE_THIRDS);
  expect(maxRatio(FIVE_THIRDS, HALF)).toBe(FIVE_THIRDS);
});
