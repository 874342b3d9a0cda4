// Converts Stripe's objects to payment facts. A payment is found by its Checkout session, or by its payment intent if a
// saved method was charged.

import type { Stripe as StripeClient } from "stripe";
import { SECOND_MS } from "../../base/time.ts";
import type { PaymentFact, PageState } from "../payments/payment-processor.ts";

/** The version that the rules of the tests describe; the pinned package sends it. */
export const STRIPE_API_VERSION = "2026-10-28.endive";
/** Shared payment tokens are in Stripe's preview. The official package mppx uses this version. */
export const STRIPE_PREVIEW_VERSION = "2026-07-29.preview";

/** On sessions and intents: the invoice id. Unlike `client_reference_id`, a payer cannot set metadata. */
export const INVOICE_METADATA_KEY = "postern_invoice";

/** On payment intents without a session: the tax in cents. */
export const TAX_METADATA_KEY = "postern_tax";

const LIST_MAX = 100;
const REFUSED_STATUSES: ReadonlySet<unknown> = new Set([400, 401, 402, 403, 404]);

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
    throw new Error(`checkout session ${ref} has no payment intent or no invoice`);
  return await paymentState(stripe, intent, { invoiceId, taxCents: taxOf(session) });
}

/** The state of a payment without a Checkout session. */
export async function intentState(stripe: StripeClient, intent: PaymentIntent): Promise<PageState> {
  const invoiceId = intent.metadata[INVOICE_METADATA_KEY];
  if (invoiceId === undefined) throw new Error(`payment intent ${intent.id} has no invoice`);
  const taxCents = Number(intent.metadata[TAX_METADATA_KEY] ?? "0");
  const page = await paymentState(stripe, intent, { invoiceId, taxCents });
  // An off-session payment that needs the payer's action can never complete.
  return page.state === "processing" && intent.status !== "processing" ? EXPIRED_PAGE : page;
}

/** A payment intent that has not been paid and is not processing. */
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
    // A delayed payment can still fail at the bank; the page cannot be used again then.
    const isExpired = intent.status === "canceled" || intent.status === "requires_payment_method";
    return { state: isExpired ? "expired" : "processing", url: undefined, facts: [] };
  }
  const common = { processor: "stripe", payment: intent.id, invoiceId, taxCents: 0 } as const;
  const paid: PaymentFact = {
    ...common,
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
    const fact = { ...common, ref: id, amountCents: amount, currency, at: created * SECOND_MS };
    facts.push({ ...fact, kind: "refunded" });
    // It may have been recorded as a refund before it failed, so both facts are reported.
    if (failed) facts.push({ ...fact, kind: "refund_failed" });
  }
  const disputes = stripe.disputes.list({ payment_intent: intent.id, limit: LIST_MAX });
  for await (const dispute of disputes) facts.push(...factsOfDispute(dispute, common));
  return { state: "done", url: undefined, facts };
}

/** Undefined if the Stripe account does not have this session, for example after switching accounts. */
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

/** Undefined if the Stripe account does not have this payment. */
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
  return errorField(error, "code") === "resource_missing";
}

/** Stripe refused the request, so this request has charged nothing. Other statuses, such as 409 and 429, can follow a charge. */
export function isRefusal(error: unknown): error is Error {
  if (!(error instanceof Error) || !REFUSED_STATUSES.has(errorField(error, "statusCode")))
    return false;
  // The same idempotency key with other parameters, or at the same time.
  return (
    errorField(error, "type") !== "StripeIdempotencyError" &&
    errorField(error, "code") !== "idempotency_key_in_use"
  );
}

/** The secret key is wrong, or lacks a permission. */
export function isAccessError(error: unknown): boolean {
  const status = errorField(error, "statusCode");
  return status === 401 || status === 403;
}

export function errorField(error: unknown, name: "code" | "statusCode" | "type"): unknown {
  return error instanceof Error && name in error
    ? (Reflect.get(error, name) as unknown) // `unknown` is always safe.
    : undefined;
}

/** Inquiries and prevented disputes take no money back. */
function factsOfDispute(
  { id, status, amount, currency, created }: Dispute,
  common: Pick<PaymentFact, "processor" | "payment" | "invoiceId" | "taxCents">,
): readonly PaymentFact[] {
  if (status.startsWith("warning_") || status === "prevented") return [];
  const at = created * SECOND_MS;
  const fact = { ...common, ref: id, currency, at };
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
