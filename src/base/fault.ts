// Every error that Postern returns: a closed table of stable codes. The public message says what happened and what
// to do; `detail` is logged with the request id and never sent to the caller.

export const FAULTS = {
  invalid_request: [
    400,
    "The request is invalid. Fix the field named in `param` and send it again.",
  ],
  invalid_api_key: [
    401,
    "The API key is missing, invalid, expired or revoked. Use another key, or create an account with POST /v1/accounts.",
  ],
  insufficient_credits: [
    402,
    "The balance does not cover this call. Buy credits with POST /v1/billing/invoice.",
  ],
  payment_required: [
    402,
    "Payment is required. Pay as the header `PAYMENT-REQUIRED` (x402) or the `Payment` challenges of `WWW-Authenticate` say, and repeat the request.",
  ],
  forbidden: [403, "This API key is not allowed to do this. Use another key."],
  proof_of_work_required: [
    403,
    "A new account needs a proof of work. Solve the challenge in `proof_of_work` and send it in the header `proof-of-work`.",
  ],
  key_limit_reached: [
    403,
    "This key has reached its spending limit. Limit the output, use another key, or ask who `limit_raised_by` names to raise the limit.",
  ],
  session_limit_reached: [
    403,
    "This session has reached its spending limit. Limit the output, raise `x-postern-session-limit-usd`, or begin a new session.",
  ],
  session_stopped: [403, "This session was stopped. Begin a new session."],
  workspace_budget_reached: [
    403,
    "This workspace has reached its budget. Retry after `retry-after` seconds, or ask the owner to raise the budget.",
  ],
  workspace_frozen: [
    403,
    "This workspace is frozen by the gateway's operator, or it is closing. Model calls are rejected; reads still work.",
  ],
  guardrail_denied: [403, "A guardrail of the workspace denied this call. Change the request."],
  not_found: [404, "Nothing exists at this URL. All endpoints are listed in /llms.txt."],
  model_not_found: [404, "This model does not exist. Use an id from GET /v1/models."],
  method_not_allowed: [
    405,
    "This path does not support this method. Use one from the `allow` header.",
  ],
  request_timeout: [408, "The request body did not arrive in time. Send it again without pauses."],
  conflict: [
    409,
    "The request conflicts with the current state. Read the record again, then retry.",
  ],
  payload_too_large: [413, "The request body is too large. Send a smaller one."],
  unsupported_media_type: [
    415,
    "The content type is not supported. Send the body as the content type that this endpoint takes.",
  ],
  rate_limited: [429, "Too many requests. Retry after `retry-after` seconds."],
  internal: [
    500,
    "An internal error occurred. Retry; if it happens again, report the request id to the operator.",
  ],
  upstream_error: [502, "The model's provider failed. Retry, or use another model."],
  provider_not_configured: [
    503,
    "This gateway is not configured to serve this request. Do not retry; use another model.",
  ],
  overloaded: [
    503,
    "The gateway is overloaded or shutting down. Retry after `retry-after` seconds.",
  ],
  upstream_timeout: [
    504,
    "The model's provider did not respond in time. Retry, or use another model.",
  ],
} as const satisfies Record<string, readonly [status: number, message: string]>;

export type FaultCode = keyof typeof FAULTS;

/** A request that the caller can make next, for programs to act on. */
export interface NextStep {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  readonly url: string;
  readonly body?: Readonly<Record<string, unknown>>;
  /** The content type of the body; JSON by default. */
  readonly content_type?: "application/x-www-form-urlencoded";
  readonly why: string;
}

/** Next steps by code, for faults that name none of their own. */
const NEXT_STEPS: Readonly<Partial<Record<FaultCode, readonly NextStep[]>>> = {
  invalid_request: [{ method: "GET", url: "/llms.txt", why: "Find the page of this endpoint." }],
  unsupported_media_type: [
    { method: "GET", url: "/llms.txt", why: "Find the page of this endpoint." },
  ],
  invalid_api_key: [
    {
      method: "POST",
      url: "/v1/accounts",
      body: {},
      why: "Create an account and an API key.",
    },
  ],
  guardrail_denied: [
    { method: "GET", url: "/v1/guardrails", why: "See what the guardrails check." },
  ],
  not_found: [{ method: "GET", url: "/llms.txt", why: "List all endpoints." }],
  model_not_found: [{ method: "GET", url: "/v1/models", why: "List all models." }],
  method_not_allowed: [{ method: "GET", url: "/llms.txt", why: "List all endpoints." }],
  conflict: [{ method: "GET", url: "/llms.txt", why: "Find the page of this endpoint." }],
};

