// Whether the calls of an account in a window met a service level, and what the breach is worth. Pure functions of usage records
// and of the sums of all accounts.

import type { Nano } from "../base/money/money.ts";
import { formatInteger, formatUsdExact } from "../base/text/format.ts";
import { countFailures } from "../usage/provider-failures.ts";
import { latencyBucket, percentileMs } from "../usage/rollup/latency-histogram.ts";
import type { ProviderPerformance } from "../usage/rollup/provider-hours.ts";
import type { UsageRecord } from "../usage/usage.ts";
import { EVERY_MODEL, type LevelTerms, MILLIONTHS, percentText } from "./service-levels.ts";

/** The simulator counts in no level: its models exist to test integrations. */
export const SIMULATOR = "sim";
/** With fewer calls in its window, a level is neither met nor missed: one failure would decide it. */
const CALLS_MIN = 20;

const PERCENTS = { first_token_p95: 95, first_token_p99: 99 } as const;

/** A call, and what it took of the paid credit. Promotional credit was not paid for, so it earns no credit. */
export interface PaidCall {
  readonly record: UsageRecord;
  readonly paid: Nano;
}

/** What is known of a model at its providers. */
interface ProviderCounts {
  completed: number;
  failures: number;
  readonly firstToken: number[];
}

/** The calls of one account and model in a window. */
export interface CallCounts {
  /** Calls that completed or that the gateway failed. */
  judged: number;
  failed: number;
  streams: number;
  slow: number;
  paid: Nano;
  slowPaid: Nano;
  brokenPaid: Nano;
  /** The part of the account in the sums of all accounts. */
  readonly own: ProviderCounts;
}

export interface Breach {
  readonly model: string;
  /** What the account paid for the model in the window: no credit is higher. */
  readonly paid: Nano;
  readonly amount: Nano;
  readonly reason: string;
}

export type Totals = ReadonlyMap<string, ProviderCounts & { readonly calls: number }>;

/** Sums of all accounts by model, without the simulator. */
export function totalsByModel(rows: readonly ProviderPerformance[]): Totals {
  const totals = new Map<string, ProviderCounts & { calls: number }>();
  for (const { provider, model, calls, completed, failures, firstToken } of rows) {
    if (provider === SIMULATOR) continue;
    const total = totals.get(model) ?? { calls: 0, ...emptyCounts() };
    totals.set(model, total);
    total.calls += calls;
    total.completed += completed;
    total.failures += failures;
    for (const [bucket, count] of firstToken.entries())
      total.firstToken[bucket] = (total.firstToken[bucket] ?? 0) + count;
  }
  return totals;
}

/** The models of a level that some account may have a breach of: the calls of others need not be read. */
export function suspectModels(terms: LevelTerms, totals: Totals): readonly string[] {
  const from = latencyBucket(terms.target);
  return [...totals]
    .filter(([model]) => terms.model === EVERY_MODEL || terms.model === model)
    .filter(([, { calls, completed, failures, firstToken }]) =>
      terms.metric === "availability" || terms.metric === "broken_reply"
        ? failures > 0 || calls > completed
        : firstToken.some((count, bucket) => bucket >= from && count > 0),
    )
    .map(([model]) => model);
}

/** Adds the calls to the counts of their models. Calls on own provider keys and simulated ones do not count. */
export function addCalls(
  countsByModel: ReadonlyMap<string, CallCounts>,
  terms: LevelTerms,
  calls: readonly PaidCall[],
): void {
  for (const { record, paid } of calls) {
    const counts = countsByModel.get(record.model);
    if (counts !== undefined && !record.byok && record.provider !== SIMULATOR)
      addCall(counts, terms, record, paid);
  }
  for (const [, , model, count] of countFailures(calls.map(({ record }) => record))) {
    const counts = countsByModel.get(model);
    if (counts !== undefined) counts.own.failures += count;
  }
}

function addCall(
  counts: CallCounts,
  { target }: LevelTerms,
  record: UsageRecord,
  paid: Nano,
): void {
  const { outcome, firstTokenMs } = record;
  const isFailed = isGatewayFailure(record);
  const isSlow = firstTokenMs !== null && firstTokenMs > target;
  counts.paid += paid;
  if (isFailed) {
    counts.failed += 1;
    counts.brokenPaid += paid;
  }
  if (isFailed || outcome === "completed") counts.judged += 1;
  if (outcome === "completed") counts.own.completed += 1;
  if (firstTokenMs === null) return;
  const bucket = latencyBucket(firstTokenMs);
  counts.own.firstToken[bucket] = (counts.own.firstToken[bucket] ?? 0) + 1;
  counts.streams += 1;
  if (!isSlow) return;
  counts.slow += 1;
  counts.slowPaid += paid;
}

