// What usage records add to the roll-ups.

import { type Nano, toNano } from "../../base/money/money.ts";
import { HOUR_MS } from "../../base/time.ts";
import { listPriceOf } from "../list-price.ts";
import type { UsageRecord } from "../usage.ts";
import { LATENCY_BUCKETS, latencyBucket } from "./latency-histogram.ts";

/** Columns of usage_rollup that are counts; `COUNTS` of a delta are in this order. */
export const COUNT_COLUMNS = [
  "calls",
  "errors",
  "aborted",
  "estimated",
  "input_tokens",
  "cache_read_tokens",
  "cache_write_tokens",
  "output_tokens",
  "reasoning_tokens",
  "latency_ms",
] as const;

export interface RollupKey {
  readonly accountId: string;
  /** The start of the hour or day. */
  readonly at: number;
  /** Empty in the rows of all calls; each label of a call is counted in one more row. */
  readonly label: string;
  readonly keyId: string;
  readonly model: string;
  readonly provider: string;
  readonly api: string;
  readonly byok: 0 | 1;
}

export interface RollupSums {
  /** In the order of `COUNT_COLUMNS`. */
  readonly counts: number[];
  cost: Nano;
  /** The list price of calls on callers' own provider keys. */
  listPrice: Nano;
  readonly latency: number[];
  readonly firstToken: number[];
}

export interface RollupDelta extends RollupSums {
  readonly key: RollupKey;
}

export function emptySums(): RollupSums {
  return {
    counts: zeros(COUNT_COLUMNS.length),
    cost: 0n,
    listPrice: 0n,
    latency: zeros(LATENCY_BUCKETS),
    firstToken: zeros(LATENCY_BUCKETS),
  };
}

export function countOf(sums: RollupSums, column: (typeof COUNT_COLUMNS)[number]): number {
  return sums.counts[COUNT_COLUMNS.indexOf(column)] ?? 0;
}

export function addSums(total: RollupSums, more: RollupSums): void {
  addAll(total.counts, more.counts);
  total.cost += more.cost;
  total.listPrice += more.listPrice;
  addAll(total.latency, more.latency);
  addAll(total.firstToken, more.firstToken);
}

export function negated({ counts, cost, listPrice, latency, firstToken }: RollupSums): RollupSums {
  const negate = (numbers: readonly number[]): number[] => numbers.map((number) => -number);
  return {
    counts: negate(counts),
    cost: -cost,
    listPrice: -listPrice,
    latency: negate(latency),
    firstToken: negate(firstToken),
  };
}

function addAll(total: number[], more: readonly number[]): void {
  for (let index = 0; index < total.length; index++)
    total[index] = (total[index] ?? 0) + (more[index] ?? 0);
}

const ZEROS: readonly number[] = Array.from(
  { length: Math.max(COUNT_COLUMNS.length, LATENCY_BUCKETS) },
  () => 0,
);

// Copying a list takes a tenth of filling one.
function zeros(count: number): number[] {
  return ZEROS.slice(0, count);
}

/** The hourly deltas of these records. */
export function rollupDeltas(records: readonly UsageRecord[]): readonly RollupDelta[] {
  const deltas = new Map<string, RollupDelta>();
  let previous: RollupDelta | undefined;
  for (const record of records) {
    // The calls of a batch are often those of one agent.
    if (previous === undefined || !isCountedIn(record, previous.key))
      previous = deltaOf(deltas, record, "");
    addRecord(previous, record);
    for (const label of record.labels) addRecord(deltaOf(deltas, record, label), record);
  }
  return [...deltas.values()];
}

function isCountedIn(record: UsageRecord, key: RollupKey): boolean {
  return (
    record.keyId === key.keyId &&
    record.model === key.model &&
    record.provider === key.provider &&
    record.api === key.api &&
    hourOf(record) === key.at &&
    (record.byok ? 1 : 0) === key.byok &&
    record.accountId === key.accountId
  );
}

function hourOf({ createdAt }: UsageRecord): number {
  return createdAt - (createdAt % HOUR_MS);
}

