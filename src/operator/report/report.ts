// Computes the report of a period from transfers and usage records. Accounts are read in batches, so that the gateway
// keeps serving requests meanwhile.

import { type Nano, toNano } from "../../base/money.ts";
import { SYSTEM_ACCOUNTS } from "../../ledger/rows.ts";
import { type Reader, text } from "../../store/db.ts";
import {
  type AccountRange,
  addOwnKeyCosts,
  addProviderCosts,
  type Period,
  type ProviderCost,
} from "./provider-costs.ts";

/** Payments or refunds at one processor, by destination. */
export interface ProcessorTotals {
  readonly processor: string;
  readonly kind: string;
  readonly credit: Nano;
  readonly debt: Nano;
  readonly fee: Nano;
  readonly tax: Nano;
  readonly suspense: Nano;
  /** Losses borne by the gateway. */
  readonly borne: Nano;
  readonly total: Nano;
}

export interface Report {
  readonly period: Period;
  readonly grants: { readonly starting: Nano; readonly claim: Nano; readonly operator: Nano };
  readonly adjustments: { readonly up: Nano; readonly down: Nano };
  readonly usage: { readonly promo: Nano; readonly paid: Nano; readonly overrun: Nano };
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

const ACCOUNTS_PER_BATCH = 200;

export async function readReport(reader: Reader, period: Period): Promise<Report> {
  const sums = new Map<string, TransferSum>();
  const providers = new Map<string, ProviderCost>();
  const ownKeys = new Map<string, ProviderCost>();
  for await (const range of accountRanges(reader)) {
    for (const sum of await sumTransfers(reader, range, period)) addTransferSum(sums, sum);
    await addProviderCosts(reader, { range, period }, providers);
    await addOwnKeyCosts(reader, { range, period }, ownKeys);
  }
  return {
    ...computeFigures([...sums.values()]),
    period,
    providers: sortedValues(providers),
    ownKeys: sortedValues(ownKeys),
  };
}

async function* accountRanges(reader: Reader): AsyncGenerator<AccountRange> {
  for (let after = ""; ;) {
    const rows = await reader.all(
      "select account_id from wallet where account_id > ? order by account_id limit ?",
      [after, ACCOUNTS_PER_BATCH],
    );
    const last = rows.at(-1);
    if (last === undefined) return;
    const upTo = text(last, "account_id");
    yield { after, upTo };
    after = upTo;
    // SQLite queries run synchronously on this thread; let other requests run between batches.
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** All transfers of one kind between two ledger accounts; a wallet's are `promo` and `paid`. */
interface TransferSum {
  readonly from: string;
  readonly to: string;
  readonly kind: string;
  /** What a grant was for, or `written_off`; otherwise empty. */
  readonly origin: string;
  readonly amount: Nano;
  /** Since the first transfer. */
  readonly cumulative: Nano;
}

const STARTING_GRANT = "starting";
const CLAIM_GRANT = "claim";
const OPERATOR_GRANT = "operator";
/** A recovered write-off. */
const WRITTEN_OFF = "written_off";

async function sumTransfers(
  reader: Reader,
  { after, upTo }: AccountRange,
  { from, to }: Period,
): Promise<readonly TransferSum[]> {
  const shortened = (column: string): string =>
    `case when ${column} like 'system:%' then ${column} else substr(${column}, length(account_id) + 2) end`;
  const rows = await reader.all(
    `select ${shortened("from_account")} as from_short, ${shortened("to_account")} as to_short, kind,
       case when kind in ('dispute_closed', 'refund_failed') and id like '%.written_off' then '${WRITTEN_OFF}'
         when kind <> 'grant' then ''
         when id like 'start.%' then '${STARTING_GRANT}'
         when id like 'grant.%' then '${OPERATOR_GRANT}'
         else '${CLAIM_GRANT}' end as origin,
       cast(coalesce(sum(case when at >= ? then amount else 0 end), 0) as text) as amount,
       cast(sum(amount) as text) as cumulative
     from transfer where account_id > ? and account_id <= ? and at < ? group by 1, 2, 3, 4`,
    [from, after, upTo, to],
  );
  return rows.map((row) => ({
    from: text(row, "from_short"),
    to: text(row, "to_short"),
    kind: text(row, "kind"),
    origin: text(row, "origin"),
    amount: toNano(row["amount"]),
    cumulative: toNano(row["cumulative"]),
  }));
}

function addTransferSum(sums: Map<string, TransferSum>, sum: TransferSum): void {
  const key = `${sum.from} ${sum.to} ${sum.kind} ${sum.origin}`;
  const total = sums.get(key);
  sums.set(key, {
    ...sum,
    amount: sum.amount + (total?.amount ?? 0n),
    cumulative: sum.cumulative + (total?.cumulative ?? 0n),
  });
}

function computeFigures(
  sums: readonly TransferSum[],
): Omit<Report, "period" | "providers" | "ownKeys"> {
  const totalOf = (
    matches: (sum: TransferSum) => boolean,
    field: "amount" | "cumulative" = "amount",
  ): Nano => sums.filter(matches).reduce((total, sum) => total + sum[field], 0n);
  const netOf = (account: string, field: "amount" | "cumulative"): Nano =>
    totalOf(({ to }) => to === account, field) - totalOf(({ from }) => from === account, field);
  const granted = (origin: string): Nano =>
    totalOf((sum) => sum.kind === "grant" && sum.origin === origin);
  const used = (from: string): Nano => totalOf((sum) => sum.kind === "usage" && sum.from === from);
  return {
    grants: {
      starting: granted(STARTING_GRANT),
      claim: granted(CLAIM_GRANT),
      operator: granted(OPERATOR_GRANT),
    },
    adjustments: {
      up: totalOf(({ from }) => from === SYSTEM_ACCOUNTS.adjustment),
      down: totalOf(({ to }) => to === SYSTEM_ACCOUNTS.adjustment),
    },
    usage: {
      promo: used("promo"),
      paid: used("paid"),
      overrun: used(SYSTEM_ACCOUNTS.overrunExpense),
    },
    processors: totalsByProcessor(sums),
    feeIncome: netOf(SYSTEM_ACCOUNTS.feeRevenue, "amount"),
    refundLoss:
      totalOf(({ from, kind }) => from === SYSTEM_ACCOUNTS.refundExpense && kind !== "write_off") -
      totalOf(({ to, origin }) => to === SYSTEM_ACCOUNTS.refundExpense && origin !== WRITTEN_OFF),
    writtenOff:
      totalOf(({ kind }) => kind === "write_off") - totalOf(({ origin }) => origin === WRITTEN_OFF),
    balances: {
      promo: netOf("promo", "cumulative"),
      paid: netOf("paid", "cumulative"),
      owed: -netOf(SYSTEM_ACCOUNTS.receivable, "cumulative"),
      suspense: netOf(SYSTEM_ACCOUNTS.suspense, "cumulative"),
      tax: netOf(SYSTEM_ACCOUNTS.taxPayable, "cumulative"),
    },
  };
}

const CLEARING_PREFIX = "system:clearing:";
const FIELD_BY_ACCOUNT: Readonly<
  Record<string, "credit" | "debt" | "fee" | "tax" | "suspense" | "borne">
> = {
  promo: "credit",
  paid: "credit",
  [SYSTEM_ACCOUNTS.receivable]: "debt",
  [SYSTEM_ACCOUNTS.feeRevenue]: "fee",
  [SYSTEM_ACCOUNTS.taxPayable]: "tax",
  [SYSTEM_ACCOUNTS.suspense]: "suspense",
  [SYSTEM_ACCOUNTS.refundExpense]: "borne",
};
const KIND_ORDER = ["purchase", "refund", "refund_failed", "dispute", "dispute_closed"];

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
  borne: 0n,
  total: 0n,
} as const;

function sortedValues<T>(map: ReadonlyMap<string, T>): readonly T[] {
  return [...map].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, value]) => value);
}
