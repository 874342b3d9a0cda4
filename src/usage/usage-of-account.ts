// SQL that finds usage records by account, with the primary key.

import type { Value } from "../store/db.ts";

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

/** Selects at most `limit` records of an account in the order of their ids. */
export function selectUsageInOrder(
  columns: string,
  { accountId, ids, others = [] }: UsageRange,
  { order, limit }: { readonly order: "asc" | "desc"; readonly limit: number },
): SqlCondition {
  const account = { sql: "account_id = ?", values: [accountId] };
  const conditions: readonly SqlCondition[] = [account, ...idConditions(ids), ...others];
  return {
    // The limit is no parameter, because PostgreSQL's plan depends on it.
    sql: `select ${columns} from usage_record where ${conditions.map(({ sql }) => sql).join(" and ")}
      order by id ${order} limit ${limit}`,
    values: conditions.flatMap(({ values }) => values),
  };
}

/** The conditions of a range on the column id. */
export function idConditions({
  from,
  after,
  before,
  upTo,
}: IdRange): readonly SqlCondition<string>[] {
  return [
    ...condition("id >= ?", from),
    ...condition("id > ?", after),
    ...condition("id < ?", before),
    ...condition("id <= ?", upTo),
  ];
}

function condition(sql: string, value: string | undefined): readonly SqlCondition<string>[] {
  return value === undefined ? [] : [{ sql, values: [value] }];
}
