// Every error that can come back, and what an agent does about it. The codes are the table of faults, the envelopes are
// what `answerFault` writes; the examples are made by the same function that answers.

import { z } from "zod";
import { Fault, type FaultCode, FAULTS } from "../base/fault.ts";
import { errorBody } from "../http/response.ts";
import type { Dialect, Route } from "../http/route.ts";

export interface ErrorAdvice {
  /** Whether the same request may be sent again: never, after `retry-after`, or after a growing pause. */
  readonly retry: "no" | "after retry-after" | "with backoff";
  readonly next: string;
}

export const ERROR_ADVICE = {
  invalid_request: {
    retry: "no",
    next: "Mend the field that `param` names, then send the mended request.",
  },
  invalid_api_key: {
    retry: "no",
    next: "Stop using this key. Look for another one that you hold; if there is none, register.",
  },
  insufficient_credits: {
    retry: "no",
    next: "Ask for fewer tokens (`affordable_max_tokens` says how many fit), take a cheaper model, or buy credits.",
  },
  payment_required: {
    retry: "no",
    next: "Sign what the `PAYMENT-REQUIRED` header asks for, and send the request again with `PAYMENT-SIGNATURE`.",
  },
  forbidden: { retry: "no", next: "Use a key or a person that may do it, or leave it." },
  key_limit_reached: {
    retry: "no",
    next: "The account may still have credits: wait for the limit's window to end, or use another key. The limit can be raised: by the owner in the console where a human owns the account, otherwise with `PATCH /v1/keys/{id}`.",
  },
  workspace_budget_reached: {
    retry: "after retry-after",
    next: "The workspace may still have credits: its owner bounded what it spends in a day or a month. Wait until `budget_resets_at`, or ask the owner to raise the budget.",
  },
  workspace_frozen: {
    retry: "no",
    next: "Tell the human. With `owed_usd`, a bank took a payment back and its credits were spent: credits that are bought go to it first. With `frozen_by: operator`, the gateway's operator stopped the workspace, and only they lift it.",
  },
  not_found: {
    retry: "no",
    next: "Check the path against `/openapi.yaml` and the id against its list, where it has one.",
  },
  model_not_found: { retry: "no", next: "Take an id from `GET /v1/models`, provider and all." },
  method_not_allowed: { retry: "no", next: "Use a method that the `allow` header lists." },
  request_timeout: { retry: "with backoff", next: "Send the body again, in one go." },
  conflict: {
    retry: "no",
    next: "With an idempotency key: a new request needs a new one; a first request that still runs needs a second of patience. Otherwise read the record again.",
  },
  payload_too_large: { retry: "no", next: "Send a smaller body. The limits are listed below." },
  unsupported_media_type: { retry: "no", next: "Set `content-type` to what the endpoint takes." },
  rate_limited: {
    retry: "after retry-after",
    next: "Wait as many seconds as `retry-after` says, then go on more slowly.",
  },
  internal: {
    retry: "with backoff",
    next: "Try again a few times; then report the `x-request-id` to the operator.",
  },
  upstream_error: {
    retry: "with backoff",
    next: "Try again, after as many seconds as `retry-after` says where it is there, or use another model. A failed call costs nothing.",
  },
  provider_not_configured: {
    retry: "no",
    next: "Use another model, one whose `available` is true.",
  },
  overloaded: { retry: "after retry-after", next: "Wait as many seconds as `retry-after` says." },
  upstream_timeout: {
    retry: "with backoff",
    next: "Try again, ask for less, or use another model.",
  },
} as const satisfies Record<FaultCode, ErrorAdvice>;

interface TokenError {
  readonly error: string;
  readonly status: number;
  readonly meaning: string;
  readonly next: string;
}

