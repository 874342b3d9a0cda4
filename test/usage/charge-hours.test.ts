// Compares the hourly sums of charges with the transfers, with random batches, while the roll-up job runs.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newId } from "../../src/base/id.ts";
import { HOUR_MS } from "../../src/base/time.ts";
import { sumByHour } from "../../src/ledger/call-charges.ts";
import type { ChargeSplit } from "../../src/ledger/decide.ts";
import { insertTransfers, type Transfer } from "../../src/ledger/ledger-rows.ts";
import { deposit } from "../../src/ledger/ledger.ts";
import type { Db } from "../../src/store/db.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import { readChargeHours } from "../../src/usage/rollup/charge-hours.ts";
import { rollUpUsage } from "../../src/usage/rollup/roll-up.ts";
import {
  findChargeDifferences,
  rebuildChargeHours,
} from "../../src/verification/verify-charges.ts";
import { openAccount, promoDeposit, startLedger, usageRecord } from "../ledger/fixtures.ts";
import { type RandomInt, TEST_SEED, createRandom } from "../support/random.ts";
import { openStore, STORE_KINDS, type TestStore } from "../support/stores/stores.ts";

const START = Date.parse("2026-03-01T00:00:00Z");
const BATCHES = 60;

describe.each(STORE_KINDS)("hourly charges on %s", (kind) => {
  let store: TestStore;
  beforeAll(async () => {
    store = await openStore(kind);
  });
  afterAll(() => store.close());

  test("equal the transfers while they wait and after the job added them", async () => {
    const { db } = store;
    const random = createRandom(TEST_SEED);
    for (let batch = 0; batch < BATCHES; batch++) {
      await insertBatch(db, randomTransfers(random), randomCharges(random));
      if (random(8) === 0) await Promise.all([rollUpUsage(db), rollUpUsage(db)]);
      if (random(8) === 0) expect(await findChargeDifferences(db, true)).toEqual([]);
    }
    await rollUpUsage(db);
    expect(await db.all("select id from usage_pending")).toEqual([]);
    expect(await findChargeDifferences(db, true)).toEqual([]);
    expect((await db.snapshot(readChargeHours)).length).toBeGreaterThan(10);
  });

  test("that are wrong are found by hour, and rebuilt from the transfers", async () => {
    const { db } = store;
    const before = await db.snapshot(readChargeHours);
    // Which hours have charges, and of which bucket, depends on the seed.
    const firstHour = before[0]?.at ?? START;
    await insertBatch(db, [usage("acct_a", "promo", { amount: 5n, at: firstHour })]);
    await db.write((tx) => tx.run("update charge_hour set promo_nano = promo_nano + 7000000000"));
    const problems = await findChargeDifferences(db, true);
    expect(problems).toHaveLength(before.length);
    expect(problems[0]).toStartWith(
      `the charges of the hour ${new Date(firstHour).toISOString()} do not match its transfers:`,
    );
    expect(problems[0]).toMatch(/ kept promo 7\.\d+, paid .*, transfers promo 0\.\d+,/);
    expect(await db.write(rebuildChargeHours)).toBe(before.length);
    expect(await findChargeDifferences(db, true)).toEqual([]);
    // The charges that waited are not added once more.
    await rollUpUsage(db);
    expect(await findChargeDifferences(db, true)).toEqual([]);
  });

  test("of a settlement are written with it; missing ones differ from the wallets", async () => {
    const { db, close } = await openStore(kind);
    await db.write(async (tx) => {
      await openAccount(tx, "acct_a", ["k"], START);
      await deposit(tx, promoDeposit("start.a", "acct_a", 1_000n, START));
    });
    const ledger = await startLedger(db, "one", START);
    const call = { id: newId("req", START), accountId: "acct_a", keyId: "k", now: START };
    await ledger.hold({ ...call, amount: 1_000n, expiresAt: START + HOUR_MS });
    const record = usageRecord({ ...call, cost: 1_500n, createdAt: START });
    await ledger.settle({ ...call, cost: 1_500n, record });
    const sums = [{ at: START, promo: 1_000n, paid: 0n, overrun: 500n }];
    expect(await db.snapshot(readChargeHours)).toEqual(sums);
    expect(await findChargeDifferences(db, false)).toEqual([]);
    await db.write((tx) => tx.run("delete from usage_pending"));
    expect(await findChargeDifferences(db, false)).toEqual(
      db.isDistributed === true
        ? [
            "the charges of the hour 2026-03-01T00:00:00.000Z do not match its transfers: kept promo 0, paid 0, overrun 0, transfers promo 0.000001, paid 0, overrun 0.0000005",
          ]
        : [
            "the report's hourly sums of charges do not match the wallets: promo 0.000001, wallets 0",
            "the report's hourly sums of charges do not match the wallets: owed 0, wallets 0.0000005",
          ],
    );
    await close();
  });
});

/** Charges of older versions are rows of the table transfer, others are columns of usage records. */
function insertBatch(
  db: Db,
  transfers: readonly Transfer[],
  calls: readonly ChargeSplit[] = [],
): Promise<void> {
  const records = calls.map(({ promo, paid, overrun, at }) => {
    const cost = promo + paid + overrun;
    const owner = { accountId: "acct_a", keyId: "k" };
    return usageRecord({ ...owner, id: newId("req", at), cost, createdAt: at });
  });
  const rows = transfers
    .filter(({ kind }) => kind === "usage")
    .map(({ from, amount, at }) => ({
      promo: from.endsWith(":promo") ? amount : 0n,
      paid: from.endsWith(":paid") ? amount : 0n,
      overrun: from.startsWith("system:") ? amount : 0n,
      at,
    }));
  return db.write(async (tx) => {
    await insertTransfers(tx, transfers);
    await insertUsage(tx, records, { calls, hours: sumByHour([...calls, ...rows]) });
  });
}

function randomCharges(random: RandomInt): readonly ChargeSplit[] {
  const batchAt = START + random(20) * HOUR_MS + random(HOUR_MS);
  const amount = (): bigint => (random(2) === 0 ? 0n : BigInt(1 + random(1_000_000)));
  return Array.from({ length: random(6) }, () => ({
    promo: amount(),
    paid: amount(),
    overrun: amount(),
    at: batchAt + (random(3) === 0 ? random(2 * HOUR_MS) : random(5)),
  }));
}

function usage(accountId: string, bucket: string, { amount, at }: Pick<Transfer, "amount" | "at">) {
  const ref = newId("req", at);
  const from = bucket === "overrun" ? "system:receivable" : `${accountId}:${bucket}`;
  const to = "system:usage_revenue";
  return { id: `${ref}.${bucket}`, accountId, from, to, amount, kind: "usage", ref, at };
}

function randomTransfers(random: RandomInt): readonly Transfer[] {
  const batchAt = START + random(20) * HOUR_MS + random(HOUR_MS);
  return Array.from({ length: 1 + random(6) }, () => {
    const at = batchAt + (random(3) === 0 ? random(2 * HOUR_MS) : random(5));
    const accountId = ["acct_a", "acct_b"][random(2)] ?? "";
    const bucket = ["promo", "paid", "overrun"][random(3)] ?? "";
    const charge = usage(accountId, bucket, { amount: BigInt(1 + random(1_000_000)), at });
    // Other transfers are not counted.
    return random(4) === 0 ? { ...charge, id: newId("tr", at), kind: "purchase" } : charge;
  });
}
