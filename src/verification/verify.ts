// Verifies the ledger: recomputes every balance from its transfers and reports mismatches. All checks read one
// snapshot, so it can run during live traffic.

import { lockAllWallets } from "../ledger/ledger-rows.ts";
import { awaitInterruptedCommits } from "../store/all-accounts.ts";
import { type Db, type Reader, integer, allowLongStatements, text, type Tx } from "../store/db.ts";
import { lockArchive } from "../usage/archive/archive-usage.ts";
import {
  type AccountRange,
  accountRanges,
  ALL_ACCOUNTS,
  type SqlPart,
  rangeCondition,
} from "./account-range.ts";
import { type CheckScope, countDifferences, perAccount, restrictCheck } from "./check-tables.ts";
import {
  addToCheckpoints,
  type CheckpointRow,
  FIRST_CALL_ID,
  positionAt,
  readCheckpoints,
  readPosition,
  replaceCheckpoints,
  sumUsage,
  writeCheckpoints,
} from "./checkpoint.ts";
import { type Check, CHECKS } from "./ledger-checks.ts";

const PROBLEMS_MAX = 100;
/** Bounds the memory of a statement. */
const ACCOUNTS_PER_RANGE = 2_000;
/** How many accounts of a distributed store are copied at once: their calls may wait meanwhile. */
const ACCOUNTS_PER_COPY = 500;
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

interface Findings {
  readonly problems: string[];
  count: number;
  readonly onCheck?: (check: string) => void;
}

/** Reads everything. */
export function verifyLedger(db: Db): Promise<Verification> {
  if (db.isDistributed === true) return verifyCopies(db);
  return db.snapshot(async (reader) => {
    await enlargeSortMemory(reader);
    const found: Findings = { problems: [], count: 0 };
    for (const check of CHECKS)
      if (check.isGlobal) await runCheck(reader, check, { range: ALL_ACCOUNTS }, found);
    for await (const range of rangesOf(reader)) await checkAccounts(reader, { range }, found);
    return {
      checked: await countRows(reader),
      problems: found.problems,
      problemCount: found.count,
    };
  });
}

/** Accounts with differences are copied again while calls wait, so that only real differences are reported. */
async function verifyCopies(db: Db, onCheck?: OnCheck): Promise<Verification> {
  const found = await findingsOf(db, undefined, onCheck);
  for (const check of CHECKS)
    if (check.isGlobal) await runCheck(db, check, { range: ALL_ACCOUNTS }, found);
  for await (const range of accountRanges(db, ACCOUNTS_PER_COPY)) {
    const checkCopy = (isLocked: boolean): Promise<Findings> =>
      withLedgerCopy(db, { range, isLocked }, async (tx) => {
        const copied: Findings = { ...found, problems: [], count: 0 };
        await checkAccounts(tx, { range }, copied);
        return copied;
      });
    const first = await checkCopy(false);
    const { problems, count } = first.count === 0 ? first : await checkCopy(true);
    found.problems.push(...problems.slice(0, PROBLEMS_MAX - found.problems.length));
    found.count += count;
  }
  return {
    checked: await countRows(db),
    problems: found.problems,
    problemCount: found.count,
  };
}

type OnCheck = (done: number, total: number, check: string) => void;

export interface VerifyOptions {
  readonly now: number;
  /** Reads all rows, as the first verification does. */
  readonly isFull?: boolean;
  /** Called after each check of a range of accounts. What it throws ends the verification, which writes no checkpoint. */
  readonly onCheck?: OnCheck;
}

/**
 * Reads the calls since the last checkpoint. Accounts that then differ are read in full, so that only real differences are
 * reported. If there are none, it writes a new checkpoint.
 */
