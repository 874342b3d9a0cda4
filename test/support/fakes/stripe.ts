// A fake Stripe over HTTP: the calls that billing makes, with state, idempotency keys and a balance. It queues signed
// webhooks, which tests send late, twice, out of order or never. Faults: down, slow, or an error after the work is done.

import { createHmac } from "node:crypto";
import {
  createFakePaymentMethods,
  stripeErrorResponse,
  type FakePaymentMethods,
  type SavedIntent,
  type StripeErrorOptions,
} from "./stripe-payment-methods.ts";
import { findStripeRefusal } from "./stripe-rules.ts";
import { createFakeSharedTokens, type FakeSharedTokens } from "./stripe-shared-tokens.ts";

type StripeFault = "ok" | "down" | "slow" | "reply lost";

interface CheckoutSession {
  readonly id: string;
  readonly key: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly reference: string | null;
  readonly cents: number;
  readonly hasAutomaticTax: boolean;
  readonly lineItems: readonly (readonly [name: string, cents: number])[];
  readonly returnUrls: readonly (string | null)[];
  readonly created: number;
  status: "open" | "complete" | "expired";
  intent: PaymentIntent | undefined;
}

interface PaymentIntent {
  readonly id: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly cents: number;
  readonly taxCents: number;
  readonly currency: string;
  readonly created: number;
  status: "succeeded" | "processing" | "requires_payment_method";
}

interface Refund {
  readonly id: string;
  readonly intent: RefundablePayment;
  readonly cents: number;
  readonly created: number;
  status: "succeeded" | "failed";
}

/** A payment on a checkout page or with a saved method. */
type RefundablePayment = PaymentIntent | SavedIntent;

interface Dispute {
  readonly id: string;
  readonly intent: RefundablePayment;
  readonly cents: number;
  readonly created: number;
  status: "warning_needs_response" | "needs_response" | "won" | "lost";
}

interface WebhookEvent {
  readonly type: string;
  readonly body: string;
}

interface PaymentOutcome {
  readonly cents?: number;
  readonly taxCents?: number;
  readonly currency?: string;
  readonly state?: PaymentIntent["status"];
}

export interface FakeStripe
  extends Omit<FakePaymentMethods, "route">, Omit<FakeSharedTokens, "route"> {
  readonly url: string;
  readonly env: Readonly<Record<string, string>>;
  fault: StripeFault;
  /** The error for every request whose `<method> <path>` begins with one of these: a wrong setting of the seller. */
  taxStatus: "active" | "pending";
  readonly refusals: Map<string, Omit<StripeErrorOptions, "extra">>;
  /** Webhooks that have not been sent yet. */
  readonly webhookEvents: WebhookEvent[];
  /** `<method> <path>` of every request. */
  readonly calls: string[];
  readonly sessions: () => readonly CheckoutSession[];
  /** The session of a checkout URL. */
  readonly sessionAt: (url: string | null) => CheckoutSession;
  readonly pay: (session: CheckoutSession, outcome?: PaymentOutcome) => PaymentIntent;
  /** Completes or fails a delayed payment. */
  readonly completePayment: (
    session: CheckoutSession,
    status: "succeeded" | "requires_payment_method",
  ) => void;
  readonly expireSession: (session: CheckoutSession) => void;
  /** Deletes a session, as if it belonged to another Stripe account. */
  readonly forgetSession: (session: CheckoutSession) => void;
  readonly refund: (intent: RefundablePayment, cents: number) => Refund;
  /** Fails a refund after it was reported as succeeded. */
  readonly failRefund: (refund: Refund) => void;
  readonly dispute: (
    intent: RefundablePayment,
    cents: number,
    status?: Dispute["status"],
  ) => Dispute;
  readonly closeDispute: (dispute: Dispute, status: "won" | "lost") => void;
  /** The balance in US cents. */
  readonly balance: () => number;
  readonly signWebhook: (body: string, at?: number, secret?: string) => string;
  readonly sendWebhook: (
    gatewayUrl: string,
    webhookEvent: WebhookEvent,
    at?: number,
  ) => Promise<Response>;
  readonly stop: () => Promise<void>;
}

const WEBHOOK_SECRET = "whsec_of_the_fake_stripe";
const SECRET_KEY = "rk_test_of_the_fake_stripe";
const SLOW_MS = 400;