function deltaOf(
  deltas: Map<string, RollupDelta>,
  record: UsageRecord,
  label: string,
): RollupDelta {
  const { accountId, keyId, model, provider, api } = record;
  const byok = record.byok ? 1 : 0;
  const key = { accountId, at: hourOf(record), label, keyId, model, provider, api, byok } as const;
  const id = idOf(key);
  const known = deltas.get(id);
  if (known !== undefined) return known;
  const delta = { key, ...emptySums() };
  deltas.set(id, delta);
  return delta;
}

function idOf({ accountId, at, label, keyId, model, provider, api, byok }: RollupKey): string {
  return `${accountId} ${at} ${label} ${keyId} ${model} ${provider} ${api} ${byok}`;
}

/** Deltas by their keys; the first delta of a key becomes the sum. */
export type MergedDeltas = Map<string, RollupDelta>;

export function mergeDelta(merged: MergedDeltas, delta: RollupDelta): void {
  const id = idOf(delta.key);
  const known = merged.get(id);
  if (known === undefined) merged.set(id, delta);
  else addSums(known, delta);
}

function addRecord(delta: RollupDelta, record: UsageRecord): void {
  const isAborted = record.outcome === "client_aborted";
  addAll(delta.counts, [
    1,
    isAborted || record.outcome === "completed" ? 0 : 1,
    isAborted ? 1 : 0,
    record.exact ? 0 : 1,
    record.inputTokens,
    record.cacheReadTokens,
    record.cacheWriteTokens,
    record.outputTokens,
    record.reasoningTokens,
    record.latencyMs,
  ]);
  delta.cost += record.cost;
  if (record.byok) delta.listPrice += listPriceOf(record.price);
  increment(delta.latency, latencyBucket(record.latencyMs));
  if (record.firstTokenMs !== null) increment(delta.firstToken, latencyBucket(record.firstTokenMs));
}

function increment(counts: number[], index: number): void {
  counts[index] = (counts[index] ?? 0) + 1;
}

// Short, because it is written with every batch: arrays instead of objects, and histograms without their zeros.
type EncodedDelta = readonly [
  key: readonly [string, number, string, string, string, string, string, 0 | 1],
  counts: readonly number[],
  cost: string,
  listPrice: string,
  latency: readonly number[],
  firstToken: readonly number[],
];

export function encodeDeltas(deltas: readonly RollupDelta[]): string {
  return JSON.stringify(deltas.map(encodeDelta));
}

function encodeDelta(delta: RollupDelta): EncodedDelta {
  const { accountId, at, label, keyId, model, provider, api, byok } = delta.key;
  return [
    [accountId, at, label, keyId, model, provider, api, byok],
    delta.counts,
    String(delta.cost),
    String(delta.listPrice),
    sparse(delta.latency),
    sparse(delta.firstToken),
  ];
}

export function decodeDeltas(text: string): readonly RollupDelta[] {
  // Safe because only `encodeDeltas` makes it.
  return (JSON.parse(text) as readonly EncodedDelta[]).map(
    ([
      [accountId, at, label, keyId, model, provider, api, byok],
      counts,
      cost,
      listPrice,
      latency,
      firstToken,
    ]) => ({
      key: { accountId, at, label, keyId, model, provider, api, byok },
      counts: [...counts],
      cost: toNano(cost),
      listPrice: toNano(listPrice),
      latency: dense(latency),
      firstToken: dense(firstToken),
    }),
  );
}

/** Pairs of bucket and count. */
function sparse(counts: readonly number[]): readonly number[] {
  const pairs: number[] = [];
  for (let bucket = 0; bucket < counts.length; bucket++) {
    const count = counts[bucket] ?? 0;
    if (count > 0) pairs.push(bucket, count);
  }
  return pairs;
}

function dense(pairs: readonly number[]): number[] {
  const counts = zeros(LATENCY_BUCKETS);
  for (let index = 0; index < pairs.length; index += 2)
    counts[pairs[index] ?? 0] = pairs[index + 1] ?? 0;
  return counts;
}
