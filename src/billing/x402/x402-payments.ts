// x402 payments: an agent's wallet signs a transfer, the facilitator settles it, and the payment becomes a payment fact.
// The payment is stored before it is settled; after a crash any process can resume it.

import { Fault } from "../../base/fault.ts";
import { MINUTE_MS } from "../../base/time.ts";
import { type Invoice, lockInvoice } from "../invoices/invoices.ts";
import { formatCents } from "../invoices/cents.ts";
import { ingestFacts, hasOpenCheckout } from "../payments/checkouts.ts";
import { type Payable, totalCentsOf } from "../payments/payment-protocol.ts";
import { cancelOpenCheckout, type BillingDeps } from "../billing-deps.ts";
import type { ChainClient, ChainLookup } from "./chain-client.ts";
import type { FacilitatorClient, SettlementOutcome } from "./facilitator-client.ts";
import {
  claimX402Payment,
  listDueX402Payments,
  findX402Payment,
  insertX402Payment,
  findActiveX402Payment,
  lockX402Payment,
  updateX402Payment,
  type X402Payment,
} from "./x402-payment-rows.ts";
import {
  paymentRequiredHeader,
  transferIdOf,
  mismatchReason,
  parsePaymentHeader,
  type SettleResponse,
  paymentRequirementsFor,
  type SignedPayment,
  type PaymentTerms,
} from "./protocol.ts";

const PROCESSOR = "x402";
/** The endpoint that pays an invoice. */
export const X402_PATH = "/v1/billing/invoice/{id}/x402";
/** After this time another process may resume a payment; longer than a settlement takes. */
const LEASE_MS = MINUTE_MS;
const RETRY_MS = 5_000;
const LATE_RETRY_MS = 10 * MINUTE_MS;
/** A payment may still appear on the chain this long after its signature has expired. */
const EXPIRY_GRACE_MS = 120_000;
const OUTCOME_POLL_MS = 200;
const OUTCOME_POLLS_MAX = 50;
/** How often a checkout page that is opened meanwhile is closed again. */
const CANCEL_ATTEMPTS_MAX = 3;
const POLL_BATCH_MAX = 50;
const POLL_FAILURES_MAX = 5;

export interface X402Deps {
  readonly billing: BillingDeps;
  readonly paymentTerms: PaymentTerms;
  readonly baseUrl: string;
  readonly facilitator: FacilitatorClient;
  readonly chain: ChainClient | undefined;
  readonly now: () => number;
  /** How often the outcome of a payment in another process is polled; lower in tests. */
  readonly outcomePollsMax?: number;
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
      description: `${formatCents(invoice.amountCents)} of credits for ${formatCents(total)} including the fee.`,
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
  const existing = await findX402Payment(x402.billing.db, transferIdOf(signed));
  if (existing !== undefined) return await awaitOutcome(x402, payable, existing);
  const requirements = paymentRequirementsFor(x402.paymentTerms, totalCentsOf(payable));
  const reason =
    refusal ??
    mismatchReason(signed, requirements, x402.now()) ??
    (await x402.facilitator.verify(signed, requirements));
  if (reason !== undefined) return { kind: "refused", reason };
  const recorded = await recordIntent(x402, payable, signed);
  if (recorded === undefined) return await awaitOutcomeById(x402, payable, transferIdOf(signed));
  const settlement = await x402.facilitator.settle(signed, requirements);
  await recordOutcome(x402, recorded, settlement, settlement.kind === "refused");
  return await awaitOutcomeById(x402, payable, recorded.id);
}

/** Resumes every due payment: after a crash, or while its outcome is unknown. */
export async function pollX402(x402: X402Deps): Promise<void> {
  const { db, log } = x402.billing;
  let failures = 0;
  for (const payment of await listDueX402Payments(db, x402.now(), POLL_BATCH_MAX)) {
    if (failures >= POLL_FAILURES_MAX) return;
    if (!(await claimX402Payment(db, payment, x402.now() + LEASE_MS))) continue;
    try {
      await resume(x402, payment);
    } catch (cause) {
      failures += 1;
      log.warn("failed to resume an x402 payment", { payment: payment.id, cause });
    }
  }
}

