// The worst moment to lose a connection: nobody knows whether the commit was done.

import { describe, expect, test, setDefaultTimeout } from "bun:test";
import { HOUR_MS } from "../../../src/base/time.ts";
import { deposit, getWallet } from "../../../src/ledger/ledger.ts";
import { verifyLedger } from "../../../src/ledger/verify.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { describeEachStore, type TestStore } from "../../support/stores/stores.ts";
import { startFaultyProxy } from "../../support/faulty-proxy.ts";
import { openAccount, startLedger, promoDeposit, usageRecord } from "../fixtures.ts";

// The first of these tests starts a PostgreSQL, on a machine that may be busy.
setDefaultTimeout(60_000);

const NOW = Date.UTC(2026, 10, 21, 12);

const OWNER = { accountId: "a", keyId: "k", now: NOW };

/** A process of one account with 1,000 nano, whose ledger reaches the store by a wire that can be cut. */
async function startWithProxy({ db, location, close }: TestStore) {
  const wire = await startFaultyProxy(location.address);
  const through = openPostgres(wire.url);
  await db.write(async (tx) => {
    await openAccount(tx, "a", ["k"], NOW);
    await deposit(tx, promoDeposit("a.start", "a", 1_000n, NOW));
  });
  const ledger = await startLedger(db, "p", NOW, { db: through });
  await through.get("select 1");
  const stop = async (): Promise<void> => {
    await through.close();
    wire.stop();
    await close();
  };
  return { db, wire, ledger, stop };
}

describeEachStore(
  (_, open) => {
    describe("a wire that is cut at the commit", () => {
      for (const when of ["before", "after"] as const) {
        test(`${when} the server heard of it: a hold holds once and a settle charges once`, async () => {
          const { db, wire, ledger, stop } = await startWithProxy(await open());
          const names = Array.from({ length: 20 }, (_one, count) => `h${count}`);

          let cut = wire.cutAtCommit(when);
          const holds = await Promise.all(
            names.map((id) => ledger.hold({ ...OWNER, id, amount: 100n, expiresAt: NOW + 1 })),
          );
          await cut;
          expect(holds.filter((one) => one.status === "held")).toHaveLength(10);
          expect((await getWallet(db, "a")).held).toBe(1_000n);

          cut = wire.cutAtCommit(when);
          const ends = await Promise.all(
            names.slice(0, 10).map((id) =>
              ledger.settle({
                ...OWNER,
                id,
                cost: 30n,
                record: usageRecord({
                  id,
                  accountId: "a",
                  keyId: "k",
                  cost: 30n,
                  createdAt: NOW,
                }),
              }),
            ),
          );
          await cut;
          expect(new Set(ends.map((one) => one.status))).toEqual(
            new Set([when === "before" ? "settled" : "already"]),
          );
          expect(await getWallet(db, "a")).toEqual({ promo: 700n, paid: 0n, held: 0n });
          expect((await verifyLedger(db)).problems).toEqual([]);
          await stop();
        }, 20_000);
      }

      test("a hold whose caller was refused meanwhile is given back when the store is there again", async () => {
        const { db, wire, ledger, stop } = await startWithProxy(await open());
        const cut = wire.cutAtCommit("after");
        const held = ledger
          .hold({ ...OWNER, id: "h", amount: 1_000n, expiresAt: NOW + HOUR_MS })
          .catch((error: unknown) => error);
        await cut;
        wire.stop();
        expect(await held).toMatchObject({ code: "overloaded" });
        expect((await getWallet(db, "a")).held).toBe(1_000n);
        await wire.restart();
        await ledger.idle();
        expect(await getWallet(db, "a")).toEqual({ promo: 1_000n, paid: 0n, held: 0n });
        expect((await verifyLedger(db)).problems).toEqual([]);
        await stop();
      }, 30_000);
    });
  },
  ["postgres"],
);
