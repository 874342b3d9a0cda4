// Turns what a route answers, and what it throws, into HTTP. The envelope of an error belongs to the API that was
// called; only a Fault's public part ever leaves.

import { Fault, type FaultCode, NEXT_STEPS } from "../base/fault.ts";
import { isUnavailable } from "../store/db.ts";
import type { RouteResponse, Dialect } from "./route.ts";

const UNAVAILABLE_RETRY_SECONDS = 1;

const ERROR_TYPES: Readonly<Record<FaultCode, string>> = {
  invalid_request: "invalid_request_error",
  invalid_api_key: "authentication_error",
  insufficient_credits: "billing_error",
  payment_required: "billing_error",
  forbidden: "permission_error",
  key_limit_reached: "permission_error",
  workspace_budget_reached: "permission_error",
  workspace_frozen: "billing_error",
  not_found: "not_found_error",
  model_not_found: "not_found_error",
  method_not_allowed: "invalid_request_error",
  request_timeout: "invalid_request_error",
  conflict: "invalid_request_error",
  payload_too_large: "request_too_large",
  unsupported_media_type: "invalid_request_error",
  rate_limited: "rate_limit_error",
  internal: "api_error",
  upstream_error: "api_error",
  provider_not_configured: "api_error",
  overloaded: "overloaded_error",
  upstream_timeout: "timeout_error",
};

/** RFC 6749's own codes, for the endpoints that speak it; it has none for what only the operator can mend. */
const OAUTH_ERRORS: Readonly<Partial<Record<FaultCode, string>>> = {
  invalid_api_key: "invalid_client",
  rate_limited: "temporarily_unavailable",
  overloaded: "temporarily_unavailable",
  internal: "server_error",
  provider_not_configured: "provider_not_configured",
};

/** Any page may call the API from a browser: it is a key that counts, and never a cookie. Development closes this again. */
export const CORS_HEADERS = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": "*",
} as const;

export interface ErrorContext {
  readonly dialect: Dialect;
  readonly requestId: string;
  readonly baseUrl: string;
  /** Whether a key was sent: a challenge names an error only then. */
  readonly isKeySent: boolean;
}

export function toFault(error: unknown): Fault {
  if (error instanceof Fault) return error;
  // The same request may succeed in a moment, and clients are told so: they try again what is a 503.
  if (isUnavailable(error))
    return new Fault("overloaded", "the store cannot be used", {
      retryAfterSeconds: UNAVAILABLE_RETRY_SECONDS,
      cause: error,
    });
  return new Fault("internal", "unexpected", { cause: error });
}

export function jsonResponse(response: RouteResponse): Response {
  return new Response(JSON.stringify(response.body), {
    status: response.status,
    headers: { "content-type": "application/json", ...response.headers },
  });
}

/** What a browser asks before it sends a call from another origin. */
export function preflightResponse(request: Request): Response {
  const wanted = request.headers.get("access-control-request-headers") ?? "";
  const headers = new Headers({
    "access-control-allow-methods": "GET, POST, PATCH, DELETE",
    "access-control-max-age": "600",
  });
  if (/^[\w\-, ]{1,2000}$/.test(wanted)) headers.set("access-control-allow-headers", wanted);
  return new Response(null, { status: 204, headers });
}

export function faultResponse(fault: Fault, context: ErrorContext): Response {
  const { retryAfterSeconds, headers } = fault.options;
  const all = new Headers({
    "content-type": "application/json",
    "cache-control": "no-store",
    ...headers,
  });
  if (retryAfterSeconds !== undefined)
    all.set("retry-after", String(Math.max(1, Math.ceil(retryAfterSeconds))));
  if (fault.status === 401) all.set("www-authenticate", challenge(context));
  if (context.dialect === "page") all.set("content-type", "text/plain; charset=utf-8");
  const body =
    context.dialect === "page"
      ? `${fault.publicMessage}\n\nRequest id: ${context.requestId}\n`
      : JSON.stringify(errorBody(fault, context));
  return new Response(body, { status: fault.status, headers: all });
}

/** The error object itself, for answers and for the last event of a stream that fails. */
export function errorBody(fault: Fault, context: ErrorContext): unknown {
  const { param, fields, next = NEXT_STEPS[fault.code] } = fault.options;
  const type = ERROR_TYPES[fault.code];
  const steps = next === undefined ? {} : { next };
  switch (context.dialect) {
    case "messages":
      return {
        type: "error",
        error: {
          type,
          message: fault.publicMessage,
          code: fault.code,
          ...(param === undefined ? {} : { param }),
          ...fields,
          ...steps,
        },
        request_id: context.requestId,
      };
    case "oauth":
      return {
        error: OAUTH_ERRORS[fault.code] ?? "invalid_request",
        error_description: toOauthAscii(fault.publicMessage),
        ...fields,
      };
    case "openai":
    case "page":
      return {
        error: {
          message: fault.publicMessage,
          type,
          code: fault.code,
          param: param ?? null,
          request_id: context.requestId,
          ...fields,
          ...steps,
        },
      };
  }
}

function challenge(context: ErrorContext): string {
  const metadata = `resource_metadata="${context.baseUrl}/.well-known/oauth-protected-resource"`;
  return context.isKeySent ? `Bearer error="invalid_token", ${metadata}` : `Bearer ${metadata}`;
}

/** RFC 6749 allows printable ASCII in a description, without quotes and backslashes. */
function toOauthAscii(sentence: string): string {
  return sentence.replaceAll(/["\\]/g, "'").replaceAll(/[^\u{20}-\u{7e}]/gu, "?");
}
