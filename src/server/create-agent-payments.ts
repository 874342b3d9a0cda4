// The protocols of agent payments that the settings enable.

import { createAccount } from "../accounts/accounts.ts";
import { setOwnStorage } from "../accounts/own-response-storage.ts";
import type { JsonObject } from "../base/json.ts";
import type { Nano } from "../base/money/money.ts";
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
import { pollUpto, type UptoDeps } from "../billing/x402/upto-payments.ts";
import { createX402, createX402Protocol, type X402Service } from "../billing/x402/x402-protocol.ts";
import type { Config } from "../config/config.ts";
import { walletName } from "../keys/key-credential.ts";
import { signReceipt } from "../receipts/receipt.ts";
import type { Tx } from "../store/db.ts";
import { findUsage } from "../usage/usage.ts";
import type { Core } from "./core.ts";

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

// Wires the calls that wallets pay after they ran to accounts, keys, usage records and receipts.

/** Undefined unless the settings enable `upto`. */
export function createUpto(
  { x402: settings, baseUrl }: Config,
  x402: X402Service | undefined,
  core: Pick<Core, "db" | "keys" | "signingKeys">,
): UptoDeps | undefined {
  const { db, keys, signingKeys } = core;
  if (x402 === undefined || settings === undefined || settings.uptoRiskMax === 0n) return undefined;
  const { billing, now, paymentTerms, facilitator, chain } = x402.deps;
  if (chain === undefined) return undefined;
  return {
    db,
    log: billing.log,
    now,
    paymentTerms,
    facilitator,
    chain,
    riskMax: settings.uptoRiskMax,
    openAccount: (tx, payer, at) => openAccount(tx, core, payer, at),
    findCaller: async (payer, at) => await keys.findByCredential(walletName(payer), at, "store"),
    findCall: async (reader, accountId, requestId) => {
      const record = await findUsage(reader, accountId, requestId);
      if (record === undefined) return undefined;
      const charge = record.cost - (record.owed ?? 0n);
      const receipt = (payment: JsonObject, fee: Nano) =>
        signReceipt(record, baseUrl, signingKeys.current(), { payment, fee });
      return { charge, receipt };
    },
    running: new Set(),
  };
}

/** Creates the account of a wallet. It has a key without a secret, which only payments of the wallet use, and stores no responses. */
async function openAccount(
  tx: Tx,
  { keys }: Pick<Core, "keys">,
  payer: string,
  now: number,
): Promise<string> {
  const network = "wallet";
  const { id: accountId } = await createAccount(tx, {
    email: null,
    network,
    startingCredit: 0n,
    now,
  });
  await setOwnStorage(tx, accountId, { mode: "never", retentionDays: 1 });
  const act = { accountId, actor: undefined, network, now };
  const credential = { type: "wallet", address: payer } as const;
  await keys.create(tx, act, { scopes: ["models:write"], credential });
  return accountId;
}
