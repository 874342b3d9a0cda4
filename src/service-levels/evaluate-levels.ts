// The job that finds breaches of service levels and posts their credits. It reads sums and records that calls have written anyway,
// after their window is over, so it costs a call nothing. Any step may be repeated, by any process.

import type { Log } from "../base/log.ts";
import { minNano, type Nano, toNano, usdText } from "../base/money/money.ts";
import { DAY_MS, HOUR_MS } from "../base/time.ts";
import { readAllAccounts } from "../store/all-accounts.ts";
import { type Db, type Reader, text } from "../store/db.ts";
import { readProviderPerformance } from "../usage/rollup/provider-hours.ts";
import { rollUpUsage } from "../usage/rollup/roll-up.ts";
import { idRange, recordConditions } from "../usage/usage-filter.ts";
import { selectUsageInOrder } from "../usage/usage-of-account.ts";
import { toUsageRecord } from "../usage/usage.ts";
import {
  addCalls,
  findBreach,
  newCallCounts,
  suspectModels,
  totalsByModel,
  type Totals,
} from "./breach.ts";
import { type BreachOfAccount, postServiceCredit } from "./service-credits.ts";
import {
  type LevelTerms,
  listServiceLevels,
  type ServiceLevel,
  type Window,
  windowAt,
} from "./service-levels.ts";

/** Long calls that began in a window are settled by then. A call that is settled later counts in none. */
const EVALUATED_AFTER_MS = 2 * HOUR_MS;
export const PREVIEW_DAYS = 30;

/** Short statements, because SQLite answers on the main thread. */
const ACCOUNTS_PER_STATEMENT = 200;
const RECORDS_PER_STATEMENT = 500;

export interface EvaluationDeps {
  readonly db: Db;
  readonly log: Log;
}

/** Evaluates the windows that are over. */
export async function evaluateServiceLevels(
  { db, log }: EvaluationDeps,
  now: number,
): Promise<void> {
  const due = (await listServiceLevels(db)).filter((level) => nextWindow(level, now) !== undefined);
  if (due.length === 0) return;
  // The sums of calls that a stopped process queued belong to the windows too.
  await rollUpUsage(db);
  // Short windows first: they are the more exact, and a longer one then credits what is left.
  const ordered = ["hour", "day", "month"].flatMap((period) =>
    due.filter((level) => level.period === period),
  );
  for (const level of ordered) await evaluateLevel({ db, log }, level, now);
}

async function evaluateLevel(
  { db, log }: EvaluationDeps,
  level: ServiceLevel,
  now: number,
): Promise<void> {
  for (let { evaluatedTo } = level; ;) {
    const window = nextWindow({ ...level, evaluatedTo }, now);
    if (window === undefined) return;
    for await (const breach of findBreaches(db, level, window)) {
      const amount = await db.write((tx) => postServiceCredit(tx, { level, window, breach, now }));
      if (amount > 0n)
        log.info("credited a breach of a service level", {
          account: breach.accountId,
          service_level: level.id,
          usd: usdText(amount),
        });
    }
    await db.write((tx) =>
      tx.run("update service_level set evaluated_to = ? where id = ? and evaluated_to < ?", [
        window.end,
        level.id,
        window.end,
      ]),
    );
    evaluatedTo = window.end;
  }
}

/** The window that is evaluated next, once it is over. */
function nextWindow(
  { period, evaluatedTo, endedAt }: Pick<ServiceLevel, "period" | "evaluatedTo" | "endedAt">,
  now: number,
): Window | undefined {
  const window = windowAt(period, evaluatedTo);
  const isCovered = endedAt === null || window.start < endedAt;
  return isCovered && window.end + EVALUATED_AFTER_MS <= now ? window : undefined;
}

export interface LevelCost {
  readonly amount: Nano;
  readonly breaches: number;
  readonly accounts: number;
}