async function recordIntent(
  x402: X402Deps,
  payable: Payable,
  signed: SignedPayment,
): Promise<X402Payment | undefined> {
  const { accountId, invoice } = payable;
  const { billing, now } = x402;
  for (let attempts = 0; attempts < CANCEL_ATTEMPTS_MAX; attempts++) {
    // The invoice must not be paid on a checkout page meanwhile.
    if ("id" in invoice)
      await cancelOpenCheckout(billing, { id: invoice.id, accountId, now: now() });
    const recorded = await billing.db.write(async (tx) => {
      if ("id" in invoice) {
        const locked = await lockInvoice(tx, invoice.id);
        if (locked?.status !== "open") throw notPayable(locked?.status ?? "deleted");
        const other = await findActiveX402Payment(tx, invoice.id);
        if (other !== undefined && other.id !== transferIdOf(signed))
          throw notPayable("already being paid");
        const { processor } = billing;
        if (processor.kind === "hosted" && (await hasOpenCheckout(tx, processor, invoice.id)))
          return "page";
      }
      const payment = { accountId, invoice, signed, totalCents: totalCentsOf(payable), now: now() };
      return await insertX402Payment(tx, { ...payment, dueAt: now() + LEASE_MS });
    });
    if (recorded !== "page") return recorded;
  }
  throw notPayable("being paid on its page");
}

async function recordOutcome(
  x402: X402Deps,
  payment: X402Payment,
  settlement: SettlementOutcome,
  isRefusalFinal: boolean,
): Promise<void> {
  const { billing, chain } = x402;
  const now = x402.now();
  if (settlement.kind === "paid") return await creditPayment(x402, payment, settlement);
  const { reason } = settlement;
  if (isRefusalFinal) {
    // With a node configured, the chain is checked after the signature has expired.
    const dueAt = chain === undefined ? null : payment.expiresAt + EXPIRY_GRACE_MS;
    await billing.db.write(async (tx) => {
      // If the lease was lost, another process settled the payment, so this refusal may not be the first outcome.
      const current = await lockX402Payment(tx, payment.id);
      if (current?.dueAt === payment.dueAt)
        await updateX402Payment(tx, payment, { state: "refused", reason, dueAt, now });
    });
    return;
  }
  billing.log.warn("outcome of an x402 payment is unknown", { payment: payment.id, reason });
  await billing.db.write((tx) =>
    updateX402Payment(tx, payment, { state: "open", reason, dueAt: now + RETRY_MS, now }),
  );
}

async function creditPayment(
  { billing, now }: X402Deps,
  payment: X402Payment,
  { transaction }: { readonly transaction: string | null },
): Promise<void> {
  const at = now();
  const state = "paid";
  await billing.db.write((tx) =>
    updateX402Payment(tx, payment, { state, transaction, dueAt: at + RETRY_MS, now: at }),
  );
  const { id, invoiceId, totalCents } = payment;
  await ingestFacts(
    billing,
    [
      {
        processor: PROCESSOR,
        ref: id,
        kind: "paid",
        payment: id,
        invoiceId,
        amountCents: totalCents,
        taxCents: 0,
        currency: "usd",
        at,
      },
    ],
    at,
  );
  await billing.db.write((tx) => updateX402Payment(tx, payment, { state, dueAt: null, now: at }));
}

