// Turns a response of the HTTP API into the result of a tool call. An error keeps its code and its `next` steps, each with
// the tool that does the same. A required payment is returned as x402's MCP transport specifies.

import { isObject, type JsonObject, parseJson, parseObject } from "../base/json.ts";
import { MCP_RESOURCE_METADATA_PATH } from "../discovery/agents/mcp-card.ts";
import { paymentMeta } from "./machine-payments.ts";
import type { ToolContext, ToolResult } from "./tool.ts";

export const PAYMENT_META = "x402/payment";
/** OpenAI's convention for MCP servers of which some tools need a sign-in. */
const SIGN_IN_META = "mcp/www_authenticate";
const PAYMENT_RESPONSE_META = "x402/payment-response";

export async function resultOf(
  response: Response,
  context: ToolContext,
  present: (body: JsonObject) => JsonObject = (body) => body,
): Promise<ToolResult> {
  const text = await response.text();
  const body = parseObject(text);
  if (!response.ok || body === undefined) return errorResult(response.headers, body, text, context);
  const settlement = decodeHeader(response.headers.get("payment-response"));
  const result = successResult(present(body));
  const receipt = paymentMeta(response.headers);
  if (settlement === undefined && receipt === undefined) return result;
  const settled = settlement === undefined ? {} : { [PAYMENT_RESPONSE_META]: settlement };
  return { ...result, _meta: { ...settled, ...receipt } };
}

export function successResult(structuredContent: JsonObject): ToolResult {
  return {
    content: [{ type: "text", text: JSON.stringify(structuredContent) }],
    structuredContent,
  };
}

export function errorResult(
  headers: Headers,
  body: JsonObject | undefined,
  text: string,
  context: ToolContext,
): ToolResult {
  const fault = body && withTools(body, headers, context);
  const error = {
    type: "text" as const,
    text: fault === undefined ? text : JSON.stringify(fault),
  };
  const required = decodeHeader(headers.get("payment-required"));
  const meta = paymentMeta(headers) ?? signInMeta(headers);
  const challenges = { body: fault, ...(meta === undefined ? {} : { _meta: meta }) };
  if (!isObject(required)) return { isError: true, content: [error], ...challenges };
  return {
    isError: true,
    ...challenges,
    structuredContent: required,
    content: [{ type: "text", text: JSON.stringify(required) }, error],
  };
}

/** With it, clients that know a sign-in of single tools offer it. */
function signInMeta(headers: Headers): JsonObject | undefined {
  const challenge = headers.get("www-authenticate") ?? "";
  return challenge.includes(MCP_RESOURCE_METADATA_PATH)
    ? { [SIGN_IN_META]: [challenge] }
    : undefined;
}

/** The error with the names of the tools of its next steps, and with `retry-after`, which MCP has no header for. */
function withTools(body: JsonObject, headers: Headers, { toolFor }: ToolContext): JsonObject {
  const { error } = body;
  const seconds = Number(headers.get("retry-after") ?? "");
  const retry = seconds > 0 ? { retry_after_seconds: seconds } : {};
  if (!isObject(error)) return { ...body, ...retry };
  const { next } = error;
  if (!Array.isArray(next)) return { ...body, error: { ...error, ...retry } };
  const steps = next.filter(isObject).map((step) => {
    const tool = toolFor(String(step["method"]), String(step["url"]));
    return tool === undefined ? step : Object.assign({}, step, { tool });
  });
  return { ...body, error: { ...error, ...retry, next: steps } };
}

/** x402's headers are base64-encoded JSON. */
function decodeHeader(value: string | null): unknown {
  return value === null ? undefined : parseJson(Buffer.from(value, "base64").toString());
}

/** The value of `PAYMENT-SIGNATURE` for a payment in `_meta`. */
export function encodePayment(payment: unknown): string | undefined {
  return isObject(payment) ? Buffer.from(JSON.stringify(payment)).toString("base64") : undefined;
}
