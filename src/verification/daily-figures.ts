// Figures of the report by day: purchases, charged usage, and the calls and cost of each provider, from the roll-ups. Also the
// networks that created most accounts.

import { minIdAt } from "../base/id.ts";
import { type Nano, toNano } from "../base/money/money.ts";
import { DAY_MS, utcDay } from "../base/time.ts";
import { SYSTEM_ACCOUNTS } from "../ledger/ledger-rows.ts";
import { type Reader, type Row, text, integer } from "../store/db.ts";
import type { Period } from "./provider-costs.ts";
import { accountRanges } from "./provider-sums.ts";
import { wholeHours } from "./report-period.ts";
import { type Profit, profitByDay } from "./report.ts";
import type { TransferSum } from "./transfer-sums.ts";

/** More bars would be too thin to point at. */
const DAYS_MAX = 92;
const NETWORKS_MAX = 20;

export interface DailyFigures {
  /** `2026-11-21`, oldest first. */
  readonly days: readonly string[];
  /** Amounts by series and day. */
  readonly income: ReadonlyMap<IncomeSeries, readonly Nano[]>;
  /** By day. */
  readonly profit: readonly Profit[];
  readonly cost: ReadonlyMap<string, readonly Nano[]>;
  readonly providers: readonly ProviderFigures[];
  readonly networks: readonly NetworkFigures[];
}

/** The first two are purchases, the others usage: they differ by orders of magnitude. */
const INCOME_SERIES = ["purchases", "fees", "paid usage", "promotional usage"] as const;
export type IncomeSeries = (typeof INCOME_SERIES)[number];

export interface ProviderFigures {
  readonly provider: string;
  readonly calls: number;
  readonly errors: number;
  readonly cost: Nano;
}

interface NetworkFigures {
  readonly network: string;
  readonly accounts: number;
  readonly claimed: number;
}

interface Sums {
  readonly income: Map<IncomeSeries, Map<string, Nano>>;
  readonly cost: Map<string, Map<string, Nano>>;
  readonly providers: Map<string, ProviderFigures>;
}

export async function readDailyFigures(
  reader: Reader,
  period: Period,
  transfers: readonly TransferSum[],
): Promise<DailyFigures> {
  const first = Math.max(period.from, period.to - DAYS_MAX * DAY_MS);
  const from = first - (first % DAY_MS);
  const sums: Sums = { income: new Map(), cost: new Map(), providers: new Map() };
  const dates = { from, to: wholeHours(period).to };
  for (const sum of transfers) if (sum.at >= dates.from && sum.at < dates.to) addIncome(sums, sum);
  await addProviders(reader, dates, sums);
  const days: string[] = [];
  for (let at = from; at < period.to; at += DAY_MS) days.push(utcDay(at));
  const byDay = <T>(series: ReadonlyMap<T, ReadonlyMap<string, Nano>>) =>
    new Map(
      [...series].map(([name, amounts]) => [name, days.map((day) => amounts.get(day) ?? 0n)]),
    );
  return {
    days,
    income: byDay(sums.income),
    profit: profitByDay(transfers, days),
    cost: byDay(sums.cost),
    providers: [...sums.providers.values()].sort((one, other) => other.calls - one.calls),
    networks: await readNetworks(reader, period),
  };
}

function addIncome({ income }: Sums, { at, from, to, kind, amount }: TransferSum): void {
  const series: IncomeSeries | undefined =
    kind === "purchase" && to === "paid"
      ? "purchases"
      : kind === "purchase" && to === SYSTEM_ACCOUNTS.feeRevenue
        ? "fees"
        : kind === "usage" && from === "paid"
          ? "paid usage"
          : kind === "usage" && from === "promo"
            ? "promotional usage"
            : undefined;
  if (series !== undefined) addAmount(income, series, utcDay(at), amount);
}

/** Calls, failures and charges of each provider, the busiest first. Counts whole UTC days. */
export async function readProviderFigures(
  reader: Reader,
  period: Period,
): Promise<readonly ProviderFigures[]> {
  const sums: Sums = { income: new Map(), cost: new Map(), providers: new Map() };
  await addProviders(reader, period, sums);
  return [...sums.providers.values()].sort((one, other) => other.calls - one.calls);
}

/** On SQLite in batches of accounts, because it answers on the main thread. */
async function addProviders(reader: Reader, { from, to }: Period, sums: Sums): Promise<void> {
  const select =
    "select at, provider, cast(sum(cost_nano) as text) as cost, sum(calls) as calls, sum(errors) as errors from";
  const where = "unit = 'day' and at >= ? and at < ? and label = '' group by at, provider";
  if (reader.kind === "postgres") {
    addProviderRows(await reader.all(`${select} usage_rollup where ${where}`, [from, to]), sums);
    return;
  }
  for await (const { after, upTo } of accountRanges(reader)) {
    const rows = await reader.all(
      `${select} (select account_id as owner from wallet where account_id > ? and account_id <= ?)
       as owners cross join usage_rollup on account_id = owner where ${where}`,
      [after, upTo, from, to],
    );
    addProviderRows(rows, sums);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function addProviderRows(rows: readonly Row[], { cost, providers }: Sums): void {
  for (const row of rows) {
    const provider = text(row, "provider");
    const amount = toNano(row["cost"]);
    const before = providers.get(provider);
    addAmount(cost, provider, utcDay(integer(row, "at")), amount);
    providers.set(provider, {
      provider,
      calls: (before?.calls ?? 0) + Number(row["calls"]),
      errors: (before?.errors ?? 0) + Number(row["errors"]),
      cost: (before?.cost ?? 0n) + amount,
    });
  }
}

function addAmount<T>(sums: Map<T, Map<string, Nano>>, name: T, day: string, amount: Nano): void {
  const byDay = sums.get(name) ?? new Map<string, Nano>();
  sums.set(name, byDay);
  byDay.set(day, (byDay.get(day) ?? 0n) + amount);
}

async function readNetworks(
  reader: Reader,
  { from, to }: Period,
): Promise<readonly NetworkFigures[]> {
  const rows = await reader.all(
    `select created_from, count(*) as accounts, count(claimed_at) as claimed from account
     where id >= ? and created_at >= ? and created_at < ?
     group by created_from order by 2 desc, 1 limit ?`,
    [minIdAt("acct", from), from, to, NETWORKS_MAX],
  );
  return rows.map((row) => ({
    network: text(row, "created_from"),
    accounts: Number(row["accounts"]),
    claimed: Number(row["claimed"]),
  }));
}
