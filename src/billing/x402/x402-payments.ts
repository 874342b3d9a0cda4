// x402 payments: an agent's wallet signs a transfer, the facilitator settles it, and the payment becomes a payment fact.
// The payment is stored before it is settled; after a crash any process can resume it.

import { Fault } from "../../base/fault.ts";
import { X402_PATH } from "../../base/purchase-steps.ts";
import { MINUTE_MS } from "../../base/time.ts";
import { formatCents, formatCredits } from "../invoices/cents.ts";
import type { Invoice } from "../invoices/invoices.ts";
import { type AgentPayment, updateAgentPayment } from "../payments/agent-payment-rows.ts";
import {
  type AgentPaymentDeps,
  awaitOutcome,
  pollAgentPayments,
  recordIntent,
  recordPaid,
  recordRefusal,
  recordUnknown,
  type ResumePayment,
  RETRY_MS,
} from "../payments/agent-payments.ts";
import { ingestFacts } from "../payments/payment-facts.ts";
import { type Payable, totalCentsOf } from "../payments/payment-protocol.ts";
import type { ChainClient, ChainLookup } from "./chain-client.ts";
import type { FacilitatorClient, SettlementOutcome } from "./facilitator-client.ts";
import {
  paymentRequiredHeader,
  transferIdOf,
  mismatchReason,
  parsePaymentHeader,
  type SettleResponse,
  paymentRequirementsFor,
  type SignedPayment,
  type PaymentTerms,
} from "./x402-messages.ts";
import { findX402Payment, toX402Payment, x402Row, type X402Payment } from "./x402-payment-rows.ts";

const PROCESSOR = "x402";
const LATE_RETRY_MS = 10 * MINUTE_MS;
/** A payment may still appear on the chain this long after its signature has expired. */
const EXPIRY_GRACE_MS = 120_000;

export interface X402Deps extends AgentPaymentDeps {
  readonly paymentTerms: PaymentTerms;
  readonly baseUrl: string;
  readonly facilitator: FacilitatorClient;
  readonly chain: ChainClient | undefined;
}

export type PaymentResult =
  | {
      readonly kind: "paid";
      readonly settleResponse: SettleResponse;
      /** When the payment was accepted. */
      readonly at: number;
    }
  /** No money was moved. `settleResponse` is set if a settlement was attempted. */
  | {
      readonly kind: "refused";
      readonly reason: string;
      readonly settleResponse?: SettleResponse;
    };

/** The header `PAYMENT-REQUIRED` of an open invoice. */
export function paymentRequiredForInvoice(x402: X402Deps, invoice: Invoice, error: string): string {
  const total = totalCentsOf({ accountId: invoice.accountId, invoice });
  return paymentRequiredHeader(
    paymentRequirementsFor(x402.paymentTerms, total),
    {
      url: x402.baseUrl + X402_PATH.replace("{id}", invoice.id),
      description: `${formatCredits(invoice.credits)} of credits for ${formatCents(total)} including the fee.`,
    },
    error,
  );
}

/** Accepts the payment of a header `PAYMENT-SIGNATURE`. */
export function acceptPayment(
  x402: X402Deps,
  payable: Payable,
  header: string,
): Promise<PaymentResult> {
  return acceptSignedPayment(x402, payable, parsePaymentHeader(header));
}

/**
 * Idempotent: a signed payment is settled and credited once. Throws while its outcome is unknown. `refusal` is why a payment
 * that was not sent before is refused.
 */
export async function acceptSignedPayment(
  x402: X402Deps,
  payable: Payable,
  signed: SignedPayment,
  refusal?: string,
): Promise<PaymentResult> {
  const id = transferIdOf(signed);
  const existing = await findX402Payment(x402.billing.db, id);
  if (existing !== undefined) return await outcomeOf(x402, payable, id);
  const requirements = paymentRequirementsFor(x402.paymentTerms, totalCentsOf(payable));
  const reason =
    refusal ??
    mismatchReason(signed, requirements, x402.now()) ??
    (await x402.facilitator.verify(signed, requirements));
  if (reason !== undefined) return { kind: "refused", reason };
  const recorded = await recordIntent(x402, payable, x402Row(signed));
  if (recorded !== undefined) {
    const settlement = await x402.facilitator.settle(signed, requirements);
    await recordOutcome(x402, recorded, settlement, settlement.kind === "refused");
  }
  return await outcomeOf(x402, payable, id);
}

/** Resumes every due payment: after a crash, or while its outcome is unknown. */
export async function pollX402(x402: X402Deps): Promise<void> {
  await pollAgentPayments(x402, "x402", resumeWith(x402));
}

