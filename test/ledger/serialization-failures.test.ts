// Serialization failures (SQLSTATE 40001), which a distributed PostgreSQL reports often: at any statement and at the commit.
// Triggers in a real PostgreSQL raise them for a share of the transactions.

import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { deposit, getWallet, type Ledger } from "../../src/ledger/ledger.ts";
import { verifyLedger } from "../../src/ledger/verify/verify.ts";
import { type Db, isLocked, isUnavailable } from "../../src/store/db.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { openStore, type TestStore } from "../support/stores/stores.ts";
import { openAccount, promoDeposit, startLedger, usageRecord } from "./fixtures.ts";

setDefaultTimeout(120_000);

const ACCOUNTS = ["s1", "s2", "s3"];
const CALLS = 120;
const START = 1_000_000n;
const COST = 7n;
const now = Date.now();
let store: TestStore;

afterEach(() => store.close());

describe("serialization failures", () => {
  for (const [position, percent] of [
    ["statement", 30],
    ["commit", 30],
    ["commit", 70],
  ] as const)
    test(`charges every call once if ${percent}% of the transactions fail at a ${position}`, async () => {
      store = await openStore("postgres");
      const ledger = await open(store.db);
      await injectFailures(store.db, position, percent);
      const settled = await Promise.all(
        Array.from({ length: CALLS }, (_, call) => makeCall(ledger, call)),
      );
      const failures = await stopFailures(store.db);
      expect(failures).toBeGreaterThan(0);
      await ledger.idle();
      expect((await verifyLedger(store.db)).problems).toEqual([]);
      for (const accountId of ACCOUNTS) {
        const calls = settled.filter((account) => account === accountId).length;
        const { promo, held } = await getWallet(store.db, accountId);
        expect([promo, held]).toEqual([START - COST * BigInt(calls), 0n]);
      }
    });

  test("counts rows that stay contended as locked, so that a settlement waits for them", async () => {
    store = await openStore("postgres");
    await open(store.db);
    await injectFailures(store.db, "statement", 100);
    const failure = store.db.write((tx) => tx.run("update wallet set promo = promo"));
    const error: unknown = await failure.catch((cause: unknown) => cause);
    expect([isLocked(error), isUnavailable(error)]).toEqual([true, true]);
    expect(await stopFailures(store.db)).toBeGreaterThan(3);
  });
});

async function open(db: Db): Promise<Ledger<UsageRecord>> {
  await db.write(async (tx) => {
    for (const id of ACCOUNTS) {
      await openAccount(tx, id, [`${id}.k`], now);
      await deposit(tx, promoDeposit(`${id}.start`, id, START, now));
    }
  });
  return await startLedger(db, "injected", now);
}

/** Returns the account of a call that was served: its hold succeeded. A settlement must never fail. */
async function makeCall(ledger: Ledger<UsageRecord>, call: number): Promise<string | undefined> {
  const accountId = ACCOUNTS[call % ACCOUNTS.length] ?? "";
  const fields = { id: `req_${call}`, accountId, keyId: `${accountId}.k` };
  const hold = { ...fields, amount: 10n, now, expiresAt: now + 900_000 };
  const held = await ledger.hold(hold).catch((error: unknown) => {
    expect(error).toMatchObject({ code: "overloaded" });
  });
  if (held === undefined) return undefined;
  const record = usageRecord({ ...fields, cost: COST, createdAt: now });
  expect(await ledger.settle({ ...fields, cost: COST, now, record })).toMatchObject({
    status: "settled",
  });
  return accountId;
}

// A sequence is not rolled back, so a failed transaction counts too, and the same transactions fail in each run.
async function injectFailures(
  db: Db,
  position: "statement" | "commit",
  percent: number,
): Promise<void> {
  const statements = [
    "create sequence attempt",
    "create sequence failure",
    `create function fail_sometimes() returns trigger language plpgsql as $$
     begin
       if (nextval('attempt') * 37) % 100 < ${percent} then
         perform nextval('failure');
         raise exception 'injected' using errcode = '40001';
       end if;
       return null;
     end $$`,
    position === "statement"
      ? "create trigger injected after update on wallet for each statement execute function fail_sometimes()"
      : "create constraint trigger injected after update on wallet deferrable initially deferred for each row execute function fail_sometimes()",
  ];
  await db.write(async (tx) => {
    for (const statement of statements) await tx.run(statement);
  });
}

async function stopFailures(db: Db): Promise<number> {
  await db.write((tx) => tx.run("drop trigger injected on wallet"));
  return Number((await db.get("select last_value from failure"))?.["last_value"]);
}