/**
 * What the caller cannot cause alone: an error of the provider or of the gateway, and a reply that broke off. Errors of the request,
 * rate limits, calls that the client left and empty replies, which a prompt can ask for and which are free, do not count.
 */
function isGatewayFailure({ outcome, status }: UsageRecord): boolean {
  const isOutage =
    outcome === "upstream_error" || outcome === "upstream_timeout" || outcome === "shut_down";
  return isOutage && (status < 400 || status >= 500);
}

export function newCallCounts(): CallCounts {
  return {
    judged: 0,
    failed: 0,
    streams: 0,
    slow: 0,
    paid: 0n,
    slowPaid: 0n,
    brokenPaid: 0n,
    own: emptyCounts(),
  };
}

function emptyCounts(): ProviderCounts {
  return { completed: 0, failures: 0, firstToken: [] };
}

/** Undefined if the level was met, or the breach is worth nothing. */
export function findBreach(
  terms: LevelTerms,
  model: string,
  counts: CallCounts,
  totals: Totals,
): Breach | undefined {
  const found = measure(terms, model, counts, othersOf(counts, totals.get(model)));
  if (found === undefined) return undefined;
  const amount = (found.base * BigInt(terms.creditPercent)) / 100n;
  const worth = `${terms.creditPercent}% of ${formatUsdExact(found.base)}`;
  const reason = `${found.reason}: credit of ${worth}.`;
  return amount > 0n ? { model, paid: counts.paid, amount, reason } : undefined;
}

interface Measured {
  readonly base: Nano;
  readonly reason: string;
}

function measure(
  { metric, target }: LevelTerms,
  model: string,
  counts: CallCounts,
  others: ProviderCounts,
): Measured | undefined {
  const { judged, failed, streams, slow, paid, slowPaid, brokenPaid } = counts;
  const time = `${formatInteger(target)} ms`;
  switch (metric) {
    case "availability": {
      const isMissed = judged >= CALLS_MIN && isBelow(judged - failed, judged, target);
      if (!isMissed || areOthersAvailable(others, target)) return undefined;
      const share = percentText(Math.floor(((judged - failed) * MILLIONTHS) / judged));
      const reason = `Availability of ${model} was ${share}, below ${percentText(target)} (${failed} of ${judged} calls failed)`;
      return { base: paid, reason };
    }
    case "first_token_p95":
    case "first_token_p99": {
      const percent = PERCENTS[metric];
      // The nearest rank is slow if more calls than the rest of the percentage are.
      const isMissed = streams >= CALLS_MIN && slow * 100 > streams * (100 - percent);
      if (!isMissed || areOthersFast(others, { percent, target })) return undefined;
      const reason = `${slow} of ${streams} streams of ${model} began later than ${time}, more than ${100 - percent}%`;
      return { base: paid, reason };
    }
    case "slow_first_token":
      return {
        base: slowPaid,
        reason: `${slow} of ${streams} streams of ${model} began later than ${time}`,
      };
    case "broken_reply":
      return { base: brokenPaid, reason: `Replies of ${model} broke off` };
  }
}

/** What all accounts but this one measured. */
function othersOf({ own }: CallCounts, total: ProviderCounts | undefined): ProviderCounts {
  const { completed, failures, firstToken } = total ?? emptyCounts();
  return {
    completed: Math.max(0, completed - own.completed),
    failures: Math.max(0, failures - own.failures),
    firstToken: firstToken.map((count, bucket) =>
      Math.max(0, count - (own.firstToken[bucket] ?? 0)),
    ),
  };
}

// An account could provoke errors of a provider by its requests, or send those that are slow. So if other accounts called the model often
// enough, they must have seen the breach too.

function areOthersAvailable({ completed, failures }: ProviderCounts, target: number): boolean {
  const attempts = completed + failures;
  return attempts >= CALLS_MIN && !isBelow(completed, attempts, target);
}

function areOthersFast(
  { firstToken }: ProviderCounts,
  { percent, target }: { readonly percent: number; readonly target: number },
): boolean {
  const streams = firstToken.reduce((sum, count) => sum + count, 0);
  return streams >= CALLS_MIN && (percentileMs(firstToken, percent / 100) ?? 0) <= target;
}

function isBelow(part: number, whole: number, target: number): boolean {
  return part * MILLIONTHS < target * whole;
}
