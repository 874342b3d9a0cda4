// A call that costs more than the account's credits leaves a debt: it blocks further calls, and new credits pay it first.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { bufferHolds } from "../../src/ledger/commit/hold-buffer.ts";
import type { HoldOutcome, SettleOutcome } from "../../src/ledger/decide.ts";
import { findFreeze } from "../../src/ledger/freezes.ts";
import { deposit, getWallet, type Ledger } from "../../src/ledger/ledger.ts";
import { adjust } from "../../src/ledger/payments/adjustments.ts";
import { collectDebt, listDebtors } from "../../src/ledger/payments/payments.ts";
import type { Db } from "../../src/store/db.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { verifyFromCheckpoint, verifyLedger } from "../../src/verification/verify.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { openAccount, promoDeposit, startLedger, usageRecord } from "./fixtures.ts";

const NOW = Date.UTC(2026, 10, 21, 12);

describeEachStore((kind, open) => {
  describe(`debts on ${kind}`, () => {
    let store: TestStore;
    let db: Db;
    let ledger: Ledger<UsageRecord>;
    let accounts = 0;
    beforeAll(async () => {
      store = await open();
      const buffered = kind === "sqlite" ? bufferHolds(store.db) : undefined;
      db = buffered ?? store.db;
      ledger = await startLedger(db, "p", NOW, { holdBuffer: buffered });
    });
    afterAll(async () => {
      expect((await verifyLedger(db)).problems).toEqual([]);
      await store.close();
    });

    const openWith = async (promo: bigint): Promise<string> => {
      const id = `a${(accounts += 1)}`;
      await db.write(async (tx) => {
        await openAccount(tx, id, [`${id}.k`], NOW);
        await deposit(tx, promoDeposit(`${id}.promo`, id, promo, NOW));
      });
      return id;
    };
    const hold = (id: string, name: string, amount: bigint): Promise<HoldOutcome> =>
      ledger.hold({
        id: `req_${id}.${name}`,
        accountId: id,
        keyId: `${id}.k`,
        amount,
        now: NOW,
        expiresAt: NOW + 60_000,
      });
    const settle = (id: string, name: string, cost: bigint): Promise<SettleOutcome> => {
      const call = { id: `req_${id}.${name}`, accountId: id, keyId: `${id}.k`, cost };
      const record = usageRecord({ ...call, createdAt: NOW });
      return ledger.settle({ ...call, now: NOW, record });
    };
    const collect = (id: string): Promise<unknown> =>
      db.write((tx) =>
        collectDebt(tx, { id: `debt.${id}.${(accounts += 1)}`, accountId: id, now: NOW }),
      );

    test("the cost beyond the credits is owed, counts as spend of the key, and blocks calls that cost", async () => {
      const id = await openWith(100n);
      await hold(id, "1", 60n);
      expect(await settle(id, "1", 350n)).toMatchObject({ charged: 100n, overrun: 250n });
      expect(await getWallet(db, id)).toEqual({ promo: 0n, paid: 0n, held: 0n, owed: 250n });
      expect(await findFreeze(db, id)).toEqual({ by: "debt", owed: 250n });
      const row = await db.get("select total_spent from spender where key_id = ?", [`${id}.k`]);
      expect(Number(row?.["total_spent"])).toBe(350);
      expect(await hold(id, "2", 1n)).toEqual({ status: "frozen", owed: 250n });
      expect(await hold(id, "3", 0n)).toEqual({ status: "held", amount: 0n });
      await settle(id, "3", 0n);
    });

    test("debts of several calls add up, and a settlement of the same batch already blocks the next hold", async () => {
      const id = await openWith(100n);
      await Promise.all([hold(id, "1", 30n), hold(id, "2", 30n)]);
      const [, blocked] = await Promise.all([settle(id, "1", 90n), hold(id, "3", 1n)]);
      expect(blocked).toEqual({ status: "frozen", owed: 20n });
      expect(await settle(id, "2", 50n)).toMatchObject({ charged: 30n, overrun: 20n });
      expect(await getWallet(db, id)).toEqual({ promo: 0n, paid: 0n, held: 0n, owed: 40n });
    });

    test("a credit pays the debt first, and the account can make calls again", async () => {
      const id = await openWith(10n);
      await hold(id, "1", 10n);
      await settle(id, "1", 300n);
      const credit = { id: `${id}.add`, accountId: id, amount: 1_000n, reason: "test", now: NOW };
      await db.write((tx) => adjust(tx, credit));
      expect(await getWallet(db, id)).toEqual({ promo: 0n, paid: 710n, held: 0n });
      expect(await findFreeze(db, id)).toBeUndefined();
      expect(await hold(id, "2", 710n)).toMatchObject({ status: "held", amount: 710n });
      await settle(id, "2", 0n);
    });

    test("credit that other calls held pays the debt when they end: promotional first", async () => {
      const id = await openWith(100n);
      const reason = "test";
      await db.write((tx) =>
        adjust(tx, { id: `${id}.paid`, accountId: id, amount: 50n, reason, now: NOW }),
      );
      await hold(id, "1", 20n);
      await hold(id, "2", 130n);
      expect(await settle(id, "1", 100n)).toMatchObject({ charged: 20n, overrun: 80n });
      expect(await listDebtors(db, 100)).not.toContain(id);
      await settle(id, "2", 10n);
      expect(await listDebtors(db, 100)).toContain(id);
      await collect(id);
      expect(await getWallet(db, id)).toEqual({ promo: 0n, paid: 40n, held: 0n });
    });

    test("a grant pays the debt, which stays for what it does not cover", async () => {
      const id = await openWith(10n);
      await hold(id, "1", 10n);
      await settle(id, "1", 100n);
      await db.write((tx) => deposit(tx, promoDeposit(`${id}.more`, id, 30n, NOW)));
      expect(await getWallet(db, id)).toEqual({ promo: 0n, paid: 0n, held: 0n, owed: 60n });
      expect(await hold(id, "2", 1n)).toEqual({ status: "frozen", owed: 60n });
    });

    test("verification from a checkpoint knows the debts of earlier calls", async () => {
      const id = await openWith(10n);
      await hold(id, "1", 10n);
      await settle(id, "1", 100n);
      const later = NOW + 24 * 3_600_000;
      expect((await verifyFromCheckpoint(db, { now: later })).problems).toEqual([]);
      expect((await verifyFromCheckpoint(db, { now: later + 1 })).problems).toEqual([]);
      const tamper = (change: number): Promise<number> =>
        db.write((tx) =>
          tx.run("update wallet set owed = owed + ? where account_id = ?", [change, id]),
        );
      await tamper(1);
      expect((await verifyFromCheckpoint(db, { now: later + 2 })).problems.join()).toContain(
        "an account's debt does not match its transfers",
      );
      await tamper(-1);
    });
  });
});