/** What the level would have cost in the windows that ended in the last 30 days, without regard to other levels. */
export async function previewLevel(
  reader: Reader,
  terms: LevelTerms,
  now: number,
): Promise<LevelCost> {
  const byMonth = new Map<string, Nano>();
  const accounts = new Set<string>();
  let breaches = 0;
  let window = windowAt(terms.period, now - PREVIEW_DAYS * DAY_MS);
  for (; window.end <= now; window = windowAt(terms.period, window.end)) {
    for await (const breach of findBreaches(reader, terms, window)) {
      const key = `${breach.accountId} ${windowAt("month", window.start).start}`;
      byMonth.set(key, minNano(terms.cap, (byMonth.get(key) ?? 0n) + breach.amount));
      accounts.add(breach.accountId);
      breaches += 1;
    }
    await pause(reader);
  }
  const amount = [...byMonth.values()].reduce((sum, one) => sum + one, 0n);
  return { amount, breaches, accounts: accounts.size };
}

async function* findBreaches(
  reader: Reader,
  terms: LevelTerms,
  window: Window,
): AsyncGenerator<BreachOfAccount> {
  const totals = totalsByModel(
    await readProviderPerformance(reader, { from: window.start, to: window.end }),
  );
  const models = suspectModels(terms, totals);
  if (models.length === 0) return;
  for await (const accountId of callersOf(reader, models, window))
    for (const breach of await breachesOf(reader, { accountId, models, terms, window, totals }))
      yield { ...breach, accountId };
}

/** The accounts that called one of the models, from the roll-ups. */
async function* callersOf(
  reader: Reader,
  models: readonly string[],
  { start, end }: Window,
): AsyncGenerator<string> {
  const names = models.map(() => "?").join(", ");
  const hasCalls = `unit = 'hour' and at >= ? and at < ? and label = '' and byok = 0 and model in (${names})`;
  if (reader.isDistributed === true) {
    const sql = `select distinct account_id from usage_rollup where ${hasCalls}`;
    for (const row of await readAllAccounts(reader, "usage_rollup", sql, [start, end, ...models]))
      yield text(row, "account_id");
    return;
  }
  for (let after = ""; ;) {
    const rows = await reader.all(
      `select account_id, case when exists (select 1 from usage_rollup where usage_rollup.account_id = page.account_id
         and ${hasCalls}) then 1 else 0 end as has_calls
       from (select account_id from wallet where account_id > ? order by account_id limit ${ACCOUNTS_PER_STATEMENT}) as page
       order by account_id`,
      [start, end, ...models, after],
    );
    for (const row of rows) if (Number(row["has_calls"]) === 1) yield text(row, "account_id");
    const last = rows.at(-1);
    if (last === undefined || rows.length < ACCOUNTS_PER_STATEMENT) return;
    after = text(last, "account_id");
    await pause(reader);
  }
}

async function breachesOf(
  reader: Reader,
  {
    accountId,
    models,
    terms,
    window: { start, end },
    totals,
  }: {
    readonly accountId: string;
    readonly models: readonly string[];
    readonly terms: LevelTerms;
    readonly window: Window;
    readonly totals: Totals;
  },
) {
  const countsByModel = new Map(models.map((model) => [model, newCallCounts()]));
  const times = { from: start, to: end };
  for (let ids = idRange(times); ;) {
    const { sql, values } = selectUsageInOrder(
      "*",
      { accountId, ids, others: recordConditions(times) },
      { order: "asc", limit: RECORDS_PER_STATEMENT },
    );
    const rows = await reader.all(sql, values);
    addCalls(
      countsByModel,
      terms,
      rows.map((row) => ({ record: toUsageRecord(row), paid: toNano(row["paid_nano"] ?? 0n) })),
    );
    const last = rows.at(-1);
    if (last === undefined || rows.length < RECORDS_PER_STATEMENT) break;
    ids = { after: text(last, "id"), before: ids.before };
    await pause(reader);
  }
  return [...countsByModel].flatMap(
    ([model, counts]) => findBreach(terms, model, counts, totals) ?? [],
  );
}

async function pause(reader: Reader): Promise<void> {
  if (reader.kind === "sqlite") await new Promise((resolve) => setImmediate(resolve));
}