/** The errors whose next step is the page of the endpoint: it is a hundredth of /openapi.yaml. */
const DOCUMENTED_BY_PAGE: ReadonlySet<FaultCode> = new Set([
  "invalid_request",
  "unsupported_media_type",
  "payload_too_large",
  "conflict",
]);

/** `docsPath` is the page of the endpoint that was called, if it has one. */
export function nextStepsOf(
  code: FaultCode,
  docsPath: string | undefined,
): readonly NextStep[] | undefined {
  return docsPath !== undefined && DOCUMENTED_BY_PAGE.has(code)
    ? [readPageStep(docsPath)]
    : NEXT_STEPS[code];
}

export function readPageStep(docsPath: string): NextStep {
  return {
    method: "GET",
    url: docsPath,
    why: "Read the parameters, fields and limits of this endpoint.",
  };
}

/** For accounts that no human has claimed, if humans can sign in. */
export const CLAIM_STEP: NextStep = {
  method: "POST",
  url: "/agent/identity/claim",
  body: { email: "<the human's email>" },
  why: "Let a human claim the account. The first claim adds $1.00.",
};

/** Works with every key, whatever its scopes. */
export const READ_OWN_KEY_STEP: NextStep = {
  method: "GET",
  url: "/v1/keys/self",
  why: "Read the limit, the spend, the scopes and the policy of this key.",
};

/** For accounts that are closing. A key reopens only an account that no person owns. */
export function reopenStep(accountId: string, isClaimed: boolean): NextStep {
  return isClaimed
    ? {
        method: "GET",
        url: `/console/${accountId}/settings`,
        why: "Console page where the owner closes or reopens the workspace.",
      }
    : {
        method: "POST",
        url: "/v1/account/reopen",
        why: "Reopen the account before it is erased.",
      };
}

/** For keys that worked once: their holder belongs to an account, and needs no new one. */
export const KEYS_PAGE_STEP: NextStep = {
  method: "GET",
  url: "/docs/keys.md",
  why: "Read how the keys of an account are created, limited and revoked.",
};

export interface FaultOptions {
  /** Replaces the public message of the table. */
  readonly message?: string;
  /** The field or header at fault: `limit_usd`, `messages[3].content`. */
  readonly param?: string;
  readonly next?: readonly NextStep[];
  readonly retryAfterSeconds?: number;
  /** Replaces the status of the table, such as with a provider's own 4xx or 5xx. */
  readonly status?: number;
  /** The field is not known: Anthropic's clients look for the words of its API. */
  readonly isUnknownField?: boolean;
  /** Additional public fields of the error object, such as `affordable_max_tokens`. */
  readonly fields?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** Not logged as a failure of the gateway, even if the status is above 499. */
  readonly isCallerError?: boolean;
  /**
   * Set if a call with the caller's provider key failed and the balance does not cover the fallback: x402 can pay for
   * that.
   */
  readonly balanceFault?: Fault;
  /** Where the request does not match its schema; the gateway's own pages never send such a request. */
  readonly malformed?: "query" | "body";
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

/** A message may repeat the caller's text, which can be long. */
const MESSAGE_MAX_LENGTH = 2_000;

/** A 400 for one field, with a message that names it. */
export function invalid(param: string | undefined, text: string): Fault {
  const message =
    text.length <= MESSAGE_MAX_LENGTH ? text : `${text.slice(0, MESSAGE_MAX_LENGTH)}…`;
  return new Fault(
    "invalid_request",
    message,
    param === undefined ? { message } : { message, param },
  );
}

/** A 409 with a message for the caller. */
export function conflict(message: string): Fault {
  return new Fault("conflict", message, { message });
}

/** A key that was live when the request arrived, and is not any more. */
export function endedKeyFault(detail: string): Fault {
  return new Fault("invalid_api_key", detail, {
    message:
      "The API key was revoked, or has expired, since the request arrived. Ask your human, or the program that created it, for another key of the account.",
    next: [KEYS_PAGE_STEP],
  });
}
