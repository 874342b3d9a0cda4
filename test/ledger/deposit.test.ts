import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Fault } from "../../src/base/fault.ts";
import { MAX_NANO } from "../../src/base/money/money.ts";
import { createLedger, deposit, getWallet, grant, startEpoch } from "../../src/ledger/ledger.ts";
import type { Db } from "../../src/store/db.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { openAccount, promoDeposit, usageRecord } from "./fixtures.ts";

const NOW = Date.UTC(2026, 10, 21, 12);
let accounts = 0;

describeEachStore((kind, open) => {
  describe(`deposits on ${kind}`, () => {
    let store: TestStore;
    let db: Db;
    beforeAll(async () => {
      store = await open();
      db = store.db;
    });
    afterAll(async () => {
      expect((await verifyLedger(db)).problems).toEqual([]);
      await store.close();
    });
    const newAccount = async (): Promise<string> => {
      const id = `d${(accounts += 1)}`;
      await db.write((tx) => openAccount(tx, id, [`${id}.k`], NOW));
      return id;
    };

    test("a deposit that is repeated concurrently is applied once", async () => {
      const id = await newAccount();
      const results = await Promise.all(
        Array.from({ length: 12 }, () =>
          db.write((tx) => deposit(tx, promoDeposit(`${id}.gift`, id, 7n, NOW))),
        ),
      );
      expect(results.filter(Boolean)).toHaveLength(1);
      expect(await getWallet(db, id)).toEqual({ promo: 7n, paid: 0n, held: 0n });
    });

    test("a grant adds promotional credit once", async () => {
      const id = await newAccount();
      const give = (): Promise<boolean> =>
        db.write((tx) =>
          grant(tx, {
            id: `start.${id}`,
            accountId: id,
            amount: 50n,
            now: NOW,
            reason: "starting credit",
          }),
        );
      expect([await give(), await give()]).toEqual([true, false]);
      expect(await getWallet(db, id)).toEqual({ promo: 50n, paid: 0n, held: 0n });
    });

    test("rejects deposits over the maximum balance, of zero or less, and to unknown accounts", async () => {
      const id = await newAccount();
      const put = (name: string, amount: bigint, to = id): Promise<unknown> =>
        db
          .write((tx) => deposit(tx, promoDeposit(`${id}.${name}`, to, amount, NOW)))
          .catch((error: unknown) => (error instanceof Fault ? error.code : String(error)));
      expect(await put("0", MAX_NANO - 1n)).toBe(true);
      expect(await put("1", 2n)).toBe("invalid_request");
      expect(await put("2", 0n)).toContain("must be positive");
      expect(await put("3", -1n)).toContain("must be positive");
      expect(await put("4", 1n, "unknown")).toBe("not_found");
      expect(await put("5", 1n)).toBe(true);

      const epoch = await startEpoch(db, "p", NOW);
      const ledger = createLedger<UsageRecord>({
        db,
        process: "p",
        epoch,
        writeRecords: insertUsage,
      });
      const owner = { id, accountId: id, keyId: `${id}.k`, now: NOW };
      expect(await ledger.hold({ ...owner, amount: MAX_NANO, expiresAt: NOW + 1 })).toEqual({
        status: "held",
        amount: MAX_NANO,
      });
      const record = usageRecord({ ...owner, cost: MAX_NANO, createdAt: NOW });
      expect(await ledger.settle({ ...owner, cost: MAX_NANO, record })).toMatchObject({
        charged: MAX_NANO,
        overrun: 0n,
      });
    });
  });
});
