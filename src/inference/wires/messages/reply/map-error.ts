import type { FaultCode } from "../../../../base/fault.ts";
import { type CanonicalError, toCanonicalError } from "../../../canonical/error.ts";
import { type JsonObject, isObject, objectIn, stringIn } from "../../../../base/json.ts";

const CODE_BY_TYPE: Readonly<Record<string, readonly [FaultCode, number]>> = {
  invalid_request_error: ["invalid_request", 400],
  authentication_error: ["provider_not_configured", 503],
  billing_error: ["provider_not_configured", 503],
  permission_error: ["provider_not_configured", 503],
  not_found_error: ["model_not_found", 404],
  request_too_large: ["payload_too_large", 413],
  rate_limit_error: ["rate_limited", 429],
  timeout_error: ["upstream_timeout", 504],
  api_error: ["upstream_error", 500],
  overloaded_error: ["overloaded", 529],
};

const TYPE_BY_CODE = {
  invalid_request: "invalid_request_error",
  invalid_api_key: "authentication_error",
  insufficient_credits: "billing_error",
  payment_required: "billing_error",
  forbidden: "permission_error",
  key_limit_reached: "billing_error",
  workspace_budget_reached: "billing_error",
  workspace_frozen: "billing_error",
  not_found: "not_found_error",
  model_not_found: "not_found_error",
  method_not_allowed: "invalid_request_error",
  request_timeout: "timeout_error",
  conflict: "invalid_request_error",
  payload_too_large: "request_too_large",
  unsupported_media_type: "invalid_request_error",
  rate_limited: "rate_limit_error",
  internal: "api_error",
  upstream_error: "api_error",
  provider_not_configured: "api_error",
  overloaded: "overloaded_error",
  upstream_timeout: "timeout_error",
} as const satisfies Record<FaultCode, string>;

/** `{"type":"error","error":{type,message}}`; Vertex and Bedrock answer in their own clouds' forms. Status 200 is an error within a stream. */
export function readError(status: number, input: unknown): CanonicalError {
  const body = Array.isArray(input) ? (input[0] as unknown) : input; // Array.isArray gives any[].
  if (!isObject(body)) return toCanonicalError({ status, message: stringIn(body)?.trim() });
  const error = objectIn(body["error"]) ?? body;
  const type = stringIn(error["type"]) ?? stringIn(error["status"]);
  const known = type === undefined ? undefined : CODE_BY_TYPE[type];
  return toCanonicalError({
    status: status >= 400 ? status : (known?.[1] ?? 502),
    message: stringIn(error["message"]) ?? stringIn(body["message"]) ?? stringIn(body["error"]),
    nativeCode: type,
    code: known?.[0],
  });
}

export function writeError(error: CanonicalError, requestId: string): JsonObject {
  const { code, message, nativeCode, param, fields } = error;
  const type = TYPE_BY_CODE[code];
  return {
    type: "error",
    error: {
      type,
      message,
      code: nativeCode === "context_length_exceeded" ? nativeCode : code,
      param,
      ...(nativeCode === undefined ||
      nativeCode === type ||
      nativeCode === "context_length_exceeded"
        ? undefined
        : { provider_code: nativeCode }),
      ...fields,
    },
    request_id: requestId,
  };
}
