// The one error type. FAULTS lists every stable error code with its status and default message; `detail` goes to the log with
// the request id and never to the caller.

export const FAULTS = {
  invalid_request: [400, "The request is invalid."],
  invalid_api_key: [
    401,
    "The API key is missing, invalid or revoked. Use another key, or create an account with POST /v1/accounts.",
  ],
  insufficient_credits: [
    402,
    "The balance does not cover this call. Buy credits with POST /v1/billing/invoice.",
  ],
  payment_required: [
    402,
    "This request must be paid for. The `PAYMENT-REQUIRED` header contains the x402 payment requirements.",
  ],
  forbidden: [403, "This key does not have permission to do that."],
  key_limit_reached: [
    403,
    "This key has reached its spending limit. If the account is claimed, an owner can raise the limit in the console; otherwise raise it with PATCH /v1/keys/{id}. You can also use another key.",
  ],
  workspace_budget_reached: [
    403,
    "This workspace has reached its budget. Wait for `retry-after` seconds until the budget resets, or ask the owner to raise it.",
  ],
  workspace_frozen: [
    403,
    "This workspace is frozen, because a payment was reversed after its credits were spent or because the operator froze it. It cannot make model calls; everything can still be read.",
  ],
  not_found: [
    404,
    "The endpoint or object does not exist. All endpoints are listed in /openapi.yaml.",
  ],
  model_not_found: [404, "No model has this id. Use an id from GET /v1/models."],
  method_not_allowed: [
    405,
    "This path does not support this method. The `allow` header lists the supported methods.",
  ],
  request_timeout: [408, "The request did not arrive in time. Send it again without pauses."],
  conflict: [409, "The request conflicts with another request."],
  payload_too_large: [413, "The request body is too large."],
  unsupported_media_type: [
    415,
    "The content type is not supported. Send the body as the content type that this endpoint accepts.",
  ],
  rate_limited: [429, "Too many requests. Wait for `retry-after` seconds and try again."],
  internal: [
    500,
    "Something went wrong on our side. Try again; if the error persists, report the request id.",
  ],
  upstream_error: [502, "The model's provider failed. Try again, or use another model."],
  provider_not_configured: [
    503,
    "This gateway is not configured to serve this request. Retrying does not help; use another model.",
  ],
  overloaded: [
    503,
    "The gateway is busy or shutting down. Wait for `retry-after` seconds and try again.",
  ],
  upstream_timeout: [
    504,
    "The model's provider did not respond in time. Try again, or use another model.",
  ],
} as const satisfies Record<string, readonly [number, string]>;

export type FaultCode = keyof typeof FAULTS;

/** A request that the caller can make next, for programs to act on. */
export interface NextStep {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  readonly url: string;
  readonly body?: Readonly<Record<string, unknown>>;
  readonly why: string;
}

/** Default next steps by code; a fault can replace them. */
export const NEXT_STEPS: Readonly<Partial<Record<FaultCode, readonly NextStep[]>>> = {
  invalid_api_key: [
    {
      method: "POST",
      url: "/v1/accounts",
      body: {},
      why: "Create an account and get a key, if you have no other key.",
    },
  ],
  not_found: [{ method: "GET", url: "/openapi.yaml", why: "List the endpoints." }],
  model_not_found: [{ method: "GET", url: "/v1/models", why: "List the models." }],
  method_not_allowed: [
    { method: "GET", url: "/openapi.yaml", why: "List the methods that this path supports." },
  ],
};

export interface FaultOptions {
  /** Replaces the default message of the code. */
  readonly message?: string;
  /** The invalid field or header: `limit_usd`, `messages[3].content`. */
  readonly param?: string;
  readonly next?: readonly NextStep[];
  readonly retryAfterSeconds?: number;
  /** Replaces the default status of the code, for example with a provider's own 4xx or 5xx. */
  readonly status?: number;
  /** More public fields of the error object, such as `affordable_max_tokens`. */
  readonly fields?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** The status may be above 499, but the caller's choice caused it, so it is not counted as a failure of the gateway. */
  readonly isCallerError?: boolean;
  /** Set if a call with the caller's provider key failed and the balance does not cover the fallback: x402 can pay for that. */
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

/** A 400 that names the invalid field. */
export function invalid(param: string | undefined, message: string): Fault {
  return new Fault(
    "invalid_request",
    message,
    param === undefined ? { message } : { message, param },
  );
}
