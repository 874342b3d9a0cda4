// The error of a failed stream, in the form of the API that is written.

import type { CanonicalError } from "./canonical/canonical-error.ts";
import { type JsonObject, lookUp } from "./json-fields.ts";

/** The error as the caller's gateway states it, or by its code and message. */
export function errorObject({ object, code, message, param }: CanonicalError): JsonObject {
  return object ?? { type: "api_error", code, message, param };
}

/** The fields of the Responses API's `error` event: OpenAI documents them flat and sends them nested, so both are given. */
export function responsesErrorFields(error: JsonObject): JsonObject {
  return { code: error["code"], message: error["message"], param: error["param"] ?? null, error };
}

/**
 * The error of a failed response, whose codes are OpenAI's short list: clients look for a full context and a rate
 * limit.
 */
export function failedResponseError(error: JsonObject): JsonObject {
  return { ...error, code: lookUp(RESPONSE_ERROR_CODES, String(error["code"])) ?? "server_error" };
}

const RESPONSE_ERROR_CODES: Readonly<Record<string, string>> = {
  context_length_exceeded: "context_length_exceeded",
  rate_limited: "rate_limit_exceeded",
  invalid_request: "invalid_prompt",
};
