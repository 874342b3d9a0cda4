// Payment facts: every order gives the same ledger, and facts that do not match are set aside.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { array, assert, integer, nat, property, record } from "fast-check";
import { MAX_NANO } from "../../../src/base/money/money.ts";
import {
  amountsDelta,
  creditsFor,
  nanoOfCents,
  remainingAmounts,
} from "../../../src/billing/invoices/cents.ts";
import { findInvoice, voidInvoice } from "../../../src/billing/invoices/invoices.ts";
import { markPaid, markRefunded } from "../../../src/billing/payments/manual-payments.ts";
import { applyFact, ingestFacts } from "../../../src/billing/payments/payment-facts.ts";
import type { PaymentFact } from "../../../src/billing/payments/payment-processor.ts";
import { deposit, getWallet } from "../../../src/ledger/ledger.ts";
import { writeOffDebt } from "../../../src/ledger/payments/payments.ts";
import { TEST_ACTOR, actIn } from "../../support/act.ts";
import { rejectionMessage } from "../../support/rejection.ts";
import { describeEachStore, type TestStore } from "../../support/stores/stores.ts";
import {
  NANO_PER_CENT,
  expectLedgerValid,
  ledgerBalanceOf,
  NANO_PER_USD,
  readWallet,
} from "../fixtures.ts";
import { createBillingHarness, type BillingHarness } from "../harness.ts";

let nextRef = 0;

