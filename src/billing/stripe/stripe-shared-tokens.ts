// Charges of shared payment tokens: a payer grants this seller a token for one payment, limited in amount and time. The id of
// the charge is Stripe's idempotency key and in the payment's metadata, so a payment is found again after a crash.

import type { Stripe as StripeClient } from "stripe";
import type { TokenCharge, TokenChargeResult } from "../payments/payment-processor.ts";
import {
  findIntent,
  intentState,
  INVOICE_METADATA_KEY,
  isCancelable,
  isRefusal,
  type PaymentIntent,
  STRIPE_PREVIEW_VERSION,
} from "./stripe-facts.ts";

/** On a payment intent: the id of the charge. */
export const TOKEN_CHARGE_METADATA_KEY = "postern_token_charge";
export async function chargeSharedToken(
  stripe: StripeClient,
  { id, invoiceId, totalCents, token }: TokenCharge,
): Promise<TokenChargeResult> {
  const request = {
    amount: totalCents,
    currency: "usd",
    confirm: true,
    automatic_payment_methods: { enabled: true, allow_redirects: "never" as const },
    metadata: {
      [INVOICE_METADATA_KEY]: invoiceId,
      [TOKEN_CHARGE_METADATA_KEY]: id,
      machine_payment: "true",
    },
    // Not in the types of the package, because it is in preview.
    shared_payment_granted_token: token,
  };
  try {
    const options = { idempotencyKey: id, apiVersion: STRIPE_PREVIEW_VERSION };
    const { id: ref } = await stripe.paymentIntents.create(request, options);
    return await chargeResultOf(stripe, ref);
  } catch (error) {
    const ref = refusedIntentOf(error);
    if (ref === undefined) throw error;
    const result = ref === null ? undefined : await chargeResultOf(stripe, ref);
    return result?.state === "done" || result?.state === "processing" ? result : refusalOf(error);
  }
}

/** Finds an earlier charge. Stripe's index of metadata can be an hour late. */
export async function findTokenCharge(
  stripe: StripeClient,
  id: string,
): Promise<TokenChargeResult | undefined> {
  const query = `metadata["${TOKEN_CHARGE_METADATA_KEY}"]:"${id}"`;
  const { data } = await stripe.paymentIntents.search({ query, limit: 1 });
  const [intent] = data;
  return intent === undefined ? undefined : await chargeResultOf(stripe, intent.id);
}

/** Reads the intent again: a reply to a repeated idempotency key is the one of the first request. */
async function chargeResultOf(stripe: StripeClient, ref: string): Promise<TokenChargeResult> {
  const intent = await findIntent(stripe, ref);
  if (intent === undefined) throw new Error(`payment intent ${ref} not found`);
  if (intent.status === "succeeded") {
    const { facts } = await intentState(stripe, intent);
    return { state: "done", ref, facts };
  }
  if (isCancelable(intent.status)) await stripe.paymentIntents.cancel(ref);
  else if (intent.status === "processing") return { state: "processing", ref };
  return { state: "refused", reason: unpaidReason(intent) };
}

function unpaidReason({ status, last_payment_error: error }: PaymentIntent): string {
  if (status === "requires_action" || error?.code === "authentication_required")
    return "the payer must confirm this payment with their bank";
  return error === null ? `the payment is ${status}` : "the payment method was declined";
}

/** The intent of a refused payment, null if none was made; undefined if the outcome is unknown. */
function refusedIntentOf(error: unknown): string | null | undefined {
  if (!isRefusal(error)) return undefined;
  const intent = "payment_intent" in error ? error.payment_intent : undefined;
  const isIntent = typeof intent === "object" && intent !== null && "id" in intent;
  return isIntent && typeof intent.id === "string" ? intent.id : null;
}

function refusalOf(error: unknown): TokenChargeResult {
  if (error instanceof Error && "type" in error && error.type === "StripeCardError")
    return { state: "refused", reason: "the payment method was declined" };
  return {
    state: "refused",
    reason:
      "Stripe does not accept this shared payment token: it may have expired, have been used, or be limited to another seller or a smaller amount",
    cause: error,
  };
}
