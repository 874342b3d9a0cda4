// The protocols of agent payments that the settings enable.

import { createX402, type X402Service } from "../billing/x402/create-x402.ts";
import { createX402Protocol } from "../billing/x402/x402-protocol.ts";
import { createChallenger } from "../billing/mpp/challenge.ts";
import { createEvmMethod } from "../billing/mpp/evm-method.ts";
import { createMppProtocol } from "../billing/mpp/mpp-protocol.ts";
import {
  createStripeMethod,
  pollSharedTokens,
  type StripeMethodDeps,
} from "../billing/mpp/stripe-method.ts";
import type { BillingDeps } from "../billing/billing-deps.ts";
import type { PaymentProtocol } from "../billing/payments/payment-protocol.ts";
import { createWithPayment, type WithPayment } from "../billing/payments/paid-calls.ts";
import type { MasterSecret } from "../base/encryption.ts";
import type { Config } from "../config/config.ts";

export interface AgentPayments {
  /** Undefined where x402 is off. */
  readonly x402: X402Service | undefined;
  /** Undefined where no method of Machine Payments is enabled. */
  readonly mpp: PaymentProtocol | undefined;
  /** Resumes payments with shared payment tokens. Undefined where the method `stripe` is off. */
  readonly pollSharedTokens: (() => Promise<void>) | undefined;
  /** Runs a model call and lets it pay for itself where the balance does not cover it. */
  readonly withPayment: WithPayment | undefined;
}

interface AgentPaymentDeps {
  readonly billing: BillingDeps;
  readonly master: MasterSecret;
  readonly now: () => number;
}

export function createAgentPayments(
  { x402: settings, baseUrl, agentTopUpCents: topUpCents }: Config,
  { billing, master, now }: AgentPaymentDeps,
): AgentPayments {
  const x402 = settings && createX402(settings, { billing, now, baseUrl });
  const stripe = stripeMethodDeps(billing, now);
  const methods = [
    ...(x402 === undefined ? [] : [createEvmMethod(x402.deps)]),
    ...(stripe === undefined ? [] : [createStripeMethod(stripe)]),
  ];
  const challenger = createChallenger(master, baseUrl);
  const mpp = methods.length === 0 ? undefined : createMppProtocol({ challenger, methods, now });
  const protocols = [
    ...(x402 === undefined ? [] : [createX402Protocol(x402.deps)]),
    ...(mpp === undefined ? [] : [mpp]),
  ];
  const withPayment =
    protocols.length === 0 ? undefined : createWithPayment({ billing, topUpCents, protocols, now });
  const pollTokens = stripe && (() => pollSharedTokens(stripe));
  return { x402, mpp, pollSharedTokens: pollTokens, withPayment };
}

function stripeMethodDeps(billing: BillingDeps, now: () => number): StripeMethodDeps | undefined {
  const { processor } = billing;
  return processor.kind === "hosted" && processor.sharedTokens !== undefined
    ? { billing, now, processor, tokens: processor.sharedTokens }
    : undefined;
}
