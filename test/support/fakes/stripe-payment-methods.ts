// The part of the fake Stripe for saved payment methods: customers, setup sessions, off-session payments, taxes.

type CardBehavior = "works" | "declined" | "authentication_required" | "processing";

export interface SavedIntent {
  readonly id: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly cents: number;
  readonly taxCents: number;
  readonly currency: string;
  readonly created: number;
  readonly customer: string;
  readonly method: string;
  declineCode: string | undefined;
  status: "succeeded" | "processing" | "requires_payment_method" | "requires_action" | "canceled";
}

interface SavedMethod {
  readonly id: string;
  readonly customer: string;
  readonly country: string | null;
  behavior: CardBehavior;
  isAttached: boolean;
}

interface SetupSession {
  readonly id: string;
  readonly customer: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly collectsAddress: boolean;
  status: "open" | "complete" | "expired";
  method: SavedMethod | undefined;
}

export interface StripeErrorOptions {
  readonly status: number;
  readonly type: string;
  readonly message: string;
  readonly code?: string;
  readonly extra?: Readonly<Record<string, unknown>>;
}

export interface FakePaymentMethodsDeps {
  readonly newId: (prefix: string) => string;
  readonly nowSeconds: () => number;
  readonly emitEvent: (type: string, object: unknown) => void;
  readonly metadataIn: (form: URLSearchParams, name: string) => Record<string, string>;
  readonly url: () => string;
  /** Payments without a checkout page. */
  readonly intents: Map<string, SavedIntent>;
}

export interface FakePaymentMethods {
  /** Returns undefined if the request is not handled here. Throws an error response. */
  readonly route: (method: string, path: string, form: URLSearchParams) => unknown;
  readonly intents: ReadonlyMap<string, SavedIntent>;
  readonly setupSessions: ReadonlyMap<string, SetupSession>;
  readonly methods: ReadonlyMap<string, SavedMethod>;
  readonly completeSetup: (
    setup: SetupSession,
    options?: { readonly behavior?: CardBehavior; readonly country?: string | null },
  ) => SavedMethod;
  /** Completes or fails a delayed charge. */
  readonly completeCharge: (
    intent: SavedIntent,
    status: "succeeded" | "requires_payment_method",
  ) => void;
}

const TAX_PERCENT = 20;