/** What the token endpoint says, in the form of RFC 6749 and with the codes of RFC 8628. */
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
    meaning: "You poll too often.",
    next: "Add 5 seconds to `interval`, for good, then poll again.",
  },
  {
    error: "expired_token",
    status: 400,
    meaning: "The window of this attempt has closed.",
    next: "Ask the human whether they still want it; if so, start a new claim.",
  },
  {
    error: "access_denied",
    status: 400,
    meaning: "The human declined, or somebody else has claimed the account.",
    next: "Stop. Your key keeps working.",
  },
  {
    error: "invalid_request",
    status: 400,
    meaning: "A field is missing or wrong, or no claim was started.",
    next: "Mend the request, or start a claim first.",
  },
  {
    error: "unsupported_grant_type",
    status: 400,
    meaning: "`grant_type` is not the claim grant.",
    next: "Send exactly the `grant_type` shown on this page.",
  },
  {
    error: "invalid_client",
    status: 401,
    meaning: "The API key is missing, invalid or revoked.",
    next: "As for `invalid_api_key`.",
  },
  {
    error: "temporarily_unavailable",
    status: 503,
    meaning: "The gateway is busy; or, with status 429, this key calls too often.",
    next: "Wait as many seconds as `retry-after` says.",
  },
  {
    error: "server_error",
    status: 500,
    meaning: "Something went wrong on our side.",
    next: "Poll again after a pause.",
  },
];

const NextStepSchema = z
  .object({
    method: z.enum(["GET", "POST", "PATCH", "DELETE"]),
    url: z.string(),
    body: z.record(z.string(), z.unknown()).optional().describe("An example of the body to send."),
    why: z.string(),
  })
  .meta({
    id: "NextStep",
    description: "One thing that the caller can do next, as data that a program can act on.",
  });

const ERROR_CODE = z
  .enum(Object.keys(FAULTS))
  .describe("What went wrong, as a stable code to act on.");
const ERROR_MESSAGE = z
  .string()
  .describe("What went wrong and what to do, for a human or a model to read.");
const PARAM_DESCRIPTION = "The field or header that is wrong.";
const NEXT_STEPS_SCHEMA = z
  .array(NextStepSchema)
  .optional()
  .describe("What the caller can do next.");
const ERROR_TYPE = z
  .string()
  .describe("The family of the code, in the words of the API that was called.");

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
  .meta({ id: "Error", description: "An error in the form of the OpenAI API." });

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
    description: "An error in the form of the Anthropic Messages API.",
  });

const OauthError = z
  .looseObject({
    error: z.string().describe("RFC 6749's and RFC 8628's code."),
    error_description: z.string().optional(),
  })
  .meta({ id: "OAuthError", description: "An error in the form of RFC 6749." });

export const ERROR_ENVELOPES: Readonly<Record<Dialect, z.ZodType | undefined>> = {
  openai: OpenAiError,
  messages: MessagesError,
  oauth: OauthError,
  page: undefined,
};

/** The faults of a route: its own, and those that matching, guarding and reading it can give. */
export function possibleFaults(route: Route): readonly FaultCode[] {
  const codes = new Set<FaultCode>([
    "internal",
    ...(isServedDuringShutdown(route) ? [] : (["overloaded"] as const)),
    ...route.faults,
  ]);
  const isValidated =
    route.params !== undefined || route.query !== undefined || route.body !== undefined;
  if (isValidated || route.auth === "key") codes.add("invalid_request");
  if (route.auth === "key") codes.add("invalid_api_key").add("rate_limited");
  if (route.method !== "GET") codes.add("request_timeout").add("payload_too_large");
  if (route.body !== undefined) codes.add("unsupported_media_type");
  if (acceptsIdempotencyKey(route)) codes.add("conflict");
  // Safe because the table's keys are what the type is made of; `Object.keys` forgets them.
  return (Object.keys(FAULTS) as FaultCode[]).filter((code) => codes.has(code));
}

export function acceptsIdempotencyKey(route: Route): boolean {
  return route.method === "POST" && (route.write !== undefined || route.idempotent === true);
}

/** What `answerFault` would write, with the fields filled in that this code comes with. */
export function errorExample(code: FaultCode, dialect: Dialect, baseUrl: string): unknown {
  const fault = new Fault(
    code,
    "example",
    code === "invalid_request" ? { param: "limit", message: "limit: expected a number" } : {},
  );
  return errorBody(fault, { dialect, requestId: EXAMPLE_REQUEST_ID, baseUrl, isKeySent: true });
}

const EXAMPLE_REQUEST_ID = "req_01jd8v6k3m0000000000000000";

/** Operations are answered while the service shuts down: that is when they matter. */
function isServedDuringShutdown(route: Route): boolean {
  return route.tag === "Operations";
}
