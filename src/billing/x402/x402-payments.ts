// Payments by x402: an agent with a wallet signs a transfer, the facilitator settles it, and the one door for payments
// turns it into credits. What is about to be settled is written down before; whoever finds it unfinished goes on with it.

import { Fault } from "../../base/fault.ts";
import { MINUTE_MS } from "../../base/time.ts";
import { type Invoice, lockInvoice } from "../invoices/invoices.ts";
import { feeOf, formatCents } from "../invoices/cents.ts";
import { ingestFacts, hasOpenCheckout } from "../payments/checkouts.ts";
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
  type InvoiceDraft,
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
/** Where an invoice is paid. */
export const X402_PATH = "/v1/billing/invoice/{id}/x402";
/** How long one process may be at a payment before another goes on with it; longer than a settlement takes. */
const LEASE_MS = MINUTE_MS;
const RETRY_MS = 5_000;
const LATE_RETRY_MS = 10 * MINUTE_MS;
/** How long after its signature has expired a payment may still turn up. */
const EXPIRY_GRACE_MS = 120_000;
const OUTCOME_POLL_MS = 200;
const OUTCOME_POLLS_MAX = 50;
/** How often a page that somebody opens meanwhile is closed again. */
const CANCEL_ATTEMPTS_MAX = 3;
const POLL_BATCH_MAX = 50;
const POLL_FAILURES_MAX = 5;

/** Takes payments where the operator has switched them on. */
export interface X402Deps {
  readonly billing: BillingDeps;
  readonly paymentTerms: PaymentTerms;
  readonly topUpCents: number;
  readonly baseUrl: string;
  readonly facilitator: FacilitatorClient;
  readonly chain: ChainClient | undefined;
  readonly now: () => number;
  /** How often a payment that another is at is looked for; fewer for tests. */
  readonly outcomePollsMax?: number;
}

/** What somebody may pay: an invoice that is there, or one that is made once the payment is good. */
export interface Payable {
  readonly accountId: string;
  readonly invoice: Invoice | InvoiceDraft;
}

export type PaymentResult =
  | { readonly kind: "paid"; readonly receipt: SettleResponse }
  /** Nothing was taken. `receipt` says so where it was tried. */
  | { readonly kind: "refused"; readonly reason: string; readonly receipt?: SettleResponse };

export function totalCentsOf({ invoice }: Payable): number {
  return "id" in invoice
    ? invoice.amountCents + invoice.feeCents
    : invoice.amountCents + feeOf(invoice.amountCents);
}

/** How an open invoice is paid, for the header `PAYMENT-REQUIRED`. */
export function paymentRequiredForInvoice(x402: X402Deps, invoice: Invoice, error: string): string {
  const total = totalCentsOf({ accountId: invoice.accountId, invoice });
  return paymentRequiredHeader(
    paymentRequirementsFor(x402.paymentTerms, total),
    {
      url: x402.baseUrl + X402_PATH.replace("{id}", invoice.id),
      description: `${formatCents(invoice.amountCents)} of credits for ${formatCents(total)}, fee included.`,
    },
    error,
  );
}

/** Takes a payment once, however often and wherever it is presented. Throws while its outcome is not known. */
export async function acceptPayment(
  x402: X402Deps,
  payable: Payable,
  header: string,
): Promise<PaymentResult> {
  const signed = parsePaymentHeader(header);
  const known = await findX402Payment(x402.billing.db, transferIdOf(signed));
  if (known !== undefined) return await awaitOutcome(x402, payable, known);
  const requirement = paymentRequirementsFor(x402.paymentTerms, totalCentsOf(payable));
  const reason =
    mismatchReason(signed, requirement, x402.now()) ??
    (await x402.facilitator.verify(signed, requirement));
  if (reason !== undefined) return { kind: "refused", reason };
  const recorded = await recordIntent(x402, payable, signed);
  if (recorded === undefined) return await awaitOutcomeById(x402, payable, transferIdOf(signed));
  const settlement = await x402.facilitator.settle(signed, requirement);
  await recordOutcome(x402, recorded, settlement, settlement.kind === "refused");
  return await awaitOutcomeById(x402, payable, recorded.id);
}

/** Goes on with every payment whose time has come: after a crash, or while an outcome is not known. */
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
      log.warn("an x402 payment could not be followed", { payment: payment.id, cause });
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
    // Nobody must pay the same at a page meanwhile.
    if ("id" in invoice)
      await cancelOpenCheckout(billing, { id: invoice.id, accountId, now: now() });
    const recorded = await billing.db.write(async (tx) => {
      if ("id" in invoice) {
        const locked = await lockInvoice(tx, invoice.id);
        if (locked?.status !== "open") throw notPayable(locked?.status ?? "gone");
        const other = await findActiveX402Payment(tx, invoice.id);
        if (other !== undefined && other.id !== transferIdOf(signed))
          throw notPayable("being paid");
        const { processor } = billing;
        if (processor.kind === "hosted" && (await hasOpenCheckout(tx, processor, invoice.id)))
          return "page";
      }
      const payment = { accountId, invoice, signed, totalCents: totalCentsOf(payable), now: now() };
      return await insertX402Payment(tx, { ...payment, dueAt: now() + LEASE_MS });
    });
    if (recorded !== "page") return recorded;
  }
  throw notPayable("being paid at its page");
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
    // Where the chain can be asked, it has the last word on that.
    const dueAt = chain === undefined ? null : payment.expiresAt + EXPIRY_GRACE_MS;
    await billing.db.write(async (tx) => {
      // Whoever stood still for so long that another went on with it was not the first to settle it.
      const current = await lockX402Payment(tx, payment.id);
      if (current?.dueAt === payment.dueAt)
        await updateX402Payment(tx, payment, { state: "refused", reason, dueAt, now });
    });
    return;
  }
  billing.log.warn("what became of an x402 payment is not known", { payment: payment.id, reason });
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

