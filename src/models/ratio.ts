// Exact fractions: prices and factors are never floats.

import type { Pico } from "../base/money/money.ts";

export interface Ratio {
  readonly num: bigint;
  readonly den: bigint;
}

export const ONE: Ratio = { num: 1n, den: 1n };
const FRACTION_SCALE = 1_000_000;

/** count × unitPrice × factor. Seconds of audio may be fractional: they are rounded up to a millionth. */
export function product(count: number, unitPrice: Pico, factor: Ratio): Ratio {
  if (Number.isSafeInteger(count)) {
    const price = BigInt(count) * unitPrice;
    return factor === ONE ? { num: price, den: 1n } : { num: price * factor.num, den: factor.den };
  }
  const scaledCount = BigInt(Math.ceil(count * FRACTION_SCALE));
  return { num: scaledCount * unitPrice * factor.num, den: factor.den * BigInt(FRACTION_SCALE) };
}

export function add(left: Ratio, right: Ratio): Ratio {
  if (left.den === right.den) return { num: left.num + right.num, den: left.den };
  return { num: left.num * right.den + right.num * left.den, den: left.den * right.den };
}

export function multiply(left: Ratio, right: Ratio): Ratio {
  if (right === ONE) return left;
  if (left === ONE) return right;
  return { num: left.num * right.num, den: left.den * right.den };
}

export function maxRatio(left: Ratio, right: Ratio): Ratio {
  if (left === right) return left;
  return left.num * right.den >= right.num * left.den ? left : right;
}

export function ceilOf({ num, den }: Ratio): bigint {
  // Nearly all are whole, and each operation creates a bigint.
  return den === 1n ? num : (num + den - 1n) / den;
}