export function startFakeStripe(): FakeStripe {
  const sessions = new Map<string, CheckoutSession>();
  const refunds: Refund[] = [];
  const disputes: Dispute[] = [];
  const idempotentReplies = new Map<
    string,
    { requestBody: string; responseBody: string; status: number }
  >();
  const webhookEvents: WebhookEvent[] = [];
  const calls: string[] = [];
  let count = 0;
  const newId = (prefix: string): string => `${prefix}_${String((count += 1)).padStart(6, "0")}`;
  const nowSeconds = (): number => Math.floor(Date.now() / 1_000);

  const emitEvent = (type: string, object: unknown): void => {
    const event = {
      id: newId("evt"),
      object: "event",
      api_version: "2026-10-28.endive",
      created: nowSeconds(),
      type,
      data: { object },
    };
    webhookEvents.push({ type, body: JSON.stringify(event) });
  };

  const intentJson = (intent: PaymentIntent): unknown => ({
    id: intent.id,
    object: "payment_intent",
    status: intent.status,
    amount: intent.cents,
    amount_received: intent.status === "succeeded" ? intent.cents : 0,
    currency: intent.currency,
    created: intent.created,
    metadata: intent.metadata,
  });
  const sessionJson = (session: CheckoutSession, expanded: boolean): unknown => ({
    id: session.id,
    object: "checkout.session",
    status: session.status,
    payment_status: session.intent?.status === "succeeded" ? "paid" : "unpaid",
    url: session.status === "open" ? `${fake.url}/c/pay/${session.id}` : null,
    metadata: session.metadata,
    client_reference_id: session.reference,
    amount_subtotal: session.cents,
    amount_total: session.cents + (session.intent?.taxCents ?? 0),
    currency: "usd",
    created: session.created,
    total_details: {
      amount_tax: session.intent?.taxCents ?? 0,
      amount_discount: 0,
      amount_shipping: 0,
    },
    payment_intent:
      session.intent === undefined
        ? null
        : expanded
          ? intentJson(session.intent)
          : session.intent.id,
  });
  const refundJson = ({ id, intent, cents, created, status }: Refund): unknown => ({
    id,
    object: "refund",
    amount: cents,
    currency: intent.currency,
    status,
    payment_intent: intent.id,
    created,
  });
  const disputeJson = ({ id, intent, cents, created, status }: Dispute): unknown => ({
    id,
    object: "dispute",
    amount: cents,
    currency: intent.currency,
    status,
    payment_intent: intent.id,
    created,
  });

  const createSession = (form: URLSearchParams): unknown => {
    const lineItems: (readonly [string, number])[] = [];
    for (let index = 0; form.has(`line_items[${index}][price_data][unit_amount]`); index++) {
      const prefix = `line_items[${index}]`;
      if (form.get(`${prefix}[price_data][currency]`) !== "usd") throw new Error("not in dollars");
      const unitAmount = Number(form.get(`${prefix}[price_data][unit_amount]`));
      lineItems.push([
        form.get(`${prefix}[price_data][product_data][name]`) ?? "",
        unitAmount * Number(form.get(`${prefix}[quantity]`)),
      ]);
    }
    const id = newId("cs_test");
    const session: CheckoutSession = {
      id,
      key: id,
      metadata: parseMetadata(form, "metadata"),
      reference: form.get("client_reference_id"),
      cents: lineItems.reduce((sum, [, cents]) => sum + cents, 0),
      hasAutomaticTax: form.get("automatic_tax[enabled]") === "true",
      lineItems,
      returnUrls: [form.get("success_url"), form.get("cancel_url")],
      created: nowSeconds(),
      status: "open",
      intent: undefined,
    };
    sessions.set(id, session);
    return sessionJson(session, false);
  };

  const intents = new Map<string, SavedIntent>();
  const common = { newId, nowSeconds, emitEvent, metadataIn: parseMetadata, intents };
  const saved = createFakePaymentMethods({ ...common, url: () => fake.url });
  const tokens = createFakeSharedTokens(common);
  const route = (method: string, path: string, form: URLSearchParams): unknown => {
    const [, intentId] = /^\/v1\/payment_intents\/(\w+)$/.exec(path) ?? [];
    const paid = [...sessions.values()].find(({ intent }) => intent?.id === intentId)?.intent;
    if (intentId !== undefined && paid !== undefined) return intentJson(paid);
    const response = tokens.route(method, path, form) ?? saved.route(method, path, form);
    if (response !== undefined) return response;
    if (method === "POST" && path === "/v1/checkout/sessions") return createSession(form);
    const [, id = "", verb] = /^\/v1\/checkout\/sessions\/(\w+)(\/expire)?$/.exec(path) ?? [];
    const session = sessions.get(id);
    if (session !== undefined && method === "GET")
      return sessionJson(session, form.get("expand[0]") === "payment_intent");
    if (session !== undefined && verb !== undefined) {
      if (session.status !== "open")
        throw errorResponse(
          400,
          "invalid_request_error",
          'Only Checkout Sessions with a status in ["open"] can be expired.',
        );
      session.status = "expired";
      emitEvent("checkout.session.expired", sessionJson(session, false));
      return sessionJson(session, false);
    }
    if (id !== "")
      throw errorResponse(
        404,
        "invalid_request_error",
        `No such checkout.session: ${id}`,
        "resource_missing",
      );
    const intentFilter = form.get("payment_intent");
    if (path === "/v1/checkout/sessions")
      return listJson(
        [...sessions.values()]
          .filter(({ intent }) => intent?.id === intentFilter)
          .map((found) => sessionJson(found, false)),
      );
    if (["/v1/payment_intents", "/v1/customers", "/v1/setup_intents"].includes(path))
      return listJson([]);
    if (path === "/v1/tax/settings") return { object: "tax.settings", status: fake.taxStatus };
    if (path === "/v1/refunds")
      return listJson(refunds.filter(({ intent }) => intent.id === intentFilter).map(refundJson));
    if (path === "/v1/disputes")
      return listJson(disputes.filter(({ intent }) => intent.id === intentFilter).map(disputeJson));
    throw errorResponse(
      404,
      "invalid_request_error",
      `Unrecognized request URL (${method}: ${path}).`,
    );
  };

  const handleRequest = async (request: Request): Promise<Response> => {
    const { pathname, search } = new URL(request.url);
    const sent = request.method === "POST" ? await request.text() : search.slice(1);
    calls.push(`${request.method} ${pathname}`);
    if (fake.fault === "down") return errorResponse(503, "api_error", "Stripe is down.");
    const refused = [...fake.refusals].find(([start]) =>
      `${request.method} ${pathname}`.startsWith(start),
    )?.[1];
    if (refused !== undefined) return stripeErrorResponse(refused);
    if (fake.fault === "slow") await Bun.sleep(SLOW_MS);
    if (request.headers.get("authorization") !== `Bearer ${SECRET_KEY}`)
      return errorResponse(401, "invalid_request_error", "Invalid API Key provided.");
    const form = new URLSearchParams(sent);
    const refusal = findStripeRefusal(request.method, pathname, form, request.headers);
    if (refusal !== undefined)
      return stripeErrorResponse({
        status: 400,
        type: "invalid_request_error",
        message: refusal.message,
        code: refusal.code,
        extra: { param: refusal.param },
      });
    const key = request.headers.get("idempotency-key");
    const stored = key === null ? undefined : idempotentReplies.get(key);
    if (stored !== undefined && stored.requestBody !== sent)
      return errorResponse(
        400,
        "idempotency_error",
        "Keys for idempotent requests can only be used with the same parameters.",
      );
    try {
      const body = stored?.responseBody ?? JSON.stringify(route(request.method, pathname, form));
      if (key !== null)
        idempotentReplies.set(key, {
          requestBody: sent,
          responseBody: body,
          status: stored?.status ?? 200,
        });
      if (fake.fault === "reply lost")
        return errorResponse(500, "api_error", "The reply was lost.");
      return new Response(body, {
        status: stored?.status ?? 200,
        headers: { "content-type": "application/json" },
      });
    } catch (thrown) {
      if (!(thrown instanceof Response)) throw thrown;
      // Like Stripe, it also stores declined charges under their idempotency key.
      const text = await thrown.text();
      if (key !== null && thrown.status === 402)
        idempotentReplies.set(key, {
          requestBody: sent,
          responseBody: text,
          status: thrown.status,
        });
      return new Response(text, {
        status: thrown.status,
        headers: { "content-type": "application/json" },
      });
    }
  };
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    development: false,
    fetch: handleRequest,
  });
  const url = `http://127.0.0.1:${server.port}`;

  const fake: FakeStripe = {
    ...saved,
    ...tokens,
    url,
    env: {
      STRIPE_SECRET_KEY: SECRET_KEY,
      STRIPE_WEBHOOK_SECRET: WEBHOOK_SECRET,
      STRIPE_API_BASE: url,
    },
    fault: "ok",
    taxStatus: "active",
    refusals: new Map(),
    webhookEvents,
    calls,
    sessions: () => [...sessions.values()],
    sessionAt: (address) => {
      const session = sessions.get(address?.split("/").at(-1) ?? "");
      if (session === undefined) throw new Error(`no session at ${address}`);
      return session;
    },
    pay: (session, { cents, taxCents = 0, currency = "usd", state = "succeeded" } = {}) => {
      if (session.status !== "open") throw new Error("the session is not open");
      const intent: PaymentIntent = {
        id: newId("pi"),
        metadata: session.metadata,
        cents: cents ?? session.cents + taxCents,
        taxCents,
        currency,
        created: nowSeconds(),
        status: state,
      };
      session.status = "complete";
      session.intent = intent;
      emitEvent("checkout.session.completed", sessionJson(session, false));
      if (state === "succeeded") emitEvent("payment_intent.succeeded", intentJson(intent));
      return intent;
    },
    completePayment: (session, status) => {
      if (session.intent === undefined) throw new Error("the session has no payment");
      session.intent.status = status;
      const ending = status === "succeeded" ? "succeeded" : "failed";
      emitEvent(`checkout.session.async_payment_${ending}`, sessionJson(session, false));
    },
    expireSession: (session) => {
      session.status = "expired";
      emitEvent("checkout.session.expired", sessionJson(session, false));
    },
    forgetSession: ({ id }) => sessions.delete(id),
    refund: (intent, cents) => {
      const refund: Refund = {
        id: newId("re"),
        intent,
        cents,
        created: nowSeconds(),
        status: "succeeded",
      };
      refunds.push(refund);
      emitEvent("refund.created", refundJson(refund));
      emitEvent("charge.refunded", {
        id: newId("ch"),
        object: "charge",
        payment_intent: intent.id,
      });
      return refund;
    },
    failRefund: (refund) => {
      refund.status = "failed";
      emitEvent("refund.failed", refundJson(refund));
    },
    dispute: (intent, cents, status = "needs_response") => {
      const dispute = { id: newId("dp"), intent, cents, created: nowSeconds(), status };
      disputes.push(dispute);
      emitEvent("charge.dispute.created", disputeJson(dispute));
      return dispute;
    },
    closeDispute: (dispute, status) => {
      dispute.status = status;
      emitEvent("charge.dispute.closed", disputeJson(dispute));
    },
    balance: () => {
      const inDollars = ({ intent }: { readonly intent: RefundablePayment | undefined }): boolean =>
        intent?.currency === "usd";
      const received = [
        ...sessions.values(),
        ...[...saved.intents.values()].map((intent) => ({ intent })),
      ]
        .filter((session) => inDollars(session) && session.intent?.status === "succeeded")
        .reduce((sum, { intent }) => sum + (intent?.cents ?? 0), 0);
      const returned = [
        ...refunds.filter(({ status }) => status === "succeeded"),
        ...disputes.filter(({ status }) => status === "needs_response" || status === "lost"),
      ]
        .filter(inDollars)
        .reduce((sum, { cents }) => sum + cents, 0);
      return received - returned;
    },
    signWebhook: (body, at = nowSeconds(), secret = WEBHOOK_SECRET) =>
      `t=${at},v1=${createHmac("sha256", secret).update(`${at}.${body}`).digest("hex")}`,
    sendWebhook: (gatewayUrl, webhookEvent, at) =>
      fetch(`${gatewayUrl}/webhooks/stripe`, {
        method: "POST",
        headers: {
          "content-type": "application/json; charset=utf-8",
          "stripe-signature": fake.signWebhook(webhookEvent.body, at),
        },
        body: webhookEvent.body,
      }),
    stop: () => server.stop(true),
  };
  return fake;
}

function listJson(data: readonly unknown[]): unknown {
  return { object: "list", data, has_more: false, url: "/" };
}

function parseMetadata(form: URLSearchParams, name: string): Record<string, string> {
  return Object.fromEntries(
    [...form].flatMap(([field, value]) => {
      const [, key] = new RegExp(`^${name}\\[(\\w+)\\]$`).exec(field) ?? [];
      return key === undefined ? [] : [[key, value]];
    }),
  );
}

function errorResponse(status: number, type: string, message: string, code?: string): Response {
  return stripeErrorResponse({ status, type, message, ...(code === undefined ? {} : { code }) });
}
