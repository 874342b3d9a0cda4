// Cards of development, which are none: what becomes of a charge is chosen when the card is saved.

import type { ChargeRequest, ChargeResult, PaymentMethods } from "./payment-processor.ts";

/** What a card does, and what it is called. */
export const DEVELOPMENT_CARDS = {
  works: "A card that works",
  declined: "A card that is declined",
  authentication_required: "A card whose bank asks its owner",
} as const;
export type DevelopmentCard = keyof typeof DEVELOPMENT_CARDS;

export const developmentPaymentMethods: PaymentMethods = {
  createSetupPage: async ({ id, returnUrl }) => ({
    ref: id,
    url: `${returnUrl}/card`,
    customer: "nobody",
  }),
  // Its page is one of the console, which saves the card itself.
  fetchSetup: async () => ({ state: "expired" }),
  charge: async (charge) => chargeResultOf(charge),
  // A charge is its answer: asking twice is the same.
  findCharge: async () => undefined,
  detach: async () => {},
};

function chargeResultOf(request: ChargeRequest): ChargeResult {
  const { method, invoiceId, amountCents, feeCents, now } = request;
  if (method !== "works")
    return { state: "refused", reason: method === "declined" ? method : "authentication_required" };
  return {
    state: "done",
    ref: invoiceId,
    facts: [
      {
        processor: "development",
        ref: invoiceId,
        kind: "paid",
        payment: invoiceId,
        invoiceId,
        amountCents: amountCents + feeCents,
        taxCents: 0,
        currency: "usd",
        at: now,
      },
    ],
  };
}
