// Stripe's documented rules for the requests that Postern sends, so that a request which the real Stripe refuses is refused
// here too. The sources are the API reference and the parameter descriptions of the package `stripe`, for the API version
// below. A request with a parameter that is not listed is refused, so a new parameter needs its rule here first.

import {
  STRIPE_API_VERSION,
  STRIPE_PREVIEW_VERSION,
} from "../../../src/billing/stripe/stripe-facts.ts";

interface StripeRefusal {
  readonly message: string;
  readonly code: string;
  readonly param: string;
}

type Rule = (value: string) => boolean;

interface RequestRules {
  readonly required: readonly string[];
  /** Names in Stripe's bracket notation; `0` stands for every index, and `*` for every key. */
  readonly params: Readonly<Record<string, Rule>>;
  /** Rules over several parameters. */
  readonly check?: (form: URLSearchParams) => StripeRefusal | undefined;
}

const any: Rule = () => true;
const id: Rule = (value) => /^\w+$/.test(value);
const bool: Rule = (value) => value === "true" || value === "false";
const isTrue: Rule = (value) => value === "true";
const positiveInteger: Rule = (value) => /^[1-9]\d*$/.test(value);
const oneOf =
  (...values: readonly string[]): Rule =>
  (value) =>
    values.includes(value);
const url: Rule = (value) => URL.canParse(value) && /^https?:/.test(value);
/** The minimum is $0.50, and the amount has up to eight digits. */
const chargeAmount: Rule = (value) =>
  positiveInteger(value) && Number(value) >= 50 && value.length <= 8;
/** At most 500 characters; keys have at most 40. */
const metadataValue: Rule = (value) => value.length <= 500;
const METADATA = { "metadata[*]": metadataValue };
const LIST = { limit: (value: string) => positiveInteger(value) && Number(value) <= 100 };

/** Saved methods that a charge off session accepts without a redirect, for US dollars. */
const SETUP_METHOD_TYPES = ["card", "link", "us_bank_account"];

const CREATE_SESSION: RequestRules = {
  required: ["mode", "success_url"],
  params: {
    mode: oneOf("payment", "setup"),
    currency: oneOf("usd"),
    customer: id,
    client_reference_id: (value) => value.length <= 200,
    ...METADATA,
    "payment_intent_data[metadata][*]": metadataValue,
    "line_items[0][quantity]": positiveInteger,
    "line_items[0][price_data][currency]": oneOf("usd"),
    "line_items[0][price_data][unit_amount]": positiveInteger,
    "line_items[0][price_data][tax_behavior]": oneOf("exclusive", "inclusive", "unspecified"),
    "line_items[0][price_data][product_data][name]": (value) => value !== "",
    "automatic_tax[enabled]": bool,
    "adaptive_pricing[enabled]": bool,
    "allowed_payment_method_types[0]": oneOf(...SETUP_METHOD_TYPES),
    billing_address_collection: oneOf("auto", "required"),
    success_url: url,
    cancel_url: url,
  },
  check: (form) => {
    if (form.get("mode") === "payment") {
      if (!form.has("line_items[0][quantity]")) return missing("line_items");
      return undefined;
    }
    // "Required in `setup` mode when `allowed_payment_method_types` is not set."
    if (!form.has("currency") && !form.has("allowed_payment_method_types[0]"))
      return missing("currency");
    const paymentOnly = [
      "line_items[0][quantity]",
      "payment_intent_data[metadata][postern_invoice]",
    ];
    const wrong = paymentOnly.find((name) => form.has(name));
    return wrong === undefined
      ? undefined
      : refusal("parameter_unknown", wrong, `You can only use ${wrong} in payment mode.`);
  },
};

const CREATE_INTENT: RequestRules = {
  required: ["amount", "currency"],
  params: {
    amount: chargeAmount,
    currency: oneOf("usd"),
    customer: id,
    payment_method: id,
    off_session: isTrue,
    confirm: isTrue,
    description: any,
    "automatic_payment_methods[enabled]": isTrue,
    "automatic_payment_methods[allow_redirects]": oneOf("always", "never"),
    return_url: url,
    ...METADATA,
    "hooks[inputs][tax][calculation]": id,
    shared_payment_granted_token: id,
  },
  check: (form) => {
    // Both "can only be used with `confirm=true`".
    for (const name of ["off_session", "return_url"])
      if (form.has(name) && !form.has("confirm"))
        return refusal(
          "parameter_missing",
          "confirm",
          `You can only use ${name} with confirm=true.`,
        );
    // Since API version 2023-08-16, an intent accepts the methods of the Dashboard, also without `automatic_payment_methods`.
    if (
      form.get("confirm") === "true" &&
      !form.has("return_url") &&
      form.get("automatic_payment_methods[allow_redirects]") !== "never"
    )
      return refusal(
        "parameter_missing",
        "return_url",
        "This PaymentIntent is configured to accept payment methods enabled in your Dashboard. Because some of these payment methods might redirect your customer off of your page, you must provide a `return_url`. If you don't want to accept redirect-based payment methods, set `automatic_payment_methods[enabled]` to `true` and `automatic_payment_methods[allow_redirects]` to `never` when creating Setup Intents and Payment Intents.",
      );
    if (
      form.has("automatic_payment_methods[allow_redirects]") &&
      !form.has("automatic_payment_methods[enabled]")
    )
      return missing("automatic_payment_methods[enabled]");
    return undefined;
  },
};

