// SQL that finds usage records by account. On PostgreSQL the primary key does. On SQLite it begins with the id, so that rows
// are appended to its index; the entries by account are in `usage_by_account`, in segments of records with consecutive ids.
// Records after the last segment, the tail, have no entries and are found by reading the primary key.

import type { Reader, Value } from "./db.ts";

export interface SqlCondition<Param extends Value = Value> {
  readonly sql: string;
  readonly values: readonly Param[];
}

export interface UsageRange {
  readonly accountId: string;
  /** Conditions on the column id alone. */
  readonly ids: readonly SqlCondition[];
  /** Conditions on other columns. */
  readonly others?: readonly SqlCondition[];
}

const TAIL = "id > (select coalesce(max(last_id), '') from usage_segment)";
const JOIN_RECORD =
  "cross join usage_record on usage_record.id = entry_id and usage_record.account_id = entry_account";

/** Bounds of ids that the condition implies: only segments with such ids are read. */
export interface IdBounds {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** Selects the records of some accounts in any order. The condition is on the columns account_id and id alone. */
export function selectUsage<Param extends Value>(
  kind: Reader["kind"],
  columns: string,
  condition: SqlCondition<Param>,
  bounds: IdBounds = {},
): SqlCondition<Param | string> {
  const { sql, values } = condition;
  if (kind === "postgres")
    return { sql: `select ${columns} from usage_record where ${sql}`, values };
  const segments = segmentsWithin(bounds);
  return {
    sql: `select ${columns} from usage_record where ${sql} and ${TAIL}
      union all select ${columns} from ${entriesWhere(`${sql} and ${segments.sql}`)} ${JOIN_RECORD}`,
    values: [...values, ...values, ...segments.values],
  };
}

/** Selects at most `limit` records of an account in the order of their ids. */
export function selectUsageInOrder(
  kind: Reader["kind"],
  columns: string,
  { accountId, ids, others = [] }: UsageRange,
  { order, limit }: { readonly order: "asc" | "desc"; readonly limit: number },
): SqlCondition {
  const found = [{ sql: "account_id = ?", values: [accountId] }, ...ids];
  const [where, rest] = [joinSql(found), joinSql(others)];
  const values = [...found, ...others].flatMap((condition) => condition.values);
  const inOrder = `order by id ${order} limit ${limit}`;
  if (kind === "postgres")
    return {
      sql: `select ${columns} from usage_record where ${where} and ${rest} ${inOrder}`,
      values,
    };
  // Segments in the order of their ids, and the entries of each in theirs: nothing is sorted, and reading ends at the limit.
  return {
    sql: `select ${columns} from (
      select * from (select usage_record.* from usage_record where ${where} and ${rest} and ${TAIL} ${inOrder})
      union all
      select * from (select usage_record.* from ${entriesWhere(where)} ${JOIN_RECORD} where ${rest}
        order by segment_end ${order}, entry_id ${order} limit ${limit})) as slice ${inOrder}`,
    values: [...values, ...values],
  };
}

/** A segment has the ids after the end of the one before it. */
function segmentsWithin({ from, to }: IdBounds): SqlCondition<string> {
  const conditions = [
    ...(from === undefined ? [] : [{ sql: "last_id >= ?", values: [from] }]),
    ...(to === undefined
      ? []
      : [
          {
            sql: "last_id <= coalesce((select min(last_id) from usage_segment where last_id >= ?), ?)",
            values: [to, to],
          },
        ]),
  ];
  return { sql: joinSql(conditions), values: conditions.flatMap(({ values }) => values) };
}

function entriesWhere(condition: string): string {
  return `(select last_id as segment_end, account_id as entry_account, id as entry_id
    from usage_segment cross join usage_by_account on segment = number where ${condition})`;
}

function joinSql(conditions: readonly SqlCondition[]): string {
  return conditions.length === 0 ? "true" : conditions.map(({ sql }) => sql).join(" and ");
}
