// Recognizes errors that providers send with status 200: in a whole reply, or as the first event of a stream.

import { isObject, type JsonObject, parseObject } from "../../base/json.ts";
import type { SseMessage } from "../../base/streams/sse.ts";

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

export function statusInError(data: string): number {
  const match = /"(?:status_code|status|code)"\s*:\s*"?(4\d\d|5\d\d)\b/.exec(data);
  if (match !== null) return Number(match[1]);
  return /overloaded/i.test(data) ? 529 : 502;
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
