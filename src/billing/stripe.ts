// Stripe as a processor: a Checkout page with a line for the credits and one for the fee. Stripe is told of nothing but
// the invoice, and what it says is read from its API and never from a webhook.

import type { Stripe as StripeClient } from "stripe";
import { Fault } from "../base/fault.ts";
import type { Secret } from "../base/secret.ts";
import { creditsOfCents } from "./cents.ts";
import type { Hosted, HostedProcessor, Order, Vault } from "./processor.ts";
import { INVOICE_MARK, intentOf, isIntent, isPayable, seenOf } from "./stripe-facts.ts";
import {
  beginSaving,
  charge,
  findCharge,
  forget,
  METHOD_MARK,
  savingOf,
  TOP_UP_MARK,
} from "./stripe-vault.ts";

const ID = "stripe";
const CHECKOUT_ORIGIN = "https://checkout.stripe.com";
const TIMEOUT_MS = 10_000;
const RETRIES_MAX = 1;
const WEBHOOK_TOLERANCE_SECONDS = 300;

export interface StripeSettings {
  readonly secretKey: Secret;
  /** Without it no webhook is taken, and everything is found by asking. */
  readonly webhookSecret?: Secret;
  /** Another address than Stripe's own, such as a test's. */
  readonly apiBase?: string;
  readonly automaticTax: boolean;
  /** Shorter ones for tests. */
  readonly timeoutMs?: number;
  readonly retriesMax?: number;
}

export async function openStripe(settings: StripeSettings): Promise<HostedProcessor> {
  const stripe = await clientFor(settings);
  const { webhookSecret, apiBase } = settings;
  return {
    kind: "hosted",
    id: ID,
    name: "Stripe",
    taxLater: settings.automaticTax,
    formTargets:
      apiBase === undefined ? [CHECKOUT_ORIGIN] : [CHECKOUT_ORIGIN, new URL(apiBase).origin],
    begin: (order, attempt) => reached(() => begin(stripe, settings, order, attempt)),
    look: (ref) => reached(() => seenOf(stripe, ref)),
    cancel: (ref) => reached(() => cancel(stripe, ref)),
    vault: vaultAt(stripe, settings),
    ...(webhookSecret === undefined
      ? {}
      : { hear: (body, signature, now) => hear(stripe, webhookSecret, { body, signature, now }) }),
  };
}

function vaultAt(stripe: StripeClient, { automaticTax }: StripeSettings): Vault {
  return {
    begin: (request) => reached(() => beginSaving(stripe, automaticTax, request)),
    look: (ref) => reached(() => savingOf(stripe, ref)),
    charge: (order) => reached(() => charge(stripe, automaticTax, order)),
    find: (order) => reached(() => findCharge(stripe, order)),
    forget: (method) => reached(() => forget(stripe, method)),
  };
}

// The package takes tens of milliseconds to load, so whoever does not use it does not.
async function clientFor(settings: StripeSettings): Promise<StripeClient> {
  const { Stripe } = await import("stripe");
  const place = settings.apiBase === undefined ? undefined : new URL(settings.apiBase);
  return new Stripe(settings.secretKey.reveal(), {
    timeout: settings.timeoutMs ?? TIMEOUT_MS,
    maxNetworkRetries: settings.retriesMax ?? RETRIES_MAX,
    telemetry: false,
    httpClient: Stripe.createFetchHttpClient(fetchStraight),
    ...(place === undefined
      ? {}
      : {
          host: place.hostname,
          port: place.port === "" ? (place.protocol === "http:" ? 80 : 443) : Number(place.port),
          protocol: place.protocol === "http:" ? "http" : "https",
        }),
  });
}

/** Never follows a redirect: the secret key goes to the address that was set, and nowhere else. */
const fetchStraight: typeof fetch = Object.assign(
  (url: string | URL | Request, init?: RequestInit) => fetch(url, { ...init, redirect: "error" }),
  { preconnect: fetch.preconnect },
);

