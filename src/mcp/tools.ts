// The tools of the MCP server. Each calls a route of the HTTP API, so scopes, limits, idempotency and the audit log are the same.

import { errorBody, publicError } from "../base/error-body.ts";
import { Fault, invalid } from "../base/fault.ts";
import { isObject, type JsonObject } from "../base/json.ts";
import { capitalize } from "../base/text/format.ts";
import { toFault } from "../http/response.ts";
import { requiresKey, type Route } from "../http/route.ts";
import { createRouter } from "../http/router.ts";
import { listResources, resourcePath } from "./resources.ts";
import { TOOLS, type ToolSpec } from "./tool-list.ts";
import { errorResult, resultOf } from "./tool-result.ts";
import { inputSchema, outputSchema } from "./tool-schemas.ts";
import {
  acceptsIdempotencyKey,
  API_KEY_ARGUMENT,
  IDEMPOTENCY_ARGUMENT,
  type Tool,
  type ToolAnnotations,
  type ToolCall,
  type ToolContext,
  type ToolListing,
  type ToolResult,
} from "./tool.ts";

/** The tools of a gateway with these routes. */
export function createTools(routes: readonly Route[], baseUrl: string): readonly Tool[] {
  const resources = listResources(routes, baseUrl);
  const context: ToolContext = {
    baseUrl,
    toolFor: toolFinder(routes, baseUrl),
    isResource: (uri) => resourcePath(uri, baseUrl, resources) !== undefined,
  };
  const find = (id: string): Route | undefined =>
    routes.find((route) => route.id === id && route.hidden !== true);
  return TOOLS.flatMap((spec) => {
    const route = find(spec.routeId);
    const one = spec.oneRouteId === undefined ? undefined : find(spec.oneRouteId);
    return route === undefined
      ? []
      : [createTool(spec, { route, one }, { ...context, called: spec.name })];
  });
}

function toolFinder(routes: readonly Route[], baseUrl: string): ToolContext["toolFor"] {
  const match = createRouter(routes);
  return (method, url) => {
    const { pathname, searchParams } = new URL(url, baseUrl);
    const found = match(method, pathname);
    if (found.kind !== "route") return undefined;
    const { route, params } = found;
    const spec = TOOLS.find(
      ({ routeId, oneRouteId, also = {} }) =>
        routeId === route.id || oneRouteId === route.id || also[route.id] !== undefined,
    );
    if (spec === undefined) return undefined;
    const { name, also = {}, renamed: names = {} } = spec;
    const own = also[route.id] ?? params;
    const filled = Object.entries(own).map(([argument, value]) => [
      argument,
      value.replace(/^\{(\w+)\}$/, (braced, param: string) => params[param] ?? braced),
    ]);
    return {
      name,
      arguments: { ...Object.fromEntries(searchParams), ...Object.fromEntries(filled) },
      names,
    };
  };
}

interface ToolRoutes {
  readonly route: Route;
  readonly one: Route | undefined;
}

function createTool(spec: ToolSpec, { route, one }: ToolRoutes, context: ToolContext): Tool {
  const { name, title, annotations } = spec;
  const fixed = fixedFields(spec, route);
  const description =
    spec.description ?? [route.summary, route.description ?? ""].join(". ").trim();
  return {
    listing: {
      name,
      title,
      description,
      inputSchema: inputSchema(route, spec.input, { fixed, idDescription: spec.idDescription }),
      outputSchema: outputSchema(route, spec.output),
      annotations: statedHints(annotations),
    },
    method: route.method,
    path: route.path,
    call: async (received) => {
      const call = { ...received, args: withoutNulls(route, received.args) };
      const target = one !== undefined && call.args["id"] !== undefined ? one : route;
      try {
        requireKey(route, call);
        const args = spec.fieldsOf?.(call) ?? call.args;
        const [own, renamed] = renameArguments(args, spec.renamed ?? {});
        const response = await call.send(
          requestOf(target, context.baseUrl, { ...call, args: own }, { ...fixed, ...renamed }),
        );
        return await (spec.resultOf?.(response, call, context) ?? resultOf(response, context));
      } catch (error) {
        const fault = toFault(error);
        if (fault.code === "internal") throw error;
        return faultResult(fault, call.requestId, context);
      }
    },
  };
}

/** The other arguments, and the renamed ones as fields. */
function renameArguments(
  args: JsonObject,
  names: Readonly<Record<string, string>>,
): readonly [JsonObject, JsonObject] {
  const entries = Object.entries(args);
  return [
    Object.fromEntries(entries.filter(([name]) => names[name] === undefined)),
    Object.fromEntries(
      entries.flatMap(([name, value]) => (names[name] === undefined ? [] : [[names[name], value]])),
    ),
  ];
}

/** Without those that are MCP's defaults, or that mean nothing for a tool that only reads. */
function statedHints({
  readOnlyHint,
  destructiveHint,
  idempotentHint,
  openWorldHint,
}: ToolAnnotations): ToolListing["annotations"] {
  return {
    ...(readOnlyHint ? { readOnlyHint } : { destructiveHint }),
    ...(idempotentHint ? { idempotentHint } : {}),
    openWorldHint,
  };
}

/** Models send null for what they leave out. In a change, null removes a setting. */
function withoutNulls({ method }: Route, args: JsonObject): JsonObject {
  if (method === "PATCH") return args;
  return Object.fromEntries(Object.entries(args).filter(([, value]) => value !== null));
}

function requireKey(
  route: Route,
  { args, apiKey, hasSessionKey = false, keyFault, signIn }: ToolCall,
): void {
  if (!requiresKey(route) || hasSessionKey) return;
  if (apiKey !== undefined || args[API_KEY_ARGUMENT] !== undefined) return;
  if (keyFault !== undefined) throw keyFault;
  const signInAdvice =
    signIn === undefined ? "" : "Sign in at this server with your MCP client, or ";
  throw new Fault("invalid_api_key", "no key", {
    message: `The API key is missing. ${capitalize(`${signInAdvice}call create_account: the other tools of the session use its key, and clients without sessions pass it as \`api_key\`.`)}`,
    ...(signIn === undefined ? {} : { headers: { "www-authenticate": signIn } }),
  });
}

function fixedFields({ fixed = [] }: ToolSpec, { requestExample }: Route): JsonObject {
  const example = isObject(requestExample) ? requestExample : {};
  return Object.fromEntries(fixed.map((field) => [field, example[field]]));
}

function faultResult(fault: Fault, requestId: string, context: ToolContext): ToolResult {
  const body = errorBody("openai", publicError(fault), requestId);
  const headers = new Headers({ ...fault.options.headers });
  return errorResult(headers, body, "", context);
}

// The HTTP request of a tool call: each argument goes where the route has a field of that name.

/** `fixed` are fields that are no arguments. Throws a Fault for an argument that cannot be put into a request; all other checks are the route's own. */
function requestOf(
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
