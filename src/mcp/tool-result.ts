// Turns a response of the HTTP API into the result of a tool call. An error keeps its code and its `next` steps, each with
// the tool that does the same. A required payment is returned as x402's MCP transport specifies.

import { isObject, type JsonObject, parseJson, parseObject } from "../base/json.ts";
import { MCP_RESOURCE_METADATA_PATH } from "../discovery/agents/mcp-card.ts";
import { paymentMeta } from "./machine-payments.ts";
import { faultForTool, resultForTool } from "./tool-steps.ts";
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
  const result = successResult(resultForTool(present(body), context));
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
  const seconds = Number(headers.get("retry-after") ?? "");
  // MCP has no header for it.
  const retry = seconds > 0 ? { retry_after_seconds: seconds } : {};
  const fault = body && faultForTool(body, retry, context);
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

/** x402's headers are base64-encoded JSON. */
function decodeHeader(value: string | null): unknown {
  return value === null ? undefined : parseJson(Buffer.from(value, "base64").toString());
}

/** The value of `PAYMENT-SIGNATURE` for a payment in `_meta`. */
export function encodePayment(payment: unknown): string | undefined {
  return isObject(payment) ? Buffer.from(JSON.stringify(payment)).toString("base64") : undefined;
}
