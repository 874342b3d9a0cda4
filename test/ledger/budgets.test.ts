// The rules of budgets one by one, on both stores; histories/ tests their interleavings.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { MAX_NANO } from "../../src/base/money/money.ts";
import { HOUR_MS } from "../../src/base/time.ts";
import type { BudgetLimits } from "../../src/ledger/budget-rules.ts";
import { deposit, type Ledger, startEpoch } from "../../src/ledger/ledger.ts";
import { releaseHolds, sweepHolds } from "../../src/ledger/sweep.ts";
import {
  type BudgetsChangeResult,
  getBudgets,
  setBudgets,
} from "../../src/ledger/wallet-budgets.ts";
import type { Db, Tx } from "../../src/store/db.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { openAccount, startLedger, promoDeposit, usageRecord } from "./fixtures.ts";

/** Noon of the second to last day of a month. */
const NOW = Date.UTC(2026, 10, 29, 12);
const MIDNIGHT = Date.UTC(2026, 10, 30);
const MONTH_END = Date.UTC(2026, 11, 1);
let accounts = 0;

interface CallOptions {
  readonly now?: number;
  readonly key?: string;
}

describeEachStore((kind, open) => {
  describe(`budgets on ${kind}`, () => {
    let store: TestStore;
    let db: Db;
    let ledger: Ledger<UsageRecord>;
    beforeAll(async () => {
      store = await open();
      db = store.db;
      ledger = await process(db, "main");
    });
    afterAll(async () => {
      expect((await verifyLedger(db)).problems).toEqual([]);
      await store.close();
    });

    const process = (on: Db, name: string): Promise<Ledger<UsageRecord>> =>
      startLedger(db, name, NOW, { db: on });
    const account = async (limits: Partial<BudgetLimits> = {}): Promise<string> => {
      accounts += 1;
      const id = `b${accounts}`;
      await db.write(async (tx) => {
        await openAccount(tx, id, [`${id}.k`, `${id}.l`], NOW - 72 * HOUR_MS);
        await deposit(tx, promoDeposit(`${id}.promo`, id, 100_000n, NOW));
      });
      if (Object.keys(limits).length > 0) await set(id, limits);
      return id;
    };
    const set = (
      id: string,
      limits: Partial<BudgetLimits>,
      now = NOW,
    ): Promise<BudgetsChangeResult> => db.write((tx) => setBudgets(tx, id, limits, now));
    const hold = async (
      id: string,
      name: string,
      amount: bigint,
      { now = NOW, key = "k" }: CallOptions = {},
    ): Promise<string> => {
      const outcome = await ledger.hold({
        id: `${id}.${name}`,
        accountId: id,
        keyId: `${id}.${key}`,
        amount,
        now,
        expiresAt: now + 4_000 * HOUR_MS,
      });
      if (outcome.status !== "budget") return outcome.status;
      const { window, remaining, endsAt } = outcome.blocked;
      return `${window} leaves ${remaining} until ${new Date(endsAt).toISOString().slice(0, 10)}`;
    };
    const settle = async (
      id: string,
      name: string,
      cost: bigint,
      { now = NOW, key = "k" }: CallOptions = {},
    ): Promise<readonly bigint[] | string> => {
      const of = { id: `${id}.${name}`, accountId: id, keyId: `${id}.${key}`, cost };
      const outcome = await ledger.settle({
        ...of,
        now,
        record: usageRecord({ ...of, createdAt: now }),
      });
      return outcome.status === "settled" ? [outcome.charged, outcome.overrun] : outcome.status;
    };
    const spend = async (
      id: string,
      name: string,
      cost: bigint,
      more: CallOptions = {},
    ): Promise<void> => {
      expect(await hold(id, name, cost, more)).toBe("held");
      expect(await settle(id, name, cost, more)).toEqual([cost, 0n]);
    };
    const used = async (id: string, now = NOW): Promise<readonly [bigint, bigint]> => {
      const { day, month } = await getBudgets(db, id, now);
      return [day.used, month.used];
    };
    /** The thresholds reported since the last call. */
    const newCrossings = async (id: string): Promise<readonly string[]> => {
      const rows = await db.write((tx) =>
        tx.all(
          "delete from event where account_id = ? and type = 'budget.reached' returning data",
          [id],
        ),
      );
      return rows
        .map((row) => JSON.parse(String(row["data"])))
        .toSorted((a, b) => a.window.localeCompare(b.window) || a.percent - b.percent)
        .map(
          ({ window, percent, used_usd: used, limit_usd: limit }) =>
            `${window} ${percent}% at ${Math.round(used * 1e9)} of ${Math.round(limit * 1e9)}`,
        );
    };

    test("a budget counts holds and settlements to the last nano-USD", async () => {
      const id = await account({ day: 100n });
      expect(await hold(id, "1", 60n)).toBe("held");
      expect(await hold(id, "2", 41n)).toBe("day leaves 40 until 2026-11-30");
      expect(await hold(id, "3", 40n)).toBe("held");
      expect(await hold(id, "4", 1n)).toBe("day leaves 0 until 2026-11-30");
      expect(await settle(id, "1", 10n)).toEqual([10n, 0n]);
      expect(await hold(id, "5", 51n)).toBe("day leaves 50 until 2026-11-30");
      expect(await hold(id, "6", 50n)).toBe("held");
      expect((await getBudgets(db, id, NOW)).day).toMatchObject({
        limit: 100n,
        used: 10n,
        held: 90n,
        remaining: 0n,
      });
      for (const name of ["3", "6"]) await settle(id, name, 0n);
    });

    test("all keys of a workspace share the budget, and a key's own limit is checked first", async () => {
      const id = await account({ day: 100n });
      await spend(id, "1", 70n, { key: "k" });
      expect(await hold(id, "2", 31n, { key: "l" })).toBe("day leaves 30 until 2026-11-30");
      await db.write((tx) =>
        tx.run("update api_key set limit_nano = 10 where id = ?", [`${id}.l`]),
      );
      expect(await hold(id, "3", 31n, { key: "l" })).toBe("key_limit");
      expect(await hold(id, "4", 10n, { key: "l" })).toBe("held");
      await settle(id, "4", 0n, { key: "l" });
    });

    test("a budget resets with its window", async () => {
      const id = await account({ day: 50n, month: 120n });
      await spend(id, "1", 50n, { now: MIDNIGHT - 1 });
      expect(await hold(id, "2", 1n, { now: MIDNIGHT - 1 })).toBe("day leaves 0 until 2026-11-30");
      await spend(id, "3", 50n, { now: MIDNIGHT });
      expect(await used(id, MIDNIGHT)).toEqual([50n, 100n]);
      expect(await hold(id, "4", 1n, { now: MONTH_END - 1 })).toBe("day leaves 0 until 2026-12-01");
      expect(await used(id, MONTH_END)).toEqual([0n, 0n]);
      await spend(id, "5", 50n, { now: MONTH_END });
    });

    test("if both windows block a hold, the later reset is reported", async () => {
      const id = await account({ day: 50n, month: 60n });
      await spend(id, "1", 45n);
      expect(await hold(id, "2", 6n)).toBe("day leaves 5 until 2026-11-30");
      expect(await hold(id, "3", 16n)).toBe("month leaves 15 until 2026-12-01");
    });

    test("a hold with a minimum is lowered to what the budget allows", async () => {
      const id = await account({ day: 100n, month: 80n });
      const about = { accountId: id, keyId: `${id}.k`, now: NOW, expiresAt: NOW + HOUR_MS };
      expect(await ledger.hold({ ...about, id: `${id}.1`, amount: 5_000n, minimum: 10n })).toEqual({
        status: "held",
        amount: 80n,
      });
      await settle(id, "1", 0n);
    });

    test("a free call needs no budget", async () => {
      const id = await account({ day: 0n, month: 0n });
      expect(await hold(id, "1", 0n)).toBe("held");
      expect(await settle(id, "1", 0n)).toEqual([0n, 0n]);
      expect(await hold(id, "2", 1n)).toBe("month leaves 0 until 2026-12-01");
    });

    test("a call that costs more than its hold and the budget is charged, and blocks the next", async () => {
      const id = await account({ day: 100n });
      await hold(id, "1", 60n);
      await hold(id, "2", 30n);
      expect(await settle(id, "1", 999n)).toEqual([999n, 0n]);
      expect(await used(id)).toEqual([999n, 999n]);
      expect(await hold(id, "3", 1n)).toBe("day leaves 0 until 2026-11-30");
      expect(await settle(id, "2", 40n)).toEqual([40n, 0n]);
      expect(await used(id)).toEqual([1_039n, 1_039n]);
    });

    test("a late settlement of a swept hold counts, and is refused over the budget if its reply was not sent", async () => {
      const id = await account({ day: 100n });
      const dead = await process(db, "dead");
      const about = { id: `${id}.h`, accountId: id, keyId: `${id}.k`, now: NOW };
      await dead.hold({ ...about, amount: 80n, expiresAt: NOW + HOUR_MS });
      await startEpoch(db, "dead", NOW);
      await sweepHolds(db, NOW);
      await spend(id, "1", 90n);
      const late = { status: "settled", late: true } as const;
      const refused = await dead.settle({ ...about, cost: 80n, refuseUncovered: true });
      expect(refused).toEqual({ ...late, charged: 0n, overrun: 80n });
      expect(await used(id)).toEqual([90n, 90n]);
      const sent = { ...about, id: `${id}.i` };
      await dead.hold({ ...sent, amount: 5n, expiresAt: NOW + HOUR_MS });
      await db.write(async (tx) =>
        releaseHolds(tx, NOW, await tx.all("select id, account_id, key_id from hold")),
      );
      const record = usageRecord({ ...sent, cost: 80n, createdAt: NOW });
      const charged = await dead.settle({ ...sent, cost: 80n, record });
      expect(charged).toEqual({ ...late, charged: 80n, overrun: 0n });
      expect(await used(id)).toEqual([170n, 170n]);
    });

    test("a budget set in the middle of its window counts the spend of every key since the window started", async () => {
      const id = await account();
      await spend(id, "1", 7n, { now: NOW - 48 * HOUR_MS });
      await spend(id, "2", 20n, { now: NOW - HOUR_MS, key: "k" });
      await spend(id, "3", 30n, { key: "l" });
      await db.write((tx) =>
        tx.run("update api_key set revoked_at = ? where id = ?", [NOW, `${id}.l`]),
      );
      expect(await used(id)).toEqual([50n, 57n]);
      const { before, after } = await set(id, { day: 60n });
      expect(before).toEqual({ day: null, month: null });
      expect([
        after.day.used,
        after.day.remaining,
        after.month.used,
        after.month.remaining,
      ]).toEqual([50n, 10n, 57n, null]);
      expect(await hold(id, "4", 11n)).toBe("day leaves 10 until 2026-11-30");
      await set(id, { month: 60n });
      expect(await hold(id, "5", 4n)).toBe("month leaves 3 until 2026-12-01");
    });

    test("budgets can be removed one by one, and count all spend when they are set again", async () => {
      const id = await account({ day: 10n, month: 30n });
      await spend(id, "1", 10n);
      await set(id, { day: null });
      await spend(id, "2", 20n);
      expect(await hold(id, "3", 1n)).toBe("month leaves 0 until 2026-12-01");
      await set(id, { month: null });
      await spend(id, "4", 500n);
      const { after } = await set(id, { day: 600n, month: 530n });
      expect([
        after.day.used,
        after.day.remaining,
        after.month.used,
        after.month.remaining,
      ]).toEqual([530n, 70n, 530n, 0n]);
    });

    test("a clock that steps back neither starts nor ends a window", async () => {
      const id = await account({ day: 100n });
      await spend(id, "1", 60n, { now: MIDNIGHT });
      expect(await hold(id, "2", 41n, { now: MIDNIGHT - HOUR_MS, key: "l" })).toBe(
        "day leaves 40 until 2026-12-01",
      );
      await spend(id, "3", 40n, { now: MIDNIGHT - HOUR_MS, key: "l" });
      expect(await hold(id, "4", 1n, { now: MIDNIGHT })).toBe("day leaves 0 until 2026-12-01");
      expect(await used(id, MIDNIGHT)).toEqual([100n, 100n]);
    });

    test("50%, 80% and 100% of each budget are reported once per window", async () => {
      const id = await account({ day: 100n, month: 400n });
      await spend(id, "1", 49n);
      expect(await newCrossings(id)).toEqual([]);
      await spend(id, "2", 1n);
      expect(await newCrossings(id)).toEqual(["day 50% at 50 of 100"]);
      await spend(id, "3", 29n);
      await spend(id, "4", 1n, { key: "l" });
      await spend(id, "5", 20n);
      expect(await newCrossings(id)).toEqual(["day 80% at 80 of 100", "day 100% at 100 of 100"]);
      await spend(id, "6", 100n, { now: MIDNIGHT });
      expect(await newCrossings(id)).toEqual([
        "day 50% at 100 of 100",
        "day 80% at 100 of 100",
        "day 100% at 100 of 100",
        "month 50% at 200 of 400",
      ]);
    });

    test("a crossing names its window and when it ends", async () => {
      const id = await account({ month: 10n });
      await spend(id, "1", 5n);
      const [event] = await db.all(
        "select created_at, data from event where account_id = ? and type = 'budget.reached'",
        [id],
      );
      expect(Number(event?.["created_at"])).toBe(NOW);
      expect(JSON.parse(String(event?.["data"]))).toEqual({
        window: "month",
        percent: 50,
        used_usd: 5e-9,
        limit_usd: 1e-8,
        resets_at: new Date(MONTH_END).toISOString(),
      });
    });

    test("a raised budget reports thresholds again; a lowered one reports those already reached", async () => {
      const id = await account({ day: 100n });
      await spend(id, "1", 60n);
      expect(await newCrossings(id)).toEqual(["day 50% at 60 of 100"]);
      await set(id, { day: 200n });
      expect(await newCrossings(id)).toEqual([]);
      await spend(id, "2", 40n);
      expect(await newCrossings(id)).toEqual(["day 50% at 100 of 200"]);
      await set(id, { day: 110n });
      expect(await newCrossings(id)).toEqual(["day 80% at 100 of 110"]);
      for (const day of [110n, 0n]) await set(id, { day });
      expect(await newCrossings(id)).toEqual([]);
      await set(id, { day: 1n });
      expect(await newCrossings(id)).toEqual(
        [50, 80, 100].map((percent) => `day ${percent}% at 100 of 1`),
      );
    });

    test("rejects invalid limits", async () => {
      const id = await account();
      for (const day of [-1n, MAX_NANO + 1n])
        expect(await rejectionMessage(set(id, { day }))).toMatch("invalid budget limit");
      expect((await set(id, { day: MAX_NANO, month: 0n })).after.day.limit).toBe(MAX_NANO);
    });

    test("a budget set during charges counts each of them once", async () => {
      for (let round = 0; round < 5; round++) {
        const id = await account();
        const names = Array.from({ length: 64 }, (_, index) => `r${index}`);
        const key = (name: string): string => (Number(name.slice(1)) % 2 === 0 ? "k" : "l");
        await Promise.all(names.map((name) => hold(id, name, 3n, { key: key(name) })));
        const settles = Promise.all(names.map((name) => settle(id, name, 3n, { key: key(name) })));
        await Promise.all([set(id, { day: 1_000n }), settles, set(id, { month: 1_000n })]);
        expect(await used(id)).toEqual([192n, 192n]);
      }
    });

    test("a batch needs no extra statement for a budget, and one if it also has accounts without", async () => {
      const counted: Db = { ...db, write: (work) => db.write((tx) => work(counting(tx))) };
      let [statements, calls] = [0, 0];
      const count = <T>(result: T): T => {
        statements += 1;
        return result;
      };
      const counting = (tx: Tx): Tx => ({
        ...tx,
        all: (...args) => count(tx.all(...args)),
        get: (...args) => count(tx.get(...args)),
        run: (...args) => count(tx.run(...args)),
        insertMany: (...args) => count(tx.insertMany(...args)),
        updateMany: (...args) => count(tx.updateMany(...args)),
        deleteMany: (...args) => count(tx.deleteMany(...args)),
        lockMany: (...args) => count(tx.lockMany(...args)),
        readMany: (...args) => count(tx.readMany(...args)),
      });
      const counter = await process(counted, "counter");
      const costOf = async (...ids: readonly string[]): Promise<number> => {
        const all = ids.map((id) => ({
          id: `${id}.c${(calls += 1)}`,
          accountId: id,
          keyId: `${id}.k`,
          now: NOW,
        }));
        statements = 0;
        await Promise.all(
          all.map((of) => counter.hold({ ...of, amount: 9n, expiresAt: NOW + HOUR_MS })),
        );
        await Promise.all(
          all.map((of) => {
            const record = usageRecord({ ...of, cost: 5n, createdAt: NOW });
            return counter.settle({ ...of, cost: 5n, record });
          }),
        );
        return statements;
      };
      const [unbudgeted, former, budgeted] = [
        await account(),
        await account({ day: 1_000n }),
        await account({ day: 1_000n, month: 9_000n }),
      ];
      await set(former, { day: null });
      // The first charge of each takes the balance below the threshold of `balance.empty`.
      for (const id of [unbudgeted, former, budgeted]) await costOf(id);
      const baseline = await costOf(unbudgeted);
      expect(await costOf(former, unbudgeted)).toBe(baseline);
      expect(await costOf(budgeted)).toBe(baseline);
      // One in the batch of holds, and one in that of settles.
      expect(await costOf(budgeted, unbudgeted)).toBe(baseline + 2);
    });
  });
});