export function createFakePaymentMethods(deps: FakePaymentMethodsDeps): FakePaymentMethods {
  const { newId, nowSeconds, emitEvent, metadataIn, intents } = deps;
  const customers = new Set<string>();
  const methods = new Map<string, SavedMethod>();
  const setupSessions = new Map<string, SetupSession>();
  const taxByCalculation = new Map<string, number>();

  const showMethod = ({ id, customer, country, isAttached }: SavedMethod): unknown => ({
    id,
    object: "payment_method",
    type: "card",
    customer: isAttached ? customer : null,
    card: { brand: "visa", last4: "4242" },
    billing_details: { address: { country, postal_code: "10115", line1: null, city: null } },
  });
  const showSetup = (setup: SetupSession): unknown => ({
    id: setup.id,
    object: "checkout.session",
    mode: "setup",
    status: setup.status,
    url: setup.status === "open" ? `${deps.url()}/c/setup/${setup.id}` : null,
    customer: setup.customer,
    metadata: setup.metadata,
    payment_intent: null,
    setup_intent: {
      id: `seti_${setup.id}`,
      object: "setup_intent",
      status: setup.method === undefined ? "requires_payment_method" : "succeeded",
      payment_method: setup.method === undefined ? null : showMethod(setup.method),
    },
  });
  const createSetup = (form: URLSearchParams): unknown => {
    if (form.get("currency") !== "usd") throw declinedResponse("A setup session needs a currency.");
    const customer = form.get("customer") ?? "";
    if (!customers.has(customer)) throw notFoundResponse("customer", customer);
    const setup: SetupSession = {
      id: newId("cs_test"),
      customer,
      metadata: metadataIn(form, "metadata"),
      collectsAddress: form.get("billing_address_collection") === "required",
      status: "open",
      method: undefined,
    };
    setupSessions.set(setup.id, setup);
    return showSetup(setup);
  };
  const charge = (form: URLSearchParams): unknown => {
    if (form.get("off_session") !== "true" || form.get("confirm") !== "true")
      throw declinedResponse("The payment must be off session.");
    const method = methods.get(form.get("payment_method") ?? "");
    const customer = form.get("customer") ?? "";
    if (method === undefined)
      throw notFoundResponse("PaymentMethod", form.get("payment_method") ?? "");
    if (!method.isAttached || method.customer !== customer)
      throw declinedResponse("The provided PaymentMethod is not attached to this customer.");
    const calculation = form.get("hooks[inputs][tax][calculation]");
    const intent: SavedIntent = {
      id: newId("pi"),
      metadata: metadataIn(form, "metadata"),
      cents: Number(form.get("amount")),
      taxCents: calculation === null ? 0 : (taxByCalculation.get(calculation) ?? Number.NaN),
      currency: form.get("currency") ?? "",
      created: nowSeconds(),
      customer,
      method: method.id,
      declineCode: undefined,
      status: "succeeded",
    };
    intents.set(intent.id, intent);
    if (method.behavior === "processing") intent.status = "processing";
    if (method.behavior === "declined" || method.behavior === "authentication_required") {
      intent.status = "requires_payment_method";
      intent.declineCode = method.behavior === "declined" ? "card_declined" : method.behavior;
      emitEvent("payment_intent.payment_failed", savedIntentJson(intent));
      const message = "Your card was declined.";
      const extra = { payment_intent: savedIntentJson(intent), decline_code: "generic_decline" };
      throw stripeErrorResponse({
        status: 402,
        type: "card_error",
        message,
        code: intent.declineCode,
        extra,
      });
    }
    if (intent.status === "succeeded")
      emitEvent("payment_intent.succeeded", savedIntentJson(intent));
    return savedIntentJson(intent);
  };
  const listIntents = (form: URLSearchParams): unknown => {
    const found = [...intents.values()]
      .filter(({ customer }) => customer === form.get("customer"))
      .toReversed();
    return { object: "list", data: found.map(savedIntentJson), has_more: false, url: "/" };
  };
  const handleIntent = (method: string, id: string, verb: string | undefined): unknown => {
    const intent = intents.get(id);
    if (intent === undefined) throw notFoundResponse("payment_intent", id);
    if (method === "GET" && verb === undefined) return savedIntentJson(intent);
    if (intent.status !== "requires_payment_method" && intent.status !== "requires_action")
      throw declinedResponse("You cannot cancel this PaymentIntent.");
    intent.status = "canceled";
    return savedIntentJson(intent);
  };
  const handleMethod = (id: string, verb: string | undefined): unknown => {
    const method = methods.get(id);
    if (method === undefined) throw notFoundResponse("PaymentMethod", id);
    if (verb !== undefined) method.isAttached = false;
    return showMethod(method);
  };
  const calculate = (form: URLSearchParams): unknown => {
    if ((form.get("customer_details[address][country]") ?? "") === "")
      throw declinedResponse("The address has no country.");
    let [cents, index] = [0, 0];
    for (; form.has(`line_items[${index}][amount]`); index++)
      cents += Number(form.get(`line_items[${index}][amount]`));
    const id = newId("taxcalc");
    const tax = Math.round((cents * TAX_PERCENT) / 100);
    taxByCalculation.set(id, tax);
    return { id, object: "tax.calculation", tax_amount_exclusive: tax, amount_total: cents + tax };
  };

  const route: FakePaymentMethods["route"] = (method, path, form) => {
    if (path === "/v1/customers" && method === "POST") {
      const id = newId("cus");
      customers.add(id);
      return { id, object: "customer", metadata: metadataIn(form, "metadata") };
    }
    if (path === "/v1/checkout/sessions" && method === "POST" && form.get("mode") === "setup")
      return createSetup(form);
    const [, customer] = /^\/v1\/customers\/(\w+)$/.exec(path) ?? [];
    if (customer !== undefined) {
      if (!customers.has(customer)) throw notFoundResponse("customer", customer);
      return { id: customer, object: "customer" };
    }
    const setup = setupSessions.get(/^\/v1\/checkout\/sessions\/(\w+)$/.exec(path)?.[1] ?? "");
    if (setup !== undefined) return showSetup(setup);
    if (path === "/v1/payment_intents" && (method === "POST" || form.has("customer")))
      return method === "POST" ? charge(form) : listIntents(form);
    const [, intentId, intentVerb] = /^\/v1\/payment_intents\/(\w+)(\/cancel)?$/.exec(path) ?? [];
    if (intentId !== undefined) return handleIntent(method, intentId, intentVerb);
    const [, methodId, methodVerb] = /^\/v1\/payment_methods\/(\w+)(\/detach)?$/.exec(path) ?? [];
    if (methodId !== undefined) return handleMethod(methodId, methodVerb);
    if (path === "/v1/tax/calculations") return calculate(form);
    return undefined;
  };

  return {
    route,
    intents,
    setupSessions,
    methods,
    completeSetup: (setup, { behavior = "works", country = "DE" } = {}) => {
      if (setup.status !== "open") throw new Error("the session is not open");
      const { customer } = setup;
      const method: SavedMethod = {
        id: newId("pm"),
        customer,
        country,
        behavior,
        isAttached: true,
      };
      methods.set(method.id, method);
      setup.status = "complete";
      setup.method = method;
      emitEvent("checkout.session.completed", showSetup(setup));
      return method;
    },
    completeCharge: (intent, status) => {
      intent.status = status;
      const ending = status === "succeeded" ? "succeeded" : "payment_failed";
      emitEvent(`payment_intent.${ending}`, savedIntentJson(intent));
    },
  };
}

export function savedIntentJson(intent: SavedIntent): unknown {
  return {
    id: intent.id,
    object: "payment_intent",
    status: intent.status,
    amount: intent.cents,
    amount_received: intent.status === "succeeded" ? intent.cents : 0,
    currency: intent.currency,
    created: intent.created,
    customer: intent.customer,
    payment_method: intent.method,
    metadata: intent.metadata,
    last_payment_error:
      intent.declineCode === undefined ? null : { type: "card_error", code: intent.declineCode },
  };
}

export function stripeErrorResponse({
  status,
  type,
  message,
  code,
  extra,
}: StripeErrorOptions): Response {
  return Response.json({ error: { type, message, code, ...extra } }, { status });
}

export function declinedResponse(message: string): Response {
  return stripeErrorResponse({ status: 400, type: "invalid_request_error", message });
}

function notFoundResponse(noun: string, id: string): Response {
  const message = `No such ${noun}: '${id}'`;
  return stripeErrorResponse({
    status: 404,
    type: "invalid_request_error",
    message,
    code: "resource_missing",
  });
}
