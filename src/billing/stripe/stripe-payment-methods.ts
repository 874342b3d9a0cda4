// Saved payment methods at Stripe: Checkout pages in setup mode, and off-session payments. The top-up's id is Stripe's
// idempotency key and in the payment's metadata, so a payment is found again after a crash.

import type { Stripe as StripeClient } from "stripe";
import { lineItemsOf } from "../invoices/cents.ts";
import type {
  ChargeRequest,
  ChargeResult,
  SetupState,
  SetupPage,
  SetupRequest,
} from "../payments/payment-processor.ts";
import {
  errorField,
  INVOICE_METADATA_KEY,
  type PaymentIntent,
  isAccessError,
  isMissing,
  isCancelable,
  isRefusal,
  intentState,
  TAX_METADATA_KEY,
} from "./stripe-facts.ts";

/** On a setup session: the id of the payment method. */
export const METHOD_METADATA_KEY = "postern_method";
/** On a payment intent: the id of the top-up. */
export const TOP_UP_METADATA_KEY = "postern_top_up";

const LIST_MAX = 100;
const INTENTS_SCANNED_MAX = 1_000;
/** Methods in US dollars that can be charged without a redirect of the payer. A charge off session accepts no others. */
const METHOD_TYPES = ["card", "link", "us_bank_account"] as const;
/** Errors of Stripe that are the payer's, although their type is `invalid_request_error`. */
const PAYER_ERROR_CODES: ReadonlySet<unknown> = new Set([
  "customer_tax_location_invalid",
  "debit_not_authorized",
  "expired_payment_method",
  "payment_intent_mandate_invalid",
  "payment_intent_payment_attempt_failed",
  "payment_method_bank_account_blocked",
  "payment_method_billing_details_address_missing",
  "payment_method_customer_decline",
  "payment_method_provider_decline",
  "payment_method_restricted",
]);

export async function createSetupPage(
  stripe: StripeClient,
  automaticTax: boolean,
  { id, accountId, returnUrl }: SetupRequest,
): Promise<SetupPage> {
  const customer = await stripe.customers.create(
    { metadata: { postern_account: accountId } },
    { idempotencyKey: `${id}.customer` },
  );
  const session = await stripe.checkout.sessions.create(
    {
      mode: "setup",
      currency: "usd",
      customer: customer.id,
      allowed_payment_method_types: [...METHOD_TYPES],
      metadata: { [METHOD_METADATA_KEY]: id },
      // Automatic tax needs the payer's address, which cannot be asked for at an off-session charge.
      billing_address_collection: automaticTax ? "required" : "auto",
      success_url: `${returnUrl}?saved=1`,
      cancel_url: returnUrl,
    },
    { idempotencyKey: `${id}.page` },
  );
  if (typeof session.url !== "string") throw new Error(`setup session ${session.id} has no URL`);
  return { ref: session.id, url: session.url, customer: customer.id };
}

export async function fetchSetupState(stripe: StripeClient, ref: string): Promise<SetupState> {
  const session = await findSession(stripe, ref);
  if (session === undefined || session.status === "expired") return { state: "expired" };
  const intent = session.setup_intent;
  const isDone = typeof intent === "object" && intent?.status === "succeeded";
  if (!isDone) return { state: "open", url: session.url ?? undefined };
  const method = intent.payment_method;
  if (typeof method !== "object" || method === null)
    throw new Error(`setup session ${ref} has no payment method`);
  return { state: "saved", ref: method.id, label: labelOf(method) };
}

export async function chargeMethod(
  stripe: StripeClient,
  automaticTax: boolean,
  request: ChargeRequest,
): Promise<ChargeResult> {
  try {
    const tax = automaticTax ? await calculateTax(stripe, request) : undefined;
    // The owner must save the method again, with an address.
    if (tax === "no_address") return { state: "refused", reason: "method_gone" };
    const intent = await stripe.paymentIntents.create(
      {
        amount: request.totalCents + (tax?.cents ?? 0),
        currency: "usd",
        customer: request.customer,
        payment_method: request.method,
        off_session: true,
        confirm: true,
        // Without it Stripe requires a `return_url`, also for cards.
        automatic_payment_methods: { enabled: true, allow_redirects: "never" },
        description: `${request.credits.toLocaleString("en-US")} credits and platform fee`,
        metadata: {
          [INVOICE_METADATA_KEY]: request.invoiceId,
          [TOP_UP_METADATA_KEY]: request.id,
          ...(tax === undefined ? {} : { [TAX_METADATA_KEY]: String(tax.cents) }),
        },
        ...(tax === undefined ? {} : { hooks: { inputs: { tax: { calculation: tax.id } } } }),
      },
      { idempotencyKey: `${request.id}.charge` },
    );
    return await chargeResultOf(stripe, intent);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return await resultAfterRefusal(stripe, request, error);
  }
}

