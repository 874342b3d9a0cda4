// The protocols of agent payments that the settings enable.

import { SECOND_MS } from "../base/time.ts";
import type { BillingDeps } from "../billing/billing-deps.ts";
import { createChallenger } from "../billing/mpp/challenge.ts";
import { createEvmMethod } from "../billing/mpp/evm-method.ts";
import { createMppProtocol } from "../billing/mpp/mpp-protocol.ts";
import {
  createStripeMethod,
  pollSharedTokens,
  type StripeMethodDeps,
} from "../billing/mpp/stripe-method.ts";
import { createPayAndRun, type PayAndRun } from "../billing/payments/paid-calls.ts";
import type { PaymentProtocol } from "../billing/payments/payment-protocol.ts";
import { createTempoDeps, createTempoMethod, pollTempo } from "../billing/tempo/tempo-method.ts";
import { createRunWalletCall, type RunWalletCall } from "../billing/x402/upto-calls.ts";
import { pollUpto } from "../billing/x402/upto-payments.ts";
import { type X402Service, createX402, createX402Protocol } from "../billing/x402/x402-protocol.ts";
import type { Config } from "../config/config.ts";
import type { Core } from "./core.ts";
import { createUpto } from "./create-upto.ts";

const POLL_INTERVAL_MS = 10 * SECOND_MS;

export interface AgentPayments {
  /** Undefined where x402 is off. */
  readonly x402: X402Service | undefined;
  /** Undefined where no method of Machine Payments is enabled. */
  readonly mpp: PaymentProtocol | undefined;
  /** Resume payments whose outcome is unknown. */
  readonly jobs: readonly (readonly [
    name: string,
    intervalMs: number,
    run: () => Promise<unknown>,
  ])[];
  /** Runs a model call without a key. Undefined where every call needs one. */
  readonly runWalletCall: RunWalletCall | undefined;
  /** Runs a model call and lets it pay for itself where the balance does not cover it. */
  readonly withPayment: PayAndRun | undefined;
}

interface PaymentServicesDeps {
  readonly billing: BillingDeps;
  readonly core: Pick<Core, "db" | "keys" | "master" | "signingKeys">;
  readonly now: () => number;
}

export function createAgentPayments(
  config: Config,
  { billing, core, now }: PaymentServicesDeps,
): AgentPayments {
  const { x402: settings, tempo: tempoSettings, baseUrl, agentTopUpCents: topUpCents } = config;
  const x402 = settings && createX402(settings, { billing, now, baseUrl });
  const upto = createUpto(config, x402, core);
  const stripe = stripeMethodDeps(billing, now);
  const tempo = tempoSettings && createTempoDeps(tempoSettings, { billing, now });
  const methods = [
    ...(x402 === undefined ? [] : [createEvmMethod(x402.deps)]),
    ...(stripe === undefined ? [] : [createStripeMethod(stripe)]),
    ...(tempo === undefined ? [] : [createTempoMethod(tempo)]),
  ];
  const challenger = createChallenger(core.master, baseUrl);
  const mpp = methods.length === 0 ? undefined : createMppProtocol({ challenger, methods, now });
  const protocols = [
    ...(x402 === undefined ? [] : [createX402Protocol(x402.deps)]),
    ...(mpp === undefined ? [] : [mpp]),
  ];
  const withPayment =
    protocols.length === 0 ? undefined : createPayAndRun({ billing, topUpCents, protocols, now });
  const polls: readonly (readonly [name: string, run: (() => Promise<unknown>) | undefined])[] = [
    ["reconcile x402 payments", x402?.poll],
    ["reconcile upto payments", upto && (() => pollUpto(upto))],
    ["reconcile shared payment tokens", stripe && (() => pollSharedTokens(stripe))],
    ["reconcile Tempo payments", tempo && (() => pollTempo(tempo))],
  ];
  const jobs = polls.flatMap(([name, run]) =>
    run === undefined ? [] : [[name, POLL_INTERVAL_MS, run] as const],
  );
  const runWalletCall = upto && createRunWalletCall(upto, baseUrl);
  return { x402, mpp, jobs, withPayment, runWalletCall };
}

function stripeMethodDeps(billing: BillingDeps, now: () => number): StripeMethodDeps | undefined {
  const { processor } = billing;
  return processor.kind === "hosted" && processor.sharedTokens !== undefined
    ? { billing, now, processor, tokens: processor.sharedTokens }
    : undefined;
}
