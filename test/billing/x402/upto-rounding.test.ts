// Rounding of charges to units of a token: up, by less than a unit, and never above the ceiling.

import { expect, test } from "bun:test";
import { nanoOfUnits, unitsForCharge } from "../../../src/billing/x402/upto-messages.ts";
import { createRandom, TEST_SEED } from "../../support/random.ts";

const DECIMALS = [2, 6, 9, 12, 18];

test("a charge is rounded up with its fee, and a smaller charge never costs more", () => {
  const random = createRandom(TEST_SEED);
  for (let round = 0; round < 5_000; round++) {
    const decimals = DECIMALS[random(DECIMALS.length)] ?? 6;
    const credit = BigInt(random(2 ** 31)) * BigInt(1 + random(1_000));
    const charge = round % 7 === 0 ? credit : (credit * BigInt(random(1_000))) / 1_000n;
    const units = unitsForCharge(charge, decimals);
    const paid = nanoOfUnits(units, decimals);
    const unit = decimals >= 9 ? 1n : 10n ** BigInt(9 - decimals);
    expect(paid * 100n >= charge * 105n).toBe(true);
    expect((paid - unit) * 100n < charge * 105n || charge === 0n).toBe(true);
    expect(units <= unitsForCharge(credit, decimals)).toBe(true);
    expect(charge === 0n ? units === 0n : units > 0n).toBe(true);
  }
});

test("a millionth of a dollar costs two units of USDC, and nothing costs none", () => {
  expect(unitsForCharge(0n, 6)).toBe(0n);
  expect(unitsForCharge(1n, 6)).toBe(1n);
  expect(unitsForCharge(1_000n, 6)).toBe(2n);
  expect(unitsForCharge(1_000_000_000n, 6)).toBe(1_050_000n);
});