describeEachStore((kind, open) => {
  describe(`payment facts on ${kind}`, () => {
    let store: TestStore;
    let harness: BillingHarness;
    beforeAll(async () => {
      store = await open();
      harness = await createBillingHarness(store.db);
    });
    afterEach(() => expectLedgerValid(store.db));
    afterAll(() => store.close());

    async function newPurchase(cents = 1_000) {
      const accountId = await harness.newAccount();
      const invoice = await harness.newInvoice(accountId, cents);
      const payment = `pay.${(nextRef += 1)}`;
      const base = {
        processor: "test",
        payment,
        invoiceId: invoice.id,
        taxCents: 0,
        currency: "usd",
        at: 1,
      };
      const fact = (
        factKind: PaymentFact["kind"],
        amountCents: number,
        overrides: Partial<PaymentFact> = {},
      ): PaymentFact => ({
        ...base,
        kind: factKind,
        amountCents,
        ref: factKind === "paid" ? payment : `${payment}.${(nextRef += 1)}`,
        ...overrides,
      });
      return { accountId, invoice, payment, fact, paid: fact("paid", invoice.totalCents) };
    }

    const apply = (fact: PaymentFact) => harness.db.write((tx) => applyFact(tx, fact, 1));
    const statesOf = async (fact: PaymentFact) => (await apply(fact)).map(({ state }) => state);
    const balancesOf = async (accountId: string) => {
      const rows = await harness.db.all(
        `select account, cast(sum(amount) as text) as total from (
           select to_account as account, amount from transfer where account_id = ?
           union all select from_account as account, -amount as amount from transfer where account_id = ?
         ) as moved group by account order by account`,
        [accountId, accountId],
      );
      return rows
        .filter(({ total }) => String(total) !== "0")
        .map(({ account, total }) => `${String(account).replace(accountId, "")} ${String(total)}`);
    };

    test("every order of the same facts, with repetitions, ends in the same balances", async () => {
      const outcomes = new Set<string>();
      const orders = permutations([0, 1, 2, 3, 4]).filter(
        (_, index) => kind === "sqlite" || index % 6 === 0,
      );
      for (const order of orders) {
        const { accountId, invoice, fact, paid } = await newPurchase(2_000);
        const dispute = fact("disputed", 700);
        const facts = [
          paid,
          fact("refunded", 333),
          dispute,
          fact("dispute_closed", 700, { ref: dispute.ref }),
          fact("refunded", 1_111),
        ];
        for (const index of [...order, ...order]) {
          const next = facts[index];
          if (next !== undefined) await apply(next);
        }
        const { status } = (await findInvoice(harness.db, invoice.id)) ?? {};
        outcomes.add(JSON.stringify([status, await balancesOf(accountId)]));
      }
      expect([...outcomes]).toEqual([
        // 2,100 cents were paid and 1,444 returned: 69 of the fee, 1,375 of the credits.
        JSON.stringify([
          "paid",
          [":paid 6247619000", "system:clearing:test -6560000000", "system:fee_revenue 312381000"],
        ]),
      ]);
    });

    test("a refund waits for its payment, and a dispute's closure for its dispute", async () => {
      const { accountId, fact, paid } = await newPurchase();
      const dispute = fact("disputed", 200);
      expect(await statesOf(fact("dispute_closed", 0, { ref: dispute.ref }))).toEqual(["waiting"]);
      expect(await statesOf(fact("refunded", 1_050))).toEqual(["waiting"]);
      expect(await statesOf(paid)).toEqual(["applied", "applied"]);
      expect(await statesOf(dispute)).toEqual(["applied", "applied"]);
      expect(await readWallet(harness.db, accountId)).toMatchObject({ paid: 0n, owed: 0n });
    });

    test("concurrent transactions with the same payment credit it once", async () => {
      const { accountId, paid } = await newPurchase();
      const states = await Promise.all(Array.from({ length: 12 }, () => statesOf(paid)));
      expect(states.flat().filter((state) => state === "applied")).toHaveLength(1);
      expect((await readWallet(harness.db, accountId)).paid).toBe(10n * NANO_PER_USD);
    });

    test("a second payment of an invoice goes to suspense, and its refund takes no credits", async () => {
      const { accountId, invoice, fact, paid } = await newPurchase();
      await apply(paid);
      const suspense = await ledgerBalanceOf(harness.db, "system:suspense");
      const second = { ...paid, ref: `${paid.ref}.again`, payment: `${paid.payment}.again` };
      const [applied] = await apply(second);
      expect(applied?.reason).toContain("was already paid by test:");
      expect(await ledgerBalanceOf(harness.db, "system:suspense")).toBe(
        suspense + 1_050n * NANO_PER_CENT,
      );
      await apply(fact("refunded", 1_050, { payment: second.payment }));
      expect(await ledgerBalanceOf(harness.db, "system:suspense")).toBe(suspense);
      expect((await readWallet(harness.db, accountId)).paid).toBe(10n * NANO_PER_USD);
      expect((await findInvoice(harness.db, invoice.id))?.status).toBe("paid");
    });

    test("does not credit a wrong amount, an invalid amount or another currency", async () => {
      for (const [amount, overrides, reason] of [
        [1_049, {}, "1049 cents were paid, but 1050 are due"],
        [1_051, {}, "1051 cents were paid, but 1050 are due"],
        [1_050, { taxCents: 10 }, "1050 cents were paid, but 1060 are due"],
        [0, {}, "the amount is zero"],
        [-1_050, {}, "the amount is out of range"],
        [10.5, {}, "the amount is out of range"],
        [Number.NaN, {}, "the amount is out of range"],
        [1e15, {}, "the amount is out of range"],
        [1_050, { currency: "eur" }, "the currency is eur, not usd"],
        [1_050, { invoiceId: "inv_none" }, "no invoice has this id"],
      ] as const) {
        const { accountId, fact, invoice } = await newPurchase();
        const [applied] = await apply(fact("paid", amount, overrides));
        expect(applied?.reason).toBe(reason);
        expect((await readWallet(harness.db, accountId)).paid).toBe(0n);
        expect((await findInvoice(harness.db, invoice.id))?.status).toBe("open");
      }
    });

    test("a known fact with another amount changes nothing and is reported to the operator", async () => {
      const { accountId, paid } = await newPurchase();
      await apply(paid);
      const [applied] = await apply({ ...paid, amountCents: 9_999 });
      expect(applied).toMatchObject({
        state: "known",
        reason: "it differs from the recorded fact",
      });
      expect((await readWallet(harness.db, accountId)).paid).toBe(10n * NANO_PER_USD);
    });

    test("a payment or refund cannot be applied to another invoice", async () => {
      const [first, second] = [await newPurchase(), await newPurchase()];
      await apply(first.paid);
      await apply(second.paid);
      expect(await statesOf({ ...first.paid, invoiceId: second.invoice.id })).toEqual(["known"]);
      const refund = first.fact("refunded", 100, { invoiceId: second.invoice.id });
      expect(await statesOf(refund)).toEqual(["aside"]);
      for (const { accountId } of [first, second])
        expect((await readWallet(harness.db, accountId)).paid).toBe(10n * NANO_PER_USD);
    });

    test("refunds above the payment are booked as the operator's loss", async () => {
      const { accountId, fact, paid } = await newPurchase();
      await apply(paid);
      const before = await ledgerBalanceOf(harness.db, "system:refund_expense");
      await apply(fact("refunded", 1_050));
      const [second] = await apply(fact("refunded", 1_050));
      expect(second?.reason).toContain("more was returned than was paid");
      expect(await readWallet(harness.db, accountId)).toMatchObject({ paid: 0n, owed: 0n });
      expect(before - (await ledgerBalanceOf(harness.db, "system:refund_expense"))).toBe(
        1_050n * NANO_PER_CENT,
      );
    });

    test("a dispute's closure cannot return more than the dispute took", async () => {
      const { accountId, fact, paid } = await newPurchase();
      await apply(paid);
      const dispute = fact("disputed", 500);
      await apply(dispute);
      expect(await statesOf(fact("dispute_closed", 501, { ref: dispute.ref }))).toEqual(["aside"]);
      expect((await readWallet(harness.db, accountId)).paid).toBeLessThan(10n * NANO_PER_USD);
    });

    test("a dispute does not take held credits; they are collected when the call ends", async () => {
      const { accountId, fact, paid } = await newPurchase();
      await apply(paid);
      const release = await harness.hold(accountId, 6n * NANO_PER_USD);
      await apply(fact("disputed", 1_050));
      expect(await getWallet(harness.db, accountId)).toEqual({
        promo: 0n,
        paid: 6n * NANO_PER_USD,
        held: 6n * NANO_PER_USD,
        owed: 6n * NANO_PER_USD,
      });
      await release();
      await harness.runPoll();
      expect(await getWallet(harness.db, accountId)).toEqual({ promo: 0n, paid: 0n, held: 0n });
    });

    test("a frozen account gets no holds except for calls that cost nothing", async () => {
      const { accountId, fact, paid } = await newPurchase();
      await apply(paid);
      await harness.spend(accountId, 4n * NANO_PER_USD);
      await apply(fact("disputed", 1_050));
      const call = {
        id: `${accountId}.h`,
        accountId,
        keyId: `${accountId}.k`,
        now: 1,
        expiresAt: 2,
      };
      expect(await harness.ledger.hold({ ...call, amount: 1n })).toEqual({
        status: "frozen",
        owed: 4n * NANO_PER_USD,
      });
      expect(await harness.ledger.hold({ ...call, amount: 0n })).toMatchObject({ status: "held" });
      await harness.ledger.settle({ ...call, cost: 0n });
      const writeOff = { id: `${accountId}.off`, accountId, now: 1, reason: "goodwill" };
      expect(await harness.db.write((tx) => writeOffDebt(tx, writeOff))).toBe(4n * NANO_PER_USD);
      expect(
        await harness.ledger.hold({ ...call, id: `${accountId}.i`, amount: 1n }),
      ).toMatchObject({
        status: "insufficient_credits",
      });
    });

    test("a payment that would exceed the largest balance goes to suspense", async () => {
      const { accountId, paid } = await newPurchase();
      await harness.db.write((tx) =>
        deposit(tx, {
          id: `${accountId}.gift`,
          accountId,
          bucket: "promo",
          from: "system:promo_expense",
          amount: MAX_NANO - NANO_PER_USD,
          kind: "grant",
          ref: "test",
          now: 1,
        }),
      );
      const [applied] = await apply(paid);
      expect(applied?.reason).toContain("exceed its limit");
      expect((await readWallet(harness.db, accountId)).paid).toBe(0n);
    });

    test("a void invoice is paid by a late payment, and a paid invoice cannot be voided", async () => {
      for (const isVoidedFirst of [true, false]) {
        const { accountId, invoice, paid } = await newPurchase();
        const voiding = () =>
          harness.db.write((tx) => voidInvoice(tx, actIn(accountId, 1), invoice.id));
        if (isVoidedFirst) await voiding();
        await apply(paid);
        if (!isVoidedFirst) expect(await rejectionMessage(voiding())).toContain("invoice is paid");
        expect((await findInvoice(harness.db, invoice.id))?.status).toBe("paid");
        expect((await readWallet(harness.db, accountId)).paid).toBe(10n * NANO_PER_USD);
      }
    });

    test("markPaid credits a bank transfer once, and its reference pays one invoice only", async () => {
      const [one, other] = [await newPurchase(), await newPurchase()];
      const transfer = {
        invoiceId: one.invoice.id,
        reference: `bank ${one.payment}`,
        by: TEST_ACTOR,
        now: 1,
      };
      const markPaidError = (changes: Partial<typeof transfer>) =>
        rejectionMessage(markPaid(harness.billing, { ...transfer, ...changes }));
      expect([
        await markPaid(harness.billing, transfer),
        await markPaid(harness.billing, transfer),
      ]).toEqual([true, false]);
      expect(await markPaidError({ invoiceId: other.invoice.id })).toContain("already used for");
      expect(await markPaidError({ reference: "another" })).toContain("already paid");
      expect(await markPaidError({ invoiceId: "inv_none" })).toContain("No invoice");
      expect((await readWallet(harness.db, one.accountId)).paid).toBe(10n * NANO_PER_USD);

      await harness.spend(one.accountId, 3n * NANO_PER_USD);
      const refund = { ...transfer, reference: `back ${one.payment}`, amountCents: 735 };
      const markRefundedError = (changes: Partial<typeof refund>) =>
        rejectionMessage(markRefunded(harness.billing, { ...refund, ...changes }));
      expect(await markRefundedError({ amountCents: 1_050 })).toContain("which are $7.00");
      expect(await markRefundedError({ amountCents: 1_051 })).toContain("Only $10.50");
      expect([
        await markRefunded(harness.billing, refund),
        await markRefunded(harness.billing, refund),
      ]).toEqual([true, false]);
      expect((await readWallet(harness.db, one.accountId)).paid).toBe(0n);
      expect(await markRefundedError({ invoiceId: other.invoice.id, amountCents: 1 })).toContain(
        "not paid by bank transfer",
      );
    });

    test("concurrent payments and refunds by the operator never exceed the invoice or the balance", async () => {
      const { accountId, invoice, payment } = await newPurchase();
      const transfer = {
        invoiceId: invoice.id,
        reference: `bank ${payment}`,
        by: TEST_ACTOR,
        now: 1,
      };
      const suspense = await ledgerBalanceOf(harness.db, "system:suspense");
      const paid = await Promise.allSettled(
        ["", " again"].map((suffix) =>
          markPaid(harness.billing, { ...transfer, reference: transfer.reference + suffix }),
        ),
      );
      expect(paid.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
      expect(await ledgerBalanceOf(harness.db, "system:suspense")).toBe(suspense);
      await harness.spend(accountId, 3n * NANO_PER_USD);
      const loss = await ledgerBalanceOf(harness.db, "system:refund_expense");
      const refunds = await Promise.allSettled(
        [1, 2, 3].map((count) =>
          markRefunded(harness.billing, {
            ...transfer,
            reference: `back ${count} of ${payment}`,
            amountCents: 420,
          }),
        ),
      );
      expect(refunds.map(({ status }) => status).toSorted()).toEqual([
        "fulfilled",
        "rejected",
        "rejected",
      ]);
      expect(await ledgerBalanceOf(harness.db, "system:refund_expense")).toBe(loss);
      expect((await readWallet(harness.db, accountId)).paid).toBe(3n * NANO_PER_USD);
    });

    test("logs a payment that needs operator action", async () => {
      const { fact } = await newPurchase();
      await ingestFacts(harness.billing, [fact("paid", 1)], 1);
      expect(harness.logged.at(-1)).toContain("payment needs operator action");
    });
  });
});

describe("remainingAmounts", () => {
  const received = record({
    total: integer({ min: 1, max: 2_500_000 }),
    tax: integer({ min: 0, max: 500_000 }),
  }).map(({ total, tax }) => ({
    amountCents: total + tax,
    credits: creditsFor(total),
    taxCents: tax,
  }));

  test("decreases monotonically to zero, and every step adds up", () => {
    assert(
      property(received, array(nat(3_500_000), { maxLength: 8 }), (payment, returns) => {
        const returned = [0, ...returns.sort((a, b) => a - b), 4_000_000];
        for (const [index, after] of returned.entries()) {
          const before = returned[index - 1] ?? 0;
          const step = amountsDelta(
            remainingAmounts(payment, before),
            remainingAmounts(payment, after),
          );
          const amounts = [step.credit, step.fee, step.tax, step.excess];
          expect(amounts.every((amount) => amount >= 0n)).toBe(true);
          expect(amounts.reduce((sum, amount) => sum + amount, 0n)).toBe(
            nanoOfCents(after - before),
          );
        }
        const all = remainingAmounts(payment, payment.amountCents);
        expect([all.credit, all.fee, all.tax, all.excess]).toEqual([0n, 0n, 0n, 0n]);
      }),
    );
  });

  test("never increases an amount when returned cent by cent", () => {
    const payment = { amountCents: 1_299, credits: 10_510_000, taxCents: 195 };
    for (let cents = 1; cents <= 1_299; cents++) {
      const step = amountsDelta(
        remainingAmounts(payment, cents - 1),
        remainingAmounts(payment, cents),
      );
      expect([step.credit, step.fee, step.tax].every((amount) => amount >= 0n)).toBe(true);
    }
  });
});

function permutations(items: readonly number[]): readonly (readonly number[])[] {
  if (items.length <= 1) return [items];
  return items.flatMap((item) =>
    permutations(items.filter((other) => other !== item)).map((rest) => [item].concat(rest)),
  );
}
