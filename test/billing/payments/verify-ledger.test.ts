// What can be wrong about payments is made wrong by hand, and `verify-ledger` must find it.

import {
  afterAll,
  beforeAll,
  beforeEach,
  describe,
  expect,
  setDefaultTimeout,
  test,
} from "bun:test";
import { applyFact } from "../../../src/billing/payments/payment-facts.ts";
import { verifyLedger } from "../../../src/ledger/verify.ts";
import { describeEachStore, type TestStore } from "../../support/stores/stores.ts";
import { createBillingHarness, type BillingHarness } from "../harness.ts";

// The first test starts PostgreSQL.
setDefaultTimeout(60_000);

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

const CORRUPTIONS: readonly (readonly [what: string, sql: string, found: RegExp])[] = [
  [
    "a debt that nobody has",
    "update wallet set owed = 5",
    /account's debt does not match its transfers.*owed 5/,
  ],
  [
    "a debt that was written off, and never was",
    "update wallet set written_off = 5",
    /written-off debt does not match its transfers.*written_off 5/,
  ],
  [
    "a payment that moved less than came in",
    "update payment set amount_cents = amount_cents + 1",
    /payment's transfers do not match what was received/,
  ],
  [
    "a refund that was not moved",
    "update payment set refunded_cents = 1",
    /payment's transfers do not match what was received/,
  ],
  [
    "credit from a processor without a payment",
    "delete from payment",
    /clearing transfer belongs to no payment/,
  ],
  [
    "the same payment on another account's statement",
    `${TRANSFER} ('x', 'b', 'system:clearing:test', 'system:suspense', 5, 'purchase', 'test:pay', 1)`,
    /clearing transfer belongs to no payment of its account: account_id b, ref test:pay/,
  ],
  [
    "an invoice that says paid and was not",
    "update payment set state = 'suspense'",
    /invoice's status does not match its payments/,
  ],
  [
    "an invoice that was paid and says open",
    "update invoice set status = 'open'",
    /invoice's status does not match its payments/,
  ],
  [
    "an invoice that asks for another amount than was paid",
    "update invoice set fee_cents = fee_cents + 1",
    /invoice's status does not match its payments/,
  ],
  [
    "an invoice that was credited twice",
    `insert into payment (id, invoice_id, account_id, processor, state, currency, amount_cents, credit_cents, fee_cents, tax_cents, refunded_cents, disputed_cents, paid_at)
     select 'test:again', invoice_id, account_id, processor, state, currency, amount_cents, credit_cents, fee_cents, tax_cents, refunded_cents, disputed_cents, paid_at from payment`,
    /invoice's status does not match its payments.*payments 2/,
  ],
  [
    "an automatic purchase that failed and was credited",
    `${TOP_UP} select 'tup', account_id, id, 'pmt', 1000, 50, 'failed', 1 from invoice`,
    /top-up's state does not match its invoice: id tup/,
  ],
  [
    "an automatic purchase that has ended and stands in the way of the next",
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

    test("what went as it should has no problems", async () => {
      expect((await verifyLedger(store.db)).problems).toEqual([]);
    });

    for (const [what, sql, found] of CORRUPTIONS)
      test(`finds ${what}`, async () => {
        await store.db.write((tx) => tx.run(sql));
        expect((await verifyLedger(store.db)).problems.join("\n")).toMatch(found);
      });
  });
});