export async function verifyFromCheckpoint(
  db: Db,
  { now, isFull = false, onCheck }: VerifyOptions,
): Promise<Verification> {
  if (db.isDistributed === true) {
    const verification = await verifyCopies(db, onCheck);
    // Only says when the ledger was verified: each run reads all calls.
    const position = maxText((await readPosition(db)) ?? "", positionAt(now));
    if (verification.problemCount === 0) await writeCheckpoints(db, [], position);
    return verification;
  }
  const { rows, newPosition, ...verification } = await db.snapshot(async (reader) => {
    await enlargeSortMemory(reader);
    const lastPosition = await readPosition(reader);
    const readFrom = isFull ? undefined : lastPosition;
    // A clock that stepped back must not take the position back.
    const newPosition = maxText(lastPosition ?? "", positionAt(now));
    const found = await findingsOf(reader, readFrom, onCheck);
    const checkpoints: CheckpointRow[] = [];
    if (readFrom === undefined)
      for (const check of CHECKS)
        if (check.isGlobal) await runCheck(reader, check, { range: ALL_ACCOUNTS }, found);
    for await (const range of rangesOf(reader, readFrom)) {
      const scope = {
        range,
        position: await verifyRange(reader, { range, position: readFrom }, found),
      };
      // The sums grow with every account, so they are collected only while they will be written.
      if (found.count === 0)
        checkpoints.push(...(await sumRange(reader, scope, { lastPosition, newPosition })));
    }
    const checked = await countRows(reader, readFrom);
    const { problems, count: problemCount } = found;
    return { rows: checkpoints, newPosition, checked, problems, problemCount };
  });
  if (verification.problemCount === 0) await writeCheckpoints(db, rows, newPosition);
  return verification;
}

/** Returns the position after which the range was read: undefined if it was read in full. */
async function verifyRange(
  reader: Reader,
  scope: CheckScope,
  found: Findings,
): Promise<string | undefined> {
  const { range, position } = scope;
  if (position !== undefined) {
    const { sql, params } = countDifferences(CHECKS_AFTER_CHECKPOINT, reader.kind, {
      range,
      position,
    });
    const row = await reader.get(sql, params);
    found.onCheck?.("calls since the last verification");
    if (row !== undefined && integer(row, "count") === 0) return position;
  }
  await checkAccounts(reader, { range }, found);
  return undefined;
}

/** What the next checkpoint has for the keys of these accounts: after a checkpoint, only those with later calls. */
async function sumRange(
  reader: Reader,
  { range, position }: CheckScope,
  {
    lastPosition,
    newPosition,
  }: { readonly lastPosition: string | undefined; readonly newPosition: string },
): Promise<readonly CheckpointRow[]> {
  const ids = { from: position ?? FIRST_CALL_ID, before: newPosition };
  const rowsOf = (table: string, columns: string): SqlPart => {
    const { sql, params } = perAccount(reader.kind, { table, columns, range }, ids);
    return { sql: `(${sql})`, params };
  };
  const added = await sumUsage(reader, {
    transfers: rowsOf("transfer", "account_id, from_account, amount, kind, ref"),
    records: rowsOf(
      "usage_record",
      "account_id, key_id, promo_nano, paid_nano, overrun_nano, charged_at",
    ),
  });
  const before =
    lastPosition === undefined ? [] : await readCheckpoints(reader, range, lastPosition);
  return position === undefined
    ? replaceCheckpoints(before, added)
    : addToCheckpoints(before, added);
}

function maxText(one: string, other: string): string {
  return one > other ? one : other;
}

const CHECKS_OF_ACCOUNTS = CHECKS.filter(({ isGlobal }) => isGlobal === undefined);
const CHECKS_AFTER_CHECKPOINT = CHECKS_OF_ACCOUNTS.filter(
  ({ isFullOnly }) => isFullOnly === undefined,
).map(({ sql }) => sql);

/** For this snapshot only. */
async function enlargeSortMemory(reader: Reader): Promise<void> {
  if (reader.kind === "postgres") {
    await reader.get("select set_config('work_mem', ?, true)", [`${SORT_MEMORY_MIB}MB`]);
    return;
  }
  await reader.all(`pragma cache_size = ${-SORT_MEMORY_MIB * 1_024}`);
  await reader.all("pragma temp_store = memory");
}

async function* rangesOf(reader: Reader, position?: string): AsyncGenerator<AccountRange> {
  if (reader.kind === "sqlite" || position !== undefined)
    yield* accountRanges(reader, ACCOUNTS_PER_RANGE);
  // PostgreSQL joins by hash and needs no ranges.
  else yield ALL_ACCOUNTS;
}

