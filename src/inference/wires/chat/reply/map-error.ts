import type { FaultCode } from "../../../../base/fault.ts";
import { type CanonicalError, toCanonicalError } from "../../../canonical/error.ts";
import { type JsonObject, isObject, objectIn, stringIn } from "../../../../base/json.ts";

// The words of many servers: OpenAI's codes first, then those of Mistral, xAI, Perplexity, llama.cpp and others.
const CODE_BY_PROVIDER_CODE: Readonly<Record<string, FaultCode>> = {
  model_not_found: "model_not_found",
  invalid_model: "model_not_found",
  model_not_supported: "model_not_found",
  insufficient_quota: "provider_not_configured",
  invalid_api_key: "provider_not_configured",
  billing_hard_limit_reached: "provider_not_configured",
  rate_limit_exceeded: "rate_limited",
  context_length_exceeded: "invalid_request",
  exceed_context_size_error: "invalid_request",
  too_many_prompt_tokens: "invalid_request",
  server_error: "upstream_error",
  overloaded: "overloaded",
  engine_overloaded: "overloaded",
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

/** Servers answer `{"error":{…}}`, `{"error":"…"}`, `{"message":"…"}`, `{"detail":…}`, or a list of one of these. */
export function readError(status: number, input: unknown): CanonicalError {
  const body = Array.isArray(input) ? (input[0] as unknown) : input; // Array.isArray gives any[].
  if (!isObject(body)) return toCanonicalError({ status, message: stringIn(body)?.trim() });
  const error = objectIn(body["error"]) ?? body;
  const nativeCode =
    nonNumericString(error["code"]) ??
    nonNumericString(error["type"]) ??
    nonNumericString(body["code"]);
  const stated = typeof error["code"] === "number" ? error["code"] : error["status_code"];
  const known = nativeCode === undefined ? undefined : CODE_BY_PROVIDER_CODE[nativeCode];
  return toCanonicalError({
    status: status >= 400 || typeof stated !== "number" ? status : stated,
    message: stringIn(error["message"]) ?? stringIn(body["error"]) ?? messageOf(body["detail"]),
    nativeCode,
    param: stringIn(error["param"]),
    code: known,
  });
}

export function writeError(error: CanonicalError, requestId: string): JsonObject {
  const { code, nativeCode } = error;
  const full = nativeCode === "context_length_exceeded";
  return {
    error: {
      message: error.message,
      type: TYPE_BY_CODE[code],
      code: full ? nativeCode : code,
      param: error.param ?? null,
      ...(nativeCode === undefined || full ? undefined : { provider_code: nativeCode }),
      ...error.fields,
    },
    request_id: requestId,
  };
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
