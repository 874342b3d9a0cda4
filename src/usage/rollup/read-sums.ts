// Reads sums of usage. SQLite answers on the main thread, so every statement reads a short range, with a pause between
// two of them for other requests.

import { invalid } from "../../base/fault.ts";
import { toNano } from "../../base/money/money.ts";
import { DAY_MS, HOUR_MS } from "../../base/time.ts";
import { type Reader, type Row, text, integer, integerOrNull } from "../../store/db.ts";
import { labelValue, NAMED_LABELS, type NamedLabel } from "../session-labels.ts";
import { bucketOf, type LocalDays, localDaysOf, type TimeBuckets } from "../time-buckets.ts";
import {
  type Condition,
  type Dimension,
  dimensionConditions,
  idRange,
  isLabelDimension,
  joinConditions,
  labelDimensionOf,
  labelsOfFilter,
  recordConditions,
  type UsageFilter,
} from "../usage-filter.ts";
import { selectUsageInOrder } from "../usage-of-account.ts";
import { toUsageRecord } from "../usage.ts";
import { readPending } from "./pending.ts";
import {
  addSums,
  COUNT_COLUMNS,
  countOf,
  emptySums,
  negated,
  type RollupDelta,
  rollupDeltas,
  type RollupSums,
} from "./rollup-delta.ts";
import {
  FIRST_TOKEN_COLUMNS,
  LATENCY_COLUMNS,
  type RollupUnit,
  SUM_COLUMNS,
} from "./rollup-rows.ts";

export interface SumGrouping {
  /** Reads only calls and cost; the other sums are zero. A chart reads many rows, and their width is what they cost. */
  readonly isCostOnly?: boolean;
  readonly buckets?: TimeBuckets;
  readonly dimension?: Dimension;
}

export interface UsageSlice {
  /** Empty without buckets. */
  readonly bucket: string;
  /** Empty without a dimension. */
  readonly group: string;
  readonly sums: RollupSums;
}

/** `to` is exclusive. */
export interface TimeRange {
  readonly from: number;
  readonly to: number;
}

export interface RollupRange extends TimeRange {
  readonly unit: RollupUnit;
}

const DIMENSION_COLUMNS: Readonly<Record<Dimension, string>> = {
  model: "model",
  key: "key_id",
  provider: "provider",
  api: "api",
  label: "label",
  session: idColumn("session"),
  agent: idColumn("agent"),
  parent_agent: idColumn("parent_agent"),
  batch: idColumn("batch"),
};

/** The label without its name. */
function idColumn(name: NamedLabel): string {
  return `substr(label, ${name.length + 2})`;
}

/** The time that one statement covers: for totals, and for one row per hour or day. */
const TOTAL_MS: Readonly<Record<RollupUnit, number>> = { hour: DAY_MS, day: 16 * DAY_MS };
const BUCKETS_MS: Readonly<Record<RollupUnit, number>> = { hour: DAY_MS / 2, day: 16 * DAY_MS };
const HOURS_PER_STATEMENT = { sqlite: 24, postgres: Number.MAX_SAFE_INTEGER } as const;
const RECORDS_PER_STATEMENT = 500;
const FOREVER = Number.MAX_SAFE_INTEGER - DAY_MS;

interface SumQuery {
  readonly reader: Reader;
  readonly accountId: string;
  readonly filter: UsageFilter;
  readonly grouping: SumGrouping;
}

/** The reader must be a snapshot if the roll-up job runs at the same time. */
export async function readSums(
  reader: Reader,
  accountId: string,
  filter: UsageFilter,
  grouping: SumGrouping,
): Promise<readonly UsageSlice[]> {
  rejectSeveralLabels(filter, grouping);
  const query = { reader, accountId, filter, grouping };
  const slices = new Map<string, UsageSlice>();
  const { rollups, records } = splitPeriod(filter, grouping);
  for (const range of rollups) await addRollups(query, range, slices);
  for (const range of records) await addRecords(query, range, slices);
  const [first, last] = [rollups[0], rollups.at(-1)];
  if (first !== undefined && last !== undefined)
    await addPending(query, { from: first.from, to: last.to }, slices);
  // A local day from which all calls were moved has none.
  return [...slices.values()].filter(({ sums }) => countOf(sums, "calls") > 0);
}

