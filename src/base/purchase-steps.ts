// How an account can be funded on this gateway, as next steps for an agent.

import { CLAIM_STEP, type NextStep } from "./fault.ts";

/** Who can pay an invoice of this gateway, and where. */
export interface PaymentOptions {
  /** A person pays at the page of the invoice. */
  readonly hasPage: boolean;
  readonly acceptsX402: boolean;
  readonly acceptsMpp: boolean;
  /** The smallest purchase, in whole dollars. */
  readonly minUsd: number;
}

export const X402_PATH = "/v1/billing/invoice/{id}/x402";
export const MPP_PATH = "/v1/billing/invoice/{id}/mpp";

const X402_STEP: NextStep = {
  method: "POST",
  url: X402_PATH,
  why: "Pay an invoice yourself with x402: sign the payment in the PAYMENT-REQUIRED header of the 402 response and repeat the request with the PAYMENT-SIGNATURE header.",
};

const MPP_STEP: NextStep = {
  method: "POST",
  url: MPP_PATH,
  why: "Pay an invoice yourself with Machine Payments (MPP): fulfill a Payment challenge of the 402 response and repeat the request with the Authorization: Payment header, and your API key in x-api-key.",
};

const NO_PURCHASE_STEP: NextStep = {
  method: "GET",
  url: "/v1/account",
  why: "This gateway sells no credits. Read the balance that is left, and ask your human.",
};

export function canBuy({ hasPage, acceptsX402, acceptsMpp }: PaymentOptions): boolean {
  return hasPage || acceptsX402 || acceptsMpp;
}

/** The smallest purchase of at least this many dollars, and who can pay it; without a payment method, what is left to do. */
export function purchaseStep(
  options: PaymentOptions,
  { usd = 0, buys = "Buy credits" }: { readonly usd?: number; readonly buys?: string } = {},
): NextStep {
  if (!canBuy(options)) return NO_PURCHASE_STEP;
  return {
    method: "POST",
    url: "/v1/billing/invoice",
    body: { amount_usd: Math.max(options.minUsd, Math.ceil(usd)) },
    why: `${buys}: ${howToPay(options)}`,
  };
}

function howToPay({ hasPage, acceptsX402, acceptsMpp }: PaymentOptions): string {
  const ask =
    "ask your human. Create the invoice and give them its `pay_url`: a person must pay there.";
  if (!acceptsX402 && !acceptsMpp) return ask;
  const own =
    "create the invoice and pay it from your wallet at a URL of its `payment_methods`, if your human lets you";
  return hasPage ? `${own}. Or ${ask}` : `${own}.`;
}

export function fundingSteps(
  options: PaymentOptions,
  { isSignInDisabled }: { readonly isSignInDisabled: boolean },
): readonly NextStep[] {
  return [
    purchaseStep(options),
    ...(options.acceptsX402 ? [X402_STEP] : []),
    ...(options.acceptsMpp ? [MPP_STEP] : []),
    ...(isSignInDisabled ? [] : [CLAIM_STEP]),
  ];
}
