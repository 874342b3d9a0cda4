// Documentation of every error: what to do about it, its JSON schema, and an example built by the function that writes
// real error responses.

import { z } from "zod";
import { errorBody, publicError } from "../base/error-body.ts";
import { Fault, type FaultCode, type FaultOptions, FAULTS } from "../base/fault.ts";
import { type Dialect, type Route, requiresKey } from "../http/route.ts";
import { NextStepSchema } from "../http/schemas.ts";

export interface ErrorAdvice {
  /** Whether to send the same request again: never, after `retry-after`, or with exponential backoff. */
  readonly retry: "no" | "after retry-after" | "with backoff";
  readonly next: string;
}

/** What happened, without the next step that the rest of the message names. */
export function faultMeaning(text: string): string {
  return /^.*?\.(?= |$)/.exec(text)?.[0] ?? text;
}

export const ERROR_ADVICE = {
  invalid_request: {
    retry: "no",
    next: "Fix the field named in `param` and retry.",
  },
  invalid_api_key: {
    retry: "no",
    next: "Read the message: it says which. If it was revoked or has expired, ask your human for another key of the account. Register only if you never had a key.",
  },
  insufficient_credits: {
    retry: "no",
    next: "Request fewer tokens (`affordable_max_tokens` is the largest number that the balance covers), use a cheaper model, or buy credits. With `owed_usd`, the account has a debt, which new credits pay first.",
  },
  payment_required: {
    retry: "no",
    next: "Sign the payment described in the `PAYMENT-REQUIRED` header, and send the request again with `PAYMENT-SIGNATURE`.",
  },
  forbidden: {
    retry: "no",
    next: "Use a key that may, or ask the workspace's owner.",
  },
  proof_of_work_required: {
    retry: "no",
    next: "Append `.` and a number to `proof_of_work.challenge`, so that the SHA-256 of the whole text begins with `proof_of_work.bits` zero bits. Send the text in the header `proof-of-work`, from the same network, before `proof_of_work.expires_at`.",
  },
  key_limit_reached: {
    retry: "no",
    next: "Request at most `affordable_max_tokens`, wait until `limit_resets_at`, or use another key. `limit_raised_by` names who can raise the limit: `key` (the key `limit_raised_by_key`, with `PATCH /v1/keys/{id}`), `owner` (in the console) or `none`. `GET /v1/keys/self` reads the limit.",
  },
  session_limit_reached: {
    retry: "no",
    next: "Request at most `affordable_max_tokens`, send a higher `x-postern-session-limit-usd` (up to `session_limit_usd` of the key), or begin a new session. `GET /v1/sessions/{id}` reads what each agent spent.",
  },
  session_stopped: {
    retry: "no",
    next: "Tell the human: someone stopped this session. A new session has a new id.",
  },
  workspace_budget_reached: {
    retry: "after retry-after",
    next: "Wait until `budget_resets_at`, or ask the owner to raise it. The workspace may still have credits.",
  },
  workspace_frozen: {
    retry: "no",
    next: "Tell the human. If `frozen_by` is `operator`, only the gateway's operator can unfreeze the workspace.",
  },
  guardrail_denied: {
    retry: "no",
    next: "Change the request as the message says.",
  },
  not_found: {
    retry: "no",
    next: "Check the path against `/openapi.yaml`, and the id against the list endpoint, if there is one.",
  },
  model_not_found: {
    retry: "no",
    next: "Use an id from `GET /v1/models`, including the provider.",
  },
  method_not_allowed: { retry: "no", next: "Use a method from the `allow` header." },
  request_timeout: {
    retry: "with backoff",
    next: "Send the request again, without pauses in the body.",
  },
  conflict: {
    retry: "no",
    next: "With an `idempotency-key`: use a new key for a new request; if the first request is still running, retry after a second. Without one: read the current state and decide again.",
  },
  payload_too_large: { retry: "no", next: "Send a smaller body. `/auth.md` lists the limits." },
  unsupported_media_type: {
    retry: "no",
    next: "Set `content-type` to a type that the endpoint accepts.",
  },
  rate_limited: {
    retry: "after retry-after",
    next: "Wait `retry-after` seconds, also in the body as `retry_after_seconds`, then send requests more slowly.",
  },
  internal: {
    retry: "with backoff",
    next: "Retry a few times. If the error persists, report the `x-request-id` to the operator.",
  },
  upstream_error: {
    retry: "with backoff",
    next: "Retry, after `retry-after` seconds if the header is present, or use another model. A call that fails before its output begins costs nothing.",
  },
  provider_not_configured: {
    retry: "no",
    next: "Use a model with `available: true`.",
  },
  overloaded: { retry: "after retry-after", next: "Wait `retry-after` seconds, then retry." },
  upstream_timeout: {
    retry: "with backoff",
    next: "Retry, request less output, or use another model.",
  },
} as const satisfies Record<FaultCode, ErrorAdvice>;