/** A row of the roll-ups is of one label, so that sums of calls with two labels cannot be read from them. */
function rejectSeveralLabels(filter: UsageFilter, { dimension }: SumGrouping): void {
  const labels = labelsOfFilter(filter);
  const [first] = labels;
  if (first === undefined) return;
  if (labels.length > 1)
    throw invalid(
      "label",
      "Send only one of `label`, `session`, `agent`, `parent_agent` and `batch`: sums are kept for each label alone.",
    );
  if (!isLabelDimension(dimension) || labelDimensionOf(first) === dimension) return;
  throw invalid(
    "group_by",
    `\`group_by=${dimension}\` cannot be combined with a filter by another label. GET /v1/sessions/{id} lists the agents of a session.`,
  );
}

/** Whole days come from the daily roll-ups, the hours around them from the hourly ones, the rest from the records. */
export function splitPeriod(
  { from = 0, to = FOREVER }: Pick<UsageFilter, "from" | "to">,
  { buckets }: SumGrouping,
): { readonly rollups: readonly RollupRange[]; readonly records: readonly TimeRange[] } {
  const firstHour = ceil(from, HOUR_MS);
  const lastHour = floor(to, HOUR_MS);
  if (firstHour >= lastHour) return { rollups: [], records: from < to ? [{ from, to }] : [] };
  const firstDay =
    buckets?.unit === "hour" ? lastHour : Math.min(ceil(firstHour, DAY_MS), lastHour);
  const lastDay = Math.max(floor(lastHour, DAY_MS), firstDay);
  const rollups: readonly RollupRange[] = [
    { unit: "hour", from: firstHour, to: firstDay },
    { unit: "day", from: firstDay, to: lastDay },
    { unit: "hour", from: lastDay, to: lastHour },
  ];
  return {
    rollups: rollups.filter(isNotEmpty),
    records: [
      { from, to: firstHour },
      { from: lastHour, to: to === FOREVER ? lastHour : to },
    ].filter(isNotEmpty),
  };
}

function partsOf<T>(items: readonly T[], size: number): readonly (readonly T[])[] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, part) =>
    items.slice(part * size, (part + 1) * size),
  );
}

function floor(at: number, unitMs: number): number {
  return at - (at % unitMs);
}

function ceil(at: number, unitMs: number): number {
  return floor(at + unitMs - 1, unitMs);
}

function isNotEmpty({ from, to }: TimeRange): boolean {
  return from < to;
}

async function addRollups(
  query: SumQuery,
  range: RollupRange,
  slices: Map<string, UsageSlice>,
): Promise<void> {
  const { buckets } = query.grouping;
  // PostgreSQL does not block this process, so it reads the whole range at once.
  if (query.reader.kind === "postgres") return addPart(query, range, slices);
  const present = await presentRange(query, range);
  if (present === undefined) return;
  const partMs = (buckets === undefined ? TOTAL_MS : BUCKETS_MS)[range.unit];
  for (let { from } = present; from < present.to; from += partMs) {
    await addPart(query, { ...range, from, to: Math.min(from + partMs, present.to) }, slices);
    await pause(query.reader);
  }
}

async function addPart(
  query: SumQuery,
  range: RollupRange,
  slices: Map<string, UsageSlice>,
): Promise<void> {
  const { buckets } = query.grouping;
  const rows = await readRange(query, range, buckets === undefined ? undefined : "at");
  if (buckets === undefined || buckets.timeZone === "UTC" || range.unit === "hour")
    for (const row of rows) addSlice(slices, query, keyOf(row), sumsOf(row));
  else await addLocalDays(query, { rows, timeZone: buckets.timeZone }, slices);
}

