// Verification from a checkpoint: it finds what a verification of everything finds, except in calls that it no longer reads.

import { beforeEach, expect, test, afterEach } from "bun:test";
import { newId } from "../../src/base/id.ts";
import { DAY_MS, HOUR_MS } from "../../src/base/time.ts";
import { keepCallTransfers } from "../../src/ledger/call-charges.ts";
import { deposit, type Ledger } from "../../src/ledger/ledger.ts";
import { type Db, integer } from "../../src/store/db.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { verifyFromCheckpoint, verifyLedger } from "../../src/verification/verify.ts";
import { describeEachStore, openStore, type TestStore } from "../support/stores/stores.ts";
import { openAccount, promoDeposit, startLedger, usageRecord } from "./fixtures.ts";

const NOW = Date.UTC(2026, 10, 20, 12);

describeEachStore((kind) => {
  let store: TestStore;
  let ledger: Ledger<UsageRecord>;
  beforeEach(async () => {
    store = await openStore(kind);
    ledger = await startLedger(store.db, "p", NOW);
    await store.db.write(async (tx) => {
      for (const account of ["a", "b", "c"]) {
        await openAccount(tx, account, [`${account}1`, `${account}2`], NOW);
        await deposit(tx, promoDeposit(`start.${account}`, account, 1_000n, NOW));
        const paid = { ...promoDeposit(`buy.${account}`, account, 500n, NOW), bucket: "paid" };
        await deposit(tx, { ...paid, bucket: "paid", from: "system:adjustment", kind: "adjust" });
      }
    });
  });
  afterEach(() => store.close());

  const call = async (
    accountId: string,
    keyId: string,
    at: number,
    cost = 90n,
  ): Promise<string> => {
    const id = newId("req", at);
    const held = await ledger.hold({
      id,
      accountId,
      keyId,
      amount: 100n,
      now: at,
      expiresAt: at + 1,
    });
    expect(held.status).toBe("held");
    const record = usageRecord({ id, accountId, keyId, cost, createdAt: at });
    await ledger.settle({ id, accountId, keyId, cost, now: at, record });
    return id;
  };
  const problemsAt = async (now: number, isFull = false): Promise<readonly string[]> =>
    (await verifyFromCheckpoint(store.db, { now, isFull })).problems;
  const tamper = (sql: string): Promise<number> => store.db.write((tx) => tx.run(sql));
  const checkpoints = (): Promise<readonly unknown[]> =>
    store.db.all(
      `select account_id, key_id, cast(promo_nano as text) as promo, cast(paid_nano as text) as paid,
         cast(overrun_nano as text) as overrun from ledger_checkpoint where account_id > '' order by 1, 2`,
    );

  const allRows = (): Promise<readonly unknown[]> =>
    store.db.all("select account_id, key_id, through_id from ledger_checkpoint order by 1, 2, 3");

  test("writes the sums of many keys in a few statements", async () => {
    const calls = await Promise.all(
      ["a", "b", "c"].flatMap((account) =>
        [1, 2].map((key) => call(account, `${account}${key}`, NOW)),
      ),
    );
    let statements = 0;
    const counted: Db = {
      ...store.db,
      write: (work, durability) =>
        store.db.write(
          (tx) =>
            work({
              ...tx,
              run: (sql, params) => {
                statements += 1;
                return tx.run(sql, params);
              },
            }),
          durability,
        ),
    };
    const { problems } = await verifyFromCheckpoint(counted, { now: NOW + DAY_MS });
    expect(problems).toEqual([]);
    expect(await checkpoints()).toHaveLength(calls.length);
    // The position, and the deletion of rows that are replaced.
    expect(statements).toBe(2);
  });

  test("sums verified calls once, whatever the number of runs", async () => {
    for (let index = 0; index < 12; index++) await call("a", index < 4 ? "a1" : "a2", NOW + index);
    await call("b", "b1", NOW, 120n);
    expect(await problemsAt(NOW)).toEqual([]);
    expect(await checkpoints()).toEqual([]);
    expect(await problemsAt(NOW + DAY_MS)).toEqual([]);
    const first = [
      { account_id: "a", key_id: "a1", promo: "360", paid: "0", overrun: "0" },
      { account_id: "a", key_id: "a2", promo: "640", paid: "80", overrun: "0" },
      { account_id: "b", key_id: "b1", promo: "120", paid: "0", overrun: "0" },
    ];
    expect(await checkpoints()).toEqual(first);
    expect(await problemsAt(NOW + DAY_MS)).toEqual([]);
    // A clock that stepped back takes no position back.
    expect(await problemsAt(NOW)).toEqual([]);
    expect(await problemsAt(NOW, true)).toEqual([]);
    expect(await checkpoints()).toEqual(first);
    await call("a", "a2", NOW + DAY_MS);
    expect(await problemsAt(NOW + 2 * DAY_MS)).toEqual([]);
    const [, a2] = await checkpoints();
    expect(a2).toEqual({ account_id: "a", key_id: "a2", promo: "640", paid: "170", overrun: "0" });
    expect(await problemsAt(NOW + 3 * DAY_MS, true)).toEqual([]);
    expect((await verifyLedger(store.db)).problems).toEqual([]);
  });

  test("finds differences in balances, spend and later calls, and writes no checkpoint then", async () => {
    await call("a", "a1", NOW);
    expect(await problemsAt(NOW + DAY_MS)).toEqual([]);
    const id = await call("a", "a1", NOW + DAY_MS);
    const written = await allRows();
    for (const [sql, undo, problem] of [
      [
        "update wallet set promo = promo - 1 where account_id = 'a'",
        "update wallet set promo = promo + 1 where account_id = 'a'",
        /balance does not match/,
      ],
      [
        "update spender set total_spent = total_spent + 1 where key_id = 'a1'",
        "update spender set total_spent = total_spent - 1 where key_id = 'a1'",
        /spend does not match its charged usage/,
      ],
      [
        "update wallet set held = 1 where account_id = 'c'",
        "update wallet set held = 0 where account_id = 'c'",
        /held amount does not match/,
      ],
      [
        `update usage_record set cost_nano = 91 where id = '${id}'`,
        `update usage_record set cost_nano = 90 where id = '${id}'`,
        /cost does not match its transfers/,
      ],
      [
        `update usage_record set promo_nano = 91 where id = '${id}'`,
        `update usage_record set promo_nano = 90 where id = '${id}'`,
        /balance does not match/,
      ],
    ] as const) {
      await tamper(sql);
      expect((await problemsAt(NOW + 3 * DAY_MS)).join("\n")).toMatch(problem);
      expect(await allRows()).toEqual(written);
      await tamper(undo);
    }
    expect(await problemsAt(NOW + 3 * DAY_MS)).toEqual([]);
    expect(await allRows()).not.toEqual(written);
  });

  test("leaves a changed old call to --full", async () => {
    const id = await call("a", "a1", NOW);
    await problemsAt(NOW + DAY_MS);
    await tamper(`update usage_record set promo_nano = 91 where id = '${id}'`);
    expect(await problemsAt(NOW + 2 * DAY_MS)).toEqual([]);
    expect((await problemsAt(NOW + 2 * DAY_MS, true)).join("\n")).toMatch(/balance does not match/);
  });

  test("reads an account in full if a call was settled late or archived", async () => {
    const old = await call("a", "a1", NOW - 1);
    await call("a", "a2", NOW);
    await problemsAt(NOW + DAY_MS);
    await call("a", "a1", NOW + 1);
    expect(await problemsAt(NOW + DAY_MS)).toEqual([]);
    const [a1] = await checkpoints();
    expect(a1).toMatchObject({ key_id: "a1", promo: "180" });
    await store.db.write(async (tx) => {
      await keepCallTransfers(tx, await tx.all("select * from usage_record where id = ?", [old]));
      await tx.run("delete from usage_record where id = ?", [old]);
      await tx.run("insert into usage_archive values ('a', 'a1', 1, 90, 90, ?, ?)", [NOW, old]);
    });
    for (let run = 0; run < 2; run++) {
      expect(await problemsAt(NOW + 2 * DAY_MS + run * HOUR_MS)).toEqual([]);
      expect(await checkpoints()).toEqual([
        { account_id: "a", key_id: "", promo: "90", paid: "0", overrun: "0" },
        { account_id: "a", key_id: "a1", promo: "90", paid: "0", overrun: "0" },
        { account_id: "a", key_id: "a2", promo: "90", paid: "0", overrun: "0" },
      ]);
    }
    await tamper("update usage_archive set charged_nano = 80");
    expect((await problemsAt(NOW + 4 * DAY_MS)).join("\n")).toMatch(/spend does not match/);
  });

  test("reads no calls before the checkpoint, and ignores one that was not finished", async () => {
    for (let index = 0; index < 5; index++) await call("a", "a1", NOW + index);
    await problemsAt(NOW + DAY_MS);
    // A run that crashed before it wrote its position.
    await tamper("insert into ledger_checkpoint values ('a', 'a1', 'req_5', 1, 0, 0)");
    await call("a", "a1", NOW + DAY_MS);
    const { checked } = await verifyFromCheckpoint(store.db, { now: NOW + 2 * DAY_MS });
    expect(checked).toMatchObject({ wallets: 3, usageRecords: 1 });
    const rows = await store.db.get("select count(*) as count from ledger_checkpoint");
    expect(rows && integer(rows, "count")).toBe(2);
    expect(await problemsAt(NOW + 3 * DAY_MS, true)).toEqual([]);
  });
});
