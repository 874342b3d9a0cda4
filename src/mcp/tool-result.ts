// Turns a response of the HTTP API into the result of a tool call. An error keeps its code and its `next` steps, each with
// the tool that does the same. A required payment is returned as x402's MCP transport specifies.

import {
  isObject,
  type JsonObject,
  objectIn,
  parseJson,
  parseObject,
  stringIn,
} from "../base/json.ts";
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

// The steps of the HTTP API in the terms of MCP: the `next` requests of an error or a result become calls of tools, documents
// become resources, and messages name tools instead of endpoints.

const ENDPOINT_PAGE = "/docs/api/";
/** An endpoint in a message. What follows a path is not part of it, such as the full stop. */
const ENDPOINT = /\b(GET|POST|PATCH|DELETE) (\/[\w\-/{}:.]*[\w}])/g;
/** Members of results that are steps, or contain them. */
const STEPS = ["next", "first_call", "claim"] as const;

/** The error of the HTTP API, for the caller of a tool. */
function faultForTool(body: JsonObject, retry: JsonObject, context: ToolContext): JsonObject {
  const { error } = body;
  // RFC 6749's form.
  if (!isObject(error)) return { ...presentFault(body, context), ...retry };
  return { ...body, error: { ...presentFault(error, context), ...retry } };
}

function presentFault(fault: JsonObject, context: ToolContext): JsonObject {
  const { message, error_description: description, next } = fault;
  return {
    ...fault,
    ...(typeof message === "string" ? { message: textForTool(message, context) } : {}),
    ...(typeof description === "string"
      ? { error_description: textForTool(description, context) }
      : {}),
    ...(Array.isArray(next) ? { next: next.map((step) => stepForTool(step, context)) } : {}),
  };
}

function resultForTool(body: JsonObject, context: ToolContext): JsonObject {
  const steps = STEPS.filter((name) => body[name] !== undefined && body[name] !== null);
  if (steps.length === 0) return body;
  const entries = steps.map((name) => [name, presentSteps(body[name], context)]);
  return { ...body, ...Object.fromEntries(entries) };
}

function presentSteps(value: unknown, context: ToolContext): unknown {
  if (Array.isArray(value)) return value.map((step) => stepForTool(step, context));
  if (!isObject(value)) return value;
  const { start } = value;
  return isObject(start)
    ? { ...value, start: stepForTool(start, context) }
    : stepForTool(value, context);
}

function textForTool(text: string, { toolFor }: ToolContext): string {
  return text.replaceAll(ENDPOINT, (endpoint, method: string, url: string) => {
    const found = toolFor(method, url);
    return found === undefined ? endpoint : found.name;
  });
}

function stepForTool(step: unknown, context: ToolContext): unknown {
  const { method, url, body, ...rest } = objectIn(step) ?? {};
  const path = stringIn(url);
  if (path === undefined || typeof method !== "string") return step;
  const { baseUrl, toolFor, called } = context;
  const found = toolFor(method, path);
  if (found !== undefined) {
    const args = { ...found.arguments, ...renamedBody(objectIn(body), found.names) };
    const hasArguments = Object.keys(args).length > 0;
    const { content_type: _type, ...why } = rest;
    return { tool: found.name, ...(hasArguments ? { arguments: args } : {}), ...why };
  }
  const absolute = new URL(path, baseUrl).href;
  if (method !== "GET")
    return { method, ...rest, url: absolute, ...(body === undefined ? {} : { body }) };
  if (!context.isResource(absolute)) return { url: absolute, ...rest };
  const isOwnPage = path.startsWith(ENDPOINT_PAGE) && called !== undefined;
  return { ...(isOwnPage ? { tool: called } : {}), resource: absolute, ...rest };
}

/** The fields of a request as the arguments of a tool, some of which have other names. */
function renamedBody(body: JsonObject = {}, names: Readonly<Record<string, string>>): JsonObject {
  const argumentOf = new Map(Object.entries(names).map(([argument, field]) => [field, argument]));
  return Object.fromEntries(
    Object.entries(body).map(([field, value]) => [argumentOf.get(field) ?? field, value]),
  );
}