/** Adds each UTC day to the local day of most of its hours, and then moves its other hours to theirs. */
async function addLocalDays(
  query: SumQuery,
  { rows, timeZone }: { readonly rows: readonly Row[]; readonly timeZone: string },
  slices: Map<string, UsageSlice>,
): Promise<void> {
  const days = new Map<number, LocalDays>();
  for (const row of rows) {
    const { at, group } = keyOf(row);
    const day = days.get(at) ?? localDaysOf(timeZone, at);
    days.set(at, day);
    addSlice(slices, query, { at: day.mostHours, group }, sumsOf(row));
  }
  const hours = [...days.values()].flatMap(({ otherHours }) => otherHours);
  for (const part of partsOf(hours, HOURS_PER_STATEMENT[query.reader.kind])) {
    for (const row of await readHours(query, part)) {
      const { at, group } = keyOf(row);
      const sums = sumsOf(row);
      addSlice(slices, query, { at, group }, sums);
      const from = days.get(floor(at, DAY_MS))?.mostHours ?? at;
      addSlice(slices, query, { at: from, group }, negated(sums));
    }
    await pause(query.reader);
  }
}

function keyOf(row: Row): { readonly at: number; readonly group: string } {
  return { at: integer(row, "at"), group: text(row, "grouped") };
}

/** Sums by group, and by an expression of `at`. */
function readRange(
  query: SumQuery,
  { unit, from, to }: RollupRange,
  timeGroup: string | undefined,
): Promise<readonly Row[]> {
  const range = { sql: "at >= ? and at < ?", values: [from, to] };
  return readWhere(query, [{ sql: "unit = ?", values: [unit] }, range], timeGroup);
}

function readHours(query: SumQuery, hours: readonly number[]): Promise<readonly Row[]> {
  const isOneOf =
    query.reader.kind === "postgres"
      ? { sql: "at = any(?::bigint[])", values: [`{${hours.join(",")}}`] }
      : { sql: "at in (select value from json_each(?))", values: [JSON.stringify(hours)] };
  return readWhere(query, [{ sql: "unit = 'hour'", values: [] }, isOneOf], "at");
}

function readWhere(
  { reader, accountId, filter, grouping }: SumQuery,
  times: readonly Condition[],
  timeGroup: string | undefined,
): Promise<readonly Row[]> {
  const { dimension, isCostOnly = false } = grouping;
  // Also without a dimension, so that a period without sums has no row.
  const column = dimension === undefined ? "account_id" : DIMENSION_COLUMNS[dimension];
  const { where, params } = joinConditions([
    { sql: "account_id = ?", values: [accountId] },
    ...times,
    labelCondition({ filter, grouping }),
    ...dimensionConditions(filter),
  ]);
  return reader.all(
    `select min(at) as at, ${dimension === undefined ? "''" : column} as grouped, ${isCostOnly ? COST_SUMS : SUMS}
     from usage_rollup where ${where} group by ${timeGroup === undefined ? column : `${timeGroup}, ${column}`}`,
    params,
  );
}

const selectSums = (isRead: (column: string) => boolean): string =>
  SUM_COLUMNS.map(
    (column) => `cast(${isRead(column) ? `sum(${column})` : "0"} as bigint) as ${column}`,
  ).join(", ");

export const SUMS = selectSums(() => true);
const COST_SUMS = selectSums((column) => column === "calls" || column === "cost_nano");

/** The part of a range that has roll-ups. */
async function presentRange(
  { reader, accountId }: SumQuery,
  { unit, from, to }: RollupRange,
): Promise<RollupRange | undefined> {
  const row = await reader.get(
    `select (select min(at) from usage_rollup where account_id = ? and unit = ? and at >= ?) as first,
       (select max(at) from usage_rollup where account_id = ? and unit = ? and at < ?) as last`,
    [accountId, unit, from, accountId, unit, to],
  );
  const first = row === undefined ? null : integerOrNull(row, "first");
  const last = row === undefined ? null : integerOrNull(row, "last");
  if (first === null || last === null || first > last) return undefined;
  return { unit, from: first, to: last + 1 };
}

function labelCondition({ filter, grouping }: Pick<SumQuery, "filter" | "grouping">): Condition {
  const [label] = labelsOfFilter(filter);
  if (label !== undefined) return { sql: "label = ?", values: [label] };
  const { dimension } = grouping;
  if (!isLabelDimension(dimension)) return { sql: "label = ''", values: [] };
  if (dimension !== "label") return { sql: isNamed(dimension), values: [] };
  const others = NAMED_LABELS.map((name) => ` and not ${isNamed(name)}`).join("");
  return { sql: `label <> ''${others}`, values: [] };
}