/** Counts the rows of each table; of transfers and usage records, only those after the position. */
async function countRows(reader: Reader, position?: string): Promise<Verification["checked"]> {
  const count = async (table: string, where = "true", counted = "count(*)"): Promise<number> => {
    const counting = `select cast(coalesce(${counted}, 0) as bigint) as count from ${table} where ${where}`;
    const scope = { range: ALL_ACCOUNTS, position };
    const { sql, params } = restrictCheck(counting, reader.kind, scope);
    const row = await reader.get(sql, params);
    return row === undefined ? 0 : integer(row, "count");
  };
  return {
    wallets: await count("wallet"),
    keys: await count("spender"),
    holds: await count("hold"),
    transfers:
      (await count("transfer", IS_NOT_CHECKPOINT)) +
      (await count("usage_record", IS_NOT_CHECKPOINT, `sum(${CALL_TRANSFERS.join(" + ")})`)),
    usageRecords: await count("usage_record", IS_NOT_CHECKPOINT),
  };
}

/** Excludes the sums of a checkpoint. */
const IS_NOT_CHECKPOINT = "id not like 'checkpoint.%'";
const CALL_TRANSFERS = ["promo_nano", "paid_nano", "overrun_nano"].map(
  (column) => `case when ${column} > 0 then 1 else 0 end`,
);

async function checkAccounts(reader: Reader, scope: CheckScope, found: Findings): Promise<void> {
  for (const check of CHECKS_OF_ACCOUNTS) await runCheck(reader, check, scope, found);
}

async function findingsOf(
  reader: Reader,
  position: string | undefined,
  onCheck: OnCheck | undefined,
): Promise<Findings> {
  if (onCheck === undefined) return { problems: [], count: 0 };
  const wallets = await reader.get("select count(*) as count from wallet");
  const isRanged = reader.kind === "sqlite" || position !== undefined;
  const accounts = wallets === undefined ? 0 : integer(wallets, "count");
  const ranges = isRanged ? Math.floor(accounts / ACCOUNTS_PER_RANGE) + 1 : 1;
  const perRange = position === undefined ? CHECKS_OF_ACCOUNTS.length : 1;
  const globals = position === undefined ? CHECKS.length - CHECKS_OF_ACCOUNTS.length : 0;
  const total = globals + ranges * perRange;
  let done = 0;
  return {
    problems: [],
    count: 0,
    onCheck: (check) => onCheck((done += 1), Math.max(total, done), check),
  };
}

async function runCheck(
  reader: Reader,
  check: Check,
  scope: CheckScope,
  found: Findings,
): Promise<void> {
  const { sql, params } = restrictCheck(check.sql, reader.kind, scope);
  found.onCheck?.(check.problem);
  const rows = await reader.all(`${sql} limit ${PROBLEMS_MAX + 1}`, params);
  const messages = rows.map(
    (row) =>
      `${check.problem}: ${Object.entries(row)
        .map(([column, value]) => `${column} ${String(value)}`)
        .join(", ")}`,
  );
  found.problems.push(...messages.slice(0, PROBLEMS_MAX - found.problems.length));
  if (rows.length <= PROBLEMS_MAX) {
    found.count += rows.length;
    return;
  }
  const all = await reader.get(`select count(*) as count from (${sql}) as problem`, params);
  found.count += all === undefined ? rows.length : integer(all, "count");
}

const COPIED_TABLES = [
  "wallet",
  "spender",
  "hold",
  "swept_hold",
  "agent_session",
  "transfer",
  "usage_record",
  "usage_archive",
] as const;

interface CopyOptions {
  readonly range: AccountRange;
  /** Whether calls wait: without it, a call that is settled between two copies looks like a difference. */
  readonly isLocked: boolean;
}

/**
 * A distributed store has no snapshot of all nodes, and some checks join rows of nodes with rows of the coordinator. So the rows of
 * some accounts are copied into temporary tables of the same names, and these are checked.
 */
function withLedgerCopy<T>(
  db: Db,
  { range, isLocked }: CopyOptions,
  work: (tx: Tx) => Promise<T>,
): Promise<T> {
  return db.write(async (tx) => {
    await allowLongStatements(tx);
    if (isLocked) {
      await lockAllWallets(tx);
      await lockArchive(tx);
      await awaitInterruptedCommits(tx, "wallet");
    }
    const row = await tx.get("select current_schema() as schema");
    const schema = row === undefined ? "public" : text(row, "schema");
    const { sql, params } = rangeCondition("account_id", range);
    for (const table of COPIED_TABLES) {
      await tx.run(`create temp table ${table} (like ${schema}.${table}) on commit drop`);
      await tx.run(
        `insert into pg_temp.${table} select * from ${schema}.${table} where ${sql}`,
        params,
      );
    }
    return work(tx);
  });
}
