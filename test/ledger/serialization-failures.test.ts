// Serialization failures (SQLSTATE 40001), which a distributed PostgreSQL reports often: at any statement and at the commit.
// Triggers in a real PostgreSQL raise them for a share of the transactions.

import { afterEach, describe, expect, test } from "bun:test";
import { Fault } from "../../src/base/fault.ts";
import { deposit, getWallet, type Ledger } from "../../src/ledger/ledger.ts";
import { type Db, isLocked, isUnavailable } from "../../src/store/db.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { eventually } from "../support/eventually.ts";
import { openStore, type TestStore } from "../support/stores/stores.ts";
import { openAccount, promoDeposit, startLedger, usageRecord } from "./fixtures.ts";

const ACCOUNTS = ["s1", "s2", "s3"];
/** The rows that every call changes. */
const TABLES = ["wallet", "spender", "hold", "usage_record"];
const CALLS = 120;
const START = 1_000_000n;
const COST = 7n;
const now = Date.now();
let store: TestStore;

afterEach(() => store.close());

describe("serialization failures", () => {
  for (const [position, percent, tables] of [
    ["statement", 10, TABLES],
    ["statement", 30, ["wallet"]],
    // A commit has as many chances to fail as the transaction has rows.
    ["commit", 2, TABLES],
    ["commit", 30, ["wallet"]],
    ["commit", 70, ["wallet"]],
  ] as const)
    test(`charges every call once if ${percent}% of the writes to ${tables.join(", ")} fail at a ${position}`, async () => {
      store = await openStore("postgres");
      const ledger = await open(store.db);
      await injectFailures(store.db, tables, { position, percent });
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

  test("that persist on the rows of one account fail only the calls of that account", async () => {
    store = await openStore("postgres");
    const ledger = await open(store.db);
    const callsOf = (name: string): readonly CallFields[] =>
      ACCOUNTS.flatMap((accountId) =>
        Array.from({ length: 5 }, (_, call) => ({
          id: `${accountId}.${name}.${call}`,
          accountId,
          keyId: `${accountId}.k`,
        })),
      );
    const hold = (fields: CallFields): Promise<string> =>
      ledger.hold({ ...fields, amount: 10n, now, expiresAt: now + 900_000 }).then(
        ({ status }) => status,
        (error: unknown) => (error instanceof Fault ? error.code : String(error)),
      );
    const first = callsOf("first");
    expect(await Promise.all(first.map(hold))).toEqual(first.map(() => "held"));
    await injectFailures(store.db, ["wallet"], {
      position: "statement",
      percent: 100,
      accountId: "s2",
    });
    const settled: string[] = [];
    const settlements = first.map(async (fields) => {
      const record = usageRecord({ ...fields, cost: COST, createdAt: now });
      const { status } = await ledger.settle({ ...fields, cost: COST, now, record });
      if (status === "settled") settled.push(fields.accountId);
    });
    const second = callsOf("second");
    expect(await Promise.all(second.map(hold))).toEqual(
      second.map(({ accountId }) => (accountId === "s2" ? "overloaded" : "held")),
    );
    await eventually(() => Promise.resolve(settled.length >= 10));
    expect(settled).not.toContain("s2");
    expect(await stopFailures(store.db)).toBeGreaterThan(0);
    await Promise.all(settlements);
    expect(settled).toHaveLength(first.length);
    expect((await verifyLedger(store.db)).problems).toEqual([]);
    for (const accountId of ACCOUNTS) {
      const { promo, held } = await getWallet(store.db, accountId);
      expect([promo, held]).toEqual([START - 5n * COST, accountId === "s2" ? 0n : 50n]);
    }
  });

  test("counts rows that stay contended as locked, so that a settlement waits for them", async () => {
    store = await openStore("postgres");
    await open(store.db);
    await injectFailures(store.db, ["wallet"], { position: "statement", percent: 100 });
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

interface CallFields {
  readonly id: string;
  readonly accountId: string;
  readonly keyId: string;
}

interface Injection {
  readonly position: "statement" | "commit";
  readonly percent: number;
  /** Only changes of its rows fail. */
  readonly accountId?: string;
}

async function injectFailures(
  db: Db,
  tables: readonly string[],
  { position, percent, accountId }: Injection,
): Promise<void> {
  const [kind, timing] =
    position === "statement"
      ? ["trigger", accountId === undefined ? "for each statement" : "for each row"]
      : ["constraint trigger", "deferrable initially deferred for each row"];
  const condition = accountId === undefined ? "" : `when (new.account_id = '${accountId}')`;
  await db.write(async (tx) => {
    await tx.run("create sequence attempt");
    await tx.run("create sequence failure");
    // A sequence is not rolled back, so a failed transaction counts too, and the same transactions fail in each run.
    await tx.run(`create function fail_sometimes() returns trigger language plpgsql as $$
      begin
        if (nextval('attempt') * 37) % 100 < ${percent} then
          perform nextval('failure');
          raise exception 'injected' using errcode = '40001';
        end if;
        return null;
      end $$`);
    for (const table of tables)
      await tx.run(
        `create ${kind} injected after insert or update on ${table} ${timing} ${condition} execute function fail_sometimes()`,
      );
  });
}

async function stopFailures(db: Db): Promise<number> {
  await db.write((tx) => tx.run("drop function fail_sometimes cascade"));
  return Number((await db.get("select last_value from failure"))?.["last_value"]);
}
