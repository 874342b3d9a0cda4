// A debt that was written off, and a dispute that is won after all: the credit of it was given once already. The same is
// held against random histories of money that comes, is spent, goes back, is written off and comes back.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { applyFact } from "../../../src/billing/payments/payment-facts.ts";
import type { FactKind } from "../../../src/billing/payments/payment-processor.ts";
import {
  writeOffAccountDebt,
  COMMAND_LINE_ACTOR,
} from "../../../src/operator/accounts/account-actions.ts";
import { readReport } from "../../../src/operator/report/report.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { describeEachStore, type TestStore } from "../../support/stores/stores.ts";
import {
  NANO_PER_CENT,
  expectLedgerValid,
  ledgerBalanceOf,
  NANO_PER_USD,
  readWallet,
} from "../fixtures.ts";
import { type RandomInt, createRandom } from "../random.ts";
import { createBillingHarness, type BillingHarness } from "../harness.ts";

// The first test starts PostgreSQL.
setDefaultTimeout(120_000);

const SEED = Number(process.env["POSTERN_TEST_SEED"] ?? Date.now() % 1_000_000);
const HISTORIES = { sqlite: 300, postgres: 40 } as const;

interface RecordedFact {
  readonly kind: FactKind;
  readonly ref: string;
  readonly payment: string;
  readonly invoiceId: string;
  readonly cents: number;
}

