// The steps of the HTTP API in the terms of MCP: the `next` requests of an error or a result become calls of tools, documents
// become resources, and messages name tools instead of endpoints.

import { isObject, type JsonObject, objectIn, stringIn } from "../base/json.ts";
import type { ToolContext } from "./tool.ts";

const ENDPOINT_PAGE = "/docs/api/";
/** An endpoint in a message. What follows a path is not part of it, such as the full stop. */
const ENDPOINT = /\b(GET|POST|PATCH|DELETE) (\/[\w\-/{}:.]*[\w}])/g;
/** Members of results that are steps, or contain them. */
const STEPS = ["next", "first_call", "claim"] as const;

/** The error of the HTTP API, for the caller of a tool. */
export function faultForTool(
  body: JsonObject,
  retry: JsonObject,
  context: ToolContext,
): JsonObject {
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

export function resultForTool(body: JsonObject, context: ToolContext): JsonObject {
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
