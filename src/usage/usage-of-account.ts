// SQL that finds usage records by account. PostgreSQL uses the primary key. On SQLite the primary key begins with the id, so that rows
// are appended to its index; the entries by account are in `usage_by_account`, in segments of records with consecutive ids.
// Records after the last segment, the tail, have no entries and are found by reading the primary key.

import type { Reader, Value } from "../store/db.ts";

export interface SqlCondition<Param extends Value = Value> {
  readonly sql: string;
  readonly values: readonly Param[];
}

/** A range of ids, with at most one bound on each side. */
export interface IdRange {
  /** Inclusive. */
  readonly from?: string | undefined;
  /** Exclusive. */
  readonly after?: string | undefined;
  /** Exclusive. */
  readonly before?: string | undefined;
  /** Inclusive. */
  readonly upTo?: string | undefined;
}

export interface UsageRange {
  readonly accountId: string;
  readonly ids: IdRange;
  /** Conditions on other columns. */
  readonly others?: readonly SqlCondition[];
}

// SQLite searches an index by one lower and one upper bound, and reads what the others exclude. In the tail the lower bound is
// the end of the last segment: the sign hides the other bound from the search.
const TAIL = "id > (select coalesce(max(last_id), '') from usage_segment)";
const TESTED_ID = "+id";
const JOIN_RECORD =
  "cross join usage_record on usage_record.id = entry_id and usage_record.account_id = entry_account";

/** Selects the records of some accounts in any order. The condition is on the column account_id alone. */
export function selectUsage(
  kind: Reader["kind"],
  columns: string,
  accounts: SqlCondition<string>,
  ids: IdRange = {},
): SqlCondition<string> {
  const records = joinConditions([accounts, ...idConditions(ids)]);
  if (kind === "postgres")
    return {
      sql: `select ${columns} from usage_record where ${records.sql}`,
      values: records.values,
    };
  const tail = joinConditions([accounts, ...idConditions(ids, TESTED_ID)]);
  const entries = joinConditions([accounts, ...idConditions(ids), ...segmentConditions(ids)]);
  return {
    sql: `select ${columns} from usage_record where ${tail.sql} and ${TAIL}
      union all select ${columns} from ${entriesWhere(entries.sql)} ${JOIN_RECORD}`,
    values: [...tail.values, ...entries.values],
  };
}

/** Selects at most `limit` records of an account in the order of their ids. */
export function selectUsageInOrder(
  kind: Reader["kind"],
  columns: string,
  { accountId, ids, others = [] }: UsageRange,
  { order, limit }: { readonly order: "asc" | "desc"; readonly limit: number },
): SqlCondition {
  const account = { sql: "account_id = ?", values: [accountId] };
  const rest = joinConditions(others);
  if (kind === "postgres") {
    const { sql, values } = joinConditions([account, ...idConditions(ids), ...others]);
    return {
      // Not a parameter, because the plan depends on it.
      sql: `select ${columns} from usage_record where ${sql} order by id ${order} limit ${limit}`,
      values,
    };
  }
  const tail = joinConditions([account, ...idConditions(ids, TESTED_ID), ...others]);
  const entries = joinConditions([account, ...idConditions(ids), ...segmentConditions(ids)]);
  const inOrder = `order by id ${order} limit ?`;
  // Reads the segments and their entries in the order of their ids, so nothing is sorted and reading stops at the limit.
  return {
    sql: `select ${columns} from (
      select * from (select usage_record.* from usage_record where ${tail.sql} and ${TAIL} ${inOrder})
      union all
      select * from (select usage_record.* from ${entriesWhere(entries.sql)} ${JOIN_RECORD} where ${rest.sql}
        order by segment_end ${order}, entry_id ${order} limit ?)) as slice ${inOrder}`,
    values: [...tail.values, limit, ...entries.values, ...rest.values, limit, limit],
  };
}

/** The conditions of a range on the column id; `lower` is what its lower bound is compared with. */
export function idConditions(
  { from, after, before, upTo }: IdRange,
  lower = "id",
): readonly SqlCondition<string>[] {
  return [
    ...condition(`${lower} >= ?`, from),
    ...condition(`${lower} > ?`, after),
    ...condition("id < ?", before),
    ...condition("id <= ?", upTo),
  ];
}

/** A segment has the ids after the end of the one before it. */
function segmentConditions({
  from,
  after,
  before,
  upTo,
}: IdRange): readonly SqlCondition<string>[] {
  const [first, last] = [from ?? after, before ?? upTo];
  return [
    ...condition("last_id >= ?", first),
    // "~" sorts after every id.
    ...condition(
      "last_id <= (select coalesce(min(last_id), '~') from usage_segment where last_id >= ?)",
      last,
    ),
  ];
}

function condition(sql: string, value: string | undefined): readonly SqlCondition<string>[] {
  return value === undefined ? [] : [{ sql, values: [value] }];
}

function entriesWhere(sql: string): string {
  return `(select last_id as segment_end, account_id as entry_account, id as entry_id
    from usage_segment cross join usage_by_account on segment = number where ${sql})`;
}

function joinConditions<Param extends Value>(
  conditions: readonly SqlCondition<Param>[],
): SqlCondition<Param> {
  return {
    sql: conditions.length === 0 ? "true" : conditions.map(({ sql }) => sql).join(" and "),
    values: conditions.flatMap(({ values }) => values),
  };
}
