// The method `stripe`: a shared payment token, charged as a payment intent of the gateway's Stripe account. The row of the
// challenge is stored before the charge, and is the charge's idempotency key.

import { z } from "zod";
import { Fault, invalid } from "../../base/fault.ts";
import { HOUR_MS, MINUTE_MS } from "../../base/time.ts";
import {
  type AgentPayment,
  findAgentPayment,
  updateAgentPayment,
} from "../payments/agent-payment-rows.ts";
import {
  type AgentPaymentDeps,
  awaitOutcome,
  pollAgentPayments,
  recordIntent,
  recordPaid,
  recordRefusal,
  recordUnknown,
  RETRY_MS,
} from "../payments/agent-payments.ts";
import { trackPayment } from "../payments/checkouts.ts";
import { ingestFacts } from "../payments/payment-facts.ts";
import type {
  HostedProcessor,
  PaymentFact,
  SharedTokens,
  TokenChargeResult,
} from "../payments/payment-processor.ts";
import { type Payable, totalCentsOf } from "../payments/payment-protocol.ts";
import { expiresAt } from "./challenge.ts";
import type { MachinePaymentMethod, MethodResult, NewCredential } from "./mpp-protocol.ts";

/** Stripe's smallest payment in US dollars. */
const MIN_CENTS = 50;
/** After this time a token is no longer charged; its outcome is looked up. */
const EXPIRY_GRACE_MS = 2 * MINUTE_MS;
/** Payment intents that are not found this long after the last charge do not exist. */
const INDEX_DELAY_MAX_MS = HOUR_MS;
const LATE_RETRY_MS = 10 * MINUTE_MS;

const Payload = z.object({
  spt: z.string().regex(/^\w{1,200}$/),
  externalId: z.string().optional(),
});

export interface StripeMethodDeps extends AgentPaymentDeps {
  readonly processor: HostedProcessor;
  readonly tokens: SharedTokens;
}

export function createStripeMethod(deps: StripeMethodDeps): MachinePaymentMethod {
  return {
    name: "stripe",
    requestFor: (payable) => {
      const cents = totalCentsOf(payable);
      if (cents < MIN_CENTS) return undefined;
      const { networkId } = deps.tokens;
      const methodDetails = { networkId, paymentMethodTypes: ["card", "link"] };
      return { amount: String(cents), currency: "usd", methodDetails };
    },
    accept: (payable, credential) => acceptToken(deps, payable, credential),
  };
}

/** Resumes every due payment: after a crash, or while its outcome is unknown. */
export async function pollSharedTokens(deps: StripeMethodDeps): Promise<void> {
  await pollAgentPayments(deps, "stripe", (payment) => resume(deps, payment));
}

async function acceptToken(
  deps: StripeMethodDeps,
  payable: Payable,
  { challenge, payload, refusal }: NewCredential,
): Promise<MethodResult> {
  const token = tokenIn(payload);
  const id = `mpp_${challenge.id}`;
  const existing = await findAgentPayment(deps.billing.db, id);
  if (existing !== undefined) return await outcomeOf(deps, payable, { id, token });
  if (refusal !== undefined) return refused(refusal);
  const row = {
    id,
    method: "stripe",
    proof: challenge,
    payer: token,
    expiresAt: expiresAt(challenge),
  } as const;
  const recorded = await recordIntent(deps, payable, row);
  if (recorded !== undefined) await charge(deps, recorded);
  else if ((await findAgentPayment(deps.billing.db, id)) === undefined)
    return refused("the shared payment token was used before");
  return await outcomeOf(deps, payable, { id, token });
}

function tokenIn(payload: unknown): string {
  const parsed = Payload.safeParse(payload);
  if (parsed.success) return parsed.data.spt;
  throw invalid(
    "authorization",
    "The credential's payload must be `spt`: the id of a shared payment token for the `networkId` of the challenge.",
  );
}

async function charge(deps: StripeMethodDeps, payment: AgentPayment): Promise<void> {
  const { id, invoiceId, totalCents, payer: token } = payment;
  const result = await tryStripe(deps, payment, () =>
    deps.tokens.charge({ id, invoiceId, totalCents, token }),
  );
  if (result !== "failed") await recordResult(deps, payment, result);
}

