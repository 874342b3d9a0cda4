// Arithmetic of invoices and payments: prices in whole cents, credits in millionths of a dollar.

import { type Nano, NANO_PER_CREDIT, NANO_PER_USD, nanoFromUsd } from "../../base/money/money.ts";
import { formatUsd, formatUsdExact } from "../../base/text/format.ts";
import type { PaymentAmounts } from "../../ledger/payments/payments.ts";

const NANO_PER_CENT = NANO_PER_USD / 100n;
const CREDITS_PER_CENT = 10_000;
const CENTS_PER_USD = 100;
/** The price of a million credits in cents: 100 for the credits and 5 for the fee. */
const PRICE_PER_MILLION = 105n;
const MILLION = 1_000_000n;
const FEE_PERCENT = 5n;
const HUNDRED = 100n;

/**
 * The only rule of the platform fee, for all ways to pay: credits cost 105% of their value, rounded half up to whole cents, and
 * the fee is the difference. Returns the total before tax, in cents.
 */
export function priceOf(credits: number): number {
  return Number((2n * BigInt(credits) * PRICE_PER_MILLION + MILLION) / (2n * MILLION));
}

/** The most credits whose price, before rounding, is not above this total: $1.00 buys 952,380. */
export function creditsFor(totalCents: number): number {
  return Number((BigInt(totalCents) * MILLION) / PRICE_PER_MILLION);
}

/** The smallest total in whole cents that buys at least these credits. */
export function priceCovering(credits: number): number {
  return Number((BigInt(credits) * PRICE_PER_MILLION + MILLION - 1n) / MILLION);
}

/** The fee on a call that a wallet pays for directly, rounded up to a nano-dollar. */
export function feeOnCharge(charge: Nano): Nano {
  return (charge * FEE_PERCENT + HUNDRED - 1n) / HUNDRED;
}

export function nanoOfCents(cents: number): Nano {
  return BigInt(cents) * NANO_PER_CENT;
}

export function nanoOfCredits(credits: number): Nano {
  return BigInt(credits) * NANO_PER_CREDIT;
}

export function creditsOfCents(cents: number): number {
  return cents * CREDITS_PER_CENT;
}

/** The platform fee of a purchase, in millionths of a dollar, as credits are. */
export function feeOf({ credits, totalCents }: Purchase): number {
  return creditsOfCents(totalCents) - credits;
}

/** Line items in whole cents, for a processor that takes no fractions: they add up to the total. */
export function lineItemsOf({
  credits,
  totalCents,
}: Purchase): readonly { readonly name: string; readonly cents: number }[] {
  const creditCents = Math.min(totalCents, Math.round(credits / CREDITS_PER_CENT));
  const items = [
    { name: `${credits.toLocaleString("en-US")} credits`, cents: creditCents },
    { name: "Platform fee", cents: totalCents - creditCents },
  ];
  return items.filter(({ cents }) => cents > 0);
}

export interface Purchase {
  readonly credits: number;
  /** Credits and fee, before tax. */
  readonly totalCents: number;
}

/** US dollars as a number, for API records: a float with six decimals prints exactly. */
export function usdOfCredits(credits: number): number {
  return credits / (CREDITS_PER_CENT * CENTS_PER_USD);
}

/** Formats credits as the dollars that they are worth: `$10.00`, `$0.95238`. */
export function formatCredits(credits: number): string {
  return formatUsdExact(nanoOfCredits(credits));
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
  return cents / CENTS_PER_USD;
}

/** Formats cents as `$10.50`. */
export function formatCents(cents: number): string {
  return formatUsd(nanoOfCents(cents));
}

/** The amounts of a payment that was received. */
export interface ReceivedAmounts {
  readonly amountCents: number;
  /** Credits and tax are 0 if the payment was not credited. The fee is the rest. */
  readonly credits: number;
  readonly taxCents: number;
}

/**
 * The amounts of a payment that remain after refunds and disputes of `returnedCents`. Tax is returned pro rata in whole cents,
 * then the fee pro rata of the rest in whole credits, and the remainder is credit. Each amount decreases monotonically with
 * `returnedCents`, so returns can be applied in any order.
 */
export function remainingAmounts(payment: ReceivedAmounts, returnedCents: number): PaymentAmounts {
  const { amountCents, credits, taxCents } = payment;
  const returned = Math.min(returnedCents, amountCents);
  const excess = nanoOfCents(returnedCents - returned);
  if (credits === 0)
    return { ...ZERO_AMOUNTS, suspense: nanoOfCents(amountCents - returned), excess: -excess };
  const totalCents = amountCents - taxCents;
  const fee = feeOf({ credits, totalCents });
  const returnedTax = prorate(returned, taxCents, amountCents);
  const returnedPrice = creditsOfCents(returned - returnedTax);
  const returnedFee = prorate(returnedPrice, fee, creditsOfCents(totalCents));
  return {
    credit: nanoOfCredits(credits - (returnedPrice - returnedFee)),
    fee: nanoOfCredits(fee - returnedFee),
    tax: nanoOfCents(taxCents - returnedTax),
    suspense: 0n,
    excess: -excess,
  };
}

const ZERO_AMOUNTS: PaymentAmounts = {
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
