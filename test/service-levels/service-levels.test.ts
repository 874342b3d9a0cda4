// Credits for breaches of service levels: what earns one, what does not, and that each is posted once and within its bounds.

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { newId } from "../../src/base/id.ts";
import { DAY_MS, HOUR_MS, utcDay } from "../../src/base/time.ts";
import { setClosing, setFreeze } from "../../src/ledger/freezes.ts";
import { lockRefundable } from "../../src/ledger/payments/payments.ts";
import { previewLevel } from "../../src/service-levels/evaluate-levels.ts";
import {
  endServiceLevel,
  listServiceLevels,
  windowAt,
} from "../../src/service-levels/service-levels.ts";
import type { Db } from "../../src/store/db.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { readReport } from "../../src/verification/report.ts";
import { readTransferSums } from "../../src/verification/transfer-sums.ts";
import { verifyFromCheckpoint, verifyLedger } from "../../src/verification/verify.ts";
import { usageRecord } from "../ledger/fixtures.ts";
import { describeEachStore } from "../support/stores/stores.ts";
import {
  AVAILABILITY,
  FAILED,
  FIRST_HOUR,
  type LevelWorld,
  MODEL,
  openLevelWorld,
  OPERATOR_ACT,
  START,
  USD,
} from "./level-world.ts";

/** The lowest first. */
const amountsOf = async (world: LevelWorld, account: string): Promise<readonly bigint[]> =>
  (await world.credits(account))
    .map(({ amount }) => amount)
    .toSorted((one, other) => Number(one - other));

