// What an operator does by hand: where the money goes, what is refused, and what is written down of it.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { newId } from "../../src/base/id.ts";
import type { PaymentDeps } from "../../src/billing/payments/checkouts.ts";
import { markPaid, markRefunded } from "../../src/billing/payments/manual-payments.ts";
import { applyFact } from "../../src/billing/payments/payment-facts.ts";
import type { ThresholdCrossing } from "../../src/ledger/balance-thresholds.ts";
import { auditManualPayment } from "../../src/operator/payments/audit-manual-payment.ts";
import {
  type AccountChange,
  writeOffAccountDebt,
  COMMAND_LINE_ACTOR,
  adjustBalance,
  type ChangeResult,
  freezeAccount,
  grantCredit,
  parseReason,
  parseUsd,
  unfreezeAccount,
} from "../../src/operator/accounts/account-actions.ts";
import type { Db } from "../../src/store/db.ts";
import {
  expectLedgerValid,
  ledgerBalanceOf,
  NANO_PER_USD,
  readWallet,
} from "../billing/fixtures.ts";
import { createBillingHarness, type BillingHarness } from "../billing/harness.ts";
import { usageRecord } from "../ledger/fixtures.ts";
import { describeEachStore, openStoreAt, type TestStore } from "../support/stores/stores.ts";
import { readAudit } from "./harness.ts";

