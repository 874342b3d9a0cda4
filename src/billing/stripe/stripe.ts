// Stripe as payment processor, with Checkout pages. Payment state is read from Stripe's API, never from a webhook's
// content.

import type { Stripe as StripeClient } from "stripe";
import type { Secret } from "../../base/crypto/secret.ts";
import { Fault } from "../../base/fault.ts";
import { lineItemsOf } from "../invoices/cents.ts";
import type {
  CheckoutRequest,
  HostedPage,
  HostedProcessor,
  PaymentMethods,
  TokenCharge,
  TokenChargeResult,
} from "../payments/payment-processor.ts";
import {
  fetchPageState,
  findIntent,
  intentState,
  INVOICE_METADATA_KEY,
  isCancelable,
  isPaymentIntentId,
  isRefusal,
  type PaymentIntent,
  STRIPE_API_VERSION,
  STRIPE_PREVIEW_VERSION,
} from "./stripe-facts.ts";
import {
  chargeMethod,
  createSetupPage,
  detachMethod,
  fetchSetupState,
  findCharge,
  METHOD_METADATA_KEY,
  TOP_UP_METADATA_KEY,
} from "./stripe-payment-methods.ts";

const PROCESSOR = "stripe";
const CHECKOUT_ORIGIN = "https://checkout.stripe.com";
const TIMEOUT_MS = 10_000;
const RETRIES_MAX = 1;
const WEBHOOK_TOLERANCE_SECONDS = 300;

export interface StripeSettings {
  readonly secretKey: Secret;
  /** Without it there is no webhook endpoint, and payments are found by polling. */
  readonly webhookSecret?: Secret;
  /** Another base URL than Stripe's, such as a test server. */
  readonly apiBase?: string;
  readonly automaticTax: boolean;
  /** The Business Network Profile that payers issue shared payment tokens for. */
  readonly networkId?: string;
  /** Lower in tests. */
  readonly timeoutMs?: number;
  readonly retriesMax?: number;
}

export async function createStripeProcessor(settings: StripeSettings): Promise<HostedProcessor> {
  const stripe = await createStripeClient(settings);
  const { webhookSecret, apiBase, networkId } = settings;
  return {
    kind: "hosted",
    id: PROCESSOR,
    name: "Stripe",
    calculatesTax: settings.automaticTax,
    formTargets:
      apiBase === undefined ? [CHECKOUT_ORIGIN] : [CHECKOUT_ORIGIN, new URL(apiBase).origin],
    createPage: (request, attempt) =>
      callStripe(() => createCheckoutPage(stripe, settings, request, attempt)),
    fetchPage: (ref) => callStripe(() => fetchPageState(stripe, ref)),
    cancelPage: (ref) => callStripe(() => cancelPage(stripe, ref)),
    paymentMethods: createPaymentMethods(stripe, settings),
    ...(networkId === undefined
      ? {}
      : {
          sharedTokens: {
            networkId,
            charge: (charge) => callStripe(() => chargeSharedToken(stripe, charge)),
            findCharge: (id) => callStripe(() => findTokenCharge(stripe, id)),
          },
        }),
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
    charge: (request) => callStripe(() => chargeMethod(stripe, automaticTax, request)),
    findCharge: (request) => callStripe(() => findCharge(stripe, request)),
    detach: (method) => callStripe(() => detachMethod(stripe, method)),
  };
}

// Imported lazily: the package takes tens of milliseconds to load.
export async function createStripeClient(settings: StripeSettings): Promise<StripeClient> {
  const { Stripe } = await import("stripe");
  const apiBase = settings.apiBase === undefined ? undefined : new URL(settings.apiBase);
  return new Stripe(settings.secretKey.reveal(), {
    apiVersion: STRIPE_API_VERSION,
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

/** A redirect could send the secret key to another host, so none is followed. */
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
      line_items: lineItemsOf(request).map(({ name, cents }) => lineItem(name, cents)),
      automatic_tax: { enabled: automaticTax },
      // The invoice must be paid in its own currency, US dollars.
      adaptive_pricing: { enabled: false },
      success_url: `${payUrl}?done=1`,
      cancel_url: `${payUrl}?failed=1`,
    },
    { idempotencyKey: `${invoiceId}.checkout.${attempt}` },
  );
  if (typeof session.url !== "string") throw new Error(`checkout session ${session.id} has no URL`);
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
    // The page may have been paid since it was read; the next reconciliation finds out.
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
  // Charges, refunds and disputes name their payment intent.
  const payment =
    stringField(object, "object") === "payment_intent" ? id : stringField(object, "payment_intent");
  if (payment === undefined) return undefined;
  return await callStripe(async () => {
    const { data } = await stripe.checkout.sessions.list({ payment_intent: payment, limit: 1 });
    const [session] = data;
    if (session !== undefined)
      return session.metadata?.[INVOICE_METADATA_KEY] === undefined ? undefined : session.id;
    const intent = await findIntent(stripe, payment);
    const isPosternIntent = [TOP_UP_METADATA_KEY, TOKEN_CHARGE_METADATA_KEY].some(
      (key) => intent?.metadata[key] !== undefined,
    );
    return isPosternIntent ? payment : undefined;
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
      message:
        "The webhook's signature is wrong or too old. Check that STRIPE_WEBHOOK_SECRET is the signing secret of this endpoint.",
      param: "stripe-signature",
      cause,
    });
  }
}

/** Any Stripe error becomes a 503: it is not the caller's fault, and retrying is safe. */
async function callStripe<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    throw new Fault("overloaded", "Stripe request failed", {
      message:
        "The payment service is not available at the moment. Nothing was charged. Try again in a minute.",
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
    (key) => stringField(metadata, key) !== undefined,
  );
}

function stringField(object: unknown, name: string): string | undefined {
  if (typeof object !== "object" || object === null || !(name in object)) return undefined;
  const value: unknown = Reflect.get(object, name);
  return typeof value === "string" ? value : undefined;
}

// Charges of shared payment tokens: a payer grants this seller a token for one payment, limited in amount and time. The id of
// the charge is Stripe's idempotency key and in the payment's metadata, so a payment is found again after a crash.

/** On a payment intent: the id of the charge. */
const TOKEN_CHARGE_METADATA_KEY = "postern_token_charge";
async function chargeSharedToken(
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
async function findTokenCharge(
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
