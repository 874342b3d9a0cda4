// Compares the usage roll-ups, by account and day, with the usage records, and computes those of wrong accounts anew. They may
// differ if a table was restored, or if a process of an older version wrote during a migration.

import { idTime, minIdAt } from "../base/id.ts";
import { type Nano, toNano, usdText } from "../base/money/money.ts";
import { DAY_MS, utcDay } from "../base/time.ts";
import { type Db, integer, type Reader, type Row, text } from "../store/db.ts";
import { emptyQueue, rebuildRollups } from "../usage/rollup/roll-up.ts";
import { countOf, decodeDeltas, type RollupDelta } from "../usage/rollup/rollup-delta.ts";
import { type AccountRange, accountRanges, rangeCondition, type SqlPart } from "./account-range.ts";
import { perAccount, restrictCheck } from "./check-tables.ts";

const ACCOUNTS_PER_RANGE = 500;
/** The day of the last archived call has records and roll-ups without them, and clocks differ. */
const ARCHIVE_MARGIN_MS = 2 * DAY_MS;

interface DaySums {
  calls: number;
  tokens: number;
  cost: Nano;
}

export interface RollupDifference {
  readonly accountId: string;
  readonly problem: string;
}

/** Sums by account and day; the key is both. */
type Sums = Map<string, DaySums>;

/**
 * Compares the days from the one of `from` on; all of them by default. The reader must be a snapshot. That of a distributed store is
 * not one of all nodes, so one statement reads all that is compared of an account, which is on one node.
 */
export async function findRollupDifferences(
  reader: Reader,
  from?: number,
): Promise<readonly RollupDifference[]> {
  const first = from === undefined ? undefined : from - (from % DAY_MS);
  // Rows of several accounts are in the first range.
  const pending: RollupDelta[] = [];
  const differences: RollupDifference[] = [];
  for await (const range of accountRanges(reader, ACCOUNTS_PER_RANGE)) {
    const parts = await readParts(reader, range, first);
    const [records, archivedUntil] = [sumsOf(parts, "record"), archivedUntilOf(parts)];
    pending.push(...parts.flatMap(pendingOf));
    for (const unit of ["day", "hour"] as const) {
      const rollups = sumsOf(parts, unit);
      addPending(rollups, pending, { range, first });
      differences.push(...compareSums({ records, rollups, archivedUntil, unit }));
    }
  }
  return differences;
}

function compareSums({
  records,
  rollups,
  archivedUntil,
  unit,
}: {
  readonly records: Sums;
  readonly rollups: Sums;
  readonly archivedUntil: ReadonlyMap<string, number>;
  readonly unit: "day" | "hour";
}): readonly RollupDifference[] {
  return [...new Set([...records.keys(), ...rollups.keys()])].flatMap((key) => {
    const [accountId = "", at = "0"] = key.split(" ");
    if (Number(at) < (archivedUntil.get(accountId) ?? 0)) return [];
    const [expected, kept] = [describe(records.get(key)), describe(rollups.get(key))];
    if (expected === kept) return [];
    const day = utcDay(Number(at));
    return {
      accountId,
      problem: `the usage summaries of ${accountId} by ${unit} do not match its records on ${day}: kept ${kept}, records ${expected}`,
    };
  });
}

/** Returns the number of accounts. Settlements wait for one account at a time. */
export async function rebuildWrongRollups(
  db: Db,
  onRebuilt: (done: number, total: number) => void = () => {},
): Promise<number> {
  const differences = await db.snapshot((reader) => findRollupDifferences(reader));
  const accountIds = new Set(differences.map(({ accountId }) => accountId));
  let done = 0;
  for (const accountId of accountIds) {
    await db.write(async (tx) => {
      await emptyQueue(tx);
      const archive = await tx.all(
        "select account_id, 'archive' as part, through_id as other from usage_archive where account_id = ?",
        [accountId],
      );
      await rebuildRollups(tx, accountId, archivedUntilOf(archive).get(accountId) ?? 0);
    });
    onRebuilt((done += 1), accountIds.size);
  }
  return accountIds.size;
}

/** Each row is of a part, and has its sums, or what the part alone has: queued deltas or the id of the last archived call. */
async function readParts(
  reader: Reader,
  range: AccountRange,
  first: number | undefined,
): Promise<readonly Row[]> {
  const parts = [
    recordsOf(reader.kind, range, first),
    rollupsOf(range, "day", first),
    rollupsOf(range, "hour", first),
    partOf(range, "select account_id, 'pending', 0, 0, '', '', deltas from usage_pending"),
    partOf(range, "select account_id, 'archive', 0, 0, '', '', through_id from usage_archive"),
  ];
  return reader.all(
    `select * from (${parts.map(({ sql }) => sql).join(" union all ")}) as part`,
    parts.flatMap(({ params }) => params),
  );
}

