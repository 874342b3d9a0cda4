// Sums of all accounts by provider, model and whose provider key was used, for the operator's report.

import { type Reader, type Row, text, integer } from "../store/db.ts";
import { readPending } from "../usage/rollup/pending.ts";
import {
  pause,
  type RollupRange,
  splitPeriod,
  SUMS,
  sumsOf,
  type TimeRange,
} from "../usage/rollup/read-sums.ts";
import {
  addSums,
  emptySums,
  type RollupDelta,
  type RollupKey,
  type RollupSums,
} from "../usage/rollup/rollup-delta.ts";

const ACCOUNTS_PER_STATEMENT = 200;

export interface ProviderSums {
  readonly provider: string;
  readonly model: string;
  readonly byok: boolean;
  readonly sums: RollupSums;
}

type SumsByProvider = Map<string, ProviderSums>;

/** The period has whole hours. The reader must be a snapshot if the roll-up job runs at the same time. */
export async function readProviderSums(
  reader: Reader,
  period: TimeRange,
): Promise<readonly ProviderSums[]> {
  const sums: SumsByProvider = new Map();
  const { rollups } = splitPeriod(period, {});
  for (const range of rollups) await addRollups(reader, range, sums);
  const [first, last] = [rollups[0], rollups.at(-1)];
  if (first !== undefined && last !== undefined)
    for await (const deltas of readPending(reader))
      addDeltas(
        sums,
        deltas.filter(({ key }) => key.at >= first.from && key.at < last.to),
      );
  return [...sums.values()];
}

/** On SQLite in parts, because it answers on the main thread; on PostgreSQL in one statement, which plans better. */
async function addRollups(
  reader: Reader,
  { unit, from, to }: RollupRange,
  sums: SumsByProvider,
): Promise<void> {
  const select = `select provider, model, byok, ${SUMS} from`;
  const where = "unit = ? and at >= ? and at < ? and label = ''";
  const group = "group by provider, model, byok";
  if (reader.kind === "postgres") {
    addRows(
      sums,
      await reader.all(`${select} usage_rollup where ${where} ${group}`, [unit, from, to]),
    );
    return;
  }
  for await (const { after, upTo } of accountRanges(reader)) {
    const rows = await reader.all(
      `${select} (${OWNERS}) as owners cross join usage_rollup on account_id = owner where ${where} ${group}`,
      [after, upTo, unit, from, to],
    );
    addRows(sums, rows);
    await pause(reader);
  }
}

const OWNERS = "select account_id as owner from wallet where account_id > ? and account_id <= ?";

/** Batches of accounts, in the order of their ids. */
export async function* accountRanges(
  reader: Reader,
): AsyncGenerator<{ readonly after: string; readonly upTo: string }> {
  for (let after = ""; ;) {
    const accounts = await reader.all(
      "select account_id from wallet where account_id > ? order by account_id limit ?",
      [after, ACCOUNTS_PER_STATEMENT],
    );
    const last = accounts.at(-1);
    if (last === undefined) return;
    const upTo = text(last, "account_id");
    yield { after, upTo };
    after = upTo;
  }
}

function addRows(sums: SumsByProvider, rows: readonly Row[]): void {
  for (const row of rows) {
    const byok = integer(row, "byok") === 1 ? 1 : 0;
    addTo(sums, { provider: text(row, "provider"), model: text(row, "model"), byok }, sumsOf(row));
  }
}

function addDeltas(sums: SumsByProvider, deltas: readonly RollupDelta[]): void {
  for (const delta of deltas) if (delta.key.label === "") addTo(sums, delta.key, delta);
}

function addTo(
  sums: SumsByProvider,
  { provider, model, byok }: Pick<RollupKey, "provider" | "model" | "byok">,
  more: RollupSums,
): void {
  const id = `${provider} ${model} ${byok}`;
  let total = sums.get(id);
  if (total === undefined)
    sums.set(id, (total = { provider, model, byok: byok === 1, sums: emptySums() }));
  addSums(total.sums, more);
}
