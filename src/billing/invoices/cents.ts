// The arithmetic of invoices, in whole cents. Amounts that people pay have no smaller unit.

import { formatUsd } from "../../base/format.ts";
import { type Nano, NANO_PER_USD, nanoFromUsd } from "../../base/money.ts";
import type { PaymentAmounts } from "../../ledger/payments/payments.ts";

const NANO_PER_CENT = NANO_PER_USD / 100n;
const CREDITS_PER_CENT = 10_000;
const FEE_PERCENT = 5;
const PER_CENT = 100;

/** 5 % of what is bought, half a cent up. */
export function feeOf(amountCents: number): number {
  return Math.floor((amountCents * FEE_PERCENT + PER_CENT / 2) / PER_CENT);
}

export function nanoOfCents(cents: number): Nano {
  return BigInt(cents) * NANO_PER_CENT;
}

export function creditsOfCents(cents: number): number {
  return cents * CREDITS_PER_CENT;
}

/** Reads an amount of dollars and cents; undefined for what is none, or has a fraction of a cent. */
export function centsFromUsd(usd: string | number): number | undefined {
  const nano = nanoFromUsd(usd);
  return nano === undefined || nano % NANO_PER_CENT !== 0n
    ? undefined
    : Number(nano / NANO_PER_CENT);
}

/** Dollars as a number, for records: the nearest float to a decimal of two places prints as just that. */
export function usdOfCents(cents: number): number {
  return cents / PER_CENT;
}

/** "$10.50", for people. */
export function formatCents(cents: number): string {
  return formatUsd(nanoOfCents(cents));
}

/** What came in for an invoice, or for none. */
export interface ReceivedAmounts {
  readonly amountCents: number;
  /** All zero where the payment bought nothing. */
  readonly creditCents: number;
  readonly feeCents: number;
  readonly taxCents: number;
}

/**
 * What is left of a payment after so many cents went back, in its parts. Tax goes back in proportion, then the fee in
 * proportion to what remains, and the rest is credit. Every part only shrinks as more goes back, so each step of going
 * back, in whatever order, moves nothing the wrong way.
 */
export function remainingAmounts(payment: ReceivedAmounts, returnedCents: number): PaymentAmounts {
  const { amountCents, creditCents, feeCents, taxCents } = payment;
  const returned = Math.min(returnedCents, amountCents);
  const excess = nanoOfCents(returnedCents - returned);
  const bought = creditCents + feeCents;
  if (bought === 0)
    return { ...ZERO_AMOUNTS, suspense: nanoOfCents(amountCents - returned), excess: -excess };
  const tax = prorate(returned, taxCents, amountCents);
  const fee = prorate(returned - tax, feeCents, bought);
  const credit = returned - tax - fee;
  return {
    credit: nanoOfCents(creditCents - credit),
    fee: nanoOfCents(feeCents - fee),
    tax: nanoOfCents(taxCents - tax),
    suspense: 0n,
    excess: -excess,
  };
}

export const ZERO_AMOUNTS: PaymentAmounts = {
  credit: 0n,
  fee: 0n,
  tax: 0n,
  suspense: 0n,
  excess: 0n,
};

/** What has to move from one state of a payment to another; below zero for the other direction. */
export function amountsDelta(before: PaymentAmounts, after: PaymentAmounts): PaymentAmounts {
  return {
    credit: before.credit - after.credit,
    fee: before.fee - after.fee,
    tax: before.tax - after.tax,
    suspense: before.suspense - after.suspense,
    excess: before.excess - after.excess,
  };
}

/** `part / whole` of an amount, half a cent up, without a float. */
function prorate(amount: number, part: number, whole: number): number {
  return whole === 0
    ? 0
    : Number((2n * BigInt(amount) * BigInt(part) + BigInt(whole)) / (2n * BigInt(whole)));
}
