// Every way in which Postern refuses: a closed table of stable codes. The public sentence says what happened and what
// to do; `detail` goes to the log with the request id and never to the caller.

export const FAULTS = {
  invalid_request: [400, "The request is not valid."],
  invalid_api_key: [
    401,
    "The API key is missing, invalid or revoked. Drop it and use another, or create an account with POST /v1/accounts.",
  ],
  insufficient_credits: [
    402,
    "The balance does not cover this call. Buy credits with POST /v1/billing/invoice.",
  ],
  payment_required: [
    402,
    "This has to be paid first. The PAYMENT-REQUIRED header says how, as x402 says it.",
  ],
  forbidden: [403, "This key may not do that."],
  key_limit_reached: [
    403,
    "This key has reached its own spending limit. Where a human owns the account, its owner raises the limit in the console; otherwise raise it with PATCH /v1/keys/{id}. Or use another key.",
  ],
  workspace_budget_reached: [
    403,
    "This workspace has reached its budget. Wait for `retry-after` seconds until it opens again, or ask the owner to raise it.",
  ],
  workspace_frozen: [
    403,
    "This workspace is frozen, by a payment that was taken back after its credits were spent, or by the gateway's operator. It makes no calls; everything can still be read.",
  ],
  not_found: [
    404,
    "There is nothing here under that name. The endpoints are listed in /openapi.yaml.",
  ],
  model_not_found: [404, "No model has that id. Use an id from GET /v1/models."],
  method_not_allowed: [
    405,
    "This path does not take that method. The `allow` header lists those it takes.",
  ],
  request_timeout: [408, "The request did not arrive in time. Send it again, in one go."],
  conflict: [409, "This request conflicts with another one."],
  payload_too_large: [413, "The request body is too large."],
  unsupported_media_type: [
    415,
    "The body must be sent as the content type that this endpoint takes.",
  ],
  rate_limited: [429, "Too many requests. Wait for `retry-after` seconds and try again."],
  internal: [
    500,
    "Something went wrong on our side. Try again; if it persists, report the request id.",
  ],
  upstream_error: [502, "The model's provider failed. Try again, or use another model."],
  provider_not_configured: [
    503,
    "This gateway is not set up to serve that. Retrying the same request does not help; use another model.",
  ],
  overloaded: [
    503,
    "The gateway is busy or shutting down. Wait for `retry-after` seconds and try again.",
  ],
  upstream_timeout: [
    504,
    "The model's provider did not answer in time. Try again, or use another model.",
  ],
} as const satisfies Record<string, readonly [number, string]>;

export type FaultCode = keyof typeof FAULTS;

/** What the caller can do next, as data that a program acts on. */
export interface NextStep {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  readonly url: string;
  readonly body?: Readonly<Record<string, unknown>>;
  readonly why: string;
}

/** The steps that always help after a fault of this code; a fault may know better ones. */
export const NEXT_STEPS: Readonly<Partial<Record<FaultCode, readonly NextStep[]>>> = {
  invalid_api_key: [
    {
      method: "POST",
      url: "/v1/accounts",
      body: {},
      why: "Open an account and get a key, where you hold no other one.",
    },
  ],
  not_found: [{ method: "GET", url: "/openapi.yaml", why: "Read which endpoints there are." }],
  model_not_found: [{ method: "GET", url: "/v1/models", why: "List the models that there are." }],
  method_not_allowed: [
    { method: "GET", url: "/openapi.yaml", why: "Read which methods this path takes." },
  ],
};

export interface FaultOptions {
  /** The public sentence, where the table's own is too general. */
  readonly message?: string;
  /** The field or header that is wrong: `limit_usd`, `messages[3].content`. */
  readonly param?: string;
  readonly next?: readonly NextStep[];
  readonly retryAfterSeconds?: number;
  /** Answered with this status instead of the table's: a provider's own 4xx or 5xx. */
  readonly status?: number;
  /** Further public fields of the error object, such as `affordable_max_tokens`. */
  readonly fields?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** The caller chose what is not there: the status may be above 499, but nothing of the gateway failed. */
  readonly isCallerError?: boolean;
  /** What the balance did not cover, where what the caller's own key met is told instead. */
  readonly balanceFault?: Fault;
  readonly cause?: unknown;
}

export class Fault extends Error {
  override readonly name = "Fault";
  readonly code: FaultCode;
  readonly status: number;
  readonly publicMessage: string;
  readonly options: FaultOptions;

  constructor(code: FaultCode, detail: string, options: FaultOptions = {}) {
    super(detail, { cause: options.cause });
    this.code = code;
    this.status = options.status ?? FAULTS[code][0];
    this.publicMessage = options.message ?? FAULTS[code][1];
    this.options = options;
  }
}

/** A 400 that names the field and says what is wrong with it. */
export function invalid(param: string | undefined, message: string): Fault {
  return new Fault(
    "invalid_request",
    message,
    param === undefined ? { message } : { message, param },
  );
}
