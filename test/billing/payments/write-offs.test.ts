// Write-offs and reversals: a dispute that is won after its debt was written off must not credit the account twice. Also
// checked with random histories of purchases, spending, refunds, disputes, write-offs and reversals.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { applyFact } from "../../../src/billing/payments/payment-facts.ts";
import type { FactKind } from "../../../src/billing/payments/payment-processor.ts";
import {
  writeOffAccountDebt,
  COMMAND_LINE_ACTOR,
} from "../../../src/operator/accounts/account-actions.ts";
import { readReport } from "../../../src/verification/report.ts";
import { readTransferSums } from "../../../src/verification/transfer-sums.ts";
import { ALL_TRANSFERS } from "../../ledger/fixtures.ts";
import { runs } from "../../support/full.ts";
import { type RandomInt, TEST_SEED, createRandom } from "../../support/random.ts";
import { describeEachStore, type TestStore } from "../../support/stores/stores.ts";
import {
  NANO_PER_CENT,
  expectLedgerValid,
  ledgerBalanceOf,
  NANO_PER_USD,
  readWallet,
} from "../fixtures.ts";
import { createBillingHarness, type BillingHarness } from "../harness.ts";

const HISTORIES = { sqlite: runs(300), postgres: runs(40) } as const;

interface RecordedFact {
  readonly kind: FactKind;
  readonly ref: string;
  readonly payment: string;
  readonly invoiceId: string;
  readonly cents: number;
}