async function recordOutcome(
  x402: X402Deps,
  payment: AgentPayment,
  settlement: SettlementOutcome,
  isRefusalFinal: boolean,
): Promise<void> {
  if (settlement.kind === "paid") return await creditPayment(x402, payment, settlement);
  const { reason } = settlement;
  if (!isRefusalFinal) return await recordUnknown(x402, payment, { reason });
  // With a node configured, the chain is checked after the signature has expired.
  const dueAt = x402.chain === undefined ? null : payment.expiresAt + EXPIRY_GRACE_MS;
  await recordRefusal(x402, payment, { reason, dueAt });
}

async function creditPayment(
  x402: X402Deps,
  payment: AgentPayment,
  { transaction }: { readonly transaction: string | null },
): Promise<void> {
  const { id, invoiceId, totalCents: amountCents } = payment;
  const fact = { processor: PROCESSOR, ref: id, kind: "paid", payment: id, invoiceId } as const;
  await recordPaid(x402, payment, transaction, (at) =>
    ingestFacts(x402.billing, [{ ...fact, amountCents, taxCents: 0, currency: "usd", at }], at),
  );
}

function resumeWith(x402: X402Deps): ResumePayment {
  return (payment) => resume(x402, toX402Payment(payment));
}

/** A repeated settlement is trusted only if it succeeds: the first one may have moved the money. */
async function resume(x402: X402Deps, payment: X402Payment): Promise<void> {
  const { billing, facilitator } = x402;
  const { state, proof, reason, expiresAt } = payment;
  if (state === "paid") return await creditPayment(x402, payment, payment);
  const found = await findOnChain(x402, payment);
  if (found.kind === "paid") return await creditPayment(x402, payment, found);
  const now = x402.now();
  if (state === "open" && now <= expiresAt + EXPIRY_GRACE_MS) {
    const settlement = await facilitator.settle(proof, proof.accepted);
    return await recordOutcome(x402, payment, settlement, false);
  }
  const isExpired = found.kind === "absent" && found.at > expiresAt;
  const isFinal = isExpired || found.kind === "not_configured";
  const nextState = isExpired ? "refused" : isFinal && state === "open" ? "unclear" : state;
  const dueAt = isFinal ? null : now + LATE_RETRY_MS;
  if (nextState === "unclear") alertOperator(x402, payment);
  await billing.db.write((tx) =>
    updateAgentPayment(tx, payment, { state: nextState, reason, dueAt, now }),
  );
}

function alertOperator({ billing }: X402Deps, payment: X402Payment): void {
  const { id, invoiceId, totalCents, reason } = payment;
  billing.log.error("payment needs operator action", {
    processor: PROCESSOR,
    ref: id,
    invoice: invoiceId,
    amount_cents: totalCents,
    reason: `the facilitator does not know whether it was settled: ${reason ?? "no response"}`,
  });
}

async function findOnChain(
  { chain, billing }: X402Deps,
  { id, proof, createdAt }: X402Payment,
): Promise<ChainLookup | { readonly kind: "not_configured" | "unavailable" }> {
  if (chain === undefined) return { kind: "not_configured" };
  try {
    return await chain.findPayment(proof, createdAt);
  } catch (cause) {
    billing.log.warn("failed to look up an x402 payment on the chain", { payment: id, cause });
    return { kind: "unavailable" };
  }
}

/** Throws while the outcome is unknown. */
async function outcomeOf(x402: X402Deps, payable: Payable, id: string): Promise<PaymentResult> {
  const payment = await awaitOutcome(x402, payable, id, resumeWith(x402));
  if (payment === undefined) return { kind: "refused", reason: "already used for something else" };
  const settleResponse = settleResponseOf(toX402Payment(payment));
  const { state, reason, createdAt } = payment;
  switch (state) {
    case "paid":
      return { kind: "paid", settleResponse, at: createdAt };
    case "refused":
      return { kind: "refused", reason: reason ?? "refused", settleResponse };
    case "open":
      throw outcomeUnknown();
    case "unclear":
      throw new Fault("conflict", `outcome of ${id} is unclear`, {
        message:
          "It is not known whether this payment was settled. The operator has been notified and will add the credits if it was. Do not send the payment again.",
        param: "payment-signature",
      });
  }
}

function settleResponseOf({
  proof,
  state,
  payer,
  transaction,
  reason,
}: X402Payment): SettleResponse {
  const { network, amount } = proof.accepted;
  return state === "paid"
    ? { success: true, transaction: transaction ?? "", network, payer, amount }
    : { success: false, transaction: "", network, payer, errorReason: reason ?? "refused" };
}

function outcomeUnknown(): Fault {
  return new Fault("overloaded", "outcome of a settlement is unknown", {
    message:
      "The payment was sent to the x402 facilitator, but it is not known yet whether it was settled. Send the same request with the same PAYMENT-SIGNATURE header again. Do not sign another payment.",
    param: "payment-signature",
    retryAfterSeconds: RETRY_MS / 1_000,
  });
}