describeEachStore((kind, open) => {
  describe(`debts that were written off, on ${kind}`, () => {
    let store: TestStore;
    let harness: BillingHarness;
    let names = 0;
    beforeAll(async () => {
      store = await open();
      harness = await createBillingHarness(store.db);
    });
    afterAll(async () => {
      await expectLedgerValid(store.db);
      await store.close();
    });

    const tell = ({ kind: what, ref, payment, invoiceId, cents }: RecordedFact) =>
      store.db.write((tx) =>
        applyFact(
          tx,
          {
            processor: "test",
            ref,
            kind: what,
            payment,
            invoiceId,
            amountCents: cents,
            taxCents: 0,
            currency: "usd",
            at: harness.clock.now,
          },
          harness.clock.now,
        ),
      );
    const newRef = (what: string): string => `${what}_${(names += 1)}`;

    /** Buys for so many cents; responses how to say what becomes of that payment. */
    async function buy(accountId: string, cents: number) {
      const invoice = await harness.newInvoice(accountId, cents);
      const payment = newRef("pay");
      const paidCents = invoice.amountCents + invoice.feeCents;
      const about = { payment, invoiceId: invoice.id };
      await tell({ ...about, kind: "paid", ref: payment, cents: paidCents });
      const goesBack = async (way: "refunded" | "disputed", backCents: number) => {
        const ref = newRef(way);
        await tell({ ...about, kind: way, ref, cents: backCents });
        const undone = way === "refunded" ? "refund_failed" : "dispute_closed";
        return (comesBackCents: number) =>
          tell({ ...about, kind: undone, ref, cents: comesBackCents });
      };
      return { paidCents, goesBack };
    }

    const writeOff = (accountId: string) =>
      store.db.write((tx) =>
        writeOffAccountDebt(tx, {
          accountId,
          by: COMMAND_LINE_ACTOR,
          reason: "goodwill",
          network: null,
          now: harness.clock.now,
          id: newRef("off"),
        }),
      );
    const losses = async () => -(await ledgerBalanceOf(store.db, "system:refund_expense"));

    test("a dispute that is won pays back the write-off, and the account gains nothing", async () => {
      const before = await losses();
      const accountId = await harness.newAccount();
      const { paidCents, goesBack } = await buy(accountId, 1_000);
      await harness.spend(accountId, 10n * NANO_PER_USD);
      const win = await goesBack("disputed", paidCents);
      expect(await readWallet(store.db, accountId)).toMatchObject({
        paid: 0n,
        owed: 10n * NANO_PER_USD,
      });
      await writeOff(accountId);
      expect(await losses()).toBe(before + 10n * NANO_PER_USD);
      await win(paidCents);
      expect(await readWallet(store.db, accountId)).toMatchObject({ paid: 0n, owed: 0n });
      expect(await losses()).toBe(before);
    });

    test("what the dispute took of the balance comes back to the account", async () => {
      const before = await losses();
      const accountId = await harness.newAccount();
      const { paidCents, goesBack } = await buy(accountId, 1_000);
      await harness.spend(accountId, 6n * NANO_PER_USD);
      const win = await goesBack("disputed", paidCents);
      await writeOff(accountId);
      await win(paidCents);
      expect(await readWallet(store.db, accountId)).toMatchObject({
        paid: 4n * NANO_PER_USD,
        owed: 0n,
      });
      expect(await losses()).toBe(before);
    });

    test("a dispute that took nothing that was spent pays back no other's write-off", async () => {
      const before = await losses();
      const accountId = await harness.newAccount();
      const spent = await buy(accountId, 1_000);
      await harness.spend(accountId, 10n * NANO_PER_USD);
      await spent.goesBack("disputed", spent.paidCents);
      await writeOff(accountId);
      const unspent = await buy(accountId, 500);
      const win = await unspent.goesBack("disputed", unspent.paidCents);
      await win(unspent.paidCents);
      expect(await readWallet(store.db, accountId)).toMatchObject({
        paid: 5n * NANO_PER_USD,
        owed: 0n,
      });
      expect(await losses()).toBe(before + 10n * NANO_PER_USD);
    });

    test("a part of a debt that the account paid itself comes back to the account", async () => {
      const before = await losses();
      const accountId = await harness.newAccount();
      const first = await buy(accountId, 1_000);
      await harness.spend(accountId, 10n * NANO_PER_USD);
      const win = await first.goesBack("disputed", first.paidCents);
      await buy(accountId, 300);
      expect(await readWallet(store.db, accountId)).toMatchObject({
        paid: 0n,
        owed: 7n * NANO_PER_USD,
      });
      await writeOff(accountId);
      await win(first.paidCents);
      expect(await readWallet(store.db, accountId)).toMatchObject({
        paid: 3n * NANO_PER_USD,
        owed: 0n,
      });
      expect(await losses()).toBe(before);
    });

    test("two disputes that are written off together are each paid back when they are won", async () => {
      const before = await losses();
      const accountId = await harness.newAccount();
      const bought = [await buy(accountId, 1_000), await buy(accountId, 500)];
      await harness.spend(accountId, 15n * NANO_PER_USD);
      const wins = [];
      for (const { goesBack, paidCents } of bought)
        wins.push({ win: await goesBack("disputed", paidCents), paidCents });
      await writeOff(accountId);
      for (const { win, paidCents } of wins) {
        await win(paidCents);
        expect((await readWallet(store.db, accountId)).paid).toBe(0n);
      }
      expect(await losses()).toBe(before);
    });

    test("a newer debt stays owed while the older one's dispute is won", async () => {
      const accountId = await harness.newAccount();
      const bought = [await buy(accountId, 1_000), await buy(accountId, 500)];
      await harness.spend(accountId, 15n * NANO_PER_USD);
      const [first, second] = bought;
      const win = await first?.goesBack("disputed", first.paidCents);
      await writeOff(accountId);
      await second?.goesBack("disputed", second.paidCents);
      await win?.(1_050);
      expect(await readWallet(store.db, accountId)).toMatchObject({
        paid: 0n,
        owed: 5n * NANO_PER_USD,
      });
    });

    test("of more refunds and disputes than there was money, each may be undone first", async () => {
      for (const ways of [
        ["disputed", "refunded"],
        ["refunded", "disputed"],
      ] as const)
        for (const order of [0, 1]) {
          const before = await losses();
          const accountId = await harness.newAccount();
          const { paidCents, goesBack } = await buy(accountId, 1_000);
          await harness.spend(accountId, 10n * NANO_PER_USD);
          const undo = [];
          for (const way of ways) {
            undo.push(await goesBack(way, paidCents));
            await writeOff(accountId);
          }
          await undo[order]?.(paidCents);
          await undo[1 - order]?.(paidCents);
          expect(await readWallet(store.db, accountId)).toMatchObject({ paid: 0n, owed: 0n });
          expect(await losses()).toBe(before);
        }
    });

    test("the report says what was written off and did not come back", async () => {
      const period = { from: harness.clock.now, to: harness.clock.now + 1 };
      const read = () => store.db.snapshot((reader) => readReport(reader, period));
      const before = await read();
      const accountId = await harness.newAccount();
      const { paidCents, goesBack } = await buy(accountId, 1_000);
      await harness.spend(accountId, 10n * NANO_PER_USD);
      const win = await goesBack("disputed", paidCents);
      await writeOff(accountId);
      const written = await read();
      expect(written.writtenOff - before.writtenOff).toBe(10n * NANO_PER_USD);
      await win(paidCents);
      const won = await read();
      expect(won.writtenOff).toBe(before.writtenOff);
      expect(won.refundLoss).toBe(before.refundLoss);
    });

    test("what was written off before the store knew of it is found out when it is migrated", async () => {
      const accountId = await harness.newAccount();
      const bought = [await buy(accountId, 1_000), await buy(accountId, 500)];
      await harness.spend(accountId, 15n * NANO_PER_USD);
      const wins = [];
      for (const { goesBack, paidCents } of bought)
        wins.push(await goesBack("disputed", paidCents));
      await writeOff(accountId);
      await wins[0]?.(1_050);
      await store.db.write(async (tx) => {
        await tx.run("update wallet set written_off = 0 where account_id = ?", [accountId]);
        await tx.run("delete from migration where name = '0012-loose-ends'");
      });
      expect(await migrate(store.db, 2)).toEqual(["0012-loose-ends"]);
      await expectLedgerValid(store.db);
      await wins[1]?.(525);
      expect(await readWallet(store.db, accountId)).toMatchObject({ paid: 0n, owed: 0n });
    });

    test(`${HISTORIES[kind]} histories leave nobody with more than they paid for (seed ${SEED})`, async () => {
      for (let place = 0; place < HISTORIES[kind]; place++) await live(createRandom(SEED + place));
      await expectLedgerValid(store.db);
    });

    async function live(roll: RandomInt): Promise<void> {
      const accountId = await harness.newAccount();
      const bought: (Awaited<ReturnType<typeof buy>> & { credit: bigint })[] = [];
      const open: { readonly undo: (cents: number) => Promise<unknown>; readonly cents: number }[] =
        [];
      const told: string[] = [];
      for (let steps = 4 + roll(16); steps > 0; steps--) {
        const step = STEPS[roll(STEPS.length)] ?? "buy";
        const one = bought[roll(Math.max(1, bought.length))];
        told.push(step);
        if (step === "buy") {
          const cents = 100 + roll(2_000);
          bought.push({ ...(await buy(accountId, cents)), credit: BigInt(cents) * NANO_PER_CENT });
        } else if (step === "spend") {
          const { paid } = await readWallet(store.db, accountId);
          const some = roll(3) === 0 ? paid : (paid * BigInt(roll(100))) / 100n;
          if (some > 0n) await harness.spend(accountId, some);
        } else if (step === "write off") await writeOff(accountId);
        else if (step === "refunded" || step === "disputed") {
          if (one === undefined) continue;
          const cents = roll(2) === 0 ? one.paidCents : 1 + roll(one.paidCents);
          open.push({ undo: await one.goesBack(step, cents), cents });
        } else if (open.length > 0) {
          const [back] = open.splice(roll(open.length), 1);
          // A dispute that is lost brings nothing; one that is won in part brings that.
          const share = step === "undone" ? 1 : roll(2) === 0 ? 0 : roll(100) / 100;
          if (back !== undefined) await back.undo(Math.floor(back.cents * share));
        }
        await expectFair(accountId, bought, told);
      }
      const isWhole = !told.includes("undone in part");
      for (const { undo, cents } of open) await undo(cents);
      await expectFair(accountId, bought, told);
      if (!isWhole) return;
      // All that went back has come back: it is as if nothing had been, and nobody has lost anything.
      const { paid, owed } = await readWallet(store.db, accountId);
      const all = bought.reduce((total, { credit }) => total + credit, 0n);
      expect({ told, owed, ...(await moved(accountId)) }).toMatchObject({
        owed: 0n,
        borne: 0n,
        spent: all - paid,
      });
    }

    /** What of the account's own credit was spent, and what the house has given it on top. */
    async function moved(accountId: string) {
      const row = await store.db.get(
        `select cast(coalesce(sum(case when kind = 'usage' then amount else 0 end), 0) as text) as spent,
           cast(coalesce(sum(case when id like '%.beyond' then 0 when from_account = 'system:refund_expense' then amount
             when to_account = 'system:refund_expense' then -amount else 0 end), 0) as text) as borne
         from transfer where account_id = ? and from_account not like '%:promo'`,
        [accountId],
      );
      return { spent: BigInt(String(row?.["spent"])), borne: BigInt(String(row?.["borne"])) };
    }

    async function expectFair(
      accountId: string,
      bought: readonly { readonly credit: bigint }[],
      told: readonly string[],
    ): Promise<void> {
      const { paid, owed } = await readWallet(store.db, accountId);
      const { spent, borne } = await moved(accountId);
      const all = bought.reduce((total, { credit }) => total + credit, 0n);
      const verdict = paid + spent <= all && borne >= 0n && owed >= 0n ? "fair" : "unfair";
      expect({ verdict, told, paid, spent, owed, borne, all }).toMatchObject({ verdict: "fair" });
    }
  });
});

const STEPS = [
  "buy",
  "spend",
  "spend",
  "refunded",
  "disputed",
  "disputed",
  "write off",
  "undone",
  "undone",
  "undone in part",
] as const;
