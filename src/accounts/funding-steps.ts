// How an account without credit can be funded, as next steps for an agent.

import { CLAIM_STEP, type NextStep } from "../base/fault.ts";

const BUY_STEP: NextStep = {
  method: "POST",
  url: "/v1/billing/invoice",
  body: { amount_usd: 10 },
  why: "Buy credits. A human can pay at the `pay_url` of the response.",
};

const X402_STEP: NextStep = {
  method: "POST",
  url: "/v1/billing/invoice/{id}/x402",
  why: "Pay an invoice yourself with x402: sign the payment in the PAYMENT-REQUIRED header of the 402 response and repeat the request with the PAYMENT-SIGNATURE header.",
};

const MPP_STEP: NextStep = {
  method: "POST",
  url: "/v1/billing/invoice/{id}/mpp",
  why: "Pay an invoice yourself with Machine Payments (MPP): fulfill a Payment challenge of the 402 response and repeat the request with the Authorization: Payment header, and your API key in x-api-key.",
};

export interface FundingOptions {
  readonly acceptsX402: boolean;
  readonly acceptsMpp: boolean;
  readonly isSignInDisabled: boolean;
}

export function fundingSteps(options: FundingOptions): readonly NextStep[] {
  return [
    BUY_STEP,
    ...(options.acceptsX402 ? [X402_STEP] : []),
    ...(options.acceptsMpp ? [MPP_STEP] : []),
    ...(options.isSignInDisabled ? [] : [CLAIM_STEP]),
  ];
}