async function begin(
  stripe: StripeClient,
  { automaticTax }: StripeSettings,
  order: Order,
  attempt: number,
): Promise<Hosted> {
  const { invoiceId, payUrl } = order;
  const session = await stripe.checkout.sessions.create(
    {
      mode: "payment",
      client_reference_id: invoiceId,
      metadata: { [INVOICE_MARK]: invoiceId },
      payment_intent_data: { metadata: { [INVOICE_MARK]: invoiceId } },
      line_items: [
        line(
          `${creditsOfCents(order.amountCents).toLocaleString("en-US")} credits`,
          order.amountCents,
        ),
        ...(order.feeCents === 0 ? [] : [line("Platform fee", order.feeCents)]),
      ],
      automatic_tax: { enabled: automaticTax },
      // The bill is in US dollars, and so is what arrives.
      adaptive_pricing: { enabled: false },
      success_url: `${payUrl}?done=1`,
      cancel_url: `${payUrl}?failed=1`,
    },
    { idempotencyKey: `${invoiceId}.checkout.${attempt}` },
  );
  if (typeof session.url !== "string") throw new Error(`the page ${session.id} has no address`);
  return { ref: session.id, url: session.url };
}

function line(name: string, cents: number) {
  return {
    quantity: 1,
    price_data: {
      currency: "usd",
      unit_amount: cents,
      tax_behavior: "exclusive" as const,
      product_data: { name },
    },
  };
}

async function cancel(stripe: StripeClient, ref: string): Promise<void> {
  try {
    if (isIntent(ref)) {
      const intent = await intentOf(stripe, ref);
      if (intent !== undefined && isPayable(intent.status)) await stripe.paymentIntents.cancel(ref);
      return;
    }
    const { status } = await stripe.checkout.sessions.retrieve(ref);
    if (status === "open") await stripe.checkout.sessions.expire(ref);
  } catch (error) {
    // Somebody may have paid at this very moment: then it is not open any more, and the next look finds out.
    if (!isRefusal(error)) throw error;
  }
}

async function hear(
  stripe: StripeClient,
  secret: Secret,
  {
    body,
    signature,
    now,
  }: { readonly body: string; readonly signature: string; readonly now: number },
): Promise<string | undefined> {
  const object = await verifiedObject(stripe, secret, { body, signature, now });
  const id = textIn(object, "id");
  if (textIn(object, "object") === "checkout.session") return markIn(object) ? id : undefined;
  // A charge, a refund and a dispute each name their payment.
  const payment =
    textIn(object, "object") === "payment_intent" ? id : textIn(object, "payment_intent");
  if (payment === undefined) return undefined;
  return await reached(async () => {
    const { data } = await stripe.checkout.sessions.list({ payment_intent: payment, limit: 1 });
    const [session] = data;
    if (session !== undefined)
      return session.metadata?.[INVOICE_MARK] === undefined ? undefined : session.id;
    const intent = await intentOf(stripe, payment);
    return intent?.metadata[TOP_UP_MARK] === undefined ? undefined : intent.id;
  });
}

async function verifiedObject(
  stripe: StripeClient,
  secret: Secret,
  {
    body,
    signature,
    now,
  }: { readonly body: string; readonly signature: string; readonly now: number },
): Promise<unknown> {
  try {
    const event = await stripe.webhooks.constructEventAsync(
      body,
      signature,
      secret.reveal(),
      WEBHOOK_TOLERANCE_SECONDS,
      undefined,
      now,
    );
    return event.data.object;
  } catch (cause) {
    throw new Fault("invalid_request", "webhook not signed by Stripe", {
      message: "This is not signed by Stripe with this gateway's webhook secret, or it is too old.",
      param: "stripe-signature",
      cause,
    });
  }
}

/** A processor that cannot be reached is no fault of the caller, and nothing was charged: the same can be tried again. */
async function reached<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    throw new Fault("overloaded", "Stripe could not be asked", {
      message:
        "The payment service cannot be reached at the moment. Nothing was charged. Try again in a minute.",
      retryAfterSeconds: 60,
      cause,
    });
  }
}

function isRefusal(error: unknown): boolean {
  return textIn(error, "type") === "StripeInvalidRequestError";
}

function markIn(object: unknown): boolean {
  const metadata =
    typeof object === "object" && object !== null && "metadata" in object
      ? object.metadata
      : undefined;
  return [INVOICE_MARK, METHOD_MARK].some((mark) => textIn(metadata, mark) !== undefined);
}

function textIn(object: unknown, name: string): string | undefined {
  if (typeof object !== "object" || object === null || !(name in object)) return undefined;
  const value: unknown = Reflect.get(object, name);
  return typeof value === "string" ? value : undefined;
}
