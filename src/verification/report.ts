// Computes the report of a period from sums of transfers and the usage roll-ups.

import type { Nano } from "../base/money/money.ts";
import { utcDay } from "../base/time.ts";
import { SYSTEM_ACCOUNTS } from "../ledger/ledger-rows.ts";
import type { Reader } from "../store/db.ts";
import { type Period, type ProviderCost, readProviderCosts } from "./provider-costs.ts";
import { wholeHours } from "./report-period.ts";
import {
  CLAIM_GRANT,
  OPERATOR_GRANT,
  STARTING_GRANT,
  type TransferSum,
  WRITTEN_OFF,
} from "./transfer-sums.ts";

/** Payments or refunds at one processor, by destination. */
export interface ProcessorTotals {
  readonly processor: string;
  readonly kind: string;
  readonly credit: Nano;
  readonly debt: Nano;
  readonly fee: Nano;
  readonly tax: Nano;
  readonly suspense: Nano;
  /** What the gateway lost. */
  readonly loss: Nano;
  readonly total: Nano;
}

export interface Report {
  readonly period: Period;
  readonly grants: {
    readonly starting: Nano;
    readonly claim: Nano;
    readonly operator: Nano;
    /** Credits for breaches of service levels. */
    readonly serviceCredits: Nano;
  };
  readonly adjustments: { readonly up: Nano; readonly down: Nano };
  readonly usage: { readonly promo: Nano; readonly paid: Nano; readonly owed: Nano };
  readonly processors: readonly ProcessorTotals[];
  /** Fees of purchases, less returned fees. */
  readonly feeIncome: Nano;
  /** Refunds beyond the remaining credit. */
  readonly refundLoss: Nano;
  readonly writtenOff: Nano;
  /** At the end of the period. */
  readonly balances: {
    readonly promo: Nano;
    readonly paid: Nano;
    readonly owed: Nano;
    readonly suspense: Nano;
    readonly tax: Nano;
  };
  readonly providers: readonly ProviderCost[];
  /** List prices of calls with customers' own provider keys, which the provider bills to them. */
  readonly ownKeys: readonly ProviderCost[];
}

/** What the gateway earned: usage is sold at the providers' list prices, so only fees are income. */
export interface Profit {
  readonly fees: Nano;
  /** Promotional credit that calls spent, also service credits; the gateway pays the provider. Negative, as all that follow. */
  readonly promotionalUsage: Nano;
  readonly refundLosses: Nano;
  readonly writtenOff: Nano;
  /** Credit that operators gave by adjustments, less what they took. */
  readonly adjustments: Nano;
  readonly total: Nano;
}

export function profitOf({
  feeIncome,
  usage,
  refundLoss,
  writtenOff,
  adjustments,
}: Pick<Report, "feeIncome" | "usage" | "refundLoss" | "writtenOff" | "adjustments">): Profit {
  const parts = {
    fees: feeIncome,
    promotionalUsage: -usage.promo,
    refundLosses: -refundLoss,
    writtenOff: -writtenOff,
    adjustments: adjustments.down - adjustments.up,
  };
  return { ...parts, total: Object.values(parts).reduce((sum, part) => sum + part, 0n) };
}

/** The profit of each UTC day, in the order of the days. */
export function profitByDay(
  sums: readonly TransferSum[],
  days: readonly string[],
): readonly Profit[] {
  const byDay = new Map<string, TransferSum[]>(days.map((day) => [day, []]));
  for (const sum of sums) byDay.get(utcDay(sum.at))?.push(sum);
  return days.map((day) => profitOf(computeFigures(byDay.get(day) ?? [])));
}

/** The reader must be a snapshot, and the sums must come from it. */
export async function readReport(
  reader: Reader,
  period: Period,
  sums: readonly TransferSum[],
): Promise<Report> {
  const { from, to } = wholeHours(period);
  const untilEnd = sums.filter(({ at }) => at < to);
  return {
    ...computeFigures(untilEnd.filter(({ at }) => at >= from)),
    balances: computeBalances(untilEnd),
    period,
    ...(await readProviderCosts(reader, { from, to })),
  };
}