describeEachStore((kind) => {
  let world: LevelWorld;
  beforeEach(async () => {
    world = await openLevelWorld(kind);
    await world.open("acct_a");
  });
  afterEach(async () => {
    expect((await verifyLedger(world.db)).problems).toEqual([]);
    await world.close();
  });

  const wallet = async (account: string) =>
    await world.db.get(
      "select cast(promo as text) as promo, cast(paid as text) as paid, cast(owed as text) as owed from wallet where account_id = ?",
      [account],
    );
  /** 30 calls of one cent, of which some fail: they cost 30 cents at most. */
  const breach = async (account: string, fields: Partial<UsageRecord> = FAILED): Promise<void> => {
    await world.calls(25, account);
    await world.calls(5, account, fields);
  };

  describe("a breach", () => {
    test("is credited once, with its reason, over repetitions and concurrent processes", async () => {
      const level = await world.add({});
      await breach("acct_a");
      await world.evaluate(2.9);
      expect(await world.credits("acct_a")).toEqual([]);
      await Promise.all([world.evaluate(), world.evaluate(), world.evaluate(3.1)]);
      await world.db.write((tx) =>
        tx.run("update service_level set evaluated_to = ?", [FIRST_HOUR]),
      );
      await world.evaluate(4);
      const [credit, ...others] = await world.credits("acct_a");
      expect(others).toEqual([]);
      expect(credit).toMatchObject({
        levelId: level,
        model: MODEL,
        window: { start: FIRST_HOUR, end: FIRST_HOUR + HOUR_MS },
        amount: (25n * USD) / 1_000n,
        reason: `Availability of ${MODEL} was 83.3333%, below 99.9% (5 of 30 calls failed): credit of 10% of $0.25.`,
      });
      expect(await wallet("acct_a")).toMatchObject({ promo: "25000000" });
      const events = await world.db.all("select type, data from event");
      expect(events.map((row) => row["type"])).toEqual(["service_credit.posted"]);
      expect(JSON.parse(String(events[0]?.["data"]))).toMatchObject({
        service_credit_id: credit?.id ?? "",
        service_level_id: level,
        usd: 0.025,
        credits: 25_000,
      });
      const audit = await world.db.all("select account_id from audit where action = ?", [
        "service_credit.posted",
      ]);
      expect(audit).toEqual([{ account_id: "acct_a" }]);
      const checked = await verifyFromCheckpoint(world.db, { now: START + 90 * DAY_MS });
      expect(checked.problems).toEqual([]);
    });

    test("is in the report, and costs profit once it is spent", async () => {
      await world.add({});
      await breach("acct_a");
      await world.evaluate();
      await world.call("acct_a", 200, { cost: USD / 100n });
      const report = await world.db.snapshot(async (reader) =>
        readReport(reader, { from: 0, to: START + DAY_MS }, await readTransferSums(reader)),
      );
      expect(report.grants.serviceCredits).toBe(USD / 40n);
      expect(report.usage.promo).toBe(USD / 100n);
    });

    test("is promotional credit, so no refund returns it", async () => {
      await world.add({});
      await breach("acct_a");
      const refundable = (): Promise<bigint> =>
        world.db.write((tx) => lockRefundable(tx, "acct_a"));
      const before = await refundable();
      await world.evaluate();
      expect(await refundable()).toBe(before);
    });

    test("costs what the preview said", async () => {
      await breach("acct_a");
      await world.open("acct_b");
      await breach("acct_b");
      // The job rolls up the calls.
      await world.add({ model: "other/model" });
      await world.evaluate();
      const preview = await previewLevel(world.db, AVAILABILITY, FIRST_HOUR + 3 * HOUR_MS);
      expect(preview).toEqual({ amount: USD / 20n, breaches: 2, accounts: 2 });
    });
  });

  describe("the metrics", () => {
    const stream = (firstTokenMs: number, cost = USD / 100n): Partial<UsageRecord> => ({
      stream: true,
      firstTokenMs,
      cost,
    });

    test("p95 and p99 are by the nearest rank, without rounding in favor of either", async () => {
      await world.add({ metric: "first_token_p95", target: 1_000 });
      await world.add({ metric: "first_token_p99", target: 1_000 });
      await world.calls(95, "acct_a", stream(1_000));
      await world.calls(5, "acct_a", stream(1_001));
      await world.evaluate();
      // Five of a hundred are within p95, and beyond p99.
      expect(await world.credits("acct_a")).toMatchObject([
        { reason: expect.stringContaining("5 of 100 streams") },
      ]);
      await world.calls(94, "acct_a", stream(1_000), 70);
      await world.calls(6, "acct_a", stream(1_001), 70);
      await world.evaluate(4);
      expect(await world.credits("acct_a")).toHaveLength(3);
    });

    test("a slow first token and a reply that broke off credit these calls alone", async () => {
      await world.add({ metric: "slow_first_token", target: 2_000, creditPercent: 50 });
      await world.add({ metric: "broken_reply", target: 0, creditPercent: 100 });
      await world.calls(20, "acct_a", stream(900, USD));
      await world.call("acct_a", 10, stream(2_001, 3n * USD));
      await world.call("acct_a", 10, { ...FAILED, status: 200, cost: USD / 4n });
      await world.evaluate();
      const amounts = await amountsOf(world, "acct_a");
      expect(amounts).toEqual([USD / 4n, (3n * USD) / 2n]);
    });

    test("every model of `*` is measured separately", async () => {
      await world.add({ model: "*" });
      const other = "openai/gpt-5";
      await breach("acct_a");
      await world.calls(30, "acct_a", { model: other });
      await world.evaluate();
      expect(await world.credits("acct_a")).toMatchObject([{ model: MODEL, amount: USD / 40n }]);
    });

    test("a day and a month are windows in UTC", async () => {
      await world.add({ period: "day" });
      await world.add({ period: "month" });
      const [nextDay, nextMonth] = [11 * 60, 11 * 60 + 10 * 24 * 60];
      await world.calls(25, "acct_a", {}, nextDay + 30);
      await world.calls(5, "acct_a", FAILED, nextDay + 30);
      await world.calls(25, "acct_a", {}, nextMonth + 30);
      await world.calls(5, "acct_a", FAILED, nextMonth + 30);
      await world.evaluate(30 * 24);
      const credits = await world.credits("acct_a");
      expect(credits.map(({ window }) => utcDay(window.start))).toEqual(
        expect.arrayContaining(["2026-11-21", "2026-12-01"]),
      );
      expect(credits).toHaveLength(2);
      await world.evaluate(45 * 24);
      expect(await world.credits("acct_a")).toHaveLength(3);
      expect(windowAt("month", Date.UTC(2028, 1, 29))).toEqual({
        start: Date.UTC(2028, 1, 1),
        end: Date.UTC(2028, 2, 1),
      });
    });
  });

  describe("no credit is earned", () => {
    const OWN_FAULTS: Readonly<Record<string, Partial<UsageRecord>>> = {
      "requests that the provider rejects": { ...FAILED, status: 400 },
      "the rate limit of the provider": { ...FAILED, status: 429 },
      "calls that the client left": { ...FAILED, outcome: "client_aborted", status: 499 },
      "replies beyond a limit": { ...FAILED, outcome: "limit_exceeded", status: 200 },
      "streams that the own budget cut": { ...FAILED, outcome: "budget_cut", status: 200 },
      "empty replies, which are free": { ...FAILED, outcome: "empty_reply", status: 200 },
      "own provider keys": { ...FAILED, byok: true },
      "simulated models": { ...FAILED, provider: "sim" },
    };
    for (const [name, fields] of Object.entries(OWN_FAULTS))
      test(`by ${name}`, async () => {
        await world.add({});
        await world.add({ metric: "broken_reply", target: 0 });
        await breach("acct_a", { ...fields, cost: USD / 100n });
        // The sums of the model show a failure, so the records are read.
        await world.open("acct_b");
        await world.call("acct_b", 5, FAILED);
        await world.evaluate();
        expect(await world.credits("acct_a")).toEqual([]);
      });

    test("by calls that promotional credit paid, also that of earlier credits", async () => {
      await world.add({});
      await world.open("acct_b", 10n * USD);
      await breach("acct_b");
      await world.evaluate();
      expect(await world.credits("acct_b")).toEqual([]);
    });

    test("by fewer than 20 calls", async () => {
      await world.add({});
      await world.calls(18, "acct_a");
      await world.call("acct_a", 10, FAILED);
      await world.evaluate();
      expect(await world.credits("acct_a")).toEqual([]);
    });

    test("by errors that an account provokes while others get replies", async () => {
      await world.add({});
      await world.open("acct_b");
      await breach("acct_a");
      await world.calls(30, "acct_b");
      await world.evaluate();
      expect(await world.credits("acct_a")).toEqual([]);
      // Once others see it, both are credited.
      await world.calls(25, "acct_a", {}, 70);
      await world.calls(5, "acct_a", FAILED, 70);
      await world.calls(25, "acct_b", {}, 70);
      await world.calls(5, "acct_b", FAILED, 70);
      await world.evaluate(4);
      expect(await world.credits("acct_a")).toHaveLength(1);
      expect(await world.credits("acct_b")).toHaveLength(1);
    });

    test("by many tiny slow calls for the expensive ones", async () => {
      await world.add({ metric: "first_token_p95", target: 1_000 });
      await world.add({ metric: "slow_first_token", target: 1_000 });
      await world.open("acct_b");
      await world.calls(25, "acct_b", { stream: true, firstTokenMs: 200 });
      await world.call("acct_a", 10, { stream: true, firstTokenMs: 200, cost: 100n * USD });
      await world.calls(40, "acct_a", { stream: true, firstTokenMs: 1_500, cost: 1_000n });
      await world.evaluate();
      // A tenth of 40 calls of a millionth of a dollar.
      expect(await amountsOf(world, "acct_a")).toEqual([4_000n]);
    });

    test("by an account that an operator froze or that is closing", async () => {
      await world.add({});
      await world.open("acct_b");
      await breach("acct_a");
      await breach("acct_b");
      await world.db.write(async (tx) => {
        await setFreeze(tx, "acct_a", { at: START, reason: "abuse" });
        await setClosing(tx, "acct_b", START);
      });
      await world.evaluate();
      // What was decided stays when the freeze is lifted.
      await world.db.write((tx) => setFreeze(tx, "acct_a", null));
      await world.evaluate(4);
      expect([await world.credits("acct_a"), await world.credits("acct_b")]).toEqual([[], []]);
    });

    test("by a share of less than a nano-dollar; shares are rounded down", async () => {
      await world.add({ creditPercent: 1 });
      await world.calls(24, "acct_a", { cost: 0n });
      await world.calls(5, "acct_a", FAILED);
      await world.call("acct_a", 10, { cost: 99n });
      await world.evaluate();
      expect(await world.credits("acct_a")).toEqual([]);
      await world.calls(24, "acct_a", { cost: 0n }, 70);
      await world.calls(5, "acct_a", FAILED, 70);
      await world.call("acct_a", 70, { cost: 199n });
      await world.evaluate(4);
      expect(await amountsOf(world, "acct_a")).toEqual([1n]);
    });
  });

  describe("windows", () => {
    test("a call counts in the window in which it began, to the millisecond", async () => {
      await world.add({});
      const last = 60 - 1 / 60_000;
      await world.calls(25, "acct_a", {}, last);
      await world.calls(5, "acct_a", FAILED, last);
      await world.calls(25, "acct_a", { cost: USD }, 60);
      await world.evaluate(4);
      expect(await world.credits("acct_a")).toMatchObject([
        { window: { start: FIRST_HOUR }, amount: USD / 40n },
      ]);
    });

    test("a call that is settled after its window was evaluated earns nothing in any window", async () => {
      await world.add({});
      await world.calls(5, "acct_a", FAILED);
      await world.evaluate();
      await world.calls(25, "acct_a");
      await world.evaluate(5);
      expect(await world.credits("acct_a")).toEqual([]);
    });

    test("a level does not cover the window in which it was added, and covers that in which it ended", async () => {
      const id = await world.add({}, FIRST_HOUR + 1);
      await breach("acct_a");
      await world.calls(25, "acct_a", {}, 70);
      await world.calls(5, "acct_a", FAILED, 70);
      await world.calls(25, "acct_a", {}, 130);
      await world.calls(5, "acct_a", FAILED, 130);
      const at = FIRST_HOUR + HOUR_MS + 1;
      await world.db.write((tx) => endServiceLevel(tx, { ...OPERATOR_ACT, now: at }, id));
      // Its successor takes over with the next window.
      await world.add({ creditPercent: 20 }, at);
      await world.evaluate(6);
      const credits = await world.credits("acct_a");
      expect(credits).toHaveLength(2);
      const byHour = credits.map(
        ({ window, amount }) => [(window.start - FIRST_HOUR) / HOUR_MS, amount] as const,
      );
      expect(new Map(byHour)).toEqual(
        new Map([
          [1, USD / 40n],
          [2, USD / 20n],
        ]),
      );
    });

    test("a clock that steps back evaluates nothing again", async () => {
      await world.add({});
      await breach("acct_a");
      await world.evaluate(5);
      const before = await listServiceLevels(world.db);
      await world.evaluate(3);
      await world.evaluate(-100);
      expect(await listServiceLevels(world.db)).toEqual(before);
      expect(await world.credits("acct_a")).toHaveLength(1);
    });
  });

  describe("bounds", () => {
    test("the cap holds per account and month", async () => {
      await world.add({ cap: USD / 30n });
      await breach("acct_a");
      await world.calls(25, "acct_a", {}, 70);
      await world.calls(5, "acct_a", FAILED, 70);
      await world.evaluate(4);
      const amounts = await amountsOf(world, "acct_a");
      expect(amounts.reduce((sum, one) => sum + one, 0n)).toBe(USD / 30n);
    });

    test("several levels together credit no more than was paid", async () => {
      for (const period of ["hour", "day"] as const)
        for (const target of [900_000, 990_000])
          await world.add({ period, target, creditPercent: 70 });
      const nextDay = 11 * 60 + 30;
      await world.calls(25, "acct_a", {}, nextDay);
      await world.calls(5, "acct_a", FAILED, nextDay);
      await world.evaluate(48);
      const amounts = await amountsOf(world, "acct_a");
      expect(amounts.reduce((sum, one) => sum + one, 0n)).toBe(USD / 4n);
    });

    test("a credit pays the account's debt first", async () => {
      await world.add({});
      await breach("acct_a");
      const call = {
        id: newId("req", START),
        accountId: "acct_a",
        keyId: "acct_a key",
        now: START,
      };
      await world.ledger.hold({ ...call, amount: 1n, expiresAt: START + 1 });
      const record = usageRecord({ ...call, createdAt: START, cost: 1_000n * USD });
      await world.ledger.settle({ ...call, cost: 1_000n * USD, record });
      expect(await wallet("acct_a")).toMatchObject({ promo: "0", paid: "0", owed: "250000000" });
      await world.evaluate();
      expect(await wallet("acct_a")).toMatchObject({ promo: "0", owed: "225000000" });
    });

    test("terms that cannot be kept are refused with their field", async () => {
      const refused = async (terms: Partial<typeof AVAILABILITY>, fault: object): Promise<void> => {
        const error = await world.add(terms).catch((cause: unknown) => cause);
        expect(error).toMatchObject(fault);
      };
      await refused({ model: "no model" }, { options: { param: "model" } });
      await refused({ target: 1_000_001 }, { options: { param: "target" } });
      await refused({ metric: "first_token_p95", target: 0 }, { options: { param: "target" } });
      await refused({ metric: "broken_reply", target: 1 }, { options: { param: "target" } });
      await refused({ creditPercent: 101 }, { options: { param: "credit_percent" } });
      await refused({ cap: 0n }, { options: { param: "cap_usd" } });
      await world.add({});
      await refused({ creditPercent: 20 }, { code: "conflict" });
    });
  });

  test("a process that is killed at any statement leaves nothing that a later run does not complete", async () => {
    await world.open("acct_b");
    await world.add({});
    await world.add({ metric: "broken_reply", target: 0 });
    await breach("acct_a", { ...FAILED, status: 200, cost: USD / 50n });
    await breach("acct_b");
    let isComplete = false;
    for (let statements = 0; !isComplete; statements++) {
      isComplete = await world.evaluate(3, dyingAfter(world.db, statements)).then(
        () => true,
        () => false,
      );
      expect((await verifyLedger(world.db)).problems).toEqual([]);
    }
    expect(await amountsOf(world, "acct_b")).toEqual([USD / 40n]);
    expect(await amountsOf(world, "acct_a")).toEqual([USD / 100n, (35n * USD) / 1_000n]);
  });
});

/** A store whose process ends after so many written statements: the transaction of the last one is lost. */
function dyingAfter(db: Db, statements: number): Db {
  let left = statements;
  return {
    ...db,
    write: (work, durability) =>
      db.write(
        (tx) =>
          work({
            ...tx,
            run: (sql, params) => {
              if (left-- <= 0) throw new Error("killed");
              return tx.run(sql, params);
            },
            insertMany: (...insert) => {
              if (left-- <= 0) throw new Error("killed");
              return tx.insertMany(...insert);
            },
          }),
        durability,
      ),
  };
}
