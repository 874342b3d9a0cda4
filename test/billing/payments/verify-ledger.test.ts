// Corrupts rows of payments; `verify-ledger` must report each corruption.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { applyFact } from "../../../src/billing/payments/payment-facts.ts";
import { verifyLedger } from "../../../src/verification/verify.ts";
import { describeEachStore, type TestStore } from "../../support/stores/stores.ts";
import { createBillingHarness, type BillingHarness } from "../harness.ts";

const TABLES = [
  "transfer",
  "wallet",
  "spender",
  "api_key",
  "usage_record",
  "event",
  "invoice",
  "payment",
  "payment_fact",
  "top_up",
];
const TRANSFER =
  "insert into transfer (id, account_id, from_account, to_account, amount, kind, ref, at) values";

const TOP_UP =
  "insert into top_up (id, account_id, invoice_id, method_id, amount_cents, fee_cents, state, created_at)";

const CORRUPTIONS: readonly (readonly [label: string, sql: string, problem: RegExp])[] = [
  [
    "a debt without a transfer",
    "update wallet set owed = 5",
    /account's debt does not match its transfers.*owed 5/,
  ],
  [
    "a write-off without a transfer",
    "update wallet set written_off = 5",
    /written-off debt does not match its transfers.*written_off 5/,
  ],
  [
    "a payment with a smaller transfer",
    "update payment set amount_cents = amount_cents + 1",
    /payment's transfers do not match what was received/,
  ],
  [
    "a refund without a transfer",
    "update payment set refunded_cents = 1",
    /payment's transfers do not match what was received/,
  ],
  [
    "credit from a processor without a payment",
    "delete from payment",
    /clearing transfer belongs to no payment/,
  ],
  [
    "a payment credited to another account",
    `${TRANSFER} ('x', 'b', 'system:clearing:test', 'system:suspense', 5, 'purchase', 'test:pay', 1)`,
    /clearing transfer belongs to no payment of its account: account_id b, ref test:pay/,
  ],
  [
    "a paid invoice without a credited payment",
    "update payment set state = 'suspense'",
    /invoice's status does not match its payments/,
  ],
  [
    "an open invoice with a credited payment",
    "update invoice set status = 'open'",
    /invoice's status does not match its payments/,
  ],
  [
    "an invoice whose total differs from its payment",
    "update invoice set total_cents = total_cents + 1",
    /invoice's status does not match its payments/,
  ],
  [
    "an invoice with two credited payments",
    `insert into payment (id, invoice_id, account_id, processor, state, currency, amount_cents, credits, tax_cents, refunded_cents, disputed_cents, paid_at)
     select 'test:again', invoice_id, account_id, processor, state, currency, amount_cents, credits, tax_cents, refunded_cents, disputed_cents, paid_at from payment`,
    /invoice's status does not match its payments.*payments 2/,
  ],
  [
    "a failed top-up with a paid invoice",
    `${TOP_UP} select 'tup', account_id, id, 'pmt', 1000, 50, 'failed', 1 from invoice`,
    /top-up's state does not match its invoice: id tup/,
  ],
  [
    "a paid top-up that is still open",
    `insert into top_up (id, account_id, invoice_id, method_id, amount_cents, fee_cents, state, open_for, created_at)
     select 'tup', account_id, id, 'pmt', 1000, 50, 'paid', account_id, 1 from invoice`,
    /top-up's state does not match its invoice: id tup/,
  ],
];

describeEachStore((kind, open) => {
  describe(`verify-ledger and payments on ${kind}`, () => {
    let store: TestStore;
    let harness: BillingHarness;
    beforeAll(async () => {
      store = await open();
      harness = await createBillingHarness(store.db);
    });
    afterAll(() => store.close());
    beforeEach(async () => {
      await store.db.write(async (tx) => {
        for (const table of TABLES) await tx.run(`delete from ${table}`);
      });
      const accountId = await harness.newAccount();
      const { id: invoiceId } = await harness.newInvoice(accountId, 1_000);
      const paid = {
        processor: "test",
        ref: "pay",
        kind: "paid",
        payment: "pay",
        invoiceId,
        amountCents: 1_050,
        taxCents: 0,
        currency: "usd",
        at: 1,
      } as const;
      await store.db.write((tx) => applyFact(tx, paid, 1));
    });

    test("reports no problems in a valid ledger", async () => {
      expect((await verifyLedger(store.db)).problems).toEqual([]);
    });

    for (const [label, sql, problem] of CORRUPTIONS)
      test(`reports ${label}`, async () => {
        await store.db.write((tx) => tx.run(sql));
        expect((await verifyLedger(store.db)).problems.join("\n")).toMatch(problem);
      });
  });
});