describeEachStore((kind, open) => {
  describe(`write-offs on ${kind}`, () => {
    let store: TestStore;
    let harness: BillingHarness;
    let nextRef = 0;
    beforeAll(async () => {
      store = await open();
      harness = await createBillingHarness(store.db);
    });
    afterAll(async () => {
      await expectLedgerValid(store.db);
      await store.close();
    });

    const apply = ({ kind: factKind, ref, payment, invoiceId, cents }: RecordedFact) =>
      store.db.write((tx) =>
        applyFact(
          tx,
          {
            processor: "test",
            ref,
            kind: factKind,
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
    const newRef = (prefix: string): string => `${prefix}_${(nextRef += 1)}`;

    /** Buys credits. `returnPayment` refunds or disputes the payment, and returns a function that reverses that. */
    async function buy(accountId: string, cents: number) {
      const invoice = await harness.newInvoice(accountId, cents);
      const payment = newRef("pay");
      const paidCents = invoice.totalCents;
      const common = { payment, invoiceId: invoice.id };
      await apply({ ...common, kind: "paid", ref: payment, cents: paidCents });
      const returnPayment = async (returnKind: "refunded" | "disputed", cents: number) => {
        const ref = newRef(returnKind);
        await apply({ ...common, kind: returnKind, ref, cents });
        const reversalKind = returnKind === "refunded" ? "refund_failed" : "dispute_closed";
        return (reversedCents: number) =>
          apply({ ...common, kind: reversalKind, ref, cents: reversedCents });
      };
      return { paidCents, returnPayment };
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
    const refundExpense = async () => -(await ledgerBalanceOf(store.db, "system:refund_expense"));

    test("a won dispute repays the write-off, and the account gains nothing", async () => {
      const before = await refundExpense();
      const accountId = await harness.newAccount();
      const { paidCents, returnPayment } = await buy(accountId, 1_000);
      await harness.spend(accountId, 10n * NANO_PER_USD);
      const win = await returnPayment("disputed", paidCents);
      expect(await readWallet(store.db, accountId)).toMatchObject({
        paid: 0n,
        owed: 10n * NANO_PER_USD,
      });
      await writeOff(accountId);
      expect(await refundExpense()).toBe(before + 10n * NANO_PER_USD);
      await win(paidCents);
      expect(await readWallet(store.db, accountId)).toMatchObject({ paid: 0n, owed: 0n });
      expect(await refundExpense()).toBe(before);
    });

    test("a won dispute restores what it took from the balance", async () => {
      const before = await refundExpense();
      const accountId = await harness.newAccount();
      const { paidCents, returnPayment } = await buy(accountId, 1_000);
      await harness.spend(accountId, 6n * NANO_PER_USD);
      const win = await returnPayment("disputed", paidCents);
      await writeOff(accountId);
      await win(paidCents);
      expect(await readWallet(store.db, accountId)).toMatchObject({
        paid: 4n * NANO_PER_USD,
        owed: 0n,
      });
      expect(await refundExpense()).toBe(before);
    });

    test("a won dispute of unspent credits does not repay another payment's write-off", async () => {
      const before = await refundExpense();
      const accountId = await harness.newAccount();
      const spent = await buy(accountId, 1_000);
      await harness.spend(accountId, 10n * NANO_PER_USD);
      await spent.returnPayment("disputed", spent.paidCents);
      await writeOff(accountId);
      const unspent = await buy(accountId, 500);
      const win = await unspent.returnPayment("disputed", unspent.paidCents);
      await win(unspent.paidCents);
      expect(await readWallet(store.db, accountId)).toMatchObject({
        paid: 5n * NANO_PER_USD,
        owed: 0n,
      });
      expect(await refundExpense()).toBe(before + 10n * NANO_PER_USD);
    });

    test("a won dispute restores the part of the debt that the account paid itself", async () => {
      const before = await refundExpense();
      const accountId = await harness.newAccount();
      const first = await buy(accountId, 1_000);
      await harness.spend(accountId, 10n * NANO_PER_USD);
      const win = await first.returnPayment("disputed", first.paidCents);
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
      expect(await refundExpense()).toBe(before);
    });

    test("two disputes that were written off together are repaid one by one when won", async () => {
      const before = await refundExpense();
      const accountId = await harness.newAccount();
      const purchases = [await buy(accountId, 1_000), await buy(accountId, 500)];
      await harness.spend(accountId, 15n * NANO_PER_USD);
      const wins = [];
      for (const { returnPayment, paidCents } of purchases)
        wins.push({ win: await returnPayment("disputed", paidCents), paidCents });
      await writeOff(accountId);
      for (const { win, paidCents } of wins) {
        await win(paidCents);
        expect((await readWallet(store.db, accountId)).paid).toBe(0n);
      }
      expect(await refundExpense()).toBe(before);
    });

    test("a newer debt remains when the dispute of an older one is won", async () => {
      const accountId = await harness.newAccount();
      const purchases = [await buy(accountId, 1_000), await buy(accountId, 500)];
      await harness.spend(accountId, 15n * NANO_PER_USD);
      const [first, second] = purchases;
      const win = await first?.returnPayment("disputed", first.paidCents);
      await writeOff(accountId);
      await second?.returnPayment("disputed", second.paidCents);
      await win?.(1_050);
      expect(await readWallet(store.db, accountId)).toMatchObject({
        paid: 0n,
        owed: 5n * NANO_PER_USD,
      });
    });

    test("refunds and disputes above the payment can be reversed in any order", async () => {
      for (const kinds of [
        ["disputed", "refunded"],
        ["refunded", "disputed"],
      ] as const)
        for (const order of [0, 1]) {
          const before = await refundExpense();
          const accountId = await harness.newAccount();
          const { paidCents, returnPayment } = await buy(accountId, 1_000);
          await harness.spend(accountId, 10n * NANO_PER_USD);
          const reversals = [];
          for (const returnKind of kinds) {
            reversals.push(await returnPayment(returnKind, paidCents));
            await writeOff(accountId);
          }
          await reversals[order]?.(paidCents);
          await reversals[1 - order]?.(paidCents);
          expect(await readWallet(store.db, accountId)).toMatchObject({ paid: 0n, owed: 0n });
          expect(await refundExpense()).toBe(before);
        }
    });

    test("the report shows write-offs that were not repaid", async () => {
      const period = { from: harness.clock.now, to: harness.clock.now + 1 };
      const read = () =>
        store.db.snapshot(async (reader) =>
          readReport(reader, period, await readTransferSums(reader)),
        );
      const before = await read();
      const accountId = await harness.newAccount();
      const { paidCents, returnPayment } = await buy(accountId, 1_000);
      await harness.spend(accountId, 10n * NANO_PER_USD);
      const win = await returnPayment("disputed", paidCents);
      await writeOff(accountId);
      const afterWriteOff = await read();
      expect(afterWriteOff.writtenOff - before.writtenOff).toBe(10n * NANO_PER_USD);
      await win(paidCents);
      const afterWin = await read();
      expect(afterWin.writtenOff).toBe(before.writtenOff);
      expect(afterWin.refundLoss).toBe(before.refundLoss);
    });

    test(`${HISTORIES[kind]} random histories give no account more than it paid for`, async () => {
      for (let index = 0; index < HISTORIES[kind]; index++)
        await runHistory(createRandom(TEST_SEED + index));
      await expectLedgerValid(store.db);
    });

    async function runHistory(random: RandomInt): Promise<void> {
      const accountId = await harness.newAccount();
      const purchases: (Awaited<ReturnType<typeof buy>> & { credit: bigint })[] = [];
      const open: {
        readonly reverse: (cents: number) => Promise<unknown>;
        readonly cents: number;
      }[] = [];
      const steps: string[] = [];
      for (let left = 4 + random(16); left > 0; left--) {
        const step = STEPS[random(STEPS.length)] ?? "buy";
        const purchase = purchases[random(Math.max(1, purchases.length))];
        steps.push(step);
        if (step === "buy") {
          const cents = 100 + random(2_000);
          purchases.push({
            ...(await buy(accountId, cents)),
            credit: BigInt(cents) * NANO_PER_CENT,
          });
        } else if (step === "spend") {
          const { paid } = await readWallet(store.db, accountId);
          const amount = random(3) === 0 ? paid : (paid * BigInt(random(100))) / 100n;
          if (amount > 0n) await harness.spend(accountId, amount);
        } else if (step === "write off") await writeOff(accountId);
        else if (step === "refunded" || step === "disputed") {
          if (purchase === undefined) continue;
          const cents = random(2) === 0 ? purchase.paidCents : 1 + random(purchase.paidCents);
          open.push({ reverse: await purchase.returnPayment(step, cents), cents });
        } else if (open.length > 0) {
          const [returned] = open.splice(random(open.length), 1);
          // A lost dispute returns nothing, one that is won in part returns a part.
          const share = step === "reversed" ? 1 : random(2) === 0 ? 0 : random(100) / 100;
          if (returned !== undefined) await returned.reverse(Math.floor(returned.cents * share));
        }
        await expectFair(accountId, purchases, steps);
      }
      const isAllReversed = !steps.includes("reversed in part");
      for (const { reverse, cents } of open) await reverse(cents);
      await expectFair(accountId, purchases, steps);
      if (!isAllReversed) return;
      // Every return was reversed in full, so neither the account nor the operator has lost anything.
      const { paid, owed } = await readWallet(store.db, accountId);
      const total = purchases.reduce((sum, { credit }) => sum + credit, 0n);
      expect({ steps, owed, ...(await totalsOf(accountId)) }).toMatchObject({
        owed: 0n,
        borne: 0n,
        spent: total - paid,
      });
    }

    /** The purchased credit that the account spent, and the operator's loss. */
    async function totalsOf(accountId: string) {
      const row = await store.db.get(
        `select cast(coalesce(sum(case when kind = 'usage' then amount else 0 end), 0) as text) as spent,
           cast(coalesce(sum(case when id like '%.beyond' then 0 when from_account = 'system:refund_expense' then amount
             when to_account = 'system:refund_expense' then -amount else 0 end), 0) as text) as borne
         from ${ALL_TRANSFERS} where account_id = ? and from_account not like '%:promo'`,
        [accountId],
      );
      return { spent: BigInt(String(row?.["spent"])), borne: BigInt(String(row?.["borne"])) };
    }

    async function expectFair(
      accountId: string,
      purchases: readonly { readonly credit: bigint }[],
      steps: readonly string[],
    ): Promise<void> {
      const { paid, owed } = await readWallet(store.db, accountId);
      const { spent, borne } = await totalsOf(accountId);
      const total = purchases.reduce((sum, { credit }) => sum + credit, 0n);
      const isFair = paid + spent <= total && borne >= 0n && owed >= 0n;
      expect({ isFair, steps, paid, spent, owed, borne, total }).toMatchObject({ isFair: true });
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
  "reversed",
  "reversed",
  "reversed in part",
] as const;
