// Arithmetic of invoices and payments, in whole cents.

import { type Nano, NANO_PER_USD, nanoFromUsd } from "../../base/money/money.ts";
import { formatUsd } from "../../base/text/format.ts";
import type { PaymentAmounts } from "../../ledger/payments/payments.ts";

const NANO_PER_CENT = NANO_PER_USD / 100n;
const CREDITS_PER_CENT = 10_000;
const FEE_PERCENT = 5;
const PER_CENT = 100;

/** 5% of the amount, rounded half up. */
export function feeOf(amountCents: number): number {
  return Math.floor((amountCents * FEE_PERCENT + PER_CENT / 2) / PER_CENT);
}

export function nanoOfCents(cents: number): Nano {
  return BigInt(cents) * NANO_PER_CENT;
}

export function creditsOfCents(cents: number): number {
  return cents * CREDITS_PER_CENT;
}

/** Parses an amount in US dollars; undefined if it is not a number or has a fraction of a cent. */
export function centsFromUsd(usd: string | number): number | undefined {
  const nano = nanoFromUsd(usd);
  return nano === undefined || nano % NANO_PER_CENT !== 0n
    ? undefined
    : Number(nano / NANO_PER_CENT);
}

/** US dollars as a number, for API records: a float with two decimals prints exactly. */
export function usdOfCents(cents: number): number {
  return cents / PER_CENT;
}

/** Formats cents as `$10.50`. */
export function formatCents(cents: number): string {
  return formatUsd(nanoOfCents(cents));
}

/** The amounts of a payment that was received. */
export interface ReceivedAmounts {
  readonly amountCents: number;
  /** Credits, fee and tax are 0 if the payment was not credited. */
  readonly creditCents: number;
  readonly feeCents: number;
  readonly taxCents: number;
}

/**
 * The amounts of a payment that remain after refunds and disputes of `returnedCents`. Tax is returned pro rata, then the
 * fee pro rata of the rest, and the remainder is credit. Each amount decreases monotonically with `returnedCents`, so
 * returns can be applied in any order.
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

/** What a payment loses from one state to another; negative if it gains. */
export function amountsDelta(before: PaymentAmounts, after: PaymentAmounts): PaymentAmounts {
  return {
    credit: before.credit - after.credit,
    fee: before.fee - after.fee,
    tax: before.tax - after.tax,
    suspense: before.suspense - after.suspense,
    excess: before.excess - after.excess,
  };
}

/** `amount * part / whole`, rounded half up, without floating point. */
function prorate(amount: number, part: number, whole: number): number {
  return whole === 0
    ? 0
    : Number((2n * BigInt(amount) * BigInt(part) + BigInt(whole)) / (2n * BigInt(whole)));
}