/** A repeated settlement is trusted only if it succeeds: the first one may have moved the money. */
async function resume(x402: X402Deps, payment: X402Payment): Promise<void> {
  const { billing, facilitator } = x402;
  const { state, signed, reason, expiresAt } = payment;
  if (state === "paid") return await creditPayment(x402, payment, payment);
  const found = await findOnChain(x402, payment);
  if (found.kind === "paid") return await creditPayment(x402, payment, found);
  const now = x402.now();
  if (state === "open" && now <= expiresAt + EXPIRY_GRACE_MS) {
    const settlement = await facilitator.settle(signed, signed.accepted);
    return await recordOutcome(x402, payment, settlement, false);
  }
  const isExpired = found.kind === "absent" && found.at > expiresAt;
  const isFinal = isExpired || found.kind === "not_configured";
  const nextState = isExpired ? "refused" : isFinal && state === "open" ? "unclear" : state;
  const dueAt = isFinal ? null : now + LATE_RETRY_MS;
  if (nextState === "unclear") alertOperator(x402, payment);
  await billing.db.write((tx) =>
    updateX402Payment(tx, payment, { state: nextState, reason, dueAt, now }),
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
  { id, signed, createdAt }: X402Payment,
): Promise<ChainLookup | { readonly kind: "not_configured" | "unavailable" }> {
  if (chain === undefined) return { kind: "not_configured" };
  try {
    return await chain.findPayment(signed, createdAt);
  } catch (cause) {
    billing.log.warn("failed to look up an x402 payment on the chain", { payment: id, cause });
    return { kind: "unavailable" };
  }
}

async function awaitOutcomeById(
  x402: X402Deps,
  payable: Payable,
  id: string,
): Promise<PaymentResult> {
  const payment = await findX402Payment(x402.billing.db, id);
  if (payment === undefined) throw new Error(`x402 payment ${id} not found`);
  return await awaitOutcome(x402, payable, payment);
}

/** Waits for the outcome of a stored payment, and resumes it if its lease has expired. */
async function awaitOutcome(
  x402: X402Deps,
  payable: Payable,
  stored: X402Payment,
): Promise<PaymentResult> {
  const { accountId, invoice } = payable;
  if (stored.accountId !== accountId || ("id" in invoice && stored.invoiceId !== invoice.id))
    return { kind: "refused", reason: "already used for something else" };
  const { outcomePollsMax = OUTCOME_POLLS_MAX } = x402;
  let payment: X402Payment | undefined = stored;
  for (let polls = 0; payment?.state === "open" && polls < outcomePollsMax; polls++) {
    const isDue = payment.dueAt !== null && payment.dueAt <= x402.now();
    if (isDue && (await claimX402Payment(x402.billing.db, payment, x402.now() + LEASE_MS)))
      await resume(x402, payment);
    else if (payment.reason !== null) break;
    else await new Promise((resolve) => setTimeout(resolve, OUTCOME_POLL_MS));
    payment = await findX402Payment(x402.billing.db, stored.id);
  }
  if (payment === undefined) throw new Error(`x402 payment ${stored.id} not found`);
  return paymentResultOf(x402, payment);
}

async function paymentResultOf(x402: X402Deps, payment: X402Payment): Promise<PaymentResult> {
  const { signed, state, reason } = payment;
  switch (state) {
    case "paid":
      if (payment.dueAt !== null) await creditPayment(x402, payment, payment);
      return { kind: "paid", settleResponse: settleResponseOf(payment), at: payment.createdAt };
    case "refused":
      return {
        kind: "refused",
        reason: reason ?? "refused",
        settleResponse: settleResponseOf(payment),
      };
    case "open":
      throw outcomeUnknown();
    case "unclear":
      throw new Fault("conflict", `outcome of ${transferIdOf(signed)} is unclear`, {
        message:
          "It is not known whether this payment was settled. The operator has been notified and will add the credits if it was. Do not send the payment again.",
        param: "payment-signature",
      });
  }
}

function settleResponseOf({
  signed,
  state,
  payer,
  transaction,
  reason,
}: X402Payment): SettleResponse {
  const { network, amount } = signed.accepted;
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

function notPayable(status: string): Fault {
  return new Fault("conflict", `invoice is ${status}`, {
    message: `This invoice is ${status}. Nothing was charged. Get its status with GET /v1/billing/invoice/{id}.`,
  });
}
