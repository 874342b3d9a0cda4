// Stripe as a processor: a Checkout page with a line for the credits and one for the fee. Stripe is told of nothing but
// the invoice, and what it says is read from its API and never from a webhook.

import type { Stripe as StripeClient } from "stripe";
import { Fault } from "../../base/fault.ts";
import type { Secret } from "../../base/secret.ts";
import { creditsOfCents } from "../invoices/cents.ts";
import type {
  HostedPage,
  HostedProcessor,
  CheckoutRequest,
  PaymentMethods,
} from "../payments/payment-processor.ts";
import {
  INVOICE_METADATA_KEY,
  findIntent,
  isPaymentIntentId,
  isCancelable,
  fetchPageState,
} from "./stripe-facts.ts";
import {
  createSetupPage,
  chargeMethod,
  findCharge,
  detachMethod,
  METHOD_METADATA_KEY,
  fetchSetupState,
  TOP_UP_METADATA_KEY,
} from "./stripe-payment-methods.ts";

const PROCESSOR = "stripe";
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

export async function createStripeProcessor(settings: StripeSettings): Promise<HostedProcessor> {
  const stripe = await createClient(settings);
  const { webhookSecret, apiBase } = settings;
  return {
    kind: "hosted",
    id: PROCESSOR,
    name: "Stripe",
    calculatesTax: settings.automaticTax,
    formTargets:
      apiBase === undefined ? [CHECKOUT_ORIGIN] : [CHECKOUT_ORIGIN, new URL(apiBase).origin],
    createPage: (order, attempt) =>
      callStripe(() => createCheckoutPage(stripe, settings, order, attempt)),
    fetchPage: (ref) => callStripe(() => fetchPageState(stripe, ref)),
    cancelPage: (ref) => callStripe(() => cancelPage(stripe, ref)),
    paymentMethods: createPaymentMethods(stripe, settings),
    ...(webhookSecret === undefined
      ? {}
      : {
          parseWebhook: (body, signature, now) =>
            pageRefOfWebhook(stripe, webhookSecret, { body, signature, now }),
        }),
  };
}

function createPaymentMethods(
  stripe: StripeClient,
  { automaticTax }: StripeSettings,
): PaymentMethods {
  return {
    createSetupPage: (request) => callStripe(() => createSetupPage(stripe, automaticTax, request)),
    fetchSetup: (ref) => callStripe(() => fetchSetupState(stripe, ref)),
    charge: (order) => callStripe(() => chargeMethod(stripe, automaticTax, order)),
    findCharge: (order) => callStripe(() => findCharge(stripe, order)),
    detach: (method) => callStripe(() => detachMethod(stripe, method)),
  };
}

// The package takes tens of milliseconds to load, so whoever does not use it does not.
async function createClient(settings: StripeSettings): Promise<StripeClient> {
  const { Stripe } = await import("stripe");
  const apiBase = settings.apiBase === undefined ? undefined : new URL(settings.apiBase);
  return new Stripe(settings.secretKey.reveal(), {
    timeout: settings.timeoutMs ?? TIMEOUT_MS,
    maxNetworkRetries: settings.retriesMax ?? RETRIES_MAX,
    telemetry: false,
    httpClient: Stripe.createFetchHttpClient(fetchWithoutRedirects),
    ...(apiBase === undefined
      ? {}
      : {
          host: apiBase.hostname,
          port:
            apiBase.port === "" ? (apiBase.protocol === "http:" ? 80 : 443) : Number(apiBase.port),
          protocol: apiBase.protocol === "http:" ? "http" : "https",
        }),
  });
}

/** Never follows a redirect: the secret key goes to the address that was set, and nowhere else. */
const fetchWithoutRedirects: typeof fetch = Object.assign(
  (url: string | URL | Request, init?: RequestInit) => fetch(url, { ...init, redirect: "error" }),
  { preconnect: fetch.preconnect },
);

async function createCheckoutPage(
  stripe: StripeClient,
  { automaticTax }: StripeSettings,
  request: CheckoutRequest,
  attempt: number,
): Promise<HostedPage> {
  const { invoiceId, payUrl } = request;
  const session = await stripe.checkout.sessions.create(
    {
      mode: "payment",
      client_reference_id: invoiceId,
      metadata: { [INVOICE_METADATA_KEY]: invoiceId },
      payment_intent_data: { metadata: { [INVOICE_METADATA_KEY]: invoiceId } },
      line_items: [
        lineItem(
          `${creditsOfCents(request.amountCents).toLocaleString("en-US")} credits`,
          request.amountCents,
        ),
        ...(request.feeCents === 0 ? [] : [lineItem("Platform fee", request.feeCents)]),
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

function lineItem(name: string, cents: number) {
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

async function cancelPage(stripe: StripeClient, ref: string): Promise<void> {
  try {
    if (isPaymentIntentId(ref)) {
      const intent = await findIntent(stripe, ref);
      if (intent !== undefined && isCancelable(intent.status))
        await stripe.paymentIntents.cancel(ref);
      return;
    }
    const { status } = await stripe.checkout.sessions.retrieve(ref);
    if (status === "open") await stripe.checkout.sessions.expire(ref);
  } catch (error) {
    // Somebody may have paid at this very moment: then it is not open any more, and the next look finds out.
    if (!isInvalidRequest(error)) throw error;
  }
}

async function pageRefOfWebhook(
  stripe: StripeClient,
  secret: Secret,
  {
    body,
    signature,
    now,
  }: { readonly body: string; readonly signature: string; readonly now: number },
): Promise<string | undefined> {
  const object = await verifyWebhook(stripe, secret, { body, signature, now });
  const id = stringField(object, "id");
  if (stringField(object, "object") === "checkout.session")
    return isPosternSession(object) ? id : undefined;
  // A charge, a refund and a dispute each name their payment.
  const payment =
    stringField(object, "object") === "payment_intent" ? id : stringField(object, "payment_intent");
  if (payment === undefined) return undefined;
  return await callStripe(async () => {
    const { data } = await stripe.checkout.sessions.list({ payment_intent: payment, limit: 1 });
    const [session] = data;
    if (session !== undefined)
      return session.metadata?.[INVOICE_METADATA_KEY] === undefined ? undefined : session.id;
    const intent = await findIntent(stripe, payment);
    return intent?.metadata[TOP_UP_METADATA_KEY] === undefined ? undefined : intent.id;
  });
}

async function verifyWebhook(
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
async function callStripe<T>(work: () => Promise<T>): Promise<T> {
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

function isInvalidRequest(error: unknown): boolean {
  return stringField(error, "type") === "StripeInvalidRequestError";
}

function isPosternSession(object: unknown): boolean {
  const metadata =
    typeof object === "object" && object !== null && "metadata" in object
      ? object.metadata
      : undefined;
  return [INVOICE_METADATA_KEY, METHOD_METADATA_KEY].some(
    (mark) => stringField(metadata, mark) !== undefined,
  );
}

function stringField(object: unknown, name: string): string | undefined {
  if (typeof object !== "object" || object === null || !(name in object)) return undefined;
  const value: unknown = Reflect.get(object, name);
  return typeof value === "string" ? value : undefined;
}
