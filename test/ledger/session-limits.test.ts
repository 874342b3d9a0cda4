// The limit of a session of agents: never exceeded by holds, however many run at once, on either store.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { bufferHolds, type BufferedDb } from "../../src/ledger/commit/hold-buffer.ts";
import type { HoldOutcome, SessionRequest } from "../../src/ledger/decide.ts";
import { deposit, type Ledger } from "../../src/ledger/ledger.ts";
import { findSession, markSessionStopped } from "../../src/ledger/session-rows.ts";
import type { Db } from "../../src/store/db.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { createRandom, TEST_SEED } from "../support/random.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { openAccount, promoDeposit, startLedger, sweepAsDead, usageRecord } from "./fixtures.ts";

const NOW = Date.UTC(2026, 10, 29, 12);
const LIMIT = 1_009n;

describeEachStore((kind, open) => {
  describe(`session limits on ${kind}`, () => {
    let store: TestStore;
    let db: Db;
    /** On PostgreSQL two processes, on SQLite one with a buffer of holds. */
    let ledgers: readonly Ledger<UsageRecord>[];
    let count = 0;

    beforeAll(async () => {
      store = await open();
      if (kind === "postgres") {
        db = store.db;
        ledgers = [await startLedger(db, "one", NOW), await startLedger(db, "two", NOW)];
      } else {
        const buffered: BufferedDb = bufferHolds(store.db, 20);
        db = buffered;
        ledgers = [await startLedger(db, "one", NOW, { holdBuffer: buffered })];
      }
    });
    afterAll(async () => {
      expect((await verifyLedger(db)).problems).toEqual([]);
      await store.close();
    });

    const account = async (): Promise<string> => {
      count += 1;
      const id = `s${count}`;
      await db.write(async (tx) => {
        await openAccount(tx, id, [`${id}.k`, `${id}.l`], NOW);
        await deposit(tx, promoDeposit(`${id}.promo`, id, 1_000_000n, NOW));
      });
      return id;
    };
    const holdOn = (
      ledger: Ledger<UsageRecord> | undefined,
      id: string,
      call: string,
      { amount = 100n, minimum, session = { id: "a", limit: LIMIT } }: HoldOptions = {},
    ): Promise<HoldOutcome> => {
      const request = {
        id: `${id}.${call}`,
        accountId: id,
        keyId: `${id}.${call.endsWith("1") ? "l" : "k"}`,
        amount,
        minimum,
        session,
        now: NOW,
        expiresAt: NOW + 60_000,
      };
      if (ledger === undefined) throw new Error("no ledger");
      const decided = ledger.tryHoldSync(request);
      return decided === undefined ? ledger.hold(request) : Promise.resolve(decided);
    };
    const settleOn = (
      ledger: Ledger<UsageRecord> | undefined,
      id: string,
      call: string,
      cost: bigint,
    ): Promise<unknown> => {
      const keyId = `${id}.${call.endsWith("1") ? "l" : "k"}`;
      const target = { id: `${id}.${call}`, accountId: id, keyId };
      const labels = ["session=a"];
      const record = usageRecord({ ...target, cost, createdAt: NOW, labels });
      if (ledger === undefined) throw new Error("no ledger");
      return ledger.settle({ ...target, cost, now: NOW, record, sessionId: "a" });
    };

    test("of 64 holds at once on a limit that affords 10, exactly 10 succeed", async () => {
      for (let round = 0; round < 5; round++) {
        const id = await account();
        const outcomes = await Promise.all(
          Array.from({ length: 64 }, (_, index) =>
            holdOn(ledgers[index % ledgers.length], id, `h${index}`),
          ),
        );
        const held = outcomes.filter(({ status }) => status === "held");
        expect(held).toHaveLength(10);
        expect(new Set(outcomes.map(({ status }) => status))).toEqual(
          new Set(["held", "session_limit"]),
        );
        expect(await findSession(db, id, "a")).toMatchObject({ held: 1_000n, limit: LIMIT });
      }
    });

    test("spend and holds of many parallel calls never exceed the limit", async () => {
      const random = createRandom(TEST_SEED);
      const id = await account();
      let settledCost = 0n;
      const caller = async (name: number): Promise<void> => {
        for (let turn = 0; turn < 20; turn++) {
          const ledger = ledgers[(name + turn) % ledgers.length];
          const call = `c${name}.${turn}`;
          const outcome = await holdOn(ledger, id, call, { amount: 60n, minimum: 10n });
          if (outcome.status === "session_limit") return;
          if (outcome.status !== "held") throw new Error(outcome.status);
          const cost = BigInt(random(Number(outcome.amount) + 1));
          await settleOn(ledger, id, call, cost);
          settledCost += cost;
          const session = await findSession(db, id, "a");
          expect((session?.spent ?? 0n) + (session?.held ?? 0n)).toBeLessThanOrEqual(LIMIT);
        }
      };
      await Promise.all(Array.from({ length: 24 }, (_, name) => caller(name)));
      const session = await findSession(db, id, "a");
      expect(session).toMatchObject({ held: 0n, spent: settledCost });
      const rows = await db.all("select cost_nano from session_usage where account_id = ?", [id]);
      expect(rows.map((row) => BigInt(String(row["cost_nano"])))).toEqual([settledCost]);
    });

    test("keep the limit for calls that name none, and never exceed that of the key", async () => {
      const id = await account();
      const [ledger] = ledgers;
      await holdOn(ledger, id, "a", { amount: 900n });
      const without = { amount: 200n, session: { id: "a" } };
      expect((await holdOn(ledger, id, "b", without)).status).toBe("session_limit");
      const raised = { amount: 200n, session: { id: "a", limit: 2_000n } };
      expect((await holdOn(ledger, id, "c", raised)).status).toBe("held");
      const capped = { amount: 200n, session: { id: "a", limit: 9_000n, limitMax: 1_200n } };
      expect(await holdOn(ledger, id, "d", capped)).toMatchObject({
        status: "session_limit",
        limit: 1_200n,
        held: 1_100n,
      });
      const byKey = { amount: 200n, session: { id: "b", limitMax: 100n } };
      expect((await holdOn(ledger, id, "e", byKey)).status).toBe("session_limit");
      expect((await holdOn(ledger, id, "f", { amount: 0n, session: { id: "a" } })).status).toBe(
        "held",
      );
    });

    test("lower a hold to what is left of the limit", async () => {
      const id = await account();
      expect(await holdOn(ledgers[0], id, "a", { amount: 5_000n, minimum: 10n })).toMatchObject({
        status: "held",
        amount: LIMIT,
      });
    });

    test("refuse calls of a stopped session, also free ones, in every process", async () => {
      const id = await account();
      const [ledger] = ledgers;
      await holdOn(ledger, id, "a");
      await db.write((tx) => markSessionStopped(tx, id, "a", NOW + 1));
      for (const [index, one] of ledgers.entries())
        for (const amount of [0n, 100n])
          expect(await holdOn(one, id, `b${index}.${amount}`, { amount })).toEqual({
            status: "session_stopped",
            sessionId: "a",
            stoppedAt: NOW + 1,
          });
      expect((await holdOn(ledger, id, "c", { session: { id: "b" } })).status).toBe("held");
      await settleOn(ledger, id, "a", 30n);
      expect(await findSession(db, id, "a")).toMatchObject({
        held: 0n,
        spent: 30n,
        stoppedAt: NOW + 1,
      });
    });

    test("are released with the holds of a dead process, whose late settlement still counts", async () => {
      const id = await account();
      const gone = await startLedger(db, `gone ${id}`, NOW);
      await holdOn(gone, id, "a");
      expect(await findSession(db, id, "a")).toMatchObject({ held: 100n });
      await sweepAsDead(db, NOW);
      expect(await findSession(db, id, "a")).toMatchObject({ held: 0n, spent: 0n });
      await settleOn(gone, id, "a", 40n);
      expect(await findSession(db, id, "a")).toMatchObject({ held: 0n, spent: 40n });
    });
  });
});

interface HoldOptions {
  readonly amount?: bigint;
  readonly minimum?: bigint;
  readonly session?: SessionRequest;
}
