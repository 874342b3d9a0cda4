// Changes that an operator makes to accounts: transfers, rejections and audit entries.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { newId } from "../../src/base/id.ts";
import { markPaid, markRefunded } from "../../src/billing/payments/manual-payments.ts";
import { applyFact } from "../../src/billing/payments/payment-facts.ts";
import { findAutoTopUp, setAutoTopUpDue } from "../../src/billing/top-up/top-up-rows.ts";
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
import { rejectionMessage } from "../support/rejection.ts";
import { describeEachStore, openStoreAt, type TestStore } from "../support/stores/stores.ts";
import { readAudit } from "./harness.ts";

describeEachStore((kind, open) => {
  describe(`operator changes on ${kind}`, () => {
    let store: TestStore;
    let harness: BillingHarness;
    let account: string;

    beforeAll(async () => {
      store = await open();
      harness = await createBillingHarness(store.db);
    });
    beforeEach(async () => {
      account = await harness.newAccount();
    });
    afterAll(() => store.close());

    // Each change has its own time, which orders the audit entries.
    const changeBy = (reason = "because"): AccountChange => {
      harness.clock.now += 1;
      return {
        accountId: account,
        by: COMMAND_LINE_ACTOR,
        reason,
        network: null,
        now: harness.clock.now,
      };
    };
    /** Another process on the same store; SQLite supports only one. */
    const openOtherProcess = (): { readonly db: Db; readonly close: () => Promise<void> } => {
      if (kind === "sqlite") return { db: store.db, close: async () => {} };
      const db = openStoreAt(store.location);
      return { db, close: () => db.close() };
    };
    const newRequestId = (): string => newId("req", harness.clock.now);
    const grant = (usd: string, id = newRequestId()): Promise<ChangeResult> =>
      store.db.write((tx) => grantCredit(tx, { ...changeBy(), id, amount: parseUsd(usd) }));
    const adjust = (
      usd: string,
      { id = newRequestId(), bucket }: { id?: string; bucket?: "promo" | "paid" } = {},
    ): Promise<ChangeResult> =>
      store.db.write((tx) =>
        adjustBalance(tx, {
          ...changeBy(),
          id,
          amount: parseUsd(usd),
          bucket,
        }),
      );
    const owe = async (cents: number): Promise<void> => {
      const invoice = await harness.newInvoice(account, cents);
      const reference = `in ${invoice.id}`;
      await markPaid(harness.billing, {
        invoiceId: invoice.id,
        reference,
        by: COMMAND_LINE_ACTOR,
        now: harness.clock.now,
      });
      await harness.spend(account, BigInt(cents) * 10_000_000n);
      await store.db.write((tx) =>
        applyFact(
          tx,
          {
            processor: "manual",
            ref: `dispute ${invoice.id}`,
            kind: "disputed",
            payment: reference,
            invoiceId: invoice.id,
            amountCents: invoice.totalCents,
            taxCents: 0,
            currency: "usd",
            at: harness.clock.now,
          },
          harness.clock.now,
        ),
      );
    };

    describe("adjusting a balance", () => {
      test("adds paid credit from the adjustment account", async () => {
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

      test("pays debts before it adds credit", async () => {
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

      test("takes promotional credit before paid credit", async () => {
        await grant("1");
        await adjust("2");
        await adjust("-1.5");
        expect(await readWallet(store.db, account)).toMatchObject({
          promo: 0n,
          paid: 1_500_000_000n,
        });
        await expectLedgerValid(store.db);
      });

      test("changes only the given bucket", async () => {
        await grant("1");
        await adjust("2");
        await adjust("-1.5", { bucket: "paid" });
        expect(await readWallet(store.db, account)).toMatchObject({
          promo: NANO_PER_USD,
          paid: 500_000_000n,
        });
        await adjust("3", { bucket: "promo" });
        expect(await readWallet(store.db, account)).toMatchObject({ promo: 4n * NANO_PER_USD });
        expect(await rejectionMessage(adjust("-0.6", { bucket: "paid" }))).toContain(
          "At most $0.50 can be taken from paid",
        );
        await expectLedgerValid(store.db);
      });

      test("cannot take more than the balance, or credit on hold", async () => {
        await grant("3");
        const release = await harness.hold(account, 2n * NANO_PER_USD);
        expect(await rejectionMessage(adjust("-1.000000001"))).toContain(
          "At most $1.00 can be taken",
        );
        await adjust("-1");
        expect(await rejectionMessage(adjust("-0.000000001"))).toContain(
          "At most $0.00 can be taken",
        );
        await release();
        await adjust("-2");
        expect(await readWallet(store.db, account)).toMatchObject({
          promo: 0n,
          paid: 0n,
          held: 0n,
        });
        await expectLedgerValid(store.db);
      });

      test("rejects zero, invalid amounts, too large balances and unknown accounts", async () => {
        for (const usd of ["0", "", "five", "1e3", "NaN", "0.0000000001", "--1", "1,2345"])
          expect(() => parseUsd(usd)).toThrow();
        expect([parseUsd("+2"), parseUsd("−2"), parseUsd(" -2 ")]).toEqual([
          2n * NANO_PER_USD,
          -2n * NANO_PER_USD,
          -2n * NANO_PER_USD,
        ]);
        expect(await rejectionMessage(adjust("9000001"))).toContain("cannot exceed $9,000,000.00");
        account = "acct_none";
        expect(await rejectionMessage(adjust("1"))).toContain("no wallet");
        expect(await rejectionMessage(adjust("-1"))).toContain("no wallet");
        expect(
          await readAudit(store.db).then((all) => all.filter((one) => one.account_id === account)),
        ).toEqual([]);
      });

      test("is applied once per id, across processes", async () => {
        await grant("5");
        const other = openOtherProcess();
        const once = (db: Db): Promise<ChangeResult> =>
          db.write((tx) =>
            adjustBalance(tx, {
              ...changeBy(),
              id: "ticket-9",
              amount: -NANO_PER_USD,
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
        const entries = await readAudit(store.db, "account.adjusted");
        expect(entries.filter((entry) => entry.account_id === account).length).toBe(1);
        await expectLedgerValid(store.db);
      });

      test("is exact with concurrent charges and other operators", async () => {
        await grant("20");
        const other = openOtherProcess();
        await Promise.all([
          ...Array.from({ length: 10 }, () => harness.spend(account, NANO_PER_USD / 2n)),
          ...Array.from({ length: 10 }, () => adjust("-0.5")),
          ...Array.from({ length: 10 }, (_, index) =>
            other.db.write((tx) =>
              adjustBalance(tx, {
                ...changeBy(),
                id: `other-${index}`,
                amount: NANO_PER_USD / 4n,
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

      test("reports crossed thresholds, without a top-up for a frozen account", async () => {
        await grant("3");
        await store.db.write((tx) =>
          tx.run("update wallet set top_up_at = ? where account_id = ?", [
            2n * NANO_PER_USD,
            account,
          ]),
        );
        await store.db.write((tx) =>
          tx.run(
            `insert into auto_top_up (account_id, status, threshold_cents, amount_cents, ceiling_cents, failures, ceiling_told)
             values (?, 'on', 200, 500, 5000, 0, 0)`,
            [account],
          ),
        );
        const reported = async () => {
          const events = await store.db.all("select type from event where account_id = ?", [
            account,
          ]);
          const settings = await findAutoTopUp(store.db, account);
          return [events.map(({ type }) => type), settings?.dueAt ?? null];
        };
        await adjust("-2.5");
        expect(await reported()).toEqual([["balance.low"], harness.clock.now]);
        await adjust("2.5");
        await store.db.write(async (tx) => {
          await setAutoTopUpDue(tx, account, null);
          await freezeAccount(tx, changeBy());
        });
        await adjust("-2.5");
        expect(await reported()).toEqual([["balance.low", "balance.low"], null]);
      });
    });

    describe("freezing", () => {
      test("rejects holds until the account is unfrozen", async () => {
        await grant("5");
        await store.db.write((tx) => freezeAccount(tx, changeBy("abuse")));
        const request = {
          id: newRequestId(),
          accountId: account,
          keyId: `${account}.k`,
          amount: NANO_PER_USD,
          now: harness.clock.now,
          expiresAt: harness.clock.now + 1_000,
        };
        expect(await harness.ledger.hold(request)).toMatchObject({ status: "frozen" });
        await adjust("5");
        expect(await harness.ledger.hold(request)).toMatchObject({ status: "frozen" });
        await store.db.write((tx) => unfreezeAccount(tx, changeBy("sorry")));
        expect(await harness.ledger.hold(request)).toMatchObject({ status: "held" });
        await harness.ledger.settle({ ...request, cost: 0n });
        await expectLedgerValid(store.db);
      });

      test("lets running calls finish and charges them", async () => {
        await grant("5");
        const request = {
          id: newRequestId(),
          accountId: account,
          keyId: `${account}.k`,
          amount: NANO_PER_USD,
          now: harness.clock.now,
          expiresAt: harness.clock.now + 1_000,
        };
        await harness.ledger.hold(request);
        await store.db.write((tx) => freezeAccount(tx, changeBy()));
        const record = usageRecord({
          ...request,
          cost: NANO_PER_USD,
          createdAt: harness.clock.now,
        });
        const settled = await harness.ledger.settle({ ...request, cost: NANO_PER_USD, record });
        expect(settled).toMatchObject({ status: "settled", charged: NANO_PER_USD });
        await expectLedgerValid(store.db);
      });

      test("keeps the first reason if repeated", async () => {
        const first = await store.db.write((tx) => freezeAccount(tx, changeBy("first")));
        const second = await store.db.write((tx) => freezeAccount(tx, changeBy("second")));
        expect([first.isChanged, second.isChanged]).toEqual([true, false]);
        const row = await store.db.get("select frozen_reason from wallet where account_id = ?", [
          account,
        ]);
        expect(row?.["frozen_reason"]).toBe("first");
        expect((await store.db.write((tx) => unfreezeAccount(tx, changeBy()))).isChanged).toBe(
          true,
        );
        expect((await store.db.write((tx) => unfreezeAccount(tx, changeBy()))).isChanged).toBe(
          false,
        );
      });

      test("is rejected for an unknown account", async () => {
        account = "acct_none";
        expect(
          await rejectionMessage(store.db.write((tx) => freezeAccount(tx, changeBy()))),
        ).toContain("no wallet");
        expect(
          await rejectionMessage(store.db.write((tx) => unfreezeAccount(tx, changeBy()))),
        ).toContain("no wallet");
      });
    });

    describe("audit entries", () => {
      const last = async () =>
        (await readAudit(store.db)).findLast((entry) => entry.account_id === account);

      test("have actor, action, reason, and balances before and after", async () => {
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
        await store.db.write((tx) => freezeAccount(tx, changeBy("abuse")));
        expect(await last()).toMatchObject({
          action: "account.frozen",
          target: account,
          detail: { reason: "abuse", frozen_before: false, frozen_after: true },
        });
        await store.db.write((tx) => unfreezeAccount(tx, changeBy("talked")));
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

      test("are written for a write-off, with its transfer", async () => {
        await owe(700);
        const done = await store.db.write((tx) =>
          writeOffAccountDebt(tx, { ...changeBy("lost"), id: newRequestId() }),
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
          writeOffAccountDebt(tx, { ...changeBy(), id: newRequestId() }),
        );
        expect(again.isChanged).toBe(false);
        await expectLedgerValid(store.db);
      });

      test("are written for manual payments, in the same transaction", async () => {
        const invoice = await harness.newInvoice(account, 1_000);
        const paid = {
          invoiceId: invoice.id,
          reference: `in ${account}`,
          by: COMMAND_LINE_ACTOR,
          now: harness.clock.now,
        };
        await markPaid(harness.billing, paid);
        await markPaid(harness.billing, paid);
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
        harness.clock.now += 1;
        const back = { ...paid, reference: `out ${account}`, amountCents: 1_050 };
        await markRefunded(harness.billing, back);
        await markRefunded(harness.billing, back);
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

      test("are rolled back with the change", async () => {
        const before = await readAudit(store.db);
        const failing = store.db.write(async (tx) => {
          await grantCredit(tx, { ...changeBy(), id: "lost", amount: NANO_PER_USD });
          await freezeAccount(tx, changeBy());
          throw new Error("simulated failure");
        });
        expect(await rejectionMessage(failing)).toContain("simulated failure");
        expect(await readAudit(store.db)).toEqual(before);
        expect(await readWallet(store.db, account)).toMatchObject({ promo: 0n });
      });

      test("need a reason of one line", () => {
        for (const reason of ["", "   ", "a\nb", "nul\u0000", "x".repeat(501)])
          expect(() => parseReason(reason)).toThrow();
        expect(parseReason("  a reason ")).toBe("a reason");
      });
    });
  });
});