function computeFigures(
  sums: readonly TransferSum[],
): Omit<Report, "period" | "balances" | "providers" | "ownKeys"> {
  const totalOf = (matches: (sum: TransferSum) => boolean): Nano =>
    sums.filter(matches).reduce((total, { amount }) => total + amount, 0n);
  const granted = (origin: string): Nano =>
    totalOf((sum) => sum.kind === "grant" && sum.origin === origin);
  const used = (from: string): Nano => totalOf((sum) => sum.kind === "usage" && sum.from === from);
  return {
    grants: {
      starting: granted(STARTING_GRANT),
      claim: granted(CLAIM_GRANT),
      operator: granted(OPERATOR_GRANT),
      serviceCredits: totalOf(({ kind }) => kind === "service_credit"),
    },
    adjustments: {
      up: totalOf(({ from }) => from === SYSTEM_ACCOUNTS.adjustment),
      down: totalOf(({ to }) => to === SYSTEM_ACCOUNTS.adjustment),
    },
    usage: {
      promo: used("promo"),
      paid: used("paid"),
      owed: used(SYSTEM_ACCOUNTS.receivable),
    },
    processors: totalsByProcessor(sums),
    feeIncome: netOf(sums, SYSTEM_ACCOUNTS.feeRevenue),
    refundLoss:
      totalOf(({ from, kind }) => from === SYSTEM_ACCOUNTS.refundExpense && kind !== "write_off") -
      totalOf(({ to, origin }) => to === SYSTEM_ACCOUNTS.refundExpense && origin !== WRITTEN_OFF),
    writtenOff:
      totalOf(({ kind }) => kind === "write_off") - totalOf(({ origin }) => origin === WRITTEN_OFF),
  };
}

function computeBalances(sums: readonly TransferSum[]): Report["balances"] {
  return {
    promo: netOf(sums, "promo"),
    paid: netOf(sums, "paid"),
    owed: -netOf(sums, SYSTEM_ACCOUNTS.receivable),
    suspense: netOf(sums, SYSTEM_ACCOUNTS.suspense),
    tax: netOf(sums, SYSTEM_ACCOUNTS.taxPayable),
  };
}

/** What all transfers together moved to a ledger account. */
export function netOf(sums: readonly TransferSum[], account: string): Nano {
  let net = 0n;
  for (const { from, to, amount } of sums) {
    if (to === account) net += amount;
    if (from === account) net -= amount;
  }
  return net;
}

const CLEARING_PREFIX = "system:clearing:";
const FIELD_BY_ACCOUNT: Readonly<
  Record<string, "credit" | "debt" | "fee" | "tax" | "suspense" | "loss">
> = {
  promo: "credit",
  paid: "credit",
  [SYSTEM_ACCOUNTS.receivable]: "debt",
  [SYSTEM_ACCOUNTS.feeRevenue]: "fee",
  [SYSTEM_ACCOUNTS.taxPayable]: "tax",
  [SYSTEM_ACCOUNTS.suspense]: "suspense",
  [SYSTEM_ACCOUNTS.refundExpense]: "loss",
};
const KIND_ORDER = [
  "purchase",
  "refund",
  "refund_failed",
  "dispute",
  "dispute_closed",
  "authorization",
  "release",
  "capture",
  "loss",
  "recovery",
];

/** All amounts are positive; the kind says the direction. */
function totalsByProcessor(sums: readonly TransferSum[]): readonly ProcessorTotals[] {
  const totals = new Map<string, ProcessorTotals>();
  for (const sum of sums) {
    const isIncoming = sum.from.startsWith(CLEARING_PREFIX);
    if ((!isIncoming && !sum.to.startsWith(CLEARING_PREFIX)) || sum.amount === 0n) continue;
    const processor = (isIncoming ? sum.from : sum.to).slice(CLEARING_PREFIX.length);
    const field = FIELD_BY_ACCOUNT[isIncoming ? sum.to : sum.from];
    if (field === undefined)
      throw new Error(
        `unknown counterpart of processor ${processor}: ${isIncoming ? sum.to : sum.from}`,
      );
    const key = `${processor} ${KIND_ORDER.indexOf(sum.kind)} ${sum.kind}`;
    const previous = totals.get(key) ?? { ...ZERO_TOTALS, processor, kind: sum.kind };
    totals.set(key, {
      ...previous,
      [field]: previous[field] + sum.amount,
      total: previous.total + sum.amount,
    });
  }
  return sortedValues(totals);
}

const ZERO_TOTALS = {
  credit: 0n,
  debt: 0n,
  fee: 0n,
  tax: 0n,
  suspense: 0n,
  loss: 0n,
  total: 0n,
} as const;

function sortedValues<T>(map: ReadonlyMap<string, T>): readonly T[] {
  return [...map].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, value]) => value);
}
