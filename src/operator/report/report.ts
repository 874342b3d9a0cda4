// Computes the report of a period from transfers and usage roll-ups. On SQLite, transfers are read in short ranges, so
// that the gateway keeps serving requests meanwhile.

import { type Nano, toNano } from "../../base/money.ts";
import { SYSTEM_ACCOUNTS } from "../../ledger/rows.ts";
import { type Reader, text } from "../../store/db.ts";
import { type Period, type ProviderCost, readProviderCosts } from "./provider-costs.ts";

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

/** Summed by one statement on SQLite, which runs it on the main thread. */
const TRANSFERS_PER_STATEMENT = 4_000;

export async function readReport(reader: Reader, period: Period): Promise<Report> {
  const sums = new Map<string, TransferSum>();
  for await (const range of transferRanges(reader))
    for (const sum of await sumTransfers(reader, range, period)) addTransferSum(sums, sum);
  return {
    ...computeFigures([...sums.values()]),
    period,
    ...(await readProviderCosts(reader, period)),
  };
}

/** A condition on the primary key of transfers. */
export interface TransferRange {
  readonly where: string;
  readonly params: readonly string[];
}

/** PostgreSQL reads all in one statement: with ranges, it may plan to read the whole table for each of them. */
export async function* transferRanges(reader: Reader): AsyncGenerator<TransferRange> {
  if (reader.kind === "postgres") {
    yield { where: "true", params: [] };
    return;
  }
  for (let after: readonly string[] = ["", ""]; ;) {
    const last = await reader.get(
      `select account_id, id from transfer where (account_id, id) > (?, ?)
       order by account_id, id limit 1 offset ${TRANSFERS_PER_STATEMENT - 1}`,
      after,
    );
    if (last === undefined) {
      yield { where: "(account_id, id) > (?, ?)", params: after };
      return;
    }
    const upTo = [text(last, "account_id"), text(last, "id")];
    yield {
      where: "(account_id, id) > (?, ?) and (account_id, id) <= (?, ?)",
      params: [...after, ...upTo],
    };
    after = upTo;
    // Let other requests run between batches.
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
  { where, params }: TransferRange,
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
     from transfer where ${where} and at < ? group by 1, 2, 3, 4`,
    [from, ...params, to],
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
