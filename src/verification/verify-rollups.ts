// Compares the usage roll-ups, by account and day, with the usage records, and computes those of wrong accounts anew. They may
// differ if a table was restored, or if a process of an older version wrote during a migration.

import { idTime, minIdAt } from "../base/id.ts";
import { type Nano, toNano, usdText } from "../base/money/money.ts";
import { DAY_MS, utcDay } from "../base/time.ts";
import { type Db, integer, type Reader, type Row, text } from "../store/db.ts";
import { readPending } from "../usage/rollup/pending.ts";
import { rebuildRollups } from "../usage/rollup/roll-up.ts";
import { countOf, type RollupDelta } from "../usage/rollup/rollup-delta.ts";
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

/** Compares the days from the one of `from` on; all of them by default. The reader must be a snapshot. */
export async function findRollupDifferences(
  reader: Reader,
  from?: number,
): Promise<readonly RollupDifference[]> {
  const first = from === undefined ? undefined : from - (from % DAY_MS);
  const pending = await sumPending(reader);
  const archivedUntil = await readArchivedUntil(reader);
  const differences: RollupDifference[] = [];
  for await (const range of accountRanges(reader, ACCOUNTS_PER_RANGE)) {
    const records = await readSums(reader, recordsOf(reader.kind, range, first));
    for (const unit of ["day", "hour"] as const) {
      const rollups = await readSums(reader, rollupsOf(range, unit, first));
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
  const archivedUntil = await readArchivedUntil(db);
  const accountIds = new Set(differences.map(({ accountId }) => accountId));
  let done = 0;
  for (const accountId of accountIds) {
    await db.write((tx) => rebuildRollups(tx, accountId, archivedUntil.get(accountId) ?? 0));
    onRebuilt((done += 1), accountIds.size);
  }
  return accountIds.size;
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
    sql: `select account_id, created_at - created_at % ${DAY_MS} as at, count(*) as calls,
        cast(sum(tokens) as text) as tokens, cast(sum(cost) as text) as cost
      from ${source} as call where created_at >= ${first ?? 0} group by 1, 2`,
    params: rows.params,
  };
}

function rollupsOf(range: AccountRange, unit: "day" | "hour", first: number | undefined): SqlPart {
  const accounts = rangeCondition("account_id", range);
  return {
    sql: `select account_id, at - at % ${DAY_MS} as at, sum(calls) as calls,
        cast(sum(input_tokens + output_tokens) as text) as tokens, cast(sum(cost_nano) as text) as cost
      from usage_rollup where ${accounts.sql} and unit = '${unit}' and at >= ${first ?? 0} and label = '' group by 1, 2`,
    params: accounts.params,
  };
}

async function readSums(reader: Reader, { sql, params }: SqlPart): Promise<Sums> {
  const rows = await reader.all(sql, params);
  return new Map(
    rows.map((row) => [keyOf(text(row, "account_id"), integer(row, "at")), sumsOf(row)]),
  );
}

function sumsOf(row: Row): DaySums {
  return {
    calls: Number(row["calls"]),
    tokens: Number(row["tokens"]),
    cost: toNano(row["cost"]),
  };
}

async function sumPending(reader: Reader): Promise<readonly RollupDelta[]> {
  const queued: RollupDelta[] = [];
  for await (const deltas of readPending(reader))
    queued.push(...deltas.filter(({ key }) => key.label === ""));
  return queued;
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
async function readArchivedUntil(reader: Reader): Promise<ReadonlyMap<string, number>> {
  const rows = await reader.all(
    "select account_id, max(through_id) as through_id from usage_archive group by account_id",
  );
  return new Map(
    rows.map((row) => {
      const at = idTime("req", text(row, "through_id")) ?? 0;
      return [text(row, "account_id"), at - (at % DAY_MS) + ARCHIVE_MARGIN_MS];
    }),
  );
}

function keyOf(accountId: string, at: number): string {
  return `${accountId} ${at}`;
}

function describe({ calls, tokens, cost }: DaySums = { calls: 0, tokens: 0, cost: 0n }): string {
  return `${calls} calls, ${tokens} tokens and ${usdText(cost)} USD`;
}
