import type { ResponseError } from "openai/resources/responses/responses";
import type { FaultCode } from "../../../../base/fault.ts";
import { type CanonicalError, toCanonicalError } from "../../../canonical/error.ts";
import { type JsonObject, isObject, objectIn, stringIn } from "../../../../base/json.ts";

// The codes of a failed response first, then those that come with a status, from OpenAI and from others of this API.
const CODE_BY_PROVIDER_CODE: Readonly<Record<string, FaultCode>> = {
  server_error: "upstream_error",
  rate_limit_exceeded: "rate_limited",
  invalid_prompt: "invalid_request",
  data_residency_mismatch: "invalid_request",
  bio_policy: "invalid_request",
  misalignment_policy_violation: "invalid_request",
  vector_store_timeout: "upstream_timeout",
  invalid_image: "invalid_request",
  invalid_image_format: "invalid_request",
  invalid_base64_image: "invalid_request",
  invalid_image_url: "invalid_request",
  image_too_large: "invalid_request",
  image_too_small: "invalid_request",
  image_parse_error: "invalid_request",
  image_content_policy_violation: "invalid_request",
  invalid_image_mode: "invalid_request",
  image_file_too_large: "invalid_request",
  unsupported_image_media_type: "invalid_request",
  empty_image_file: "invalid_request",
  failed_to_download_image: "invalid_request",
  image_file_not_found: "invalid_request",
  ...({
    model_not_found: "model_not_found",
    invalid_model: "model_not_found",
    model_not_supported: "model_not_found",
    insufficient_quota: "provider_not_configured",
    invalid_api_key: "provider_not_configured",
    billing_hard_limit_reached: "provider_not_configured",
    context_length_exceeded: "invalid_request",
    exceed_context_size_error: "invalid_request",
    invalid_encrypted_content: "invalid_request",
    overloaded: "overloaded",
    server_is_overloaded: "overloaded",
    slow_down: "overloaded",
    rate_limited: "rate_limited",
    upstream_timeout: "upstream_timeout",
  } satisfies Record<string, FaultCode>),
} satisfies Record<ResponseError["code"], FaultCode> & Record<string, FaultCode>;

// A failure within a stream comes with status 200; these are the statuses that it would have had.
const STATUS_BY_CODE: Partial<Record<FaultCode, number>> = {
  invalid_request: 400,
  rate_limited: 429,
  overloaded: 503,
};

const TYPE_BY_CODE = {
  invalid_request: "invalid_request_error",
  invalid_api_key: "authentication_error",
  insufficient_credits: "insufficient_quota",
  payment_required: "insufficient_quota",
  forbidden: "permission_error",
  key_limit_reached: "insufficient_quota",
  workspace_budget_reached: "insufficient_quota",
  workspace_frozen: "insufficient_quota",
  not_found: "not_found_error",
  model_not_found: "invalid_request_error",
  method_not_allowed: "invalid_request_error",
  request_timeout: "timeout_error",
  conflict: "conflict_error",
  payload_too_large: "invalid_request_error",
  unsupported_media_type: "invalid_request_error",
  rate_limited: "rate_limit_error",
  internal: "server_error",
  upstream_error: "server_error",
  provider_not_configured: "server_error",
  overloaded: "server_error",
  upstream_timeout: "server_error",
} as const satisfies Record<FaultCode, string>;

/** Answers are `{"error":{…}}`, `{"code","error":"…"}`, `{"message":"…"}`, `{"detail":…}`, or a list of one of these. */
export function readError(status: number, input: unknown): CanonicalError {
  const body = Array.isArray(input) ? (input[0] as unknown) : input; // Array.isArray gives any[].
  if (!isObject(body)) return toCanonicalError({ status, message: stringIn(body)?.trim() });
  const error = objectIn(body["error"]) ?? body;
  const nativeCode =
    nonNumericString(error["code"]) ??
    nonNumericString(error["type"]) ??
    nonNumericString(body["code"]);
  const message =
    stringIn(error["message"]) ?? stringIn(body["error"]) ?? messageOf(body["detail"]);
  const code = codeOf(nativeCode, message);
  const stated = error["code"] ?? error["status"];
  const implied = code === undefined ? undefined : STATUS_BY_CODE[code];
  return toCanonicalError({
    status: status >= 400 ? status : typeof stated === "number" ? stated : (implied ?? status),
    message,
    nativeCode: nativeCode === "error" ? undefined : nativeCode,
    param: stringIn(error["param"]),
    code,
  });
}

export function writeError(error: CanonicalError, requestId: string): JsonObject {
  return { error: errorBody(error), request_id: requestId };
}

/** The error object of the envelope; an `error` event carries it too. */
export function errorBody(error: CanonicalError): JsonObject {
  const { code, nativeCode } = error;
  const full = nativeCode === "context_length_exceeded";
  return {
    message: error.message,
    type: TYPE_BY_CODE[code],
    code: full ? nativeCode : code,
    param: error.param ?? null,
    ...(nativeCode === undefined || full ? undefined : { provider_code: nativeCode }),
    ...error.fields,
  };
}

/** The error within a failed response, whose codes are a short list; clients tell a full context and a limit by them. */
export function failedError(error: CanonicalError): JsonObject {
  return { code: failedCode(error), message: error.message };
}

function failedCode({ code, nativeCode }: CanonicalError): string {
  if (nativeCode === "context_length_exceeded") return nativeCode;
  if (code === "rate_limited") return "rate_limit_exceeded";
  return code === "invalid_request" ? "invalid_prompt" : "server_error";
}

// xAI says both of these with one code.
function codeOf(nativeCode: string | undefined, message = ""): FaultCode | undefined {
  if (nativeCode === "invalid-argument") {
    if (/^incorrect api key/i.test(message)) return "provider_not_configured";
    if (/^model not found/i.test(message)) return "model_not_found";
  }
  return nativeCode === undefined ? undefined : CODE_BY_PROVIDER_CODE[nativeCode];
}

function nonNumericString(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" && !/^\d+$/.test(value) ? value : undefined;
}

// FastAPI servers put a list of complaints here.
function messageOf(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  if (isObject(value)) return stringIn(value["message"]);
  if (!Array.isArray(value)) return undefined;
  return stringIn(objectIn(value[0])?.["msg"]);
}