export async function findCharge(
  stripe: StripeClient,
  { id, customer }: Pick<ChargeRequest, "id" | "customer">,
): Promise<ChargeResult | undefined> {
  // Newest first. An account has one open top-up at a time, so the payment is among the first.
  let scanned = 0;
  for await (const intent of stripe.paymentIntents.list({ customer, limit: LIST_MAX })) {
    if (intent.metadata[TOP_UP_METADATA_KEY] === id) return await chargeResultOf(stripe, intent);
    if ((scanned += 1) >= INTENTS_SCANNED_MAX) break;
  }
  return undefined;
}

/** Does nothing if the method no longer exists at Stripe. */
export async function detachMethod(stripe: StripeClient, method: string): Promise<void> {
  try {
    await stripe.paymentMethods.detach(method);
  } catch (error) {
    // Stripe refuses to detach a method that is not attached.
    if (errorField(error, "type") !== "StripeInvalidRequestError") throw error;
  }
}

/** Stripe keeps a payment intent after a decline, so it is canceled before the decline is reported. */
async function resultAfterRefusal(
  stripe: StripeClient,
  request: ChargeRequest,
  error: Error,
): Promise<ChargeResult> {
  const isFirst = request.now === request.createdAt;
  // Without access, earlier charges cannot be listed either; the first request has none.
  if (isFirst && isAccessError(error))
    return { state: "refused", reason: "processor_refused", cause: error };
  const charged = await findCharge(stripe, request);
  if (charged !== undefined) return charged;
  const reason = declineReasonOf(error);
  if (reason !== undefined) return { state: "refused", reason };
  return (await isMethodGone(stripe, request))
    ? { state: "refused", reason: "method_gone" }
    : { state: "refused", reason: "processor_refused", cause: error };
}

/** If the customer is missing too, the secret key belongs to another Stripe account or mode: deleted customers can be read. */
async function isMethodGone(
  stripe: StripeClient,
  { method, customer }: ChargeRequest,
): Promise<boolean> {
  try {
    const { customer: owner } = await stripe.paymentMethods.retrieve(method);
    return (typeof owner === "string" ? owner : owner?.id) !== customer;
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  try {
    await stripe.customers.retrieve(customer);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

async function chargeResultOf(stripe: StripeClient, intent: PaymentIntent): Promise<ChargeResult> {
  const { state, facts } = await intentState(stripe, intent);
  if (state === "done" || state === "processing") return { state, ref: intent.id, facts };
  if (isCancelable(intent.status)) await stripe.paymentIntents.cancel(intent.id);
  const code = intent.last_payment_error?.code;
  return {
    state: "refused",
    reason: code === "authentication_required" ? "authentication_required" : "declined",
  };
}

/** Calculated once per top-up: the same idempotency key returns the same calculation. */
async function calculateTax(
  stripe: StripeClient,
  { id, method, credits, totalCents }: ChargeRequest,
): Promise<{ readonly id: string; readonly cents: number } | "no_address"> {
  const { billing_details: payer } = await stripe.paymentMethods.retrieve(method);
  const { address } = payer;
  if (typeof address?.country !== "string" || address.country === "") return "no_address";
  const calculation = await stripe.tax.calculations.create(
    {
      currency: "usd",
      customer_details: {
        address_source: "billing",
        address: {
          country: address.country,
          ...(address.line1 === null ? {} : { line1: address.line1 }),
          ...(address.city === null ? {} : { city: address.city }),
          ...(address.state === null ? {} : { state: address.state }),
          ...(address.postal_code === null ? {} : { postal_code: address.postal_code }),
        },
      },
      line_items: lineItemsOf({ credits, totalCents }).map(({ name, cents }) => ({
        amount: cents,
        reference: name,
        tax_behavior: "exclusive",
      })),
    },
    { idempotencyKey: `${id}.tax` },
  );
  if (calculation.id === null) throw new Error("the tax calculation has no id");
  return { id: calculation.id, cents: calculation.tax_amount_exclusive };
}

/** Undefined if the error is not the payer's. */
function declineReasonOf(error: Error): "declined" | "authentication_required" | undefined {
  const code = errorField(error, "code");
  if (code === "authentication_required") return "authentication_required";
  const isPayers = errorField(error, "type") === "StripeCardError" || PAYER_ERROR_CODES.has(code);
  return isPayers ? "declined" : undefined;
}

async function findSession(stripe: StripeClient, ref: string) {
  try {
    return await stripe.checkout.sessions.retrieve(ref, {
      expand: ["setup_intent.payment_method"],
    });
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

function labelOf({
  type,
  card,
}: {
  readonly type: string;
  readonly card?: { readonly brand: string; readonly last4: string } | undefined;
}): string {
  if (card === undefined) return type.replaceAll("_", " ");
  return `${card.brand.charAt(0).toUpperCase()}${card.brand.slice(1)} ending in ${card.last4}`;
}
