// What Stripe's records of a payment say in this house's words: what was paid, given back and disputed, causes before
// what they cause. A payment is known by its Checkout page, or by its own name where a saved method was charged.

import type { Stripe as StripeClient } from "stripe";
import { SECOND_MS } from "../../base/time.ts";
import type { PaymentFact, PageState } from "../payments/payment-processor.ts";

/** Names the invoice on what is Stripe's; a payer cannot set it, as they can a client's reference. */
export const INVOICE_METADATA_KEY = "postern_invoice";

/** The tax within a payment that has no page; like the other marks, only the secret key can set it. */
export const TAX_METADATA_KEY = "postern_tax";

const LIST_MAX = 100;

export type PaymentIntent = Omit<
  Awaited<ReturnType<StripeClient["paymentIntents"]["retrieve"]>>,
  "lastResponse"
>;
type CheckoutSession = Awaited<ReturnType<StripeClient["checkout"]["sessions"]["retrieve"]>>;
const EXPIRED_PAGE: PageState = { state: "expired", url: undefined, facts: [] };
type Dispute = Pick<
  Awaited<ReturnType<StripeClient["disputes"]["retrieve"]>>,
  "id" | "status" | "amount" | "currency" | "created"
>;

export async function fetchPageState(stripe: StripeClient, ref: string): Promise<PageState> {
  if (isPaymentIntentId(ref)) {
    const intent = await findIntent(stripe, ref);
    return intent === undefined ? EXPIRED_PAGE : await intentState(stripe, intent);
  }
  const session = await findSession(stripe, ref);
  if (session === undefined) return EXPIRED_PAGE;
  const url = session.url ?? undefined;
  const intent = session.payment_intent;
  const invoiceId = session.metadata?.[INVOICE_METADATA_KEY];
  if (session.status === "open") return { state: "open", url, facts: [] };
  if (session.status === "expired") return EXPIRED_PAGE;
  if (invoiceId === undefined || intent === null || typeof intent === "string")
    throw new Error(`the page ${ref} has no payment of an invoice`);
  return await paymentState(stripe, intent, { invoiceId, taxCents: taxOf(session) });
}

/** A payment without a page. */
export async function intentState(stripe: StripeClient, intent: PaymentIntent): Promise<PageState> {
  const invoiceId = intent.metadata[INVOICE_METADATA_KEY];
  if (invoiceId === undefined) throw new Error(`the payment ${intent.id} is of no invoice`);
  const taxCents = Number(intent.metadata[TAX_METADATA_KEY] ?? "0");
  const page = await paymentState(stripe, intent, { invoiceId, taxCents });
  // Nobody is there who could go on with it.
  return page.state === "processing" && intent.status !== "processing" ? EXPIRED_PAGE : page;
}

/** What only this house could still make a payment of. */
export function isCancelable(status: string): boolean {
  return status !== "succeeded" && status !== "canceled" && status !== "processing";
}

export function isPaymentIntentId(ref: string): boolean {
  return ref.startsWith("pi_");
}

async function paymentState(
  stripe: StripeClient,
  intent: PaymentIntent,
  { invoiceId, taxCents }: { readonly invoiceId: string; readonly taxCents: number },
): Promise<PageState> {
  if (intent.status !== "succeeded") {
    // A bank may still refuse what takes days to arrive; then the page is as good as expired.
    const isDead = intent.status === "canceled" || intent.status === "requires_payment_method";
    return { state: isDead ? "expired" : "processing", url: undefined, facts: [] };
  }
  const about = { processor: "stripe", payment: intent.id, invoiceId, taxCents: 0 } as const;
  const paid: PaymentFact = {
    ...about,
    ref: intent.id,
    kind: "paid",
    amountCents: intent.amount_received,
    taxCents,
    currency: intent.currency,
    at: intent.created * SECOND_MS,
  };
  const facts = [paid];
  const refunds = stripe.refunds.list({ payment_intent: intent.id, limit: LIST_MAX });
  for await (const refund of refunds) {
    const { id, status, amount, currency, created } = refund;
    const failed = status === "failed" || status === "canceled";
    if (status !== "succeeded" && !failed) continue;
    const fact = { ...about, ref: id, amountCents: amount, currency, at: created * SECOND_MS };
    facts.push({ ...fact, kind: "refunded" });
    // It may have been heard of as a refund before, by whoever looked then; so it is both, in this order.
    if (failed) facts.push({ ...fact, kind: "refund_failed" });
  }
  const disputes = stripe.disputes.list({ payment_intent: intent.id, limit: LIST_MAX });
  for await (const dispute of disputes) facts.push(...factsOfDispute(dispute, about));
  return { state: "done", url: undefined, facts };
}

/** Undefined where this account at Stripe has no such page, as after a change of accounts: nobody pays at it here. */
async function findSession(
  stripe: StripeClient,
  ref: string,
): Promise<CheckoutSession | undefined> {
  try {
    return await stripe.checkout.sessions.retrieve(ref, { expand: ["payment_intent"] });
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Undefined where this account at Stripe has no such payment. */
export async function findIntent(
  stripe: StripeClient,
  ref: string,
): Promise<PaymentIntent | undefined> {
  try {
    return await stripe.paymentIntents.retrieve(ref);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

export function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "resource_missing";
}

/** An inquiry takes no money, and neither does a dispute that was prevented. */
function factsOfDispute(
  { id, status, amount, currency, created }: Dispute,
  about: Pick<PaymentFact, "processor" | "payment" | "invoiceId" | "taxCents">,
): readonly PaymentFact[] {
  if (status.startsWith("warning_") || status === "prevented") return [];
  const at = created * SECOND_MS;
  const fact = { ...about, ref: id, currency, at };
  const disputed: PaymentFact = { ...fact, kind: "disputed", amountCents: amount };
  if (status !== "won" && status !== "lost") return [disputed];
  return [
    disputed,
    { ...fact, kind: "dispute_closed", amountCents: status === "won" ? amount : 0 },
  ];
}

function taxOf(session: CheckoutSession): number {
  return session.total_details?.amount_tax ?? 0;
}
