// Verifies the ledger: recomputes every balance from its transfers and reports mismatches. All checks read one
// snapshot, so it can run during live traffic.

import { type Db, type Reader, integer, text } from "../../store/db.ts";
import { type Check, CHECKS } from "./ledger-checks.ts";

const PROBLEMS_MAX = 100;
/** SQLite joins the sums of a check row by row, so the time grows with the square of the accounts in one statement. */
const ACCOUNTS_PER_RANGE = 100;
/** Both stores sort what fits into this in memory, and the rest on disk at a fraction of the speed. */
const SORT_MEMORY_MIB = 256;

export interface Verification {
  /** Numbers of checked rows. */
  readonly checked: Readonly<Record<CheckedKind, number>>;
  /** At most 100, each with its row and the expected values. */
  readonly problems: readonly string[];
  /** The number of all problems. */
  readonly problemCount: number;
}

type CheckedKind = "wallets" | "keys" | "holds" | "transfers" | "usageRecords";

export function verifyLedger(db: Db): Promise<Verification> {
  return db.snapshot(async (reader) => {
    await enlargeSortMemory(reader);
    const problems: string[] = [];
    let problemCount = 0;
    const run = async (check: Check, range: AccountRange): Promise<void> => {
      const { count, messages } = await runCheck(reader, check, range);
      problemCount += count;
      problems.push(...messages.slice(0, PROBLEMS_MAX - problems.length));
    };
    for (const check of CHECKS) if (check.isGlobal) await run(check, ALL_ACCOUNTS);
    for await (const range of accountRanges(reader))
      for (const check of CHECKS) if (!check.isGlobal) await run(check, range);
    const countRows = async (table: string): Promise<number> => {
      const row = await reader.get(`select count(*) as count from ${table}`);
      return row === undefined ? 0 : integer(row, "count");
    };
    const checked = {
      wallets: await countRows("wallet"),
      keys: await countRows("spender"),
      holds: await countRows("hold"),
      transfers: await countRows("transfer"),
      usageRecords: await countRows("usage_record"),
    };
    return { checked, problems, problemCount };
  });
}

/** For this snapshot only. */
async function enlargeSortMemory(reader: Reader): Promise<void> {
  if (reader.kind === "postgres") {
    await reader.get("select set_config('work_mem', ?, true)", [`${SORT_MEMORY_MIB}MB`]);
    return;
  }
  await reader.all(`pragma cache_size = ${-SORT_MEMORY_MIB * 1_024}`);
  await reader.all("pragma temp_store = memory");
}

/** `after` is exclusive, `upTo` inclusive; undefined without a bound. */
interface AccountRange {
  readonly after?: string | undefined;
  readonly upTo?: string | undefined;
}

const ALL_ACCOUNTS: AccountRange = {};

/** Together, the ranges have every account id, also those without a wallet. */
async function* accountRanges(reader: Reader): AsyncGenerator<AccountRange> {
  // PostgreSQL joins by hash and needs no ranges.
  if (reader.kind === "postgres") {
    yield ALL_ACCOUNTS;
    return;
  }
  for (let after: string | undefined; ;) {
    const last = await reader.get(
      `select account_id from wallet where account_id > ? order by account_id limit 1 offset ${ACCOUNTS_PER_RANGE - 1}`,
      [after ?? ""],
    );
    const upTo = last && text(last, "account_id");
    yield { after, upTo };
    if (upTo === undefined) return;
    after = upTo;
  }
}

const TABLE =
  /\b(from|join) (transfer|usage_record|usage_archive|wallet|hold|swept_hold|spender|payment|invoice|top_up|account)\b/g;

/** Replaces each table by its rows of these accounts. */
function restrict(
  sql: string,
  { after, upTo }: AccountRange,
): { readonly sql: string; readonly params: readonly string[] } {
  const params: string[] = [];
  if (after === undefined && upTo === undefined) return { sql, params };
  const restricted = sql.replaceAll(TABLE, (_, keyword: string, table: string) => {
    const column = table === "account" ? "id" : "account_id";
    const conditions: string[] = [];
    if (after !== undefined) {
      conditions.push(`${column} > ?`);
      params.push(after);
    }
    if (upTo !== undefined) {
      conditions.push(`${column} <= ?`);
      params.push(upTo);
    }
    return `${keyword} (select * from ${table} where ${conditions.join(" and ")}) as ${table}`;
  });
  return { sql: restricted, params };
}

async function runCheck(
  reader: Reader,
  check: Check,
  range: AccountRange,
): Promise<{ readonly messages: readonly string[]; readonly count: number }> {
  const { sql, params } = restrict(check.sql, range);
  const rows = await reader.all(`${sql} limit ${PROBLEMS_MAX + 1}`, params);
  const messages = rows.map(
    (row) =>
      `${check.problem}: ${Object.entries(row)
        .map(([column, value]) => `${column} ${String(value)}`)
        .join(", ")}`,
  );
  if (rows.length <= PROBLEMS_MAX) return { messages, count: rows.length };
  const all = await reader.get(`select count(*) as count from (${sql}) as problem`, params);
  return { messages, count: all === undefined ? rows.length : integer(all, "count") };
}
