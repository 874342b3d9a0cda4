// The part of the Stripe that is not there which saves payment methods and charges them while nobody is there: customers,
// pages in setup mode, payments off session that a bank may refuse, and taxes.

export type Behaviour = "works" | "declined" | "authentication_required" | "processing";

export interface SavedIntent {
  readonly id: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly cents: number;
  readonly taxCents: number;
  readonly currency: string;
  readonly created: number;
  readonly customer: string;
  readonly method: string;
  refusal: string | undefined;
  status: "succeeded" | "processing" | "requires_payment_method" | "canceled";
}

interface SavedMethod {
  readonly id: string;
  readonly customer: string;
  readonly country: string | null;
  behaviour: Behaviour;
  attached: boolean;
}

export interface SetupSession {
  readonly id: string;
  readonly customer: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly wantsAddress: boolean;
  status: "open" | "complete" | "expired";
  method: SavedMethod | undefined;
}

/** A refusal as Stripe answers it. */
export interface Problem {
  readonly status: number;
  readonly type: string;
  readonly message: string;
  readonly code?: string;
  readonly more?: Readonly<Record<string, unknown>>;
}

export interface SavedParts {
  readonly newName: (prefix: string) => string;
  readonly nowSeconds: () => number;
  readonly tell: (type: string, object: unknown) => void;
  readonly metadataIn: (form: URLSearchParams, name: string) => Record<string, string>;
  readonly url: () => string;
}

export interface Saved {
  /** Answers undefined where the call is of another part; throws a problem. */
  readonly route: (method: string, path: string, form: URLSearchParams) => unknown;
  readonly intents: ReadonlyMap<string, SavedIntent>;
  readonly setups: ReadonlyMap<string, SetupSession>;
  readonly methods: ReadonlyMap<string, SavedMethod>;
  readonly save: (
    setup: SetupSession,
    how?: { readonly behaviour?: Behaviour; readonly country?: string | null },
  ) => SavedMethod;
  /** A payment that took days arrives, or does not. */
  readonly concludeCharge: (
    intent: SavedIntent,
    status: "succeeded" | "requires_payment_method",
  ) => void;
}

const TAX_PERCENT = 20;

