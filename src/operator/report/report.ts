// What came in, went out and is owed in a period, out of the transfers and the usage records alone. Accounts are read a
// few hundred at a time, so that a gateway which is asked for a report goes on answering.

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

/** The parts of money that passed a payment processor. */
export interface ProcessorTotals {
  readonly processor: string;
  readonly kind: string;
  readonly credit: Nano;
  readonly debt: Nano;
  readonly fee: Nano;
  readonly tax: Nano;
  readonly suspense: Nano;
  /** What the house bore. */
  readonly borne: Nano;
  readonly total: Nano;
}

export interface Report {
  readonly period: Period;
  readonly grants: { readonly starting: Nano; readonly claim: Nano; readonly operator: Nano };
  readonly adjustments: { readonly up: Nano; readonly down: Nano };
  readonly usage: { readonly promo: Nano; readonly paid: Nano; readonly overrun: Nano };
  readonly processors: readonly ProcessorTotals[];
  /** Fees of purchases, less those that went back. */
  readonly feeIncome: Nano;
  /** What the house gave back beyond what was left of it. */
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
  /** What calls on the callers' own keys would have cost: their bill, and not the operator's. */
  readonly ownKeys: readonly ProviderCost[];
}

const ACCOUNTS_PER_BATCH = 200;

export async function readReport(reader: Reader, period: Period): Promise<Report> {
  const flows = new Map<string, TransferSum>();
  const providers = new Map<string, ProviderCost>();
  const ownKeys = new Map<string, ProviderCost>();
  for await (const range of accountRanges(reader)) {
    for (const flow of await sumTransfers(reader, range, period)) addTransferSum(flows, flow);
    await addProviderCosts(reader, { range, period }, providers);
    await addOwnKeyCosts(reader, { range, period }, ownKeys);
  }
  return {
    ...computeFigures([...flows.values()]),
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
    // SQLite answers at once and on this very thread: others get their turn here.
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** All transfers of one kind between two ledger accounts; a wallet's are `promo` and `paid`. */
interface TransferSum {
  readonly from: string;
  readonly to: string;
  readonly kind: string;
  readonly sort: string;
  readonly amount: Nano;
  /** Since the beginning of the books. */
  readonly ever: Nano;
}

const STARTING_GRANT = "starting";
const OPERATOR_GRANT = "operator";
/** Of a debt that was written off, and was not lost after all. */
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
       case when kind in ('dispute_closed', 'refund_failed') and id like '%.written_off' then '${WRITTEN_OFF}' when kind <> 'grant' then '' when id like 'start.%' then '${STARTING_GRANT}' when id like 'grant.%' then '${OPERATOR_GRANT}' else 'claim' end as sort,
       cast(coalesce(sum(case when at >= ? then amount else 0 end), 0) as text) as amount,
       cast(sum(amount) as text) as ever
     from transfer where account_id > ? and account_id <= ? and at < ? group by 1, 2, 3, 4`,
    [from, after, upTo, to],
  );
  return rows.map((row) => ({
    from: text(row, "from_short"),
    to: text(row, "to_short"),
    kind: text(row, "kind"),
    sort: text(row, "sort"),
    amount: toNano(row["amount"]),
    ever: toNano(row["ever"]),
  }));
}

function addTransferSum(flows: Map<string, TransferSum>, sum: TransferSum): void {
  const key = `${sum.from} ${sum.to} ${sum.kind} ${sum.sort}`;
  const total = flows.get(key);
  flows.set(key, {
    ...sum,
    amount: sum.amount + (total?.amount ?? 0n),
    ever: sum.ever + (total?.ever ?? 0n),
  });
}

function computeFigures(
  flows: readonly TransferSum[],
): Omit<Report, "period" | "providers" | "ownKeys"> {
  const sum = (wanted: (flow: TransferSum) => boolean, of: "amount" | "ever" = "amount"): Nano =>
    flows.filter(wanted).reduce((total, flow) => total + flow[of], 0n);
  const net = (account: string, of: "amount" | "ever"): Nano =>
    sum(({ to }) => to === account, of) - sum(({ from }) => from === account, of);
  const granted = (sort: string): Nano =>
    sum((flow) => flow.kind === "grant" && flow.sort === sort);
  const used = (from: string): Nano => sum((flow) => flow.kind === "usage" && flow.from === from);
  return {
    grants: {
      starting: granted(STARTING_GRANT),
      claim: granted("claim"),
      operator: granted(OPERATOR_GRANT),
    },
    adjustments: {
      up: sum(({ from }) => from === SYSTEM_ACCOUNTS.adjustment),
      down: sum(({ to }) => to === SYSTEM_ACCOUNTS.adjustment),
    },
    usage: {
      promo: used("promo"),
      paid: used("paid"),
      overrun: used(SYSTEM_ACCOUNTS.overrunExpense),
    },
    processors: totalsByProcessor(flows),
    feeIncome: net(SYSTEM_ACCOUNTS.feeRevenue, "amount"),
    refundLoss:
      sum(({ from, kind }) => from === SYSTEM_ACCOUNTS.refundExpense && kind !== "write_off") -
      sum(({ to, sort }) => to === SYSTEM_ACCOUNTS.refundExpense && sort !== WRITTEN_OFF),
    writtenOff: sum(({ kind }) => kind === "write_off") - sum(({ sort }) => sort === WRITTEN_OFF),
    balances: {
      promo: net("promo", "ever"),
      paid: net("paid", "ever"),
      owed: -net(SYSTEM_ACCOUNTS.receivable, "ever"),
      suspense: net(SYSTEM_ACCOUNTS.suspense, "ever"),
      tax: net(SYSTEM_ACCOUNTS.taxPayable, "ever"),
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

/** Every amount is above zero, whichever way it went: the kind says the way. */
function totalsByProcessor(flows: readonly TransferSum[]): readonly ProcessorTotals[] {
  const found = new Map<string, ProcessorTotals>();
  for (const flow of flows) {
    const isIn = flow.from.startsWith(CLEARING_PREFIX);
    if ((!isIn && !flow.to.startsWith(CLEARING_PREFIX)) || flow.amount === 0n) continue;
    const processor = (isIn ? flow.from : flow.to).slice(CLEARING_PREFIX.length);
    const part = FIELD_BY_ACCOUNT[isIn ? flow.to : flow.from];
    if (part === undefined) throw new Error(`money passed ${processor} from nowhere known`);
    const key = `${processor} ${KIND_ORDER.indexOf(flow.kind)} ${flow.kind}`;
    const known = found.get(key) ?? { ...ZERO_TOTALS, processor, kind: flow.kind };
    found.set(key, {
      ...known,
      [part]: known[part] + flow.amount,
      total: known.total + flow.amount,
    });
  }
  return sortedValues(found);
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

function sortedValues<T>(found: ReadonlyMap<string, T>): readonly T[] {
  return [...found].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, value]) => value);
}