function isNamed(name: NamedLabel): string {
  return `substr(label, 1, ${name.length + 1}) = '${name}='`;
}

export function sumsOf(row: Row): RollupSums {
  const numbers = (columns: readonly string[]): number[] =>
    columns.map((column) => integer(row, column));
  return {
    counts: numbers(COUNT_COLUMNS),
    cost: toNano(row["cost_nano"]),
    listPrice: toNano(row["list_nano"]),
    latency: numbers(LATENCY_COLUMNS),
    firstToken: numbers(FIRST_TOKEN_COLUMNS),
  };
}

async function addRecords(
  query: SumQuery,
  range: TimeRange,
  slices: Map<string, UsageSlice>,
): Promise<void> {
  const { reader, accountId, filter } = query;
  const within = { ...filter, ...range };
  for (let ids = idRange(within); ;) {
    const { sql, values } = selectUsageInOrder(
      "*",
      { accountId, ids, others: recordConditions(within) },
      { order: "asc", limit: RECORDS_PER_STATEMENT },
    );
    const rows = await reader.all(sql, values);
    addDeltas(query, rollupDeltas(rows.map(toUsageRecord)), slices);
    const last = rows.at(-1);
    if (last === undefined || rows.length < RECORDS_PER_STATEMENT) return;
    ids = { after: text(last, "id"), before: ids.before };
    await pause(reader);
  }
}

async function addPending(
  query: SumQuery,
  { from, to }: TimeRange,
  slices: Map<string, UsageSlice>,
): Promise<void> {
  for await (const deltas of readPending(query.reader, query.accountId))
    addDeltas(
      query,
      deltas.filter(({ key }) => key.at >= from && key.at < to),
      slices,
    );
}

function addDeltas(
  query: SumQuery,
  deltas: readonly RollupDelta[],
  slices: Map<string, UsageSlice>,
): void {
  const { grouping } = query;
  for (const delta of deltas) {
    const { key } = delta;
    if (!isCounted(query, key)) continue;
    const groups = {
      model: key.model,
      key: key.keyId,
      provider: key.provider,
      api: key.api,
      label: key.label,
      session: labelValue([key.label], "session") ?? "",
      agent: labelValue([key.label], "agent") ?? "",
      parent_agent: labelValue([key.label], "parent_agent") ?? "",
      batch: labelValue([key.label], "batch") ?? "",
    };
    const group = grouping.dimension === undefined ? "" : groups[grouping.dimension];
    addSlice(slices, query, { at: key.at, group }, delta);
  }
}

function isCounted({ filter, grouping }: SumQuery, key: RollupDelta["key"]): boolean {
  const [label] = labelsOfFilter(filter);
  const { dimension } = grouping;
  const isOfGroup =
    label !== undefined
      ? key.label === label
      : isLabelDimension(dimension)
        ? key.label !== "" && labelDimensionOf(key.label) === dimension
        : key.label === "";
  if (!isOfGroup) return false;
  return (
    (filter.model ?? key.model) === key.model &&
    (filter.keyId ?? key.keyId) === key.keyId &&
    (filter.provider ?? key.provider) === key.provider &&
    (filter.api ?? key.api) === key.api
  );
}

function addSlice(
  slices: Map<string, UsageSlice>,
  { grouping: { buckets } }: SumQuery,
  { at, group }: { readonly at: number; readonly group: string },
  sums: RollupSums,
): void {
  const bucket = buckets === undefined ? "" : bucketOf(buckets, at);
  const id = `${bucket} ${group}`;
  let slice = slices.get(id);
  if (slice === undefined) slices.set(id, (slice = { bucket, group, sums: emptySums() }));
  addSums(slice.sums, sums);
}

/** Lets other requests run. */
export async function pause({ kind }: Reader): Promise<void> {
  if (kind === "sqlite") await new Promise((resolve) => setImmediate(resolve));
}
