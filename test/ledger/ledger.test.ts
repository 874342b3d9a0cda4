// The rules of the ledger one by one, on both stores; histories/ tests their interleavings.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { MAX_NANO } from "../../src/base/money/money.ts";
import { MINUTE_MS } from "../../src/base/time.ts";
import { getKey } from "../../src/keys/keys.ts";
import type { HoldRequest, SettleRequest } from "../../src/ledger/decide.ts";
import { deposit, getWallet, heartbeat, type Ledger, startEpoch } from "../../src/ledger/ledger.ts";
import { releaseHolds, sweepHolds } from "../../src/ledger/sweep.ts";
import { getBudgets, setBudgets } from "../../src/ledger/wallet-budgets.ts";
import { type Db, UNAVAILABLE } from "../../src/store/db.ts";
import { sumUsage } from "../../src/usage/usage-stats.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { openAccount, startLedger, promoDeposit, usageRecord } from "./fixtures.ts";

const NOW = Date.UTC(2026, 10, 21, 12);
let accounts = 0;

describeEachStore(
  (kind, open) => {
    describe(`the ledger on ${kind}`, () => {
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
      const account = async (promo: bigint, paid = 0n): Promise<string> => {
        accounts += 1;
        const id = `a${accounts}`;
        await db.write(async (tx) => {
          await openAccount(tx, id, [`${id}.k`, `${id}.l`], NOW);
          if (promo > 0n) await deposit(tx, promoDeposit(`${id}.promo`, id, promo, NOW));
          if (paid > 0n)
            await deposit(tx, {
              ...promoDeposit(`${id}.paid`, id, paid, NOW),
              bucket: "paid",
              from: "system:clearing",
            });
        });
        return id;
      };
      const hold = (
        id: string,
        name: string,
        amount: bigint,
        more: Partial<HoldRequest> = {},
      ): HoldRequest => ({
        id: `${id}.${name}`,
        accountId: id,
        keyId: `${id}.k`,
        amount,
        now: NOW,
        expiresAt: NOW + MINUTE_MS,
        ...more,
      });
      const settle = (
        id: string,
        name: string,
        cost: bigint,
        more: Partial<SettleRequest<UsageRecord>> = {},
      ): SettleRequest<UsageRecord> => ({
        id: `${id}.${name}`,
        accountId: id,
        keyId: `${id}.k`,
        cost,
        now: NOW,
        record: usageRecord({
          id: `${id}.${name}`,
          accountId: id,
          keyId: `${id}.k`,
          cost,
          createdAt: NOW,
        }),
        ...more,
      });

      test.each([
        ["disk", ["os_cache", "disk", "disk"]],
        ["os_cache", ["os_cache", "os_cache", "os_cache"]],
      ] as const)("a commit policy of %s", async (commit, expected) => {
        const durabilities: (string | undefined)[] = [];
        const on: Db = {
          ...db,
          write: (work, durability) => {
            durabilities.push(durability);
            return db.write(work, durability);
          },
        };
        const watched = await startLedger(db, `watched-${commit}`, NOW, { db: on, commit });
        const accountId = await account(1_000n);
        const keyId = `${accountId}.k`;
        const request = (id: string): HoldRequest => ({
          id,
          accountId,
          keyId,
          amount: 100n,
          now: NOW,
          expiresAt: NOW + MINUTE_MS,
        });
        await watched.hold(request(`${accountId}.1`));
        await Promise.all([
          watched.settle({ id: `${accountId}.1`, accountId, keyId, cost: 0n, now: NOW }),
          watched.hold(request(`${accountId}.2`)),
        ]);
        await watched.settle({ id: `${accountId}.2`, accountId, keyId, cost: 0n, now: NOW });
        // A hold alone, a settlement with a hold, a settlement alone.
        expect(durabilities).toEqual([...expected]);
      });

      test("spends promo before paid credit, and never below zero", async () => {
        const id = await account(30n, 50n);
        await ledger.hold(hold(id, "h", 40n));
        expect(await ledger.settle(settle(id, "h", 40n))).toEqual({
          status: "settled",
          charged: 40n,
          overrun: 0n,
          late: false,
        });
        expect(await getWallet(db, id)).toEqual({ promo: 0n, paid: 40n, held: 0n });
        await ledger.hold(hold(id, "i", 10n));
        expect(await ledger.settle(settle(id, "i", 999n))).toEqual({
          status: "settled",
          charged: 40n,
          overrun: 959n,
          late: false,
        });
        expect(await getWallet(db, id)).toEqual({ promo: 0n, paid: 0n, held: 0n, owed: 959n });
      });

      test("a call that costs more than its hold never takes what other calls hold", async () => {
        const id = await account(100n);
        await ledger.hold(hold(id, "other", 80n));
        await ledger.hold(hold(id, "mine", 10n));
        expect(await ledger.settle(settle(id, "mine", 50n))).toMatchObject({
          charged: 20n,
          overrun: 30n,
        });
        expect(await ledger.settle(settle(id, "other", 80n))).toMatchObject({
          charged: 80n,
          overrun: 0n,
        });
      });

      test("rejects a hold over the balance and writes nothing", async () => {
        const id = await account(100n);
        expect(await ledger.hold(hold(id, "h", 101n))).toEqual({
          status: "insufficient_credits",
          available: 100n,
          posted: 100n,
        });
        expect(await ledger.settle(settle(id, "h", 5n))).toEqual({ status: "already" });
        expect(await getWallet(db, id)).toEqual({ promo: 100n, paid: 0n, held: 0n });
      });

      test("a key expires at its time, not after it", async () => {
        const id = await account(100n);
        await db.write((tx) =>
          tx.run("update api_key set expires_at = ? where id = ?", [NOW + 1, `${id}.k`]),
        );
        expect(await ledger.hold(hold(id, "before", 1n))).toMatchObject({ status: "held" });
        const late = { now: NOW + 1 };
        expect(await ledger.hold(hold(id, "late", 1n, late))).toEqual({
          status: "key_rejected",
          reason: "expired",
        });
      });

      test("a repeated settlement owes nothing, whichever credit has paid the first one", async () => {
        for (const [promo, paid] of [
          [100n, 0n],
          [0n, 100n],
          [30n, 70n],
        ] as const) {
          const id = await account(promo, paid);
          await ledger.hold(hold(id, "h", 60n));
          expect(await ledger.settle(settle(id, "h", 60n))).toMatchObject({ charged: 60n });
          expect(await ledger.settle(settle(id, "h", 60n))).toEqual({ status: "already" });
        }
      });

      test("a minimum above the amount holds only the amount", async () => {
        const id = await account(100n);
        expect(await ledger.hold(hold(id, "h", 60n, { minimum: 500n }))).toEqual({
          status: "held",
          amount: 60n,
        });
      });

      test("repeated holds and settlements are applied once", async () => {
        const id = await account(100n);
        const twice = await Promise.all([
          ledger.hold(hold(id, "h", 60n)),
          ledger.hold(hold(id, "h", 60n)),
        ]);
        expect(twice).toEqual([
          { status: "held", amount: 60n },
          { status: "held", amount: 60n },
        ]);
        const settlements = await Promise.all([
          ledger.settle(settle(id, "h", 50n)),
          ledger.settle(settle(id, "h", 50n)),
        ]);
        expect(settlements.map((one) => one.status)).toEqual(["settled", "already"]);
        expect((await ledger.settle(settle(id, "h", 50n))).status).toBe("already");
        expect(await getWallet(db, id)).toEqual({ promo: 50n, paid: 0n, held: 0n });
      });

      test("a repeated hold of a part can grow as the first one could", async () => {
        const id = await account(100n);
        const part = { onShortage: { upfront: 20n, minimum: 10n } };
        const once = await ledger.hold(hold(id, "h", 90n, part));
        expect(once).toEqual({ status: "held", amount: 20n, limit: 90n });
        expect(await ledger.hold(hold(id, "h", 90n, part))).toEqual(once);
        expect(await ledger.hold(hold(id, "whole", 40n, part))).toEqual(
          await ledger.hold(hold(id, "whole", 40n, part)),
        );
      });

      test("rejects negative amounts and costs over the maximum balance before they are queued", async () => {
        const id = await account(100n);
        expect(await rejectionMessage(ledger.hold(hold(id, "h", -1n)))).toMatch("negative amount");
        expect(await rejectionMessage(ledger.hold(hold(id, "h", 1n, { minimum: -1n })))).toMatch(
          "negative amount",
        );
        await ledger.hold(hold(id, "h", 10n));
        expect(await rejectionMessage(ledger.settle(settle(id, "h", -5n)))).toMatch("invalid cost");
        expect(await rejectionMessage(ledger.settle(settle(id, "h", MAX_NANO + 1n)))).toMatch(
          "invalid cost",
        );
        expect(await ledger.settle(settle(id, "h", MAX_NANO))).toMatchObject({
          charged: 100n,
          overrun: MAX_NANO - 100n,
        });
      });

      test("rejects a hold with another account's key, and a settlement for another key", async () => {
        const [mine, theirs] = [await account(100n), await account(100n)];
        expect(await ledger.hold(hold(mine, "x", 10n, { keyId: `${theirs}.k` }))).toEqual({
          status: "key_rejected",
          reason: "unknown",
        });
        await ledger.hold(hold(mine, "h", 10n));
        const otherKey = { keyId: `${mine}.l` };
        expect(await rejectionMessage(ledger.settle(settle(mine, "h", 10n, otherKey)))).toMatch(
          "another account or key",
        );
        expect(await rejectionMessage(ledger.hold(hold(mine, "h", 10n, otherKey)))).toMatch(
          "another account or key",
        );
        expect(await getWallet(db, theirs)).toEqual({ promo: 100n, paid: 0n, held: 0n });
        await ledger.settle(settle(mine, "h", 10n));
      });

      test("finds holds and swept holds only in the account of the operation", async () => {
        const [mine, theirs] = [await account(100n), await account(100n)];
        const id = `${mine}.h`;
        const owner = { id, accountId: theirs, keyId: `${theirs}.k` };
        await ledger.hold(hold(mine, "h", 30n));
        expect(await ledger.settle({ ...owner, cost: 0n, now: NOW })).toEqual({
          status: "already",
        });
        expect(await ledger.hold(hold(mine, "h", 10n, owner))).toEqual({
          status: "held",
          amount: 10n,
        });
        expect((await getWallet(db, mine)).held).toBe(30n);
        expect((await getWallet(db, theirs)).held).toBe(10n);
        await db.write(async (tx) => {
          const rows = await tx.all(
            "select id, account_id, key_id from hold where account_id = ?",
            [mine],
          );
          expect(await releaseHolds(tx, NOW, rows)).toBe(1);
        });
        expect((await getWallet(db, theirs)).held).toBe(10n);
        const [released, late] = await Promise.all([
          ledger.settle({ ...owner, cost: 0n, now: NOW }),
          ledger.settle(settle(mine, "h", 20n)),
        ]);
        expect(released).toMatchObject({ status: "settled", charged: 0n, late: false });
        expect(late).toMatchObject({ status: "settled", charged: 20n, late: true });
        expect(await getWallet(db, mine)).toEqual({ promo: 80n, paid: 0n, held: 0n });
        expect(await getWallet(db, theirs)).toEqual({ promo: 100n, paid: 0n, held: 0n });
      });

      test("rejects unknown accounts and keys", async () => {
        expect(await ledger.hold(hold("unknown", "h", 10n))).toEqual({
          status: "key_rejected",
          reason: "unknown",
        });
      });

      test("a record that cannot be written fails only its own settlement", async () => {
        const ids = await Promise.all(Array.from({ length: 40 }, () => account(100n)));
        for (const id of ids) await ledger.hold(hold(id, "h", 10n));
        const poisoned = ids[17] ?? "";
        const outcomes = await Promise.allSettled(
          ids.map((id) => {
            const good = settle(id, "h", 10n);
            return ledger.settle(
              id === poisoned && good.record !== undefined
                ? { ...good, record: { ...good.record, model: "bad\u0000" } }
                : good,
            );
          }),
        );
        expect(
          outcomes.flatMap((one, index) => (one.status === "rejected" ? [ids[index]] : [])),
        ).toEqual([poisoned]);
        expect(await getWallet(db, poisoned)).toEqual({ promo: 100n, paid: 0n, held: 10n });
        expect((await ledger.settle(settle(poisoned, "h", 10n))).status).toBe("settled");
        for (const id of ids)
          expect(await getWallet(db, id)).toEqual({ promo: 90n, paid: 0n, held: 0n });
      });

      test("a commit whose reply is lost holds once and charges once", async () => {
        let failures = 0;
        const lossy: Db = {
          ...db,
          write: async (work) => {
            const result = await db.write(work);
            failures += 1;
            if (failures % 2 === 1) throw Object.assign(new Error("lost"), { [UNAVAILABLE]: true });
            return result;
          },
        };
        const id = await account(100n);
        const shaky = await process(lossy, "shaky");
        expect(await shaky.hold(hold(id, "h", 60n, { openCallsMax: 1 }))).toEqual({
          status: "held",
          amount: 60n,
        });
        expect((await getWallet(db, id)).held).toBe(60n);
        expect((await shaky.settle(settle(id, "h", 60n))).status).toBe("already");
        expect(await getWallet(db, id)).toEqual({ promo: 40n, paid: 0n, held: 0n });
        expect(failures).toBe(4);
      });

      test("a repeated settlement reports the overrun of the first, whose reply was lost", async () => {
        let losesReply = false;
        const lossy: Db = {
          ...db,
          write: async (work) => {
            const result = await db.write(work);
            if (losesReply) {
              losesReply = false;
              throw Object.assign(new Error("lost"), { [UNAVAILABLE]: true });
            }
            return result;
          },
        };
        const id = await account(100n);
        const suspended = await process(lossy, "lossy");
        await suspended.hold(hold(id, "h", 60n));
        await startEpoch(db, "lossy", NOW);
        await sweepHolds(db, NOW);
        await ledger.hold(hold(id, "other", 80n));
        await ledger.settle(settle(id, "other", 80n));
        losesReply = true;
        expect(await suspended.settle(settle(id, "h", 60n))).toEqual({
          status: "already",
          overrun: 40n,
        });
      });

      test("a repeated settlement from paid credit reports what was not covered, and nothing if all was", async () => {
        let losesReply = true;
        const lossy: Db = {
          ...db,
          write: async (work) => {
            const result = await db.write(work);
            if (!losesReply) return result;
            losesReply = false;
            throw Object.assign(new Error("lost"), { [UNAVAILABLE]: true });
          },
        };
        const shaky = await process(lossy, "paid again");
        for (const [cost, expected] of [
          [60n, { status: "already" }],
          [95n, { status: "already", overrun: 5n }],
        ] as const) {
          const id = await account(30n, 60n);
          losesReply = false;
          await shaky.hold(hold(id, "h", 60n));
          losesReply = true;
          expect(await shaky.settle(settle(id, "h", cost))).toEqual(expected);
        }
      });

      test("a late settlement of a swept hold charges once", async () => {
        const id = await account(100n);
        const dead = await process(db, "dead");
        await dead.hold(hold(id, "h", 60n));
        await startEpoch(db, "dead", NOW);
        await sweepHolds(db, NOW);
        expect((await getWallet(db, id)).held).toBe(0n);
        expect(await dead.settle(settle(id, "h", 60n))).toEqual({
          status: "settled",
          charged: 60n,
          overrun: 0n,
          late: true,
        });
        expect((await dead.settle(settle(id, "h", 60n))).status).toBe("already");
        expect((await ledger.settle(settle(id, "h", 60n))).status).toBe("already");
        expect(await getWallet(db, id)).toEqual({ promo: 40n, paid: 0n, held: 0n });
      });

      test("a late settlement with refuseUncovered charges the whole cost or nothing", async () => {
        for (const [spent, charged] of [
          [40n, 60n],
          [41n, 0n],
        ] as const) {
          const id = await account(100n);
          const dead = await process(db, "refusing");
          await dead.hold(hold(id, "h", 60n));
          await startEpoch(db, "refusing", NOW);
          await sweepHolds(db, NOW);
          await ledger.hold(hold(id, "other", spent));
          const { record, ...request } = settle(id, "h", 60n);
          const settled = await dead.settle({
            ...request,
            refuseUncovered: true,
            // It would state a cost.
            ...(charged === 0n ? {} : { record }),
          });
          expect(settled).toMatchObject({ charged, overrun: 60n - charged, late: true });
          expect(await getWallet(db, id)).toEqual({ promo: 100n - charged, paid: 0n, held: spent });
        }
      });

      test("a hold repeated after it was swept is not held again and does not block the sweeper", async () => {
        const id = await account(100n);
        const dead = await process(db, "repeating");
        await dead.hold(hold(id, "h", 60n));
        const epoch = await startEpoch(db, "repeating", NOW);
        await sweepHolds(db, NOW);
        expect(await dead.hold(hold(id, "h", 60n))).toEqual({ status: "held", amount: 60n });
        expect((await getWallet(db, id)).held).toBe(0n);
        await sweepHolds(db, NOW + 2 * MINUTE_MS);
        expect((await dead.settle(settle(id, "h", 50n))).status).toBe("settled");
        expect((await dead.settle(settle(id, "h", 50n))).status).toBe("already");
        expect(await getWallet(db, id)).toEqual({ promo: 50n, paid: 0n, held: 0n });
        expect(await heartbeat(db, "repeating", epoch, NOW)).toBe(true);
      });

      test("concurrent sweeps release each hold once and count them", async () => {
        const id = await account(10_000n);
        const dead = await process(db, "left");
        await Promise.all(
          Array.from({ length: 1_203 }, (_, index) => dead.hold(hold(id, `h${index}`, 2n))),
        );
        await startEpoch(db, "left", NOW);
        const [one, two] = await Promise.all([sweepHolds(db, NOW), sweepHolds(db, NOW)]);
        expect(one + two).toBe(1_203);
        expect((await getWallet(db, id)).held).toBe(0n);
      });

      test("a sweep that races with settlements neither loses nor doubles a charge", async () => {
        const id = await account(100_000n);
        const dead = await process(db, "racing");
        const row = await db.get("select epoch from process where name = 'racing'");
        const epoch = Number(row?.["epoch"]);
        const sweep = (): Promise<number> =>
          sweepHolds(db, NOW, [{ name: "racing", epoch, seenAt: NOW }]);
        for (let round = 0; round < 5; round++) {
          const names = Array.from({ length: 100 }, (_, index) => `r${round}.${index}`);
          await Promise.all(names.map((name) => dead.hold(hold(id, name, 5n))));
          const [settlements] = await Promise.all([
            Promise.all(names.map((name) => dead.settle(settle(id, name, 5n)))),
            sweep(),
            sweep(),
            db.write((tx) => deposit(tx, promoDeposit(`${id}.${round}`, id, 500n, NOW))),
          ]);
          expect(settlements.every((one) => one.status === "settled" && one.charged === 5n)).toBe(
            true,
          );
          expect(await getWallet(db, id)).toEqual({ promo: 100_000n, paid: 0n, held: 0n });
        }
      });

      test("each start under a name has its own epoch, and only the last one's heartbeat succeeds", async () => {
        const epochs = await Promise.all(
          Array.from({ length: 8 }, () => startEpoch(db, "contested", NOW)),
        );
        expect(epochs.toSorted((a, b) => a - b)).toEqual(
          Array.from({ length: 8 }, (_, index) => NOW + index + 1),
        );
        expect(await heartbeat(db, "contested", NOW + 8, NOW)).toBe(true);
        expect(await heartbeat(db, "contested", NOW + 7, NOW)).toBe(false);
      });

      test("a later start has another epoch although the row of the earlier one was lost", async () => {
        const first = await startEpoch(db, "restored", NOW);
        await db.write((tx) => tx.run("delete from process where name = 'restored'"));
        // A hold of the first start may still be committed.
        expect(await startEpoch(db, "restored", NOW + 1)).toBeGreaterThan(first);
      });

      test("a start whose row is lost meanwhile does not get the epoch of earlier holds", async () => {
        const id = await account(100n);
        const lost = await process(db, "lost");
        await lost.hold(hold(id, "h", 60n));
        const [epoch] = await Promise.all([
          startEpoch(db, "lost", NOW),
          db.write((tx) => tx.run("delete from process where name = 'lost'")),
        ]);
        expect(epoch).toBe(NOW + 2);
        await sweepHolds(db, NOW);
        await startEpoch(db, "lost", NOW);
        await sweepHolds(db, NOW);
        expect((await getWallet(db, id)).held).toBe(0n);
      });

      test("a clock that steps back does not block a rate-limited key", async () => {
        const id = await account(100n);
        const rateLimit = { intervalMs: 1_000, burst: 3 };
        const at = async (name: string, now: number): Promise<string> => {
          const outcome = await ledger.hold(hold(id, name, 1n, { now, rateLimit }));
          return outcome.status === "rate_limited"
            ? `wait ${outcome.retryAfterMs}`
            : outcome.status;
        };
        expect([
          await at("1", NOW),
          await at("2", NOW),
          await at("3", NOW),
          await at("4", NOW),
        ]).toEqual(["held", "held", "held", "wait 1000"]);
        const before = NOW - 60 * MINUTE_MS;
        expect(await at("5", before)).toBe("held");
        expect(await at("6", before)).toBe("wait 1000");
        expect(await at("6", before + 1_000)).toBe("held");
        expect(await at("7", before + 1_000)).toBe("wait 1000");
        // A small clock skew between processes does not admit a call.
        expect(await at("7", before - 5_000)).toBe("wait 1000");
      });

      test("a key's total spend is exact beyond the maximum balance", async () => {
        const id = await account(MAX_NANO);
        await ledger.hold(hold(id, "1", MAX_NANO));
        await ledger.settle(settle(id, "1", MAX_NANO));
        await db.write((tx) => deposit(tx, promoDeposit(`${id}.again`, id, MAX_NANO, NOW)));
        await ledger.hold(hold(id, "2", MAX_NANO));
        await ledger.settle(settle(id, "2", MAX_NANO));
        await db.write((tx) => deposit(tx, promoDeposit(`${id}.more`, id, 10n, NOW)));
        // A new process has nothing cached.
        const fresh = await process(db, "uncached");
        expect((await fresh.hold(hold(id, "3", 7n))).status).toBe("held");
        expect(await fresh.settle(settle(id, "3", 7n))).toMatchObject({ charged: 7n });
        const spent = 2n * MAX_NANO + 7n;
        expect((await getKey(db, id, `${id}.k`, NOW)).spent).toBe(spent);
        expect(await sumUsage(db, id, {}, "key")).toMatchObject([{ cost: spent }]);
        // A first budget starts with the spend before it.
        await db.write((tx) => setBudgets(tx, id, { month: 5n }, NOW));
        expect((await getBudgets(db, id, NOW)).month).toMatchObject({ used: spent, remaining: 0n });
        const late = await process(db, "after the budget");
        expect(await late.hold(hold(id, "4", 1n))).toMatchObject({
          status: "budget",
          blocked: { used: spent },
        });
        await db.write((tx) => setBudgets(tx, id, { month: null }, NOW));
      });

      test("a key limit counts holds and settlements, and resets with its window", async () => {
        const id = await account(1_000n);
        await db.write((tx) =>
          tx.run("update api_key set limit_nano = 100, limit_window = 'day' where id = ?", [
            `${id}.k`,
          ]),
        );
        const tomorrow = Date.UTC(2026, 10, 22);
        expect((await ledger.hold(hold(id, "1", 70n))).status).toBe("held");
        expect(await ledger.hold(hold(id, "2", 31n))).toEqual({
          status: "key_limit",
          remaining: 30n,
          held: 70n,
          affordable: 30n,
          windowEndsAt: tomorrow,
        });
        expect(await ledger.settle(settle(id, "1", 90n))).toMatchObject({
          charged: 90n,
          overrun: 0n,
        });
        expect(await ledger.hold(hold(id, "3", 31n, { minimum: 10n }))).toEqual({
          status: "held",
          amount: 10n,
        });
        expect((await ledger.hold(hold(id, "4", 1n, { now: tomorrow }))).status).toBe("held");
        expect(await ledger.settle(settle(id, "3", 500n, { now: tomorrow }))).toMatchObject({
          charged: 500n,
          overrun: 0n,
        });
        expect(await ledger.hold(hold(id, "5", 1n, { now: tomorrow }))).toMatchObject({
          status: "key_limit",
          remaining: 0n,
        });
        await ledger.settle(settle(id, "4", 0n));
      });
    });
  },
  ["sqlite", "postgres"],
);
