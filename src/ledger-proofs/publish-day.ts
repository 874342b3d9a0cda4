// Publishes the ledger's roots of each UTC day: a record in an append-only log. It owns the tables ledger_day and
// ledger_proof_page. A run that is killed leaves nothing but pages, which the next one writes again: the record is last.

import { deriveKey, type MasterSecret } from "../base/crypto/encryption.ts";
import { idTime } from "../base/id.ts";
import type { Nano } from "../base/money/money.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS, utcDay } from "../base/time.ts";
import { type Db, integer, type Reader, text, type Tx } from "../store/db.ts";
import { accountRanges, rangeCondition } from "../verification/account-range.ts";
import { accountSecrets, balanceLeaf, entriesLeaf, sharesOf } from "./account-leaves.ts";
import { type Period, periodOf, readBalances, readEntries, sumOfChanges } from "./day-entries.ts";
import { createLeafCollector, type LeafPages } from "./leaf-pages.ts";
import { PLAIN, SUMS } from "./merkle-tree.ts";
import { type DayRecord, hashText, leafText, parseRecord, VERSION } from "./proof-format.ts";

/** A settlement is retried for an hour at most, so later none of the day before can be posted. */
const WAIT_MS = HOUR_MS + 30 * MINUTE_MS;
/** How long proofs can be made. The log stays. */
export const PROOF_DAYS = 31;
/** Bounds the memory and the time of a statement. */
const ACCOUNTS_PER_RANGE = 500;
const PAGES_PER_TRANSACTION = 16;
/** The page with the roots of all pages. */
export const INDEX_PAGE = -1;

export interface PublishDeps {
  readonly db: Db;
  readonly master: MasterSecret;
  /** The issuer. */
  readonly baseUrl: string;
}

/** The keys from which the secrets of a day's leaves follow, that of the current master secret first. */
export function proofKeys(master: MasterSecret): readonly [Uint8Array, ...Uint8Array[]] {
  return deriveKey(master, "ledger-proofs/v1");
}

/** The day whose record is due; undefined if there is none. */
export async function findDueDay(reader: Reader, now: number): Promise<string | undefined> {
  const complete = Math.floor((now - WAIT_MS) / DAY_MS) * DAY_MS - DAY_MS;
  const last = await readLast(reader);
  if (last === undefined) return utcDay(complete);
  const next = Math.max(periodOf(last.record.day).to, complete - (PROOF_DAYS - 1) * DAY_MS);
  return next > complete ? undefined : utcDay(next);
}

/** Publishes what is due. Resolves with the days; a day without accounts has no record before the first one. */
export async function publishDueDays(deps: PublishDeps, now: number): Promise<readonly string[]> {
  const published: string[] = [];
  for (;;) {
    const day = await findDueDay(deps.db, now);
    if (day === undefined || !(await publishDay(deps, day, now))) return published;
    published.push(day);
  }
}

/** Resolves with false if there is nothing to publish. */
async function publishDay(
  { db, master, baseUrl: iss }: PublishDeps,
  day: string,
  now: number,
): Promise<boolean> {
  const [key] = proofKeys(master);
  const { balances, entries, totals } = await db.snapshot((reader) =>
    buildDay(reader, periodOf(day), key),
  );
  const last = await readLast(db);
  if (balances.leaves === 0 && last === undefined) return false;
  for (const tree of [balances, entries]) await writePages(db, day, tree);
  const liabilities = balances.root.sum;
  const before = last?.record.day === dayBefore(day) ? last.record : undefined;
  const record: DayRecord = {
    type: "ledger_day",
    version: VERSION,
    iss,
    day,
    balances: {
      root: hashText(balances.root.hash),
      leaves: balances.leaves,
      nano: String(liabilities),
    },
    entries: {
      root: hashText(entries.root.hash),
      leaves: entries.leaves,
      count: totals.entries,
      net_nano: String(totals.net),
    },
    difference_nano:
      before === undefined ? null : String(liabilities - BigInt(before.balances.nano) - totals.net),
  };
  await db.write((tx) => appendRecord(tx, record, now));
  return true;
}

interface BuiltDay {
  readonly balances: LeafPages;
  readonly entries: LeafPages;
  readonly totals: { readonly entries: number; readonly net: Nano };
}

async function buildDay(reader: Reader, period: Period, key: Uint8Array): Promise<BuiltDay> {
  const { day, to } = period;
  const [balances, entries] = [createLeafCollector(), createLeafCollector()];
  const totals = { entries: 0, net: 0n };
  for await (const range of accountRanges(reader, ACCOUNTS_PER_RANGE)) {
    const owners = rangeCondition("account_id", range);
    const entriesOf = await readEntries(reader, owners, period);
    for (const [account, balance] of await readBalances(reader, owners, to)) {
      // Accounts that were created later.
      if ((idTime("acct", account) ?? 0) >= to) continue;
      const ofDay = entriesOf.get(account) ?? [];
      const secrets = accountSecrets(key, { day, account });
      sharesOf(atLeastZero(balance), secrets).forEach((nano, share) => {
        const { node } = balanceLeaf({ day, account }, secrets, { share, nano });
        balances.add(secrets.positions[share] ?? Buffer.alloc(0), node);
      });
      if (ofDay.length === 0) continue;
      entries.add(secrets.entriesPosition, entriesLeaf({ day, account }, secrets, ofDay).node);
      totals.entries += ofDay.length;
      totals.net += sumOfChanges(ofDay);
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  return { balances: await balances.toPages(SUMS), entries: await entries.toPages(PLAIN), totals };
}

/** Clocks of processes differ, so a balance before later entries may be a little below zero. A negative leaf would hide what others are owed. */
function atLeastZero(balance: Nano): Nano {
  return balance < 0n ? 0n : balance;
}

async function writePages(db: Db, day: string, { root, index, pages }: LeafPages): Promise<void> {
  const name = hashText(root.hash);
  const rows = [[day, name, INDEX_PAGE, index], ...pages.map((page, at) => [day, name, at, page])];
  for (let from = 0; from < rows.length; from += PAGES_PER_TRANSACTION) {
    await db.write(async (tx) => {
      for (const row of rows.slice(from, from + PAGES_PER_TRANSACTION))
        await tx.run(
          "insert into ledger_proof_page (day, root, page, content) values (?, ?, ?, ?) on conflict (day, root, page) do nothing",
          row,
        );
    }, "os_cache");
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Another process may have published the day first: the log has each day once. */
async function appendRecord(tx: Tx, record: DayRecord, now: number): Promise<void> {
  const last = await readLast(tx);
  if (last !== undefined && last.record.day >= record.day) return;
  await tx.run(
    "insert into ledger_day (number, day, record, published_at) values (?, ?, ?, ?) on conflict do nothing",
    [(last?.number ?? -1) + 1, record.day, leafText(record), now],
  );
  await tx.run("delete from ledger_proof_page where day < ?", [
    utcDay(periodOf(record.day).from - (PROOF_DAYS - 1) * DAY_MS),
  ]);
}

function dayBefore(day: string): string {
  return utcDay(periodOf(day).from - DAY_MS);
}

interface LastRecord {
  readonly number: number;
  readonly record: DayRecord;
}

async function readLast(reader: Reader): Promise<LastRecord | undefined> {
  const row = await reader.get(
    "select number, record from ledger_day order by number desc limit 1",
  );
  return row && { number: integer(row, "number"), record: parseRecord(text(row, "record")) };
}
