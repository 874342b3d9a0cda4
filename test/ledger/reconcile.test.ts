// The store loses settlements of a running process: a standby that was behind is promoted, or a write fails for good.

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  createLedger,
  deposit,
  type Ledger,
  type LedgerDeps,
  startEpoch,
} from "../../src/ledger/ledger.ts";
import { createOwnHolds } from "../../src/ledger/own-holds.ts";
import { createHoldReconciler, type HoldReconciliation } from "../../src/ledger/reconcile.ts";
import { releaseHolds } from "../../src/ledger/sweep.ts";
import { type Db, type Row, type Tx, UNAVAILABLE, type Value } from "../../src/store/db.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { eventually } from "../support/eventually.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { openAccount, promoDeposit, usageRecord } from "./fixtures.ts";

const LIFETIME_MS = 45 * 60_000;
const NOTHING: HoldReconciliation = { settledAgain: 0, released: 0 };
const START = Date.UTC(2026, 5, 1);
const OWNER = { accountId: "acct_a", keyId: "key_a" };
const TABLES = ["wallet", "spender", "hold", "transfer", "usage_record", "usage_pending"];

describeEachStore((kind, open) => {
  describe(`reconciliation of holds on ${kind}`, () => {
    let store: TestStore;
    let ledger: Ledger<UsageRecord>;
    let reconcile: () => Promise<HoldReconciliation>;
    let now = START;
    let monotonicMs = 0;
    beforeEach(async () => {
      store = await open();
      now = START;
      await store.db.write(async (tx) => {
        await openAccount(tx, OWNER.accountId, [OWNER.keyId], now);
        await deposit(tx, promoDeposit("d1", OWNER.accountId, 1_000n, now));
      });
      [ledger, reconcile] = await startProcess();
    });
    afterEach(() => store.close());

    async function startProcess(
      db = store.db,
      more: Pick<LedgerDeps<UsageRecord>, "leases"> = {},
    ): Promise<[Ledger<UsageRecord>, typeof reconcile]> {
      const identity = { db, process: "p", epoch: await startEpoch(db, "p", now) };
      const ownHolds = createOwnHolds<UsageRecord>();
      const started = createLedger({
        ...identity,
        ownHolds,
        writeRecords: insertUsage,
        ...more,
      });
      const clocks = { now: () => now, monotonicNow: () => monotonicMs };
      const deps = { ...identity, ledger: started, ownHolds, ...clocks };
      return [started, createHoldReconciler(deps)];
    }

    const hold = async (id: string): Promise<void> => {
      const expiresAt = now + LIFETIME_MS;
      const outcome = await ledger.hold({ id, ...OWNER, amount: 100n, now, expiresAt });
      expect(outcome.status).toBe("held");
    };
    const settle = (
      id: string,
      cost: bigint,
      more: { readonly refuseUncovered?: boolean } = {},
    ): Promise<{ status: string }> =>
      ledger.settle({
        id,
        ...OWNER,
        cost,
        now,
        ...more,
        record: usageRecord({ id, ...OWNER, cost, createdAt: now }),
      });

    /** Runs `work` and then puts the rows back as they were before. */
    async function lose(work: () => Promise<unknown>): Promise<void> {
      const saved = await Promise.all(
        TABLES.map((table) => store.db.all(`select * from ${table}`)),
      );
      await work();
      await store.db.write(async (tx) => {
        for (const [index, table] of TABLES.entries()) {
          await tx.run(`delete from ${table}`);
          for (const row of saved[index] ?? []) await insertRow(tx, table, row);
        }
      });
    }

    const runJob = (): Promise<HoldReconciliation> => {
      now += 30_000;
      monotonicMs += 30_000;
      return reconcile();
    };
    /** A minute passes between the first run and the last one. */
    const reconcileFor = async (runs = 3): Promise<HoldReconciliation> => {
      for (let run = 1; run < runs; run++) expect(await runJob()).toEqual(NOTHING);
      return runJob();
    };
    const balance = async (): Promise<unknown> => {
      const row = await store.db.get("select promo, held from wallet");
      return { promo: Number(row?.["promo"]), held: Number(row?.["held"]) };
    };

    test("settles a call again whose charge was lost, once", async () => {
      await hold("c1");
      await lose(() => settle("c1", 70n));
      expect(await balance()).toEqual({ promo: 1_000, held: 100 });
      expect(await reconcileFor()).toEqual({ settledAgain: 1, released: 0 });
      expect(await balance()).toEqual({ promo: 930, held: 0 });
      expect(await store.db.all("select id from usage_record")).toEqual([{ id: "c1" }]);
      expect(await reconcileFor()).toEqual(NOTHING);
      expect((await verifyLedger(store.db)).problems).toEqual([]);
    });

    if (kind === "postgres")
      test("settles a call on a lease again whose charge was lost, once", async () => {
        [ledger, reconcile] = await startProcess(store.db, {
          leases: { now: () => now, busyHolds: 1 },
        });
        let calls = 0;
        // A lease is taken with the end of another call, and confirmed for half a second.
        const id = await eventually(async () => {
          calls += 1;
          await hold(`c${calls}`);
          await settle(`c${calls}`, 10n);
          const next = { id: `leased${calls}`, ...OWNER, amount: 100n, now };
          const outcome = ledger.tryHoldSync({ ...next, expiresAt: now + LIFETIME_MS });
          return outcome?.status === "held" && next.id;
        });
        await lose(() => settle(id, 70n));
        const records = (): Promise<readonly Row[]> =>
          store.db.all("select cost_nano from usage_record where id = ?", [id]);
        expect(await records()).toEqual([]);
        expect(await runJob()).toMatchObject({ settledAgain: 1 });
        expect(await records()).toEqual([{ cost_nano: 70n }]);
        const row = await store.db.get("select promo from wallet");
        expect(Number(row?.["promo"])).toBe(1_000 - 10 * calls - 70);
        expect(await runJob()).toMatchObject({ settledAgain: 0 });
        ledger.returnLeases();
        await ledger.idle();
        expect((await verifyLedger(store.db)).problems).toEqual([]);
      });

    if (kind === "postgres")
      test("settles calls on leases again whose records it could not read for some time, by account", async () => {
        const ownHolds = createOwnHolds<UsageRecord>();
        const other = { accountId: "acct_b", keyId: "key_b" };
        await store.db.write((tx) => openAccount(tx, other.accountId, [other.keyId], now));
        for (const owner of [OWNER, other]) {
          const call = { id: `${owner.keyId}.leased`, ...owner, cost: 70n };
          const record = usageRecord({ ...call, createdAt: now });
          ownHolds.addSettlement({ ...call, now, record, lease: { leaseId: "gone", share: 0n } });
        }
        let isDown = true;
        const db: Db = {
          ...store.db,
          isDistributed: true,
          all: async () => [],
          write: (work) =>
            store.db.write((tx) =>
              work({
                ...tx,
                readMany: async (table, key, keys, columns) => {
                  if (isDown && JSON.stringify(keys).includes(OWNER.accountId))
                    throw Object.assign(new Error("the node is down"), { [UNAVAILABLE]: true });
                  return tx.readMany(table, key, keys, columns);
                },
              }),
            ),
        };
        const clocks = { now: () => now, monotonicNow: () => monotonicMs };
        reconcile = createHoldReconciler({
          db,
          ledger,
          ownHolds,
          process: "p",
          epoch: Number((await store.db.get("select epoch from process"))?.["epoch"]),
          ...clocks,
        });
        expect(await runJob()).toEqual({ settledAgain: 1, released: 0 });
        for (let run = 0; run < 3; run++) expect(await runJob()).toEqual(NOTHING);
        isDown = false;
        expect(await runJob()).toEqual({ settledAgain: 1, released: 0 });
        expect((await verifyLedger(store.db)).problems).toEqual([]);
      });

    test("charges a reply that was delivered, also if another process has swept its hold since", async () => {
      let onHolds = async (_rows: readonly Row[]): Promise<void> => {};
      [ledger, reconcile] = await startProcess({
        ...store.db,
        all: async (sql, values) => {
          const rows = await store.db.all(sql, values);
          if (sql.includes("as lifetime_ms from hold")) await onHolds(rows);
          return rows;
        },
      });
      await hold("c1");
      await lose(() => settle("c1", 70n, { refuseUncovered: true }));
      expect(await reconcileFor(2)).toEqual(NOTHING);
      onHolds = async (rows) => {
        onHolds = async () => {};
        await store.db.write((tx) => releaseHolds(tx, now, rows));
        await hold("other");
        await settle("other", 960n);
      };
      expect(await runJob()).toEqual({ settledAgain: 1, released: 0 });
      const wallet = await store.db.get("select promo, held, owed from wallet");
      expect(Object.values(wallet ?? {}).map(Number)).toEqual([0, 0, 30]);
      expect((await verifyLedger(store.db)).problems).toEqual([]);
    });

    test("releases a hold whose settlement is not known, and charges a late one", async () => {
      await hold("c1");
      await lose(() => settle("c1", 70n));
      for (let minutes = 0; minutes < 12; minutes += 6, monotonicMs += 6 * 60_000)
        expect(await reconcile()).toEqual(NOTHING);
      expect(await reconcile()).toEqual({ settledAgain: 0, released: 1 });
      expect(await balance()).toEqual({ promo: 1_000, held: 0 });
      expect(await settle("c1", 70n)).toMatchObject({ status: "settled", late: true });
      expect((await verifyLedger(store.db)).problems).toEqual([]);
    });

    test("leaves open calls and new holds unchanged", async () => {
      await hold("open");
      await hold("again");
      await settle("again", 0n);
      // A fallback holds again under the same id.
      await hold("again");
      expect(await reconcileFor()).toEqual(NOTHING);
      await hold("young");
      await lose(() => settle("young", 5n));
      expect(await reconcileFor(2)).toEqual(NOTHING);
      expect(await balance()).toEqual({ promo: 1_000, held: 300 });
    });

    test("leaves the holds of other processes and of later starts alone", async () => {
      await hold("c1");
      const [, reconcileLater] = await startProcess();
      for (let run = 0; run < 4; run++) expect(await reconcileLater()).toEqual(NOTHING);
      expect(await balance()).toEqual({ promo: 1_000, held: 100 });
    });

    for (const aheadMs of [-2 * 3_600_000, 2 * 3_600_000])
      test(`clock jumps of ${aheadMs / 3_600_000} h change neither`, async () => {
        await hold("open");
        await hold("lost");
        await lose(() => settle("lost", 70n));
        now += aheadMs;
        expect(await reconcileFor()).toEqual({ settledAgain: 1, released: 0 });
        expect(await reconcileFor(4)).toEqual(NOTHING);
        expect(await balance()).toEqual({ promo: 930, held: 100 });
      });

    test("keeps the hold of a call that extends it, for another lifetime", async () => {
      await hold("stream");
      expect(await runJob()).toEqual(NOTHING);
      for (let lifetimes = 0; lifetimes < 3; lifetimes++) {
        monotonicMs += LIFETIME_MS;
        ledger.extendHold("stream");
        expect(await runJob()).toEqual(NOTHING);
      }
      monotonicMs += LIFETIME_MS;
      expect(await runJob()).toEqual({ settledAgain: 0, released: 1 });
    });

    test("releases the hold of a call that has not ended after the lifetime of its hold", async () => {
      await hold("stuck");
      expect(await runJob()).toEqual(NOTHING);
      monotonicMs += LIFETIME_MS;
      expect(await reconcile()).toEqual(NOTHING);
      expect(await runJob()).toEqual({ settledAgain: 0, released: 1 });
      expect(await balance()).toEqual({ promo: 1_000, held: 0 });
      expect(await settle("stuck", 70n)).toMatchObject({ status: "settled", late: true });
      expect((await verifyLedger(store.db)).problems).toEqual([]);
    });
  });
});

function insertRow(tx: Tx, table: string, row: Row): Promise<number> {
  const columns = Object.keys(row);
  const marks = columns.map(() => "?").join(", ");
  // Safe: these are values that the store returned.
  const values = Object.values(row) as Value[];
  return tx.run(`insert into ${table} (${columns.join(", ")}) values (${marks})`, values);
}
