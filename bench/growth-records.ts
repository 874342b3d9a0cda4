// Fills a store with usage records, their transfers and their roll-ups, so that the ledger stays valid.

import { newId } from "../src/base/id.ts";
import { DAY_MS } from "../src/base/time.ts";
import { sumByHour } from "../src/ledger/call-charges.ts";
import { deposit } from "../src/ledger/ledger.ts";
import { type Db, integer, type Tx } from "../src/store/db.ts";
import { insertUsage } from "../src/usage/insert-usage.ts";
import { rollUpUsage } from "../src/usage/rollup/roll-up.ts";
import type { UsageRecord } from "../src/usage/usage.ts";
import { openAccount, promoDeposit, usageRecord } from "../test/ledger/fixtures.ts";

export interface FilledAccount {
  readonly accountId: string;
  readonly keyId: string;
  readonly apiKey: string;
}

interface FillOptions {
  /** How many records the account has afterwards. */
  readonly records: number;
  /** How many accounts with one call each the store has afterwards. */
  readonly smallAccounts: number;
  readonly days: number;
  readonly now: number;
}

const COST = 12_345n;
const BATCH = 500;
/** The calls of small accounts are in none of the current windows. */
const SMALL_ACCOUNT_AGE_MS = 60 * DAY_MS;
const MODELS = ["sim/tiny", "sim/echo", "sim/steady", "sim/reason", "sim/long"];
const APIS = ["chat", "responses", "messages"] as const;
const RARE_EVERY = 20_011;
const FAILED_EVERY = 5_003;

/** An account of the gateway with its first key. */
export async function createFilledAccount(url: string): Promise<FilledAccount> {
  const headers = { "content-type": "application/json" };
  const created = await fetch(`${url}/v1/accounts`, { method: "POST", body: "{}", headers });
  // Safe: without an account the next request fails and ends the run.
  const body = (await created.json()) as { account: { id: string }; api_key: string };
  const authorization = `Bearer ${body.api_key}`;
  const keys = await fetch(`${url}/v1/keys`, { headers: { authorization } });
  // Safe for the same reason.
  const { data } = (await keys.json()) as { data: readonly { id: string }[] };
  return { accountId: body.account.id, keyId: data[0]?.id ?? "", apiKey: body.api_key };
}

export async function fillStore(
  db: Db,
  account: FilledAccount,
  { records, smallAccounts, days, now }: FillOptions,
): Promise<void> {
  const existing = await countOf(
    db,
    "select count(*) as count from usage_record where account_id = ?",
    [account.accountId],
  );
  const { accountId, keyId } = account;
  const from = now - days * DAY_MS;
  const step = (days * DAY_MS) / Math.max(1, records - existing);
  const cost = COST * BigInt(Math.max(0, records - existing));
  await db.write((tx) => deposit(tx, promoDeposit(newId("tr", now), accountId, cost + 1n, now)));
  for (let index = existing; index < records; index += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, records - index) }, (_, offset) =>
      recordAt(
        index + offset,
        { accountId, keyId },
        Math.floor(from + (index + offset - existing) * step),
      ),
    );
    await db.write((tx) => insertCharged(tx, batch), "os_cache");
  }
  await db.write(async (tx) => {
    await charge(tx, accountId, keyId, cost);
    await setWindows(tx, accountId, keyId);
  });
  await addSmallAccounts(db, smallAccounts, now);
  await rollUpUsage(db);
}

function recordAt(
  index: number,
  owner: { readonly accountId: string; readonly keyId: string },
  createdAt: number,
): UsageRecord {
  const isFailed = index % FAILED_EVERY === 7;
  return usageRecord({
    ...owner,
    id: newId("req", createdAt),
    cost: COST,
    createdAt,
    model: index % RARE_EVERY === 3 ? "sim/rare" : (MODELS[index % MODELS.length] ?? ""),
    provider: index % 7 === 0 ? "other" : "sim",
    api: APIS[index % APIS.length] ?? "chat",
    labels: index % 4 === 0 ? [`job=j${index % 3}`, "team=a"] : [],
    outcome: isFailed ? "upstream_error" : "completed",
    status: isFailed ? 502 : 200,
    latencyMs: 20 + ((index * 37) % 3_000),
    firstTokenMs: index % 2 === 0 ? (index * 13) % 900 : null,
    price: [{ meter: "input", count: 10, usd: "0.0000012345" }],
    attempts: [{ provider: "sim", model: "sim/tiny", status: 200, ms: 20 }],
  });
}

async function insertCharged(tx: Tx, records: readonly UsageRecord[]): Promise<void> {
  const calls = records.map(({ cost, createdAt: at }) => ({
    promo: cost,
    paid: 0n,
    overrun: 0n,
    at,
  }));
  await insertUsage(tx, records, { calls, hours: sumByHour(calls) });
}

async function charge(tx: Tx, accountId: string, keyId: string, cost: bigint): Promise<void> {
  await tx.run("update wallet set promo = promo - ? where account_id = ?", [cost, accountId]);
  await tx.run("update spender set total_spent = total_spent + ? where key_id = ?", [cost, keyId]);
}

/** The key's spend in the current day, week and month. */
async function setWindows(tx: Tx, accountId: string, keyId: string): Promise<void> {
  for (const window of ["day", "week", "month"])
    await tx.run(
      `update spender set ${window}_spent = (select coalesce(sum(promo_nano), 0) from usage_record
         where account_id = ? and charged_at >= spender.${window}_start) where key_id = ?`,
      [accountId, keyId],
    );
}

async function addSmallAccounts(db: Db, count: number, now: number): Promise<void> {
  const existing = await countOf(db, "select count(*) as count from wallet", []);
  for (let index = existing; index < count; index += BATCH)
    await db.write(async (tx) => {
      const accounts = Array.from({ length: Math.min(BATCH, count - index) }, () =>
        newId("acct", now),
      );
      // At once, so that PostgreSQL gets many statements in one round trip.
      await Promise.all(accounts.map((accountId) => openSmallAccount(tx, accountId, now)));
      const records = accounts.map((accountId, offset) =>
        recordAt(offset, { accountId, keyId: `${accountId}.k` }, now - SMALL_ACCOUNT_AGE_MS),
      );
      await insertCharged(tx, records);
    }, "os_cache");
}

async function openSmallAccount(tx: Tx, accountId: string, now: number): Promise<void> {
  const keyId = `${accountId}.k`;
  await openAccount(tx, accountId, [keyId], now);
  await tx.run("insert into account (id, created_at, created_from) values (?, ?, 'bench')", [
    accountId,
    now,
  ]);
  await deposit(tx, promoDeposit(`start.${accountId}`, accountId, 1_000_000n, now));
  await charge(tx, accountId, keyId, COST);
}

async function countOf(db: Db, sql: string, params: readonly string[]): Promise<number> {
  const row = await db.get(sql, params);
  return row === undefined ? 0 : integer(row, "count");
}
