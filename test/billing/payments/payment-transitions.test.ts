// The table of payment facts: what each fact does in each state of its payment.

import { expect, test } from "bun:test";
import { creditsFor } from "../../../src/billing/invoices/cents.ts";
import type { FactKind, PaymentFact } from "../../../src/billing/payments/payment-processor.ts";
import type { Payment, PaymentState } from "../../../src/billing/payments/payment-rows.ts";
import {
  isValidFact,
  type PaymentSnapshot,
  transitionOf,
} from "../../../src/billing/payments/payment-transitions.ts";

const TOTAL = 1_050;
const INVOICE = {
  id: "inv_1",
  accountId: "acct_1",
  status: "open",
  credits: creditsFor(TOTAL),
  totalCents: TOTAL,
  taxCents: 0,
  createdAt: 1,
  paidAt: null,
  voidedAt: null,
  number: null,
  buyer: null,
} as const;

function factOf(kind: FactKind, changes: Partial<PaymentFact> = {}): PaymentFact {
  return {
    processor: "test",
    ref: kind === "paid" ? "pay" : "return",
    kind,
    payment: "pay",
    invoiceId: INVOICE.id,
    amountCents: kind === "paid" ? TOTAL : 105,
    taxCents: 0,
    currency: "usd",
    at: 1,
    ...changes,
  };
}

function paymentIn(state: PaymentState): Payment {
  return {
    id: "test:pay",
    invoiceId: INVOICE.id,
    accountId: INVOICE.accountId,
    processor: "test",
    state,
    reason: null,
    currency: "usd",
    amountCents: TOTAL,
    credits: state === "credited" ? INVOICE.credits : 0,
    taxCents: 0,
    refundedCents: 105,
    disputedCents: 105,
    paidAt: 1,
  };
}

function outcomeOf(
  kind: FactKind,
  state: PaymentState | "none",
  changes: Partial<PaymentSnapshot> = {},
): string {
  const cause = kind === "refund_failed" ? "refunded" : "disputed";
  const transition = transitionOf(factOf(kind), {
    invoice: INVOICE,
    payment: state === "none" ? undefined : paymentIn(state),
    creditedBy: undefined,
    fitsBalance: true,
    cause: { ...factOf(cause), state: "applied" },
    returns: [factOf(cause)],
    ...changes,
  });
  const { payment, movement } = transition;
  const sums = payment && `refunded ${payment.refundedCents}, disputed ${payment.disputedCents}`;
  return [transition.state, payment?.state, sums, movement?.kind]
    .filter((part) => part !== undefined)
    .join(", ");
}

test("each fact has one outcome in each state of its payment", () => {
  const kinds = ["paid", "refunded", "disputed", "refund_failed", "dispute_closed"] as const;
  const states = ["none", "credited", "suspense", "foreign"] as const;
  const table = Object.fromEntries(
    kinds.map((kind) => [kind, states.map((state) => outcomeOf(kind, state))]),
  );
  expect(table).toEqual({
    paid: ["applied, credited, refunded 0, disputed 0, purchase", "aside", "aside", "aside"],
    refunded: [
      "waiting",
      "applied, credited, refunded 210, disputed 105, refund",
      "applied, suspense, refunded 210, disputed 105, refund",
      "applied, foreign, refunded 210, disputed 105",
    ],
    disputed: [
      "waiting",
      "applied, credited, refunded 105, disputed 210, dispute",
      "applied, suspense, refunded 105, disputed 210, dispute",
      "applied, foreign, refunded 105, disputed 210",
    ],
    refund_failed: [
      "waiting",
      "applied, credited, refunded 0, disputed 105, refund_failed",
      "applied, suspense, refunded 0, disputed 105, refund_failed",
      "applied, foreign, refunded 0, disputed 105",
    ],
    dispute_closed: [
      "waiting",
      "applied, credited, refunded 105, disputed 0, dispute_closed",
      "applied, suspense, refunded 105, disputed 0, dispute_closed",
      "applied, foreign, refunded 105, disputed 0",
    ],
  });
});

test("a payment that does not fit its invoice goes to suspense, and a reversal waits for its cause", () => {
  expect(outcomeOf("paid", "none", { creditedBy: "test:other" })).toContain("suspense");
  expect(outcomeOf("paid", "none", { fitsBalance: false })).toContain("suspense");
  expect(outcomeOf("refund_failed", "credited", { cause: undefined })).toBe("waiting");
  const aside = { ...factOf("refunded"), state: "aside" } as const;
  expect(outcomeOf("refund_failed", "credited", { cause: aside })).toBe("aside");
  const small = { ...factOf("refunded", { amountCents: 1 }), state: "applied" } as const;
  expect(outcomeOf("refund_failed", "credited", { cause: small })).toBe("aside");
  expect(
    outcomeOf("refunded", "credited", {
      payment: { ...paymentIn("credited"), invoiceId: "inv_2" },
    }),
  ).toBe("aside");
});

test("amounts outside the range of an invoice are not valid", () => {
  expect(isValidFact(factOf("paid", { amountCents: 900_000_000 }))).toBe(true);
  for (const amountCents of [-1, 0.5, 900_000_001, Number.NaN])
    expect(isValidFact(factOf("paid", { amountCents }))).toBe(false);
});