describeEachStore((kind, open) => {
  describe(`an operator's changes on ${kind}`, () => {
    let store: TestStore;
    let shop: BillingHarness;
    let account: string;
    let falls: ThresholdCrossing[];

    beforeAll(async () => {
      store = await open();
      shop = await createBillingHarness(store.db);
    });
    beforeEach(async () => {
      account = await shop.newAccount();
      falls = [];
    });
    afterAll(() => store.close());

    // Entries are in the order of their times.
    const act = (reason = "because"): AccountChange => {
      shop.clock.now += 1;
      return {
        accountId: account,
        by: COMMAND_LINE_ACTOR,
        reason,
        network: null,
        now: shop.clock.now,
      };
    };
    /** Another process on the same store; SQLite has one alone. */
    const elsewhere = (): { readonly db: Db; readonly close: () => Promise<void> } => {
      if (kind === "sqlite") return { db: store.db, close: async () => {} };
      const db = openStoreAt(store.location);
      return { db, close: () => db.close() };
    };
    const name = (): string => newId("req", shop.clock.now);
    const grant = (usd: string, id = name()): Promise<ChangeResult> =>
      store.db.write((tx) => grantCredit(tx, { ...act(), id, amount: parseUsd(usd) }));
    const adjust = (
      usd: string,
      { id = name(), bucket }: { id?: string; bucket?: "promo" | "paid" } = {},
    ): Promise<ChangeResult> =>
      store.db.write((tx) =>
        adjustBalance(tx, {
          ...act(),
          id,
          amount: parseUsd(usd),
          bucket,
          onBalanceThresholds: async (_tx, told) => void falls.push(...told),
        }),
      );
    const refusal = async (work: Promise<unknown>): Promise<string> => {
      const error = await work.then(
        () => new Error("it was not refused"),
        (thrown: unknown) => thrown,
      );
      return error instanceof Error ? error.message : String(error);
    };
    const owe = async (cents: number): Promise<void> => {
      const invoice = await shop.newInvoice(account, cents);
      const reference = `in ${invoice.id}`;
      await markPaid(shop.billing, { invoiceId: invoice.id, reference, now: shop.clock.now });
      await shop.spend(account, BigInt(cents) * 10_000_000n);
      await store.db.write((tx) =>
        applyFact(
          tx,
          {
            processor: "manual",
            ref: `dispute ${invoice.id}`,
            kind: "disputed",
            payment: reference,
            invoiceId: invoice.id,
            amountCents: invoice.amountCents + invoice.feeCents,
            taxCents: 0,
            currency: "usd",
            at: shop.clock.now,
          },
          shop.clock.now,
        ),
      );
    };

    describe("adjusting a balance", () => {
      test("upwards goes to paid credit, out of the house's account for adjustments", async () => {
        const before = await ledgerBalanceOf(store.db, "system:adjustment");
        await grant("1");
        const done = await adjust("2.5");
        expect(done).toMatchObject({
          isChanged: true,
          before: { paid: 0n },
          after: { paid: 2_500_000_000n },
        });
        expect(await readWallet(store.db, account)).toEqual({
          promo: NANO_PER_USD,
          paid: 2_500_000_000n,
          held: 0n,
          owed: 0n,
        });
        expect(before - (await ledgerBalanceOf(store.db, "system:adjustment"))).toBe(
          2_500_000_000n,
        );
        await expectLedgerValid(store.db);
      });

      test("upwards makes good for what the account owes first", async () => {
        await owe(500);
        expect(await readWallet(store.db, account)).toMatchObject({
          paid: 0n,
          owed: 5n * NANO_PER_USD,
        });
        await adjust("2");
        expect(await readWallet(store.db, account)).toMatchObject({
          paid: 0n,
          owed: 3n * NANO_PER_USD,
        });
        await adjust("4.25");
        expect(await readWallet(store.db, account)).toMatchObject({
          paid: 1_250_000_000n,
          owed: 0n,
        });
        await expectLedgerValid(store.db);
      });

      test("downwards takes promotional credit first, then paid", async () => {
        await grant("1");
        await adjust("2");
        await adjust("-1.5");
        expect(await readWallet(store.db, account)).toMatchObject({
          promo: 0n,
          paid: 1_500_000_000n,
        });
        await expectLedgerValid(store.db);
      });

      test("touches a bucket that is named, and no other", async () => {
        await grant("1");
        await adjust("2");
        await adjust("-1.5", { bucket: "paid" });
        expect(await readWallet(store.db, account)).toMatchObject({
          promo: NANO_PER_USD,
          paid: 500_000_000n,
        });
        await adjust("3", { bucket: "promo" });
        expect(await readWallet(store.db, account)).toMatchObject({ promo: 4n * NANO_PER_USD });
        expect(await refusal(adjust("-0.6", { bucket: "paid" }))).toContain(
          "At most 0.5 USD can be taken from paid",
        );
        await expectLedgerValid(store.db);
      });

      test("never takes what is not there, or what open calls hold", async () => {
        await grant("3");
        const letGo = await shop.hold(account, 2n * NANO_PER_USD);
        expect(await refusal(adjust("-1.000000001"))).toContain("At most 1 USD can be taken");
        await adjust("-1");
        expect(await refusal(adjust("-0.000000001"))).toContain("At most 0 USD can be taken");
        await letGo();
        await adjust("-2");
        expect(await readWallet(store.db, account)).toMatchObject({
          promo: 0n,
          paid: 0n,
          held: 0n,
        });
        await expectLedgerValid(store.db);
      });

      test("refuses nothing, what is no amount, more than a balance may be, and nobody's account", async () => {
        for (const usd of ["0", "", "five", "1e3", "NaN", "0.0000000001", "--1", "1,5"])
          expect(() => parseUsd(usd)).toThrow();
        expect([parseUsd("+2"), parseUsd("−2"), parseUsd(" -2 ")]).toEqual([
          2n * NANO_PER_USD,
          -2n * NANO_PER_USD,
          -2n * NANO_PER_USD,
        ]);
        expect(await refusal(adjust("9000001"))).toContain("cannot exceed 9000000 USD");
        account = "acct_nobody";
        expect(await refusal(adjust("1"))).toContain("no wallet");
        expect(await refusal(adjust("-1"))).toContain("no wallet");
        expect(
          await readAudit(store.db).then((all) => all.filter((one) => one.account_id === account)),
        ).toEqual([]);
      });

      test("is done once under one id, however often and from wherever it is asked for", async () => {
        await grant("5");
        const other = elsewhere();
        const once = (db: Db): Promise<ChangeResult> =>
          db.write((tx) =>
            adjustBalance(tx, {
              ...act(),
              id: "ticket-9",
              amount: -NANO_PER_USD,
              onBalanceThresholds: async () => {},
            }),
          );
        const done = await Promise.all([
          once(store.db),
          once(other.db),
          once(store.db),
          once(other.db),
        ]);
        await other.close();
        expect(done.filter(({ isChanged }) => isChanged).length).toBe(1);
        expect(await readWallet(store.db, account)).toMatchObject({ promo: 4n * NANO_PER_USD });
        const told = await readAudit(store.db, "account.adjusted");
        expect(told.filter((one) => one.account_id === account).length).toBe(1);
        await expectLedgerValid(store.db);
      });

      test("beside charges and other operators it loses nothing", async () => {
        await grant("20");
        const other = elsewhere();
        await Promise.all([
          ...Array.from({ length: 10 }, () => shop.spend(account, NANO_PER_USD / 2n)),
          ...Array.from({ length: 10 }, () => adjust("-0.5")),
          ...Array.from({ length: 10 }, (_, place) =>
            other.db.write((tx) =>
              adjustBalance(tx, {
                ...act(),
                id: `other-${place}`,
                amount: NANO_PER_USD / 4n,
                onBalanceThresholds: async () => {},
              }),
            ),
          ),
        ]);
        await other.close();
        const { promo, paid } = await readWallet(store.db, account);
        expect(promo + paid).toBe(
          20n * NANO_PER_USD - 5n * NANO_PER_USD - 5n * NANO_PER_USD + 2_500_000_000n,
        );
        await expectLedgerValid(store.db);
      });

      test("tells of the marks that the balance fell below, and buys nothing for a frozen account", async () => {
        await grant("3");
        await store.db.write((tx) =>
          tx.run("update wallet set top_up_at = ? where account_id = ?", [
            2n * NANO_PER_USD,
            account,
          ]),
        );
        await adjust("-2.5");
        expect(falls.map(({ kind }) => kind)).toEqual(["low", "top_up"]);
        await adjust("2.5");
        await store.db.write((tx) => freezeAccount(tx, act()));
        falls = [];
        await adjust("-2.5");
        expect(falls.map(({ kind }) => kind)).toEqual(["low"]);
      });
    });

    describe("freezing", () => {
      test("stops holds at once, and is lifted by unfreezing alone", async () => {
        await grant("5");
        await store.db.write((tx) => freezeAccount(tx, act("abuse")));
        const request = {
          id: name(),
          accountId: account,
          keyId: `${account}.k`,
          amount: NANO_PER_USD,
          now: shop.clock.now,
          expiresAt: shop.clock.now + 1_000,
        };
        expect(await shop.ledger.hold(request)).toMatchObject({ status: "frozen" });
        await adjust("5");
        expect(await shop.ledger.hold(request)).toMatchObject({ status: "frozen" });
        await store.db.write((tx) => unfreezeAccount(tx, act("sorry")));
        expect(await shop.ledger.hold(request)).toMatchObject({ status: "held" });
        await shop.ledger.settle({ ...request, cost: 0n });
        await expectLedgerValid(store.db);
      });

      test("leaves calls that run to their end, which are charged", async () => {
        await grant("5");
        const request = {
          id: name(),
          accountId: account,
          keyId: `${account}.k`,
          amount: NANO_PER_USD,
          now: shop.clock.now,
          expiresAt: shop.clock.now + 1_000,
        };
        await shop.ledger.hold(request);
        await store.db.write((tx) => freezeAccount(tx, act()));
        const record = usageRecord({ ...request, cost: NANO_PER_USD, createdAt: shop.clock.now });
        const settled = await shop.ledger.settle({ ...request, cost: NANO_PER_USD, record });
        expect(settled).toMatchObject({ status: "settled", charged: NANO_PER_USD });
        await expectLedgerValid(store.db);
      });

      test("changes nothing the second time, and keeps the first reason", async () => {
        const first = await store.db.write((tx) => freezeAccount(tx, act("first")));
        const second = await store.db.write((tx) => freezeAccount(tx, act("second")));
        expect([first.isChanged, second.isChanged]).toEqual([true, false]);
        const row = await store.db.get("select frozen_reason from wallet where account_id = ?", [
          account,
        ]);
        expect(row?.["frozen_reason"]).toBe("first");
        expect((await store.db.write((tx) => unfreezeAccount(tx, act()))).isChanged).toBe(true);
        expect((await store.db.write((tx) => unfreezeAccount(tx, act()))).isChanged).toBe(false);
      });

      test("is refused for an account that is not there", async () => {
        account = "acct_nobody";
        expect(await refusal(store.db.write((tx) => freezeAccount(tx, act())))).toContain(
          "no wallet",
        );
        expect(await refusal(store.db.write((tx) => unfreezeAccount(tx, act())))).toContain(
          "no wallet",
        );
      });
    });

    describe("what is written down", () => {
      const last = async () =>
        (await readAudit(store.db)).findLast((one) => one.account_id === account);

      test("says who, what, why, and how it stood before and after", async () => {
        await grant("1.5", "gift");
        expect(await last()).toEqual({
          account_id: account,
          actor: "operator command line",
          action: "account.credited",
          target: `grant.${account}.gift`,
          detail: { usd: "1.5", reason: "because", promo_before: "0", promo_after: "1.5" },
          network: null,
        });
        await adjust("-0.5", { id: "fix" });
        expect(await last()).toMatchObject({
          action: "account.adjusted",
          target: `adjust.${account}.fix`,
          detail: { usd: "-0.5", reason: "because", promo_before: "1.5", promo_after: "1" },
        });
        await store.db.write((tx) => freezeAccount(tx, act("abuse")));
        expect(await last()).toMatchObject({
          action: "account.frozen",
          target: account,
          detail: { reason: "abuse", frozen_before: false, frozen_after: true },
        });
        await store.db.write((tx) => unfreezeAccount(tx, act("talked")));
        expect(await last()).toMatchObject({
          action: "account.unfrozen",
          detail: {
            reason: "talked",
            frozen_for: "abuse",
            frozen_before: true,
            frozen_after: false,
          },
        });
      });

      test("a debt that is borne is an entry and a transfer", async () => {
        await owe(700);
        const done = await store.db.write((tx) =>
          writeOffAccountDebt(tx, { ...act("lost"), id: name() }),
        );
        expect(done).toMatchObject({
          isChanged: true,
          before: { owed: 7n * NANO_PER_USD },
          after: { owed: 0n },
        });
        expect(await last()).toMatchObject({
          action: "debt.written_off",
          detail: { usd: "7", reason: "lost", owed_before: "7", owed_after: "0" },
        });
        const again = await store.db.write((tx) =>
          writeOffAccountDebt(tx, { ...act(), id: name() }),
        );
        expect(again.isChanged).toBe(false);
        await expectLedgerValid(store.db);
      });

      test("payments that are entered by hand are entries in the transaction of their money", async () => {
        const till = (): PaymentDeps => ({
          ...shop.billing,
          onApplied: auditManualPayment(COMMAND_LINE_ACTOR, shop.clock.now),
        });
        const invoice = await shop.newInvoice(account, 1_000);
        const paid = { invoiceId: invoice.id, reference: `in ${account}`, now: shop.clock.now };
        await markPaid(till(), paid);
        await markPaid(till(), paid);
        expect(await last()).toMatchObject({
          actor: "operator command line",
          action: "invoice.marked_paid",
          target: invoice.id,
          detail: {
            usd: "10.5",
            reference: `in ${account}`,
            status: "paid",
            paid_before: "0",
            paid_after: "10",
          },
        });
        shop.clock.now += 1;
        const back = { ...paid, reference: `out ${account}`, amountCents: 1_050 };
        await markRefunded(till(), back);
        await markRefunded(till(), back);
        expect(await last()).toMatchObject({
          action: "invoice.marked_refunded",
          detail: { usd: "10.5", status: "refunded", paid_before: "10", paid_after: "0" },
        });
        const entries = (await readAudit(store.db)).filter((one) => one.account_id === account);
        expect(entries.map(({ action }) => action)).toEqual([
          "invoice.created",
          "invoice.marked_paid",
          "invoice.marked_refunded",
        ]);
      });

      test("is there exactly where the change is: a transaction that fails leaves neither", async () => {
        const before = await readAudit(store.db);
        const failing = store.db.write(async (tx) => {
          await grantCredit(tx, { ...act(), id: "lost", amount: NANO_PER_USD });
          await freezeAccount(tx, act());
          throw new Error("the power went out");
        });
        expect(await refusal(failing)).toContain("the power went out");
        expect(await readAudit(store.db)).toEqual(before);
        expect(await readWallet(store.db, account)).toMatchObject({ promo: 0n });
      });

      test("has a reason: none, a blank one, one of several lines and an endless one are refused", () => {
        for (const reason of ["", "   ", "a\nb", "nul\u0000", "x".repeat(501)])
          expect(() => parseReason(reason)).toThrow();
        expect(parseReason("  a reason ")).toBe("a reason");
      });
    });
  });
});