interface TokenError {
  readonly error: string;
  readonly status: number;
  readonly meaning: string;
  readonly next: string;
}

/** The errors of the token endpoint: RFC 6749's format with RFC 8628's codes. */
export const TOKEN_ERRORS: readonly TokenError[] = [
  {
    error: "authorization_pending",
    status: 400,
    meaning: "The human has not finished yet.",
    next: "Wait `interval` seconds, then poll again.",
  },
  {
    error: "slow_down",
    status: 400,
    meaning: "You are polling too often.",
    next: "Add 5 seconds to `interval` from now on, then poll again.",
  },
  {
    error: "expired_token",
    status: 400,
    meaning: "The claim has expired.",
    next: "Ask the human whether they still want the account. If so, start a new claim.",
  },
  {
    error: "access_denied",
    status: 400,
    meaning: "The human declined, or another human has claimed the account.",
    next: "Stop polling. Your key keeps working.",
  },
  {
    error: "invalid_request",
    status: 400,
    meaning: "A field is missing or invalid, or no claim was started.",
    next: "Fix the request, or start a claim first.",
  },
  {
    error: "unsupported_grant_type",
    status: 400,
    meaning: "`grant_type` is not the claim grant type.",
    next: "Send the `grant_type` exactly as shown on this page.",
  },
  {
    error: "invalid_client",
    status: 401,
    meaning: "The API key is missing, invalid, expired or revoked.",
    next: "See `invalid_api_key`.",
  },
  {
    error: "temporarily_unavailable",
    status: 503,
    meaning: "The gateway is busy. With status 429, this key sends too many requests.",
    next: "Wait `retry-after` seconds, then poll again.",
  },
  {
    error: "server_error",
    status: 500,
    meaning: "Something went wrong on our side.",
    next: "Wait, then poll again.",
  },
];

const ERROR_CODE = z.enum(Object.keys(FAULTS)).describe("A stable error code to act on.");
const ERROR_MESSAGE = z
  .string()
  .describe("What went wrong and what to do, for a human or a model to read.");
const PARAM_DESCRIPTION = "The invalid field or header.";
const NEXT_STEPS_SCHEMA = z.array(NextStepSchema).optional().describe("Possible next steps.");
const ERROR_TYPE = z
  .string()
  .describe("The error category, in the terms of the API that was called.");

const OpenAiError = z
  .object({
    error: z.looseObject({
      message: ERROR_MESSAGE,
      type: ERROR_TYPE,
      code: ERROR_CODE,
      param: z.string().nullable().describe(PARAM_DESCRIPTION),
      request_id: z.string(),
      next: NEXT_STEPS_SCHEMA,
    }),
  })
  .meta({ id: "Error", description: "An error in the format of the OpenAI API." });

const MessagesError = z
  .object({
    type: z.literal("error"),
    error: z.looseObject({
      type: ERROR_TYPE,
      message: ERROR_MESSAGE,
      code: ERROR_CODE,
      param: z.string().optional().describe(PARAM_DESCRIPTION),
      next: NEXT_STEPS_SCHEMA,
    }),
    request_id: z.string(),
  })
  .meta({
    id: "MessagesError",
    description: "An error in the format of the Anthropic Messages API.",
  });

