// Test cards of development mode. The owner chooses the outcome of every charge when saving the card.

import type { ChargeRequest, ChargeResult, PaymentMethods } from "./payment-processor.ts";

/** The outcome of charges, and the card's label. */
export const DEVELOPMENT_CARDS = {
  works: "Test card that succeeds",
  declined: "Test card that is declined",
  authentication_required: "Test card that requires authentication",
} as const;
export type DevelopmentCard = keyof typeof DEVELOPMENT_CARDS;

export const developmentPaymentMethods: PaymentMethods = {
  createSetupPage: async ({ id, returnUrl }) => ({
    ref: id,
    url: `${returnUrl}/card`,
    customer: "development",
  }),
  // The console has the setup page and saves the card itself.
  fetchSetup: async () => ({ state: "expired" }),
  charge: async (charge) => chargeResultOf(charge),
  // A charge has no state: repeating it gives the same result.
  findCharge: async () => undefined,
  detach: async () => {},
};

function chargeResultOf(request: ChargeRequest): ChargeResult {
  const { method, invoiceId, totalCents, now } = request;
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
        amountCents: totalCents,
        taxCents: 0,
        currency: "usd",
        at: now,
      },
    ],
  };
}