function recordsOf(kind: Reader["kind"], range: AccountRange, first: number | undefined): SqlPart {
  const columns =
    "account_id, created_at, input_tokens + output_tokens as tokens, cost_nano as cost";
  const rows =
    first === undefined
      ? restrictCheck(`select ${columns} from usage_record`, kind, { range })
      : perAccount(
          kind,
          {
            table: "usage_record",
            columns: "account_id, id, created_at, input_tokens, output_tokens, cost_nano",
            range,
          },
          // A call may have begun on the day before.
          { from: minIdAt("req", first - DAY_MS) },
        );
  const source =
    first === undefined ? `(${rows.sql})` : `(select ${columns} from (${rows.sql}) as later)`;
  return {
    sql: `select account_id, 'record' as part, created_at - created_at % ${DAY_MS} as at, count(*) as calls,
        cast(sum(tokens) as text) as tokens, cast(sum(cost) as text) as cost, null as other
      from ${source} as call where created_at >= ${first ?? 0} group by 1, 2, 3`,
    params: rows.params,
  };
}

function rollupsOf(range: AccountRange, unit: "day" | "hour", first: number | undefined): SqlPart {
  const accounts = rangeCondition("account_id", range);
  return {
    sql: `select account_id, unit as part, at - at % ${DAY_MS} as at, sum(calls) as calls,
        cast(sum(input_tokens + output_tokens) as text) as tokens, cast(sum(cost_nano) as text) as cost, null as other
      from usage_rollup where ${accounts.sql} and unit = '${unit}' and at >= ${first ?? 0} and label = '' group by 1, 2, 3`,
    params: accounts.params,
  };
}

function partOf(range: AccountRange, select: string): SqlPart {
  const accounts = rangeCondition("account_id", range);
  return { sql: `${select} where ${accounts.sql}`, params: accounts.params };
}

function sumsOf(parts: readonly Row[], part: string): Sums {
  return new Map(
    parts
      .filter((row) => row["part"] === part)
      .map((row) => {
        const { calls, tokens, cost } = row;
        const sums = { calls: Number(calls), tokens: Number(tokens), cost: toNano(cost) };
        return [keyOf(text(row, "account_id"), integer(row, "at")), sums];
      }),
  );
}

function pendingOf(row: Row): readonly RollupDelta[] {
  if (row["part"] !== "pending") return [];
  return decodeDeltas(text(row, "other")).filter(({ key }) => key.label === "");
}

function addPending(
  sums: Sums,
  pending: readonly RollupDelta[],
  { range, first = 0 }: { readonly range: AccountRange; readonly first: number | undefined },
): void {
  for (const delta of pending) {
    const { accountId, at } = delta.key;
    const isInRange =
      (range.after === undefined || accountId > range.after) &&
      (range.upTo === undefined || accountId <= range.upTo);
    if (!isInRange || at < first) continue;
    const key = keyOf(accountId, at - (at % DAY_MS));
    const sum = sums.get(key) ?? { calls: 0, tokens: 0, cost: 0n };
    sum.calls += countOf(delta, "calls");
    sum.tokens += countOf(delta, "input_tokens") + countOf(delta, "output_tokens");
    sum.cost += delta.cost;
    sums.set(key, sum);
  }
}

/** Before this time an account has roll-ups of calls whose records were archived. */
function archivedUntilOf(parts: readonly Row[]): ReadonlyMap<string, number> {
  const archived = new Map<string, number>();
  for (const row of parts.filter(({ part }) => part === "archive")) {
    const accountId = text(row, "account_id");
    const at = idTime("req", text(row, "other")) ?? 0;
    const until = at - (at % DAY_MS) + ARCHIVE_MARGIN_MS;
    archived.set(accountId, Math.max(archived.get(accountId) ?? 0, until));
  }
  return archived;
}

function keyOf(accountId: string, at: number): string {
  return `${accountId} ${at}`;
}

function describe({ calls, tokens, cost }: DaySums = { calls: 0, tokens: 0, cost: 0n }): string {
  return `${calls} calls, ${tokens} tokens and ${usdText(cost)} USD`;
}
