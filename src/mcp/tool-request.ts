// The HTTP request of a tool call: each argument goes where the route has a field of that name.

import { invalid } from "../base/fault.ts";
import type { JsonObject } from "../base/json.ts";
import type { Route } from "../http/route.ts";
import {
  acceptsIdempotencyKey,
  API_KEY_ARGUMENT,
  IDEMPOTENCY_ARGUMENT,
  type ToolCall,
} from "./tool.ts";

/** `fixed` are fields that are no arguments. Throws a Fault for an argument that cannot be put into a request; all other checks are the route's own. */
export function requestOf(
  route: Route,
  baseUrl: string,
  { args, apiKey, payment, credential, signal }: ToolCall,
  fixed: JsonObject = {},
): Request {
  const { [API_KEY_ARGUMENT]: keyArgument, [IDEMPOTENCY_ARGUMENT]: idempotencyKey, ...rest } = args;
  const headers = new Headers();
  const key = readHeaderArgument(API_KEY_ARGUMENT, keyArgument) ?? apiKey;
  if (key !== undefined) headers.set("x-api-key", key);
  const repetition = readHeaderArgument(IDEMPOTENCY_ARGUMENT, idempotencyKey);
  if (repetition !== undefined && acceptsIdempotencyKey(route))
    headers.set("idempotency-key", repetition);
  if (payment !== undefined) headers.set("payment-signature", payment);
  if (credential !== undefined) headers.set("authorization", credential);
  const fields: Record<string, unknown> = { ...rest, ...fixed };
  const path = route.path.replaceAll(/\{(\w+)\+?\}/g, (_braced, name: string) => {
    const value = fields[name];
    delete fields[name];
    if (typeof value !== "string" || value === "") throw invalid(name, `\`${name}\` is required.`);
    // A URL without these segments is another path: an id must not reach another endpoint.
    if (value === "." || value === "..") throw invalid(name, `\`${name}\` is not an id.`);
    return encodeURIComponent(value);
  });
  if (route.method === "GET")
    return new Request(`${baseUrl}${path}${queryOf(fields)}`, { headers, signal });
  if (route.method === "DELETE")
    return new Request(`${baseUrl}${path}`, { method: route.method, headers, signal });
  const isForm = route.bodyType === "form";
  headers.set("content-type", isForm ? "application/x-www-form-urlencoded" : "application/json");
  const body = isForm ? queryOf(fields).slice(1) : JSON.stringify(fields);
  return new Request(`${baseUrl}${path}`, { method: route.method, headers, body, signal });
}

function readHeaderArgument(name: string, value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "string" || !/^[\u{21}-\u{7e}]{1,300}$/u.test(value))
    throw invalid(name, `\`${name}\` must be a string of visible ASCII characters.`);
  return value;
}

function queryOf(fields: JsonObject): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined || value === null) continue;
    if (typeof value !== "string" && typeof value !== "number" && typeof value !== "boolean")
      throw invalid(name, `\`${name}\` must be a string, a number or a boolean.`);
    query.set(name, String(value));
  }
  const text = query.toString();
  return text === "" ? "" : `?${text}`;
}