/** After a failure the outcome is unknown, and the payment is resumed later. */
async function tryStripe<T>(
  deps: StripeMethodDeps,
  payment: AgentPayment,
  work: () => Promise<T>,
): Promise<T | "failed"> {
  try {
    return await work();
  } catch (cause) {
    await recordUnknown(deps, payment, { reason: "Stripe did not respond", cause });
    return "failed";
  }
}

async function recordResult(
  deps: StripeMethodDeps,
  payment: AgentPayment,
  result: TokenChargeResult,
): Promise<void> {
  switch (result.state) {
    case "done":
      return await credit(deps, payment, result);
    case "refused": {
      const { reason, cause } = result;
      if (cause !== undefined)
        deps.billing.log.warn("Stripe refused a shared payment token", {
          payment: payment.id,
          cause,
        });
      return await recordRefusal(deps, payment, { reason });
    }
    case "processing": {
      const now = deps.now();
      const change = { state: "open", reason: "processing", dueAt: now + RETRY_MS, now } as const;
      return await deps.billing.db.write((tx) =>
        updateAgentPayment(tx, payment, { ...change, transaction: result.ref }),
      );
    }
  }
}

/** Refunds and disputes are polled from then on, as for the payment of a checkout page. */
async function credit(
  deps: StripeMethodDeps,
  payment: AgentPayment,
  { ref, facts }: { readonly ref: string; readonly facts: readonly PaymentFact[] },
): Promise<void> {
  const { billing, processor } = deps;
  await recordPaid(deps, payment, ref, async (now) => {
    await ingestFacts(billing, facts, now);
    await trackPayment(billing, processor, { invoiceId: payment.invoiceId, ref, now });
  });
}

async function resume(deps: StripeMethodDeps, payment: AgentPayment): Promise<void> {
  const { id, state, transaction: ref, expiresAt: expiry } = payment;
  if (ref !== null) return await resumeIntent(deps, payment, ref);
  if (state !== "open") return;
  const now = deps.now();
  if (now <= expiry + EXPIRY_GRACE_MS) return await charge(deps, payment);
  const result = await tryStripe(deps, payment, () => deps.tokens.findCharge(id));
  if (result === "failed") return;
  if (result !== undefined) return await recordResult(deps, payment, result);
  if (now > expiry + EXPIRY_GRACE_MS + INDEX_DELAY_MAX_MS)
    return await recordRefusal(deps, payment, { reason: "the token was not charged in time" });
  await recordUnknown(deps, payment, { reason: "not found yet", retryMs: LATE_RETRY_MS });
}

async function resumeIntent(
  deps: StripeMethodDeps,
  payment: AgentPayment,
  ref: string,
): Promise<void> {
  const page = await tryStripe(deps, payment, () => deps.processor.fetchPage(ref));
  if (page === "failed") return;
  if (page.state === "done") return await credit(deps, payment, { ref, facts: page.facts });
  if (page.state === "expired")
    return await recordRefusal(deps, payment, { reason: "the payment failed at the bank" });
  await recordUnknown(deps, payment, { reason: "processing", retryMs: LATE_RETRY_MS });
}

/** Throws while the outcome is unknown. */
async function outcomeOf(
  deps: StripeMethodDeps,
  payable: Payable,
  { id, token }: { readonly id: string; readonly token: string },
): Promise<MethodResult> {
  const payment = await awaitOutcome(deps, payable, id, (due) => resume(deps, due));
  if (payment === undefined || payment.payer !== token)
    return refused("the challenge was already used for something else");
  const { state, transaction, reason, createdAt, dueAt } = payment;
  if (state === "paid" && transaction !== null && dueAt === null)
    return { kind: "paid", reference: transaction, at: createdAt };
  if (state === "refused") return refused(reason ?? "refused");
  throw new Fault("overloaded", "outcome of a token's charge is unknown", {
    message:
      "The shared payment token was sent to Stripe, but it is not known yet whether it was charged. Send the same request with the same Authorization header again. Do not issue another token.",
    param: "authorization",
    retryAfterSeconds: RETRY_MS / 1_000,
  });
}

function refused(reason: string): MethodResult {
  return { kind: "refused", reason };
}
