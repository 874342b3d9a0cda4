// Turns a route's result or error into an HTTP response. The error envelope is that of the API that was called; only the
// public part of a Fault is sent.

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

/** RFC 6749's error codes; it has none for a missing configuration. */
const OAUTH_ERRORS: Readonly<Partial<Record<FaultCode, string>>> = {
  invalid_api_key: "invalid_client",
  rate_limited: "temporarily_unavailable",
  overloaded: "temporarily_unavailable",
  internal: "server_error",
  provider_not_configured: "provider_not_configured",
};

/** The API may be called from any page: it authenticates by key, never by cookie. */
export const CORS_HEADERS = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": "*",
} as const;

export interface ErrorContext {
  readonly dialect: Dialect;
  readonly requestId: string;
  readonly baseUrl: string;
  /** Whether an API key was sent; only then `www-authenticate` names an error. */
  readonly isKeySent: boolean;
}

export function toFault(error: unknown): Fault {
  if (error instanceof Fault) return error;
  // 503, because clients retry it and the store may be back.
  if (isUnavailable(error))
    return new Fault("overloaded", "store unavailable", {
      retryAfterSeconds: UNAVAILABLE_RETRY_SECONDS,
      cause: error,
    });
  return new Fault("internal", "unexpected error", { cause: error });
}

export function jsonResponse(response: RouteResponse): Response {
  return new Response(JSON.stringify(response.body), {
    status: response.status,
    headers: { "content-type": "application/json", ...response.headers },
  });
}

/** Answers the CORS preflight request. */
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

/** The error object of a response, or of the last event of a failed stream. */
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

/** RFC 6749 §5.2 allows printable ASCII without quotes and backslashes in `error_description`. */
function toOauthAscii(message: string): string {
  return message.replaceAll(/["\\]/g, "'").replaceAll(/[^\u{20}-\u{7e}]/gu, "?");
}
