// The platform fee is 5%, by one rule for all ways to pay, from 1 cent to 9,000,000 dollars.

import { describe, expect, test } from "bun:test";
import { assert, integer, oneof, property } from "fast-check";
import {
  creditsFor,
  creditsOfCents,
  feeOf,
  lineItemsOf,
  priceCovering,
  priceOf,
} from "../../../src/billing/invoices/cents.ts";

const CENTS_MAX = 900_000_000;
const HALF_A_CENT = 5_000;
// Small amounts are where rounding matters; large ones are where floats would lose digits.
const anyCents = oneof(
  integer({ min: 1, max: 500 }),
  integer({ min: 1, max: CENTS_MAX }),
  integer({ min: CENTS_MAX - 500, max: CENTS_MAX }),
);

describe("the fee of 5%", () => {
  test("is exact to one credit if a wallet pays a total: $1.00 buys 952,380 credits", () => {
    expect(creditsFor(100)).toBe(952_380);
    expect(creditsFor(105)).toBe(1_000_000);
    expect(creditsFor(CENTS_MAX)).toBe(8_571_428_571_428);
    assert(
      property(anyCents, (totalCents) => {
        const credits = creditsFor(totalCents);
        // The price of these credits is the total that was paid.
        expect(priceOf(credits)).toBe(totalCents);
        const fee = feeOf({ credits, totalCents });
        expect(fee + credits).toBe(creditsOfCents(totalCents));
        // One credit more would need more than the total.
        expect(20n * BigInt(fee) >= BigInt(credits)).toBe(true);
        expect(20n * BigInt(fee - 1) < BigInt(credits) + 20n).toBe(true);
      }),
    );
  });

  test("is exact to half a cent of the total if a person buys an amount of credits", () => {
    assert(
      property(anyCents, (amountCents) => {
        const credits = creditsOfCents(amountCents);
        const totalCents = priceOf(credits);
        const fee = feeOf({ credits, totalCents });
        const error = 20n * BigInt(fee) - BigInt(credits);
        expect(error > -20n * BigInt(HALF_A_CENT) && error <= 20n * BigInt(HALF_A_CENT)).toBe(true);
        if (amountCents % 20 === 0) expect(error).toBe(0n);
      }),
    );
    expect(priceOf(10_000_000)).toBe(1_050);
    // Half a cent is rounded up: 5% of $0.50 is 2.5 cents.
    expect(priceOf(500_000)).toBe(53);
  });

  test("never buys less than a call needs, nor pays a cent too much for it", () => {
    assert(
      property(integer({ min: 1, max: CENTS_MAX * 10_000 }), (needed) => {
        const totalCents = priceCovering(needed);
        expect(creditsFor(totalCents)).toBeGreaterThanOrEqual(needed);
        expect(creditsFor(totalCents - 1)).toBeLessThan(needed);
      }),
    );
  });

  test("is a line of the invoice, and the lines add up to the total in whole cents", () => {
    assert(
      property(anyCents, (totalCents) => {
        for (const credits of [creditsFor(totalCents), creditsOfCents(totalCents)]) {
          const purchase = { credits, totalCents: priceOf(credits) };
          const lines = lineItemsOf(purchase).map(({ cents }) => cents);
          expect(lines.every((cents) => Number.isInteger(cents) && cents > 0)).toBe(true);
          expect(lines.reduce((sum, cents) => sum + cents, 0)).toBe(purchase.totalCents);
        }
      }),
    );
  });
});