export function createSaved(parts: SavedParts): Saved {
  const { newName, nowSeconds, tell, metadataIn } = parts;
  const customers = new Set<string>();
  const methods = new Map<string, SavedMethod>();
  const setups = new Map<string, SetupSession>();
  const intents = new Map<string, SavedIntent>();
  const taxes = new Map<string, number>();

  const showMethod = ({ id, customer, country, attached }: SavedMethod): unknown => ({
    id,
    object: "payment_method",
    type: "card",
    customer: attached ? customer : null,
    card: { brand: "visa", last4: "4242" },
    billing_details: { address: { country, postal_code: "10115", line1: null, city: null } },
  });
  const showSetup = (setup: SetupSession): unknown => ({
    id: setup.id,
    object: "checkout.session",
    mode: "setup",
    status: setup.status,
    url: setup.status === "open" ? `${parts.url()}/c/setup/${setup.id}` : null,
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
    if (form.get("currency") !== "usd") throw refused("a page in setup mode needs a currency");
    const customer = form.get("customer") ?? "";
    if (!customers.has(customer)) throw missing("customer", customer);
    const setup: SetupSession = {
      id: newName("cs_test"),
      customer,
      metadata: metadataIn(form, "metadata"),
      wantsAddress: form.get("billing_address_collection") === "required",
      status: "open",
      method: undefined,
    };
    setups.set(setup.id, setup);
    return showSetup(setup);
  };
  const charge = (form: URLSearchParams): unknown => {
    if (form.get("off_session") !== "true" || form.get("confirm") !== "true")
      throw refused("nobody is there");
    const method = methods.get(form.get("payment_method") ?? "");
    const customer = form.get("customer") ?? "";
    if (method === undefined) throw missing("PaymentMethod", form.get("payment_method") ?? "");
    if (!method.attached || method.customer !== customer)
      throw refused("The provided PaymentMethod is not attached to this customer.");
    const calculation = form.get("hooks[inputs][tax][calculation]");
    const intent: SavedIntent = {
      id: newName("pi"),
      metadata: metadataIn(form, "metadata"),
      cents: Number(form.get("amount")),
      taxCents: calculation === null ? 0 : (taxes.get(calculation) ?? Number.NaN),
      currency: form.get("currency") ?? "",
      created: nowSeconds(),
      customer,
      method: method.id,
      refusal: undefined,
      status: "succeeded",
    };
    intents.set(intent.id, intent);
    if (method.behaviour === "processing") intent.status = "processing";
    if (method.behaviour === "declined" || method.behaviour === "authentication_required") {
      intent.status = "requires_payment_method";
      intent.refusal = method.behaviour === "declined" ? "card_declined" : method.behaviour;
      tell("payment_intent.payment_failed", showSavedIntent(intent));
      const message = "Your card was declined.";
      const more = { payment_intent: showSavedIntent(intent), decline_code: "generic_decline" };
      throw problem({ status: 402, type: "card_error", message, code: intent.refusal, more });
    }
    if (intent.status === "succeeded") tell("payment_intent.succeeded", showSavedIntent(intent));
    return showSavedIntent(intent);
  };
  const listIntents = (form: URLSearchParams): unknown => {
    const found = [...intents.values()]
      .filter(({ customer }) => customer === form.get("customer"))
      .toReversed();
    return { object: "list", data: found.map(showSavedIntent), has_more: false, url: "/" };
  };
  const ofIntent = (method: string, id: string, verb: string | undefined): unknown => {
    const intent = intents.get(id);
    if (intent === undefined) throw missing("payment_intent", id);
    if (method === "GET" && verb === undefined) return showSavedIntent(intent);
    if (intent.status !== "requires_payment_method")
      throw refused("You cannot cancel this PaymentIntent.");
    intent.status = "canceled";
    return showSavedIntent(intent);
  };
  const ofMethod = (id: string, verb: string | undefined): unknown => {
    const method = methods.get(id);
    if (method === undefined) throw missing("PaymentMethod", id);
    if (verb !== undefined) method.attached = false;
    return showMethod(method);
  };
  const calculate = (form: URLSearchParams): unknown => {
    if ((form.get("customer_details[address][country]") ?? "") === "")
      throw refused("The address has no country.");
    let [cents, place] = [0, 0];
    for (; form.has(`line_items[${place}][amount]`); place++)
      cents += Number(form.get(`line_items[${place}][amount]`));
    const id = newName("taxcalc");
    const tax = Math.round((cents * TAX_PERCENT) / 100);
    taxes.set(id, tax);
    return { id, object: "tax.calculation", tax_amount_exclusive: tax, amount_total: cents + tax };
  };

  const route: Saved["route"] = (method, path, form) => {
    if (path === "/v1/customers" && method === "POST") {
      const id = newName("cus");
      customers.add(id);
      return { id, object: "customer", metadata: metadataIn(form, "metadata") };
    }
    if (path === "/v1/checkout/sessions" && method === "POST" && form.get("mode") === "setup")
      return createSetup(form);
    const setup = setups.get(/^\/v1\/checkout\/sessions\/(\w+)$/.exec(path)?.[1] ?? "");
    if (setup !== undefined) return showSetup(setup);
    if (path === "/v1/payment_intents") return method === "POST" ? charge(form) : listIntents(form);
    const [, intentId, intentVerb] = /^\/v1\/payment_intents\/(\w+)(\/cancel)?$/.exec(path) ?? [];
    if (intentId !== undefined) return ofIntent(method, intentId, intentVerb);
    const [, methodId, methodVerb] = /^\/v1\/payment_methods\/(\w+)(\/detach)?$/.exec(path) ?? [];
    if (methodId !== undefined) return ofMethod(methodId, methodVerb);
    if (path === "/v1/tax/calculations") return calculate(form);
    return undefined;
  };

  return {
    route,
    intents,
    setups,
    methods,
    save: (setup, { behaviour = "works", country = "DE" } = {}) => {
      if (setup.status !== "open") throw new Error("nobody can save at a page that is not open");
      const { customer } = setup;
      const method: SavedMethod = {
        id: newName("pm"),
        customer,
        country,
        behaviour,
        attached: true,
      };
      methods.set(method.id, method);
      setup.status = "complete";
      setup.method = method;
      tell("checkout.session.completed", showSetup(setup));
      return method;
    },
    concludeCharge: (intent, status) => {
      intent.status = status;
      const ending = status === "succeeded" ? "succeeded" : "payment_failed";
      tell(`payment_intent.${ending}`, showSavedIntent(intent));
    },
  };
}

function showSavedIntent(intent: SavedIntent): unknown {
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
      intent.refusal === undefined ? null : { type: "card_error", code: intent.refusal },
  };
}

export function problem({ status, type, message, code, more }: Problem): Response {
  return Response.json({ error: { type, message, code, ...more } }, { status });
}

function refused(message: string): Response {
  return problem({ status: 400, type: "invalid_request_error", message });
}

function missing(what: string, id: string): Response {
  const message = `No such ${what}: '${id}'`;
  return problem({ status: 404, type: "invalid_request_error", message, code: "resource_missing" });
}
