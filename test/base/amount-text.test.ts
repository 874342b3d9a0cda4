import { expect, test } from "bun:test";
import { plainAmount } from "../../src/base/money/amount-text.ts";
import { nanoFromUsd } from "../../src/base/money/money.ts";

test.each([
  ["20", 20],
  [" $20 ", 20],
  ["$ 20.50", 20.5],
  ["US$20", 20],
  ["20 USD", 20],
  ["1,000", 1_000],
  ["$1,234,567.5", 1_234_567.5],
  ["2,50", 2.5],
])("reads %j as dollars", (text, usd) => {
  expect(nanoFromUsd(plainAmount(text))).toBe(BigInt(usd * 100) * 10_000_000n);
});

test.each(["", "ten", "5 EUR", "1,00,000", "1,0000", "1.000,50", "$", "1e3", "0x10"])(
  "leaves %j to be rejected",
  (text) => {
    expect(nanoFromUsd(plainAmount(text))).toBeUndefined();
  },
);
