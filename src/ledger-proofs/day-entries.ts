// Reads the balance entries of accounts since a time, and what they changed. An entry belongs to the UTC day of its time.
// A call is an entry when it is settled, so a call that is open at midnight is one of the next day.

import { minIdAt } from "../base/id.ts";
import { type Nano, toNano } from "../base/money/money.ts";
import { DAY_MS, HOUR_MS } from "../base/time.ts";
import { callTransfers, readChargedCall } from "../ledger/call-charges.ts";
import { bucketAccount, type Transfer } from "../ledger/ledger-rows.ts";
import { integer, type Reader, type Row, text } from "../store/db.ts";
import type { SqlPart } from "../verification/account-range.ts";
import { joinOwners } from "../verification/check-tables.ts";

export interface Period {
  readonly day: string;
  readonly from: number;
  /** Exclusive. */
  readonly to: number;
}

export type Entry = Omit<Transfer, "memo">;

/** Calls that were charged later than this are in the index usage_record_late, whose condition has the same number. */
const LATE = "charged_at - created_at > 7200000";
/** The id of a call is from before its other times: it may have waited in the queue. */
const CHARGED_AFTER_MAX_MS = 3 * HOUR_MS;
const CALL_COLUMNS = "id, account_id, promo_nano, paid_nano, overrun_nano, charged_at";
const TRANSFER_COLUMNS =
  "account_id, id, from_account, to_account, cast(amount as text) as amount, kind, ref, at";

export function periodOf(day: string): Period {
  const from = Date.parse(`${day}T00:00:00Z`);
  return { day, from, to: from + DAY_MS };
}

/** The entries of these accounts on a day, each account's in the order of their ids. */
export async function readEntries(
  reader: Reader,
  owners: SqlPart,
  { from, to }: Period,
): Promise<ReadonlyMap<string, readonly Entry[]>> {
  const firstId = firstIdOf(from);
  const ids = [firstId, minIdAt("req", to)];
  const records = { table: "usage_record", columns: CALL_COLUMNS, owners };
  const calls = joinOwners(reader.kind, records, { sql: "id >= ? and id < ?", params: ids });
  const times = [from, to];
  const late = joinOwners(reader.kind, records, {
    sql: `charged_at >= ? and charged_at < ? and ${LATE}`,
    params: times,
  });
  const moved = joinOwners(
    reader.kind,
    { table: "transfer", columns: TRANSFER_COLUMNS, owners },
    { sql: "at >= ? and at < ?", params: times },
  );
  const rows = [
    ...(await reader.all(calls.sql, calls.params)),
    ...(await reader.all(late.sql, late.params)).filter((row) => text(row, "id") < firstId),
  ];
  const entries = rows
    .flatMap((row) => readChargedCall(row) ?? [])
    .flatMap(callTransfers)
    .filter(({ at }) => at >= from && at < to)
    .concat((await reader.all(moved.sql, moved.params)).map(toEntry))
    .toSorted(byId);
  return Map.groupBy(entries, ({ accountId }) => accountId);
}

/**
 * What these accounts had at a time: what they have, without what changed it since. One statement, because a distributed store has one
 * state of an account's rows only within a statement.
 */
export async function readBalances(
  reader: Reader,
  owners: SqlPart,
  at: number,
): Promise<ReadonlyMap<string, Nano>> {
  const firstId = firstIdOf(at);
  const columns = "account_id, promo_nano, paid_nano";
  const calls = [
    { sql: "id >= ? and charged_at >= ?", params: [firstId, at] },
    { sql: `id < ? and charged_at >= ? and ${LATE}`, params: [firstId, at] },
  ].map((since) =>
    selectFrom(
      "promo_nano + paid_nano",
      joinOwners(reader.kind, { table: "usage_record", columns, owners }, since),
    ),
  );
  const transfers = selectFrom(
    `${amountIfBucket("from_account")} - ${amountIfBucket("to_account")}`,
    joinOwners(
      reader.kind,
      { table: "transfer", columns: "account_id, from_account, to_account, amount", owners },
      { sql: "at >= ?", params: [at] },
    ),
  );
  const wallets = {
    sql: `select account_id, promo + paid as nano from wallet where ${owners.sql}`,
    params: owners.params,
  };
  const parts = [wallets, ...calls, transfers];
  const rows = await reader.all(
    `select account_id, cast(sum(nano) as text) as nano
     from (${parts.map(({ sql }) => sql).join(" union all ")}) as change group by account_id`,
    parts.flatMap(({ params }) => params),
  );
  return new Map(rows.map((row) => [text(row, "account_id"), toNano(row["nano"])]));
}

/** The amount if this column is one of the account's two buckets. */
const amountIfBucket = (column: string): string =>
  `case when ${column} in (account_id || ':promo', account_id || ':paid') then amount else 0 end`;

function selectFrom<Part extends { readonly sql: string }>(nano: string, part: Part): Part {
  return { ...part, sql: `select account_id, ${nano} as nano from (${part.sql}) as moved` };
}

function firstIdOf(from: number): string {
  return minIdAt("req", Math.max(0, from - CHARGED_AFTER_MAX_MS));
}

function byId(one: Entry, other: Entry): number {
  return one.id < other.id ? -1 : one.id > other.id ? 1 : 0;
}

/** By how much an entry changed the balance of its account: its two buckets, and not its debt. */
function changeOf({ accountId, from, to, amount }: Entry): Nano {
  const buckets = new Set([bucketAccount(accountId, "promo"), bucketAccount(accountId, "paid")]);
  return (buckets.has(to) ? amount : 0n) - (buckets.has(from) ? amount : 0n);
}

export function sumOfChanges(entries: readonly Entry[]): Nano {
  return entries.reduce((sum, entry) => sum + changeOf(entry), 0n);
}

function toEntry(row: Row): Entry {
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    from: text(row, "from_account"),
    to: text(row, "to_account"),
    amount: toNano(row["amount"]),
    kind: text(row, "kind"),
    ref: text(row, "ref"),
    at: integer(row, "at"),
  };
}
