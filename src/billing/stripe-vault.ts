// Payment methods saved at Stripe: a Checkout page in setup mode, and payments without anybody there. The attempt's id is
// Stripe's idempotency key and stands on the payment, so that it is found again whatever was lost.

import type { Stripe as StripeClient } from "stripe";
import { creditsOfCents } from "./cents.ts";
import type { Charge, Charged, Refusal, Saving, SavingPage, SavingRequest } from "./processor.ts";
import {
  INVOICE_MARK,
  type Intent,
  isMissing,
  isPayable,
  seenOfIntent,
  TAX_MARK,
} from "./stripe-facts.ts";

/** Names the method on the page at which it is saved. */
export const METHOD_MARK = "postern_method";
/** Names the attempt on the payment. */
export const TOP_UP_MARK = "postern_top_up";

const LIST_MAX = 100;
const LOOKED_MAX = 1_000;

export async function beginSaving(
  stripe: StripeClient,
  automaticTax: boolean,
  { id, accountId, returnUrl }: SavingRequest,
): Promise<SavingPage> {
  const customer = await stripe.customers.create(
    { metadata: { postern_account: accountId } },
    { idempotencyKey: `${id}.customer` },
  );
  const session = await stripe.checkout.sessions.create(
    {
      mode: "setup",
      currency: "usd",
      customer: customer.id,
      metadata: { [METHOD_MARK]: id },
      // Tax depends on where the payer is, and nobody is there to say so when the method is charged.
      billing_address_collection: automaticTax ? "required" : "auto",
      success_url: `${returnUrl}?saved=1`,
      cancel_url: returnUrl,
    },
    { idempotencyKey: `${id}.page` },
  );
  if (typeof session.url !== "string") throw new Error(`the page ${session.id} has no address`);
  return { ref: session.id, url: session.url, customer: customer.id };
}

export async function savingOf(stripe: StripeClient, ref: string): Promise<Saving> {
  const session = await sessionOf(stripe, ref);
  if (session === undefined || session.status === "expired") return { state: "expired" };
  const intent = session.setup_intent;
  const isDone = typeof intent === "object" && intent?.status === "succeeded";
  if (!isDone) return { state: "open", url: session.url ?? undefined };
  const method = intent.payment_method;
  if (typeof method !== "object" || method === null)
    throw new Error(`the page ${ref} has saved no payment method`);
  return { state: "saved", ref: method.id, label: labelOf(method) };
}

export async function charge(
  stripe: StripeClient,
  automaticTax: boolean,
  order: Charge,
): Promise<Charged> {
  try {
    const tax = automaticTax ? await taxFor(stripe, order) : undefined;
    const intent = await stripe.paymentIntents.create(
      {
        amount: order.amountCents + order.feeCents + (tax?.cents ?? 0),
        currency: "usd",
        customer: order.customer,
        payment_method: order.method,
        off_session: true,
        confirm: true,
        description: `${creditsOfCents(order.amountCents).toLocaleString("en-US")} credits and platform fee`,
        metadata: {
          [INVOICE_MARK]: order.invoiceId,
          [TOP_UP_MARK]: order.id,
          ...(tax === undefined ? {} : { [TAX_MARK]: String(tax.cents) }),
        },
        ...(tax === undefined ? {} : { hooks: { inputs: { tax: { calculation: tax.id } } } }),
      },
      { idempotencyKey: `${order.id}.charge` },
    );
    return await chargedOf(stripe, intent);
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal === undefined) throw error;
    return await settled(stripe, order, refusal);
  }
}

export async function findCharge(
  stripe: StripeClient,
  { id, customer }: Pick<Charge, "id" | "customer">,
): Promise<Charged | undefined> {
  // Newest first, and an account has one attempt at a time: what is looked for is among the first.
  let looked = 0;
  for await (const intent of stripe.paymentIntents.list({ customer, limit: LIST_MAX })) {
    if (intent.metadata[TOP_UP_MARK] === id) return await chargedOf(stripe, intent);
    if ((looked += 1) >= LOOKED_MAX) break;
  }
  return undefined;
}

/** A method that is not there any more is forgotten already. */
export async function forget(stripe: StripeClient, method: string): Promise<void> {
  try {
    await stripe.paymentMethods.detach(method);
  } catch (error) {
    if (!isMissing(error) && typeOf(error) !== "StripeInvalidRequestError") throw error;
  }
}

/** Nothing more may come of a payment that was refused, so what can still be paid is closed first. */
async function settled(stripe: StripeClient, order: Charge, reason: Refusal): Promise<Charged> {
  return (await findCharge(stripe, order)) ?? { state: "refused", reason };
}

async function chargedOf(stripe: StripeClient, intent: Intent): Promise<Charged> {
  const { state, facts } = await seenOfIntent(stripe, intent);
  if (state === "done" || state === "processing") return { state, ref: intent.id, facts };
  if (isPayable(intent.status)) await stripe.paymentIntents.cancel(intent.id);
  const code = intent.last_payment_error?.code;
  return {
    state: "refused",
    reason: code === "authentication_required" ? "authentication_required" : "declined",
  };
}

/** The tax is worked out once for an attempt: the same key gives the same calculation. */
async function taxFor(
  stripe: StripeClient,
  { id, method, amountCents, feeCents }: Charge,
): Promise<{ readonly id: string; readonly cents: number }> {
  const { billing_details: payer } = await stripe.paymentMethods.retrieve(method);
  const { address } = payer;
  const calculation = await stripe.tax.calculations.create(
    {
      currency: "usd",
      customer_details: {
        address_source: "billing",
        address: {
          country: address?.country ?? "",
          ...(address?.line1 == null ? {} : { line1: address.line1 }),
          ...(address?.city == null ? {} : { city: address.city }),
          ...(address?.state == null ? {} : { state: address.state }),
          ...(address?.postal_code == null ? {} : { postal_code: address.postal_code }),
        },
      },
      line_items: [
        { amount: amountCents, reference: "credits", tax_behavior: "exclusive" },
        ...(feeCents === 0
          ? []
          : [{ amount: feeCents, reference: "platform fee", tax_behavior: "exclusive" as const }]),
      ],
    },
    { idempotencyKey: `${id}.tax` },
  );
  if (calculation.id === null) throw new Error("a tax calculation has no id");
  return { id: calculation.id, cents: calculation.tax_amount_exclusive };
}

/** Undefined where it is not known whether anything was charged, or where the fault is not the payer's. */
function refusalOf(error: unknown): Refusal | undefined {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  if (code === "authentication_required") return "authentication_required";
  if (typeOf(error) === "StripeCardError") return "declined";
  return typeOf(error) === "StripeInvalidRequestError" ? "method_gone" : undefined;
}

function typeOf(error: unknown): unknown {
  return error instanceof Error && "type" in error ? error.type : undefined;
}

async function sessionOf(stripe: StripeClient, ref: string) {
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
