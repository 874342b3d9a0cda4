// Amounts are bigint nano-USD, so that floats cannot be mixed in by accident. Prices are pico-USD per token, the same
// integer as micro-USD per million tokens.

import { memoize } from "../memoize.ts";

export type Nano = bigint;
export type Pico = bigint;

export const NANO_PER_CREDIT = 1_000n;
export const NANO_PER_USD = 1_000_000_000n;
export const PICO_PER_NANO = 1_000n;
const PICO_BELOW_NANO = PICO_PER_NANO - 1n;
const MICRO_PER_USD = 1_000_000;
const ZERO = 0x30;

/** Upper bound of every amount: below `Number.MAX_SAFE_INTEGER`, so that every driver carries it exactly. */
export const MAX_NANO: Nano = 9_000_000n * NANO_PER_USD;

/** Whole credits, rounded down; the API does not show fractions of a credit. */
export function creditsOf(amount: Nano): number {
  const whole = amount / NANO_PER_CREDIT;
  return Number(amount < 0n && amount % NANO_PER_CREDIT !== 0n ? whole - 1n : whole);
}

/** US dollars as the API shows balances: whole credits / 1e6. */
export function usdOf(amount: Nano): number {
  return creditsOf(amount) / MICRO_PER_USD;
}

export function minNano(a: Nano, b: Nano): Nano {
  return a < b ? a : b;
}

export function maxNano(a: Nano, b: Nano): Nano {
  return a > b ? a : b;
}

/** Rounds up. Called once per request, on the exact sum. */
export function nanoFromPico(cost: Pico): Nano {
  return (cost + PICO_BELOW_NANO) / PICO_PER_NANO;
}

/** Every digit of an amount, without trailing zeros: "0.05", "0.0000000015". */
export function usdText(amount: Nano): string {
  return decimalText(amount, 9);
}

/** US dollars with every digit, for a number of JSON. */
export function usdNumber(amount: Nano): number {
  return Number(usdText(amount));
}

/** The price of one token in US dollars: "0.0000025". Memoized: few prices, each formatted often. */
export const usdTextOfPico: (price: Pico) => string = memoize((price) => decimalText(price, 12));

/** Parses a decimal such as "10" or "1.25"; undefined if invalid or more precise than a nano-USD. */
export function nanoFromUsd(usd: string | number): Nano | undefined {
  const text = typeof usd === "number" ? plainDecimal(usd) : usd;
  const match = /^(-?)(\d{1,10})(?:\.(\d{1,9}))?$/.exec(text);
  if (!match) return undefined;
  const [, sign, whole = "0", fraction = ""] = match;
  const amount = BigInt(whole) * NANO_PER_USD + BigInt(fraction.padEnd(9, "0"));
  return sign === "-" ? -amount : amount;
}

/** Converts a money column of any driver; throws for a number that is not exact. */
export function toNano(column: unknown): Nano {
  if (typeof column === "bigint") return column;
  if (typeof column === "string" && /^-?\d+$/.test(column)) return BigInt(column);
  if (typeof column === "number" && Number.isSafeInteger(column)) return BigInt(column);
  throw new Error(`not an exact amount: ${typeof column} ${String(column)}`);
}

function decimalText(amount: bigint, digits: number): string {
  const sign = amount < 0n ? "-" : "";
  const text = (amount < 0n ? -amount : amount).toString().padStart(digits + 1, "0");
  const point = text.length - digits;
  let end = text.length;
  while (end > point && text.charCodeAt(end - 1) === ZERO) end--;
  return sign + text.slice(0, point) + (end === point ? "" : `.${text.slice(point, end)}`);
}

function plainDecimal(value: number): string {
  const text = String(value);
  if (!text.includes("e")) return text;
  const plain = value
    .toFixed(9)
    .replace(/(?<!0)0+$/, "")
    .replace(/\.$/, "");
  // With more digits than that, `plain` would be another amount.
  return Number(plain) === value ? plain : text;
}