/** Finishes what was begun. A settlement that was asked for before is believed only where it succeeds. */
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
  const isDead = found.kind === "absent" && found.at > expiresAt;
  const isOver = isDead || found.kind === "unasked";
  const nextState = isDead ? "refused" : isOver && state === "open" ? "unclear" : state;
  const dueAt = isOver ? null : now + LATE_RETRY_MS;
  if (nextState === "unclear") alertOperator(x402, payment);
  await billing.db.write((tx) =>
    updateX402Payment(tx, payment, { state: nextState, reason, dueAt, now }),
  );
}

function alertOperator({ billing }: X402Deps, payment: X402Payment): void {
  const { id, invoiceId, totalCents, reason } = payment;
  billing.log.error("a payment needs an operator", {
    processor: PROCESSOR,
    ref: id,
    invoice: invoiceId,
    amount_cents: totalCents,
    reason: `the facilitator cannot say whether it was settled: ${reason ?? "no answer"}`,
  });
}

async function findOnChain(
  { chain, billing }: X402Deps,
  { id, signed, createdAt }: X402Payment,
): Promise<ChainLookup | { readonly kind: "unasked" | "silent" }> {
  if (chain === undefined) return { kind: "unasked" };
  try {
    return await chain.findPayment(signed, createdAt);
  } catch (cause) {
    billing.log.warn("the chain could not be asked after an x402 payment", { payment: id, cause });
    return { kind: "silent" };
  }
}

async function awaitOutcomeById(
  x402: X402Deps,
  payable: Payable,
  id: string,
): Promise<PaymentResult> {
  const payment = await findX402Payment(x402.billing.db, id);
  if (payment === undefined) throw new Error(`the payment ${id} is gone`);
  return await awaitOutcome(x402, payable, payment);
}

/** What became of a payment that is known, waiting for whoever is at it. */
async function awaitOutcome(
  x402: X402Deps,
  payable: Payable,
  known: X402Payment,
): Promise<PaymentResult> {
  const { accountId, invoice } = payable;
  if (known.accountId !== accountId || ("id" in invoice && known.invoiceId !== invoice.id))
    return { kind: "refused", reason: "already used for something else" };
  const { outcomePollsMax = OUTCOME_POLLS_MAX } = x402;
  let payment: X402Payment | undefined = known;
  for (let polls = 0; payment?.state === "open" && polls < outcomePollsMax; polls++) {
    const isDue = payment.dueAt !== null && payment.dueAt <= x402.now();
    if (isDue && (await claimX402Payment(x402.billing.db, payment, x402.now() + LEASE_MS)))
      await resume(x402, payment);
    else if (payment.reason !== null) break;
    else await new Promise((resolve) => setTimeout(resolve, OUTCOME_POLL_MS));
    payment = await findX402Payment(x402.billing.db, known.id);
  }
  if (payment === undefined) throw new Error(`the payment ${known.id} is gone`);
  return paymentResultOf(x402, payment);
}

async function paymentResultOf(x402: X402Deps, payment: X402Payment): Promise<PaymentResult> {
  const { signed, state, reason } = payment;
  switch (state) {
    case "paid":
      if (payment.dueAt !== null) await creditPayment(x402, payment, payment);
      return { kind: "paid", receipt: settleResponseOf(payment) };
    case "refused":
      return { kind: "refused", reason: reason ?? "refused", receipt: settleResponseOf(payment) };
    case "open":
      throw outcomeUnknown();
    case "unclear":
      throw new Fault("conflict", `outcome of ${transferIdOf(signed)} is unclear`, {
        message:
          "Nobody can say whether this payment moved money; the operator has been told. If it did, its credits are added. Do not send it again.",
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
  return new Fault("overloaded", "outcome of a settlement not known", {
    message:
      "The payment was handed to the x402 facilitator, and whether it was settled is not known yet. Nothing is lost: send the same request with the same PAYMENT-SIGNATURE again, and do not sign another one.",
    param: "payment-signature",
    retryAfterSeconds: RETRY_MS / 1_000,
  });
}

function notPayable(status: string): Fault {
  return new Fault("conflict", `invoice is ${status}`, {
    message: `This invoice is ${status}. Read it with GET /v1/billing/invoice/{id}; nothing was taken now.`,
  });
}
