// The table usage_rollup: hourly and daily sums of an account's usage by label, key, model, provider and API.

import { DAY_MS, HOUR_MS } from "../../base/time.ts";
import type { Tx, Value } from "../../store/db.ts";
import { LATENCY_BUCKETS } from "./latency-histogram.ts";
import { addSums, COUNT_COLUMNS, emptySums, type RollupDelta } from "./rollup-delta.ts";

const UNIT_MS = { hour: HOUR_MS, day: DAY_MS } as const;
export type RollupUnit = keyof typeof UNIT_MS;

const KEY_COLUMNS = [
  "account_id",
  "unit",
  "at",
  "label",
  "key_id",
  "model",
  "provider",
  "api",
  "byok",
] as const;
const buckets = (name: string): readonly string[] =>
  Array.from({ length: LATENCY_BUCKETS }, (_, bucket) => `${name}_${bucket}`);

export const LATENCY_COLUMNS = buckets("latency");
export const FIRST_TOKEN_COLUMNS = buckets("first_token");
export const SUM_COLUMNS: readonly string[] = [
  ...COUNT_COLUMNS,
  "cost_nano",
  "list_nano",
  ...LATENCY_COLUMNS,
  ...FIRST_TOKEN_COLUMNS,
];

/** One statement for so many rows costs a fraction of one for each; PostgreSQL saves the round trips. */
const ROWS_PER_STATEMENT = 25;

/** Adds hourly deltas to the hours and days. Sorted by key, so that two processes cannot deadlock. */
export async function addToRollups(tx: Tx, deltas: readonly RollupDelta[]): Promise<void> {
  const rows = new Map<string, { readonly unit: RollupUnit; readonly delta: RollupDelta }>();
  for (const delta of deltas)
    for (const unit of ["day", "hour"] as const) {
      const at = delta.key.at - (delta.key.at % UNIT_MS[unit]);
      const key = { ...delta.key, at };
      const id = [key.accountId, unit, at, ...identityOf(key)].join(" ");
      let row = rows.get(id);
      if (row === undefined) rows.set(id, (row = { unit, delta: { key, ...emptySums() } }));
      addSums(row.delta, delta);
    }
  const sorted = [...rows].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, row]) => row);
  for (let index = 0; index < sorted.length;) {
    const count = sorted.length - index >= ROWS_PER_STATEMENT ? ROWS_PER_STATEMENT : 1;
    const values = sorted
      .slice(index, index + count)
      .flatMap(({ unit, delta }) => toValues(unit, delta));
    await tx.run(upsertStatement(count), values);
    index += count;
  }
}

function identityOf(key: RollupDelta["key"]): readonly (string | number)[] {
  return [key.label, key.keyId, key.model, key.provider, key.api, key.byok];
}

function toValues(unit: RollupUnit, delta: RollupDelta): readonly Value[] {
  return [
    delta.key.accountId,
    unit,
    delta.key.at,
    ...identityOf(delta.key),
    ...delta.counts,
    delta.cost,
    delta.listPrice,
    ...delta.latency,
    ...delta.firstToken,
  ];
}

const UPSERT_COLUMNS = [...KEY_COLUMNS, ...SUM_COLUMNS];
const UPSERT_SETS = SUM_COLUMNS.map(
  (column) => `${column} = usage_rollup.${column} + excluded.${column}`,
).join(", ");

function upsertStatement(rows: number): string {
  const values = `(${UPSERT_COLUMNS.map(() => "?").join(", ")})`;
  return `insert into usage_rollup (${UPSERT_COLUMNS.join(", ")}) values ${Array.from({ length: rows }, () => values).join(", ")}
    on conflict (${KEY_COLUMNS.join(", ")}) do update set ${UPSERT_SETS}`;
}
