// Reads the errors of OpenAI's two APIs, from OpenAI and from compatible servers.

import type { ResponseError } from "openai/resources/responses/responses";
import {
  type CanonicalError,
  type ErrorCode,
  toCanonicalError,
} from "./canonical/canonical-error.ts";
import { isObject, objectIn, stringIn, lookUp } from "./json-fields.ts";

const CODE_BY_RESPONSE_ERROR: Readonly<Record<ResponseError["code"], ErrorCode>> = {
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
};

/** Also OpenAI's unlisted codes, and those of Mistral, xAI, Perplexity, llama.cpp and others. */
const CODE_BY_PROVIDER_CODE: Readonly<Record<string, ErrorCode>> = {
  ...CODE_BY_RESPONSE_ERROR,
  model_not_found: "model_not_found",
  invalid_model: "model_not_found",
  model_not_supported: "model_not_found",
  insufficient_quota: "provider_not_configured",
  invalid_api_key: "provider_not_configured",
  billing_hard_limit_reached: "provider_not_configured",
  context_length_exceeded: "invalid_request",
  invalid_encrypted_content: "invalid_request",
  server_is_overloaded: "overloaded",
  slow_down: "overloaded",
  exceed_context_size_error: "invalid_request",
  too_many_prompt_tokens: "invalid_request",
  overloaded: "overloaded",
  engine_overloaded: "overloaded",
  rate_limited: "rate_limited",
  upstream_timeout: "upstream_timeout",
};

/** Statuses for errors within a stream, which has status 200. */
const STATUS_BY_CODE: Readonly<Partial<Record<ErrorCode, number>>> = {
  invalid_request: 400,
  rate_limited: 429,
  overloaded: 503,
};

/** Servers send `{"error":{…}}`, `{"error":"…"}`, `{"message":"…"}`, `{"detail":…}`, or a list of one of these. */
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
  const code = errorCodeOf(nativeCode, message);
  const stated = [error["code"], error["status"], error["status_code"]].find(
    (one) => typeof one === "number",
  );
  const implied = code === undefined ? undefined : STATUS_BY_CODE[code];
  return toCanonicalError({
    status: status >= 400 ? status : (stated ?? implied ?? status),
    message,
    // The type of the Responses API's event is not a code.
    nativeCode: nativeCode === "error" ? undefined : nativeCode,
    param: stringIn(error["param"]),
    code,
  });
}

function errorCodeOf(nativeCode: string | undefined, message = ""): ErrorCode | undefined {
  // xAI uses one code for both of these.
  if (nativeCode === "invalid-argument") {
    if (/^incorrect api key/i.test(message)) return "provider_not_configured";
    if (/^model not found/i.test(message)) return "model_not_found";
  }
  return nativeCode === undefined ? undefined : lookUp(CODE_BY_PROVIDER_CODE, nativeCode);
}

function nonNumericString(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" && !/^\d+$/.test(value) ? value : undefined;
}

// FastAPI servers put a list of validation errors here.
function messageOf(detail: unknown): string | undefined {
  if (typeof detail === "string") return detail;
  if (isObject(detail)) return stringIn(detail["message"]);
  if (!Array.isArray(detail)) return undefined;
  return stringIn(objectIn(detail[0])?.["msg"]);
}
