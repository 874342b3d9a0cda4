// The JSON of an error, in the form of the API that was called. Responses and events within a stream both use it.

import { type Fault, type FaultCode, FAULTS, nextStepsOf, type NextStep } from "./fault.ts";
import type { JsonObject } from "./json.ts";

/** The public part of an error. */
export interface PublicError {
  readonly code: FaultCode;
  readonly message: string;
  readonly param?: string | undefined;
  readonly isUnknownField?: boolean | undefined;
  /** Further fields of the error object, such as `provider`. */
  readonly fields?: JsonObject | undefined;
  readonly next?: readonly NextStep[] | undefined;
}

/** OpenAI's envelope, Anthropic's, RFC 6749's flat one, JSON-RPC's, Google's, AWS's, or SCIM's. */
export type ErrorFormat = "openai" | "messages" | "oauth" | "jsonrpc" | "google" | "aws" | "scim";

const ERROR_TYPES: Readonly<Record<FaultCode, string>> = {
  invalid_request: "invalid_request_error",
  invalid_api_key: "authentication_error",
  insufficient_credits: "billing_error",
  payment_required: "billing_error",
  forbidden: "permission_error",
  proof_of_work_required: "permission_error",
  key_limit_reached: "permission_error",
  session_limit_reached: "permission_error",
  session_stopped: "permission_error",
  workspace_budget_reached: "permission_error",
  workspace_frozen: "billing_error",
  guardrail_denied: "permission_error",
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

/** Google's names of statuses, which its SDKs and agents read. */
const GOOGLE_STATUSES: Readonly<Record<number, string>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  402: "FAILED_PRECONDITION",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  405: "UNIMPLEMENTED",
  408: "DEADLINE_EXCEEDED",
  409: "ABORTED",
  413: "INVALID_ARGUMENT",
  415: "INVALID_ARGUMENT",
  429: "RESOURCE_EXHAUSTED",
  500: "INTERNAL",
  502: "UNAVAILABLE",
  503: "UNAVAILABLE",
  504: "DEADLINE_EXCEEDED",
};
const GOOGLE_TYPES = "type.googleapis.com/google.rpc";

/** Bedrock's names of the statuses that a path without a route can have. */
const AWS_EXCEPTIONS: Readonly<Record<number, string>> = {
  404: "ResourceNotFoundException",
  429: "ThrottlingException",
  503: "ServiceUnavailableException",
};

/** RFC 7644's detail error keywords. */
const SCIM_TYPES: Readonly<Partial<Record<FaultCode, string>>> = {
  invalid_request: "invalidSyntax",
  conflict: "uniqueness",
};

export function publicError(fault: Fault, docsPath?: string): PublicError {
  const { param, isUnknownField, next = nextStepsOf(fault.code, docsPath) } = fault.options;
  const { headers, retryAfterSeconds: wait = secondsOf(headers?.["retry-after"]) } = fault.options;
  const fields =
    wait === undefined
      ? fault.options.fields
      : { retry_after_seconds: Math.max(1, Math.ceil(wait)), ...fault.options.fields };
  return { code: fault.code, message: fault.publicMessage, param, isUnknownField, fields, next };
}

/** A provider may also name a date. */
function secondsOf(retryAfter: string | undefined): number | undefined {
  return retryAfter !== undefined && /^\d{1,9}$/.test(retryAfter) ? Number(retryAfter) : undefined;
}

/** The body of an error response, and of an error event of Chat Completions or Messages. */
export function errorBody(format: ErrorFormat, error: PublicError, requestId: string): JsonObject {
  const { code, message, fields, next } = error;
  switch (format) {
    case "messages":
      return {
        type: "error",
        error: errorObject(format, error, requestId),
        request_id: requestId,
      };
    case "oauth":
      return {
        error: OAUTH_ERRORS[code] ?? "invalid_request",
        error_description: toOauthAscii(message),
        code,
        request_id: requestId,
        ...fields,
        next,
      };
    case "jsonrpc":
      // The request was refused before it was read as JSON-RPC, so its id is not known.
      return {
        jsonrpc: "2.0",
        error: { code: jsonRpcCode(code), message, data: openaiError(error, requestId) },
      };
    case "google":
      return { error: googleError(error, requestId) };
    case "scim":
      return {
        schemas: ["urn:ietf:params:scim:api:messages:2.0:Error"],
        status: String(FAULTS[code][0]),
        scimType: fields?.["scimType"] ?? SCIM_TYPES[code],
        detail: message,
      };
    case "aws":
      return { message, next, request_id: requestId };
    case "openai":
      return { error: openaiError(error, requestId) };
  }
}

/** Anthropic's errors begin with the path of the field (`messages.1.content: …`), which its clients look for to recover. */
function anthropicMessage({ code, message, param, isUnknownField, fields }: PublicError): string {
  const isProviders = fields?.["provider"] !== undefined;
  if (code !== "invalid_request" || param === undefined || isProviders) return message;
  const path = param.replaceAll(/\[(\d+)\]/g, ".$1");
  return isUnknownField === true
    ? `${path}: Extra inputs are not permitted\n${message}`
    : `${path}: ${message}`;
}

/** AWS has the name of an error in a header, where its SDKs read it. */
export function awsErrorType(status: number): string {
  return (
    AWS_EXCEPTIONS[status] ?? (status < 500 ? "ValidationException" : "InternalServerException")
  );
}

/** JSON-RPC's codes for an invalid request and an internal error, and one of those left to the server. */
function jsonRpcCode(code: FaultCode): number {
  if (code === "invalid_request") return -32_600;
  return code === "internal" ? -32_603 : -32_000;
}

/** The error object within OpenAI's or Anthropic's envelope. */
export function errorObject(
  format: ErrorFormat,
  error: PublicError,
  requestId: string,
): JsonObject {
  if (format === "google") return googleError(error, requestId);
  if (format !== "messages") return openaiError(error, requestId);
  const { code, param, fields, next } = error;
  const type = ERROR_TYPES[code];
  return { type, message: anthropicMessage(error), code, param, ...fields, next };
}

/** Google's clients read the status, and the seconds to wait from `details`. */
function googleError(error: PublicError, requestId: string): JsonObject {
  const { code, message, param, fields, next } = error;
  const [httpStatus] = FAULTS[code];
  const wait = fields?.["retry_after_seconds"];
  const info = {
    "@type": `${GOOGLE_TYPES}.ErrorInfo`,
    reason: code.toUpperCase(),
    domain: "postern",
    metadata: param === undefined ? {} : { field: param },
  };
  const retry = { "@type": `${GOOGLE_TYPES}.RetryInfo`, retryDelay: `${String(wait)}s` };
  return {
    code: httpStatus,
    message,
    status: GOOGLE_STATUSES[httpStatus] ?? "UNKNOWN",
    details: wait === undefined ? [info] : [info, retry],
    ...fields,
    next,
    request_id: requestId,
  };
}

function openaiError(error: PublicError, requestId: string): JsonObject {
  const { code, message, param = null, fields, next } = error;
  const type = ERROR_TYPES[code];
  return { message, type, code, param, request_id: requestId, ...fields, next };
}

/** RFC 6749 §5.2 allows printable ASCII without quotes and backslashes in `error_description`. */
function toOauthAscii(message: string): string {
  return message.replaceAll(/["\\]/g, "'").replaceAll(/[^\u{20}-\u{7e}]/gu, "?");
}
