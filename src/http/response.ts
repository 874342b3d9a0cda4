// Turns a route's result or error into an HTTP response. The error envelope is that of the API that was called; only the
// public part of a Fault is sent.

import { awsErrorType, errorBody, type PublicError, publicError } from "../base/error-body.ts";
import { Fault } from "../base/fault.ts";
import { isUnavailable } from "../store/db.ts";
import type { ErrorDialect, RouteResponse, StepFilter } from "./route.ts";
import type { Scope } from "./scopes.ts";
import { withAllowedSteps } from "./step-filter.ts";

const UNAVAILABLE_RETRY_SECONDS = 1;

/** The API may be called from any page: it authenticates by key, never by cookie. */
export const CORS_HEADERS = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": "*",
} as const;

const withCommonHeaders = new WeakSet<Response>();

/** Marks a response that has the common headers already: reading its headers to find out costs far more. */
export function markCommonHeaders(response: Response): Response {
  withCommonHeaders.add(response);
  return response;
}

export function hasCommonHeaders(response: Response): boolean {
  return withCommonHeaders.has(response) || response.headers.has("x-request-id");
}

export interface ErrorContext {
  readonly dialect: ErrorDialect;
  readonly requestId: string;
  readonly baseUrl: string;
  /** Whether an API key was sent; only then `www-authenticate` names an error. */
  readonly isKeySent: boolean;
  /** The operator's support address, for internal errors. */
  readonly contact?: string | undefined;
  /** The page of the endpoint that was called. */
  readonly docsPath?: string | undefined;
  /** The scopes of the caller's key; undefined without a key. */
  readonly granted?: ReadonlySet<Scope> | undefined;
  readonly allowsStep?: StepFilter | undefined;
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
  const requestedHeaders = request.headers.get("access-control-request-headers") ?? "";
  const headers = new Headers({
    "access-control-allow-methods": "GET, POST, PATCH, DELETE",
    "access-control-max-age": "600",
  });
  if (/^[\w\-, ]{1,2000}$/.test(requestedHeaders))
    headers.set("access-control-allow-headers", requestedHeaders);
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
  if (isFinal(fault)) all.set("x-should-retry", "false");
  if (fault.status === 401 && !all.has("www-authenticate"))
    all.set("www-authenticate", challenge(context));
  if (context.dialect === "aws") {
    all.set("x-amzn-errortype", awsErrorType(fault.status));
    all.set("x-amzn-requestid", context.requestId);
  }
  if (context.dialect === "scim") all.set("content-type", "application/scim+json");
  if (context.dialect === "page") all.set("content-type", "text/plain; charset=utf-8");
  const body =
    context.dialect === "page"
      ? `${fault.publicMessage}\n\nRequest id: ${context.requestId}\n`
      : JSON.stringify(
          errorBody(context.dialect, errorWithSteps(fault, context), context.requestId),
        );
  return new Response(body, { status: fault.status, headers: all });
}

/** An internal error names the support address, if the operator has one. */
function errorWithSteps(fault: Fault, context: ErrorContext): PublicError {
  const { contact, docsPath, granted, allowsStep } = context;
  const error = withAllowedSteps(publicError(fault, docsPath), granted, allowsStep);
  if (fault.code !== "internal" || contact === undefined) return error;
  return { ...error, message: `${error.message} Support: ${contact}` };
}

/** SDKs and coding agents repeat these statuses unless a header says that it does not help: Claude Code repeats a 401 for minutes. */
function isFinal({ code, status, options: { retryAfterSeconds: wait, next } }: Fault): boolean {
  return (
    status === 401 ||
    code === "provider_not_configured" ||
    (code === "conflict" && wait === undefined) ||
    // It lasts until the caller has taken the step.
    (code === "internal" && next !== undefined)
  );
}

function challenge(context: ErrorContext): string {
  const metadata = `resource_metadata="${context.baseUrl}/.well-known/oauth-protected-resource"`;
  return context.isKeySent ? `Bearer error="invalid_token", ${metadata}` : `Bearer ${metadata}`;
}