const GoogleError = z
  .object({
    error: z.looseObject({
      code: z.int().meta({ description: "The HTTP status." }),
      message: ERROR_MESSAGE,
      status: z.string().meta({ description: "Google's name of the status." }),
      details: z
        .array(z.looseObject({ "@type": z.string().meta({ description: "What the detail is." }) }))
        .meta({
          description:
            "An `ErrorInfo` with the error code in capitals as `reason`, and a `RetryInfo`.",
        }),
      next: NEXT_STEPS_SCHEMA,
      request_id: z.string(),
    }),
  })
  .meta({ id: "GoogleError", description: "An error in the format of Google's APIs." });

const OauthError = z
  .looseObject({
    error: z.string().describe("An error code of RFC 6749 or RFC 8628."),
    error_description: z.string().optional(),
  })
  .meta({ id: "OAuthError", description: "An error in the format of RFC 6749." });

const JsonRpcError = z
  .object({
    jsonrpc: z.literal("2.0"),
    error: z.object({
      code: z.int(),
      message: ERROR_MESSAGE,
      data: z.looseObject({ code: ERROR_CODE, next: NEXT_STEPS_SCHEMA }).optional(),
    }),
    id: z
      .union([z.string(), z.number()])
      .nullish()
      .meta({ description: "The id of the request, if it could be read." }),
  })
  .meta({ id: "JsonRpcError", description: "An error in the format of JSON-RPC 2.0." });

const ScimError = z
  .object({
    schemas: z.array(z.string()),
    status: z.string().meta({ description: "The HTTP status." }),
    scimType: z
      .string()
      .optional()
      .meta({ description: "RFC 7644's keyword, such as `uniqueness`." }),
    detail: z.string(),
  })
  .meta({ id: "ScimError" });

export const ERROR_ENVELOPES: Readonly<Record<Dialect, z.ZodType | undefined>> = {
  openai: OpenAiError,
  messages: MessagesError,
  google: GoogleError,
  oauth: OauthError,
  jsonrpc: JsonRpcError,
  scim: ScimError,
  page: undefined,
};

/** All faults of a route: its own and those of authentication, validation and body reading. */
export function possibleFaults(route: Route): readonly FaultCode[] {
  const codes = new Set<FaultCode>([
    "internal",
    ...(isServedDuringShutdown(route) ? [] : (["overloaded"] as const)),
    ...route.faults,
  ]);
  const isValidated =
    route.params !== undefined || route.query !== undefined || route.body !== undefined;
  if (isValidated || requiresKey(route)) codes.add("invalid_request");
  if (requiresKey(route)) codes.add("invalid_api_key").add("forbidden").add("rate_limited");
  if (route.method !== "GET")
    codes.add("request_timeout").add("payload_too_large").add("rate_limited");
  if (route.body !== undefined) codes.add("unsupported_media_type");
  if (acceptsIdempotencyKey(route)) codes.add("conflict");
  // Safe because FaultCode is the keys of this table; `Object.keys` returns string[].
  return (Object.keys(FAULTS) as FaultCode[]).filter((code) => codes.has(code));
}

export function acceptsIdempotencyKey(route: Route): boolean {
  return route.method === "POST" && (route.write !== undefined || route.idempotent === true);
}

/** The body of an error response with this code. */
export function errorExample(code: FaultCode, dialect: Dialect): unknown {
  const fault = new Fault(code, "example", EXAMPLE_OPTIONS[code]);
  const format = dialect === "page" ? "openai" : dialect;
  return errorBody(format, publicError(fault), EXAMPLE_REQUEST_ID);
}

const EXAMPLE_OPTIONS: Readonly<Partial<Record<FaultCode, FaultOptions>>> = {
  invalid_request: { param: "limit", message: "`limit` must be a number." },
  model_not_found: { param: "model" },
};

const EXAMPLE_REQUEST_ID = "req_01jd8v6k3m0000000000000000";

/** Health checks and metrics are still served during shutdown. */
function isServedDuringShutdown(route: Route): boolean {
  return route.tag === "Operations";
}
