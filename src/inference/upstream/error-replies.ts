// Recognizes errors that providers send with status 200: in a whole reply, or as the first event of a stream.

import type { SseMessage } from "@postern/wires";
import { isObject, type JsonObject, objectIn, parseObject, stringIn } from "../../base/json.ts";

/** The HTTP statuses of Bedrock's exceptions outside a stream. */
export const BEDROCK_EXCEPTION_STATUSES: Readonly<Record<string, number>> = {
  throttlingException: 429,
  validationException: 400,
  serviceUnavailableException: 503,
  modelTimeoutException: 504,
  modelStreamErrorException: 502,
  internalServerException: 500,
};

export function errorDataOf({ name, data }: SseMessage): string | undefined {
  const isNamed = name === "error" || name.endsWith("Exception");
  if (!isNamed && !data.includes('"error"')) return undefined;
  const json = parseObject(data);
  return isNamed || (json !== undefined && isErrorReply(json)) ? data : undefined;
}

/**
 * The status of an error that came with status 200: the one that it states, otherwise that of its code. A mistake of the
 * caller must not look like a failure of the provider.
 */
export function statusInError(data: string): number {
  const body = parseObject(data);
  const error = body === undefined ? undefined : errorIn(body);
  const words = [body, error].flatMap((object) =>
    object === undefined ? [] : STATUS_MEMBERS.map((member) => object[member]),
  );
  const message = stringIn(error?.["message"]) ?? stringIn(body?.["error"]) ?? "";
  const stated = words.map(statedStatus).find((status) => status !== undefined);
  if (stated !== undefined) return stated;
  const inMessage = /^<(4\d\d)>/.exec(message)?.[1];
  if (inMessage !== undefined) return Number(inMessage);
  for (const word of words)
    for (const [pattern, status] of STATUS_BY_WORD)
      if (typeof word === "string" && pattern.test(word)) return status;
  return /overloaded/i.test(data) ? 529 : 502;
}

const STATUS_MEMBERS = ["status_code", "status", "code", "type"] as const;

/** Error codes and types of the APIs, the more specific first. */
const STATUS_BY_WORD: readonly (readonly [pattern: RegExp, status: number])[] = [
  [/^(invalid_api_key|authentication_error|unauthenticated)$/i, 401],
  [/^(permission_error|permission_denied)$/i, 403],
  [/^(insufficient_quota|billing_hard_limit_reached|billing_error)$/i, 402],
  [/^(model_not_found|not_found_error|not_found|invalid_model)$/i, 404],
  [/^request_too_large$/i, 413],
  [/^(rate_limit|rate_limited|resource_exhausted|throttl)/i, 429],
  [/overloaded/i, 529],
  [/^(invalid|bad_?request|context_length|content_filter|content_policy|data_?inspection)/i, 400],
];

/** Alibaba and others put the status into the text of a code, as in `<400> InternalError.Algo.InvalidParameter`. */
function statedStatus(value: unknown): number | undefined {
  if (typeof value === "number") return value >= 400 && value < 600 ? value : undefined;
  const match = typeof value === "string" ? /^<?([45]\d\d)\b/.exec(value) : null;
  return match === null ? undefined : Number(match[1]);
}

function errorIn(body: JsonObject): JsonObject | undefined {
  const { error, choices } = body;
  if (isObject(error)) return error;
  const failed = Array.isArray(choices) ? choices.find(isFailedChoice) : undefined;
  return isObject(failed) ? objectIn(failed["error"]) : undefined;
}

export function isErrorReply(json: JsonObject): boolean {
  const { error, output, choices } = json;
  if (json["type"] === "error") return true;
  if (Array.isArray(choices) && choices.length > 0) return choices.every(isFailedChoice);
  return error !== null && error !== undefined && (output === undefined || isBlank(output));
}

/** OpenRouter reports an error before the first token as a finish reason. */
function isFailedChoice(choice: unknown): boolean {
  if (!isObject(choice) || choice["finish_reason"] !== "error") return false;
  const { message } = choice;
  return !isObject(message) || (isBlank(message["content"]) && isBlank(message["tool_calls"]));
}

function isBlank(value: unknown): boolean {
  return (
    value === undefined ||
    value === null ||
    value === "" ||
    (Array.isArray(value) && value.length === 0)
  );
}
