// Connections lost at the commit, when the client cannot know whether it was applied.

import { describe, expect, test } from "bun:test";
import { HOUR_MS } from "../../../src/base/time.ts";
import { deposit, getWallet } from "../../../src/ledger/ledger.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { verifyLedger } from "../../../src/verification/verify.ts";
import { startFaultyProxy } from "../../support/faulty-proxy.ts";
import { describeEachStore, type TestStore } from "../../support/stores/stores.ts";
import { openAccount, startLedger, promoDeposit, usageRecord } from "../fixtures.ts";

const NOW = Date.UTC(2026, 10, 21, 12);

const OWNER = { accountId: "a", keyId: "k", now: NOW };

/** One account with 1,000 nano-USD, and a ledger that connects through a proxy. */
async function startWithProxy({ db, location, close }: TestStore) {
  const proxy = await startFaultyProxy(location.address);
  const proxied = openPostgres(proxy.url);
  await db.write(async (tx) => {
    await openAccount(tx, "a", ["k"], NOW);
    await deposit(tx, promoDeposit("a.start", "a", 1_000n, NOW));
  });
  const ledger = await startLedger(db, "p", NOW, { db: proxied });
  await proxied.get("select 1");
  const stop = async (): Promise<void> => {
    await proxied.close();
    proxy.stop();
    await close();
  };
  return { db, proxy, ledger, stop };
}

describeEachStore(
  (_, open) => {
    describe("a connection lost at the commit", () => {
      for (const when of ["before", "after"] as const) {
        test(`${when} the server received it: holds once and charges once`, async () => {
          const { db, proxy, ledger, stop } = await startWithProxy(await open());
          const names = Array.from({ length: 20 }, (_one, count) => `h${count}`);

          let cut = proxy.cutAtCommit(when);
          const holds = await Promise.all(
            names.map((id) => ledger.hold({ ...OWNER, id, amount: 100n, expiresAt: NOW + 1 })),
          );
          await cut;
          expect(holds.filter((one) => one.status === "held")).toHaveLength(10);
          expect((await getWallet(db, "a")).held).toBe(1_000n);

          cut = proxy.cutAtCommit(when);
          const settlements = await Promise.all(
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
          expect(new Set(settlements.map((one) => one.status))).toEqual(
            new Set([when === "before" ? "settled" : "already"]),
          );
          expect(await getWallet(db, "a")).toEqual({ promo: 700n, paid: 0n, held: 0n });
          expect((await verifyLedger(db)).problems).toEqual([]);
          await stop();
        });
      }

      test("releases a hold whose caller got an error when the store is back", async () => {
        const { db, proxy, ledger, stop } = await startWithProxy(await open());
        const cut = proxy.cutAtCommit("after");
        const held = ledger
          .hold({ ...OWNER, id: "h", amount: 1_000n, expiresAt: NOW + HOUR_MS })
          .catch((error: unknown) => error);
        await cut;
        proxy.stop();
        expect(await held).toMatchObject({ code: "overloaded" });
        expect((await getWallet(db, "a")).held).toBe(1_000n);
        await proxy.restart();
        await ledger.idle();
        expect(await getWallet(db, "a")).toEqual({ promo: 1_000n, paid: 0n, held: 0n });
        expect((await verifyLedger(db)).problems).toEqual([]);
        await stop();
      });
    });
  },
  ["postgres"],
);