const CREATE_CALCULATION: RequestRules = {
  required: ["currency", "line_items[0][amount]"],
  params: {
    currency: oneOf("usd"),
    "customer_details[address_source]": oneOf("billing", "shipping"),
    "customer_details[address][*]": any,
    "line_items[0][amount]": positiveInteger,
    "line_items[0][reference]": any,
    "line_items[0][tax_behavior]": oneOf("exclusive", "inclusive"),
  },
  check: (form) => {
    const references = [...form]
      .filter(([name]) => /^line_items\[\d+\]\[reference\]$/.test(name))
      .map(([, value]) => value);
    return new Set(references).size === references.length
      ? undefined
      : refusal("parameter_invalid", "line_items", "References must be unique.");
  },
};

/** Every request of Postern, by method and path; `:id` stands for an id. */
const STRIPE_RULES: Readonly<Record<string, RequestRules>> = {
  "POST /v1/customers": { required: [], params: METADATA },
  "GET /v1/customers": { required: [], params: LIST },
  "GET /v1/customers/:id": { required: [], params: {} },
  "POST /v1/checkout/sessions": CREATE_SESSION,
  "GET /v1/checkout/sessions": { required: [], params: { ...LIST, payment_intent: id } },
  "GET /v1/checkout/sessions/:id": {
    required: [],
    params: { "expand[0]": oneOf("payment_intent", "setup_intent.payment_method") },
  },
  "POST /v1/checkout/sessions/:id/expire": { required: [], params: {} },
  "POST /v1/payment_intents": CREATE_INTENT,
  "GET /v1/payment_intents": { required: [], params: { ...LIST, customer: id } },
  "GET /v1/payment_intents/search": { required: ["query"], params: { ...LIST, query: any } },
  "GET /v1/payment_intents/:id": { required: [], params: {} },
  "POST /v1/payment_intents/:id/cancel": { required: [], params: {} },
  "GET /v1/payment_methods/:id": { required: [], params: {} },
  "POST /v1/payment_methods/:id/detach": { required: [], params: {} },
  "POST /v1/tax/calculations": CREATE_CALCULATION,
  "GET /v1/setup_intents": { required: [], params: LIST },
  "GET /v1/tax/settings": { required: [], params: {} },
  "GET /v1/refunds": { required: [], params: { ...LIST, payment_intent: id } },
  "GET /v1/disputes": { required: [], params: { ...LIST, payment_intent: id } },
};

/** Requests of a payer's agent, which the tests make. */
const PAYER_REQUESTS: ReadonlySet<string> = new Set(["POST /v1/shared_payment/issued_tokens"]);

/** Undefined if Stripe accepts the parameters. */
export function findStripeRefusal(
  method: string,
  path: string,
  form: URLSearchParams,
  headers: Headers,
): StripeRefusal | undefined {
  const request = requestName(method, path);
  if (PAYER_REQUESTS.has(request)) return undefined;
  const rules = STRIPE_RULES[request];
  if (rules === undefined)
    return refusal("url_invalid", "", `Unrecognized request URL (${method}: ${path}).`);
  const version = headers.get("stripe-version");
  const isPreview = version === STRIPE_PREVIEW_VERSION;
  if (version !== STRIPE_API_VERSION && !isPreview)
    return refusal("api_version", "", `Invalid Stripe API version: ${version}.`);
  if (form.has("shared_payment_granted_token") && !isPreview)
    return unknownParameter("shared_payment_granted_token");
  const key = headers.get("idempotency-key");
  if (key !== null && key.length > 255)
    return refusal("idempotency_key", "", "Idempotency keys can have at most 255 characters.");
  for (const name of rules.required) if (!form.has(name)) return missing(name);
  for (const [name, value] of form) {
    const [pattern, rule] = ruleOf(rules, name);
    if (rule === undefined) return unknownParameter(name);
    if (pattern.endsWith("[*]") && (name.match(/\[(\w+)\]$/)?.[1] ?? "").length > 40)
      return refusal("parameter_invalid", name, "Metadata keys can have at most 40 characters.");
    if (!rule(value)) return refusal("parameter_invalid", name, `Invalid ${name}: ${value}`);
  }
  return rules.check?.(form);
}

function requestName(method: string, path: string): string {
  const name = path.replace(/\/(?:cs_test|cus|pi|pm|taxcalc|seti|re|dp)_\w+/, "/:id");
  return `${method} ${name}`;
}

function ruleOf({ params }: RequestRules, name: string): readonly [string, Rule | undefined] {
  const pattern = name.replaceAll(/\[\d+\]/g, "[0]");
  const wildcard = pattern.replace(/\[\w+\]$/, "[*]");
  return params[pattern] === undefined ? [wildcard, params[wildcard]] : [pattern, params[pattern]];
}

function missing(name: string): StripeRefusal {
  return refusal("parameter_missing", name, `Missing required param: ${name}.`);
}

function unknownParameter(name: string): StripeRefusal {
  return refusal("parameter_unknown", name, `Received unknown parameter: ${name}`);
}

function refusal(code: string, param: string, message: string): StripeRefusal {
  return { code, param, message };
}
