import {
  type CanonicalError,
  type ErrorCode,
  toCanonicalError,
} from "../../canonical/canonical-error.ts";
import { isObject, objectIn, stringIn, lookUp } from "../../json-fields.ts";

const CODE_BY_TYPE: Readonly<Record<string, readonly [ErrorCode, number]>> = {
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

/** Anthropic sends `{"type":"error","error":{type,message}}`, Vertex and Bedrock their own forms. A stream has status 200. */
export function readError(status: number, input: unknown): CanonicalError {
  const body = Array.isArray(input) ? (input[0] as unknown) : input; // Array.isArray gives any[].
  if (!isObject(body)) return toCanonicalError({ status, message: stringIn(body)?.trim() });
  const error = objectIn(body["error"]) ?? body;
  const type = stringIn(error["type"]) ?? stringIn(error["status"]);
  const known = type === undefined ? undefined : lookUp(CODE_BY_TYPE, type);
  return toCanonicalError({
    status: status >= 400 ? status : (known?.[1] ?? 502),
    message: stringIn(error["message"]) ?? stringIn(body["message"]) ?? stringIn(body["error"]),
    nativeCode: type,
    code: known?.[0],
  });
}
