// The rows of each table that a verification reads: those of a range of accounts and, after a checkpoint, only later calls.
// The calls before the checkpoint are replaced by one call per key with their sums, so the same checks apply.

import { SYSTEM_ACCOUNTS } from "../ledger/ledger-rows.ts";
import type { Reader, Value } from "../store/db.ts";
import { idConditions, type IdRange } from "../usage/usage-of-account.ts";
import { type AccountRange, rangeCondition, type SqlPart } from "./account-range.ts";
import { checkpointsOf, FIRST_CALL_ID } from "./checkpoint.ts";

export interface CheckScope {
  readonly range: AccountRange;
  /** Calls before it are not read; undefined for all. */
  readonly position?: string | undefined;
}

const TABLE =
  /\b(from|join) (transfer|usage_record|usage_archive|wallet|hold|swept_hold|spender|payment|invoice|top_up|account|service_credit)\b/g;
const TRANSFER_COLUMNS = "account_id, id, from_account, to_account, amount, kind, ref, at";
const RECORD_COLUMNS =
  "account_id, id, key_id, cost_nano, byok, promo_nano, paid_nano, overrun_nano, charged_at";

/** Replaces each table of a check by its rows in this scope. */
export function restrictCheck(sql: string, kind: Reader["kind"], scope: CheckScope): SqlPart {
  const { range, position } = scope;
  if (position === undefined && range.after === undefined && range.upTo === undefined)
    return { sql, params: [] };
  return replaceTables(sql, (table) => rowsOf(table, kind, scope));
}

/** Counts the rows that checks select after a checkpoint. Only one statement, so the later calls are read once. */
export function countDifferences(
  checks: readonly string[],
  kind: Reader["kind"],
  scope: CheckScope & { readonly position: string },
): SqlPart {
  const transfers = rowsOf("transfer", kind, scope);
  const records = rowsOf("usage_record", kind, scope);
  const counts = checks.map((check) => {
    const { sql, params } = replaceTables(check, (table) =>
      table === "transfer" || table === "usage_record"
        ? { sql: `later_${table}`, params: [] }
        : rowsOf(table, kind, scope),
    );
    return { sql: `(select count(*) from (${sql}) as different)`, params };
  });
  return {
    sql: `with later_transfer as materialized ${transfers.sql}, later_usage_record as materialized ${records.sql}
      select ${counts.map(({ sql }) => sql).join(" + ")} as count`,
    params: [...transfers.params, ...records.params, ...counts.flatMap(({ params }) => params)],
  };
}

function replaceTables(check: string, replacement: (table: string) => SqlPart): SqlPart {
  const params: string[] = [];
  const sql = check.replaceAll(TABLE, (_, keyword: string, table: string) => {
    const rows = replacement(table);
    params.push(...rows.params);
    return `${keyword} ${rows.sql} as ${table}`;
  });
  return { sql, params };
}

function rowsOf(table: string, kind: Reader["kind"], { range, position }: CheckScope): SqlPart {
  if (position !== undefined && table === "transfer") return laterTransfers(kind, range, position);
  if (position !== undefined && table === "usage_record")
    return laterRecords(kind, range, position);
  const accounts = rangeCondition(table === "account" ? "id" : "account_id", range);
  return { sql: `(select * from ${table} where ${accounts.sql})`, params: accounts.params };
}

/** Reads the index of each account, because a range of ids is spread over all accounts. */
export function perAccount(
  kind: Reader["kind"],
  { table, columns, range }: { table: string; columns: string; range: AccountRange },
  ids: IdRange,
): SqlPart {
  const owners = rangeCondition("account_id", range);
  const conditions = idConditions(ids);
  return joinOwners(
    kind,
    { table, columns, owners },
    {
      sql: conditions.map(({ sql }) => sql).join(" and "),
      params: conditions.flatMap(({ values }) => values),
    },
  );
}

interface OwnedRows {
  readonly table: string;
  readonly columns: string;
  /** A condition on the column account_id of the wallets. */
  readonly owners: SqlPart;
}

/** The rows of each of these accounts that meet a condition. The table needs an index that begins with the account. */
export function joinOwners<Param extends Value>(
  kind: Reader["kind"],
  { table, columns, owners }: OwnedRows,
  condition: { readonly sql: string; readonly params: readonly Param[] },
): { readonly sql: string; readonly params: readonly (string | Param)[] } {
  const accounts = `(select account_id as owner from wallet where ${owners.sql}) as owners`;
  const selected = `select ${columns} from ${table} where account_id = owner and ${condition.sql}`;
  return {
    // Without `offset 0`, PostgreSQL would join by reading the whole table.
    sql:
      kind === "postgres"
        ? `select ${columns} from ${accounts} cross join lateral (${selected} offset 0) as rows_of_owner`
        : `select ${columns} from ${accounts} cross join ${table} on account_id = owner and ${condition.sql}`,
    params: [...owners.params, ...condition.params],
  };
}

function laterParts(
  kind: Reader["kind"],
  source: { table: string; columns: string; range: AccountRange },
  position: string,
): readonly SqlPart[] {
  return [{ before: FIRST_CALL_ID }, { from: position }].map((ids) =>
    perAccount(kind, source, ids),
  );
}

/** Archived calls are summed by account: as transfers that refer to the last one, which needs no record. */
function laterTransfers(kind: Reader["kind"], range: AccountRange, position: string): SqlPart {
  const source = { table: "transfer", columns: TRANSFER_COLUMNS, range };
  const checkpoints = checkpointsOf(range, position);
  const summed = (amount: string, from: string): SqlPart => ({
    sql: `select account_id, 'checkpoint.${amount}' as id, ${from} as from_account,
      '${SYSTEM_ACCOUNTS.usageRevenue}' as to_account, ${amount} as amount, 'usage' as kind, ${LAST_ARCHIVED} as ref, 0 as at
      from ${checkpoints.sql} as effective where key_id = '' and ${amount} <> 0`,
    params: checkpoints.params,
  });
  return unionAll([
    ...laterParts(kind, source, position),
    summed("promo_nano", "account_id || ':promo'"),
    summed("paid_nano", "account_id || ':paid'"),
    summed("overrun_nano", `'${SYSTEM_ACCOUNTS.receivable}'`),
  ]);
}

const LAST_ARCHIVED = `coalesce(
    (select max(archive.through_id) from usage_archive archive where archive.account_id = effective.account_id), 'checkpoint.')`;

function laterRecords(kind: Reader["kind"], range: AccountRange, position: string): SqlPart {
  const source = { table: "usage_record", columns: RECORD_COLUMNS, range };
  const checkpoints = checkpointsOf(range, position);
  return unionAll([
    ...laterParts(kind, source, position),
    {
      sql: `select account_id, 'checkpoint.' || key_id as id, key_id, promo_nano + paid_nano + overrun_nano as cost_nano, 0 as byok,
          promo_nano, paid_nano, overrun_nano, 0 as charged_at from ${checkpoints.sql} as effective where key_id <> ''`,
      params: checkpoints.params,
    },
  ]);
}

function unionAll(parts: readonly SqlPart[]): SqlPart {
  return {
    sql: `(${parts.map(({ sql }) => sql).join(" union all ")})`,
    params: parts.flatMap(({ params }) => params),
  };
}
