// The table provider_hour: what each model of a provider delivered per hour to all accounts, on the gateway's own provider
// accounts. Written by the roll-up job, so it lags by seconds. Small, so that public pages can read it.

import { type Nano, toNano } from "../../base/money/money.ts";
import { DAY_MS, HOUR_MS } from "../../base/time.ts";
import { type Reader, type Row, text, type Tx, type Value } from "../../store/db.ts";
import type { FailureCount } from "../provider-failures.ts";
import { addSums, countOf, emptySums, type RollupDelta, type RollupSums } from "./rollup-delta.ts";
import { FIRST_TOKEN_COLUMNS, LATENCY_COLUMNS } from "./rollup-rows.ts";

/** The 90 days of the status page, and those of two time zones. */
const KEPT_DAYS = 92;
const KEY_COLUMNS = ["at", "provider", "model"] as const;
const COUNT_COLUMNS = ["calls", "completed", "failures"] as const;
const SUM_COLUMNS = [...COUNT_COLUMNS, "cost_nano", ...LATENCY_COLUMNS, ...FIRST_TOKEN_COLUMNS];
const COLUMNS = [...KEY_COLUMNS, ...SUM_COLUMNS];

const UPSERT = `insert into provider_hour (${COLUMNS.join(", ")}) values (${COLUMNS.map(() => "?").join(", ")})
  on conflict (${KEY_COLUMNS.join(", ")}) do update set
  ${SUM_COLUMNS.map((column) => `${column} = provider_hour.${column} + excluded.${column}`).join(", ")}`;

export interface ProviderPerformance {
  readonly provider: string;
  readonly model: string;
  readonly calls: number;
  /** Calls that the provider replied to completely. */
  readonly completed: number;
  /** Attempts that failed because of the provider, also those of calls that another provider completed. */
  readonly failures: number;
  readonly cost: Nano;
  readonly latency: readonly number[];
  readonly firstToken: readonly number[];
}

interface HourSums {
  readonly key: readonly [at: number, provider: string, model: string];
  readonly sums: RollupSums;
  failures: number;
}

/** Sorted by key, so that two processes cannot deadlock. */
export async function addToProviderHours(
  tx: Tx,
  deltas: readonly RollupDelta[],
  failures: readonly FailureCount[],
): Promise<void> {
  const hours = new Map<string, HourSums>();
  const hourOf = (...key: HourSums["key"]): HourSums => {
    const id = key.join(" ");
    let hour = hours.get(id);
    if (hour === undefined) hours.set(id, (hour = { key, sums: emptySums(), failures: 0 }));
    return hour;
  };
  for (const delta of deltas) {
    const { at, provider, model, label, byok } = delta.key;
    if (label === "" && byok === 0) addSums(hourOf(at, provider, model).sums, delta);
  }
  for (const [at, provider, model, count] of failures)
    hourOf(at, provider, model).failures += count;
  const sorted = [...hours].sort(([one], [other]) => (one < other ? -1 : 1));
  for (const [, hour] of sorted) await tx.run(UPSERT, toValues(hour));
}

function toValues({ key, sums, failures }: HourSums): readonly Value[] {
  const calls = countOf(sums, "calls");
  const completed = calls - countOf(sums, "errors") - countOf(sums, "aborted");
  return [...key, calls, completed, failures, sums.cost, ...sums.latency, ...sums.firstToken];
}

const SELECT_SUMS = SUM_COLUMNS.map((column) => `cast(sum(${column}) as text) as ${column}`).join(
  ", ",
);

/** Sums of the hours that start in the period, the busiest first. */
export async function readProviderPerformance(
  reader: Reader,
  { from, to }: { readonly from: number; readonly to: number },
): Promise<readonly ProviderPerformance[]> {
  const rows = await reader.all(
    `select provider, model, ${SELECT_SUMS} from provider_hour where at >= ? and at < ?
     group by provider, model`,
    [from, to],
  );
  return rows.map(toPerformance).sort((one, other) => other.calls - one.calls);
}

/** The start of the oldest of the 24 hours that end with the current one. */
export function startOfLastDay(now: number): number {
  return now - (now % HOUR_MS) + HOUR_MS - DAY_MS;
}

function toPerformance(row: Row): ProviderPerformance {
  const histogram = (columns: readonly string[]): readonly number[] =>
    columns.map((column) => Number(row[column]));
  return {
    provider: text(row, "provider"),
    model: text(row, "model"),
    calls: Number(row["calls"]),
    completed: Number(row["completed"]),
    failures: Number(row["failures"]),
    cost: toNano(row["cost_nano"]),
    latency: histogram(LATENCY_COLUMNS),
    firstToken: histogram(FIRST_TOKEN_COLUMNS),
  };
}

/** The share of attempts that the provider completed; undefined without any. */
export function uptimeOf({
  completed,
  failures,
}: Pick<ProviderPerformance, "completed" | "failures">): number | undefined {
  return completed + failures === 0 ? undefined : completed / (completed + failures);
}

export async function sweepProviderHours(tx: Tx, now: number): Promise<void> {
  await tx.run("delete from provider_hour where at < ?", [now - KEPT_DAYS * DAY_MS]);
}
