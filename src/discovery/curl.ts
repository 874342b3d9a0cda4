// A curl command for a route, with the route's example as its body.

import { isObject } from "../base/json.ts";
import { type Route, requiresKey } from "../http/route.ts";
import type { DiscoverySettings } from "./discovery-settings.ts";
import { exampleRequest } from "./examples.ts";

export interface CurlOptions {
  /** Values of path parameters. A parameter without a value stays in braces. */
  readonly params?: Readonly<Record<string, string>>;
  /** Arguments before the body, such as `-o file`. */
  readonly extraArgs?: readonly string[];
}

export function curlCommand(
  route: Route,
  settings: DiscoverySettings,
  options: CurlOptions = {},
): string {
  const parts = [
    `curl -sS${methodArg(route)} ${shellQuote(routeUrl(route, settings, options.params))}`,
  ];
  if (requiresKey(route)) parts.push(`-H "authorization: Bearer $POSTERN_API_KEY"`);
  if (route.credential === "scimToken") parts.push(`-H "authorization: Bearer $SCIM_TOKEN"`);
  if (route.dialect === "messages") parts.push(`-H 'anthropic-version: 2023-06-01'`);
  // Required by the Streamable HTTP transport.
  if (route.dialect === "jsonrpc") parts.push(`-H 'accept: application/json, text/event-stream'`);
  parts.push(...(options.extraArgs ?? []), ...bodyArgs(route, settings));
  return parts.join(" \\\n  ");
}

/** The path for OpenAPI, which has no parameter for the rest of a path (`{id+}`). */
export function openApiPath(path: string): string {
  return path.replaceAll("+}", "}");
}

function methodArg(route: Route): string {
  return route.method === "GET" ? "" : ` -X ${route.method}`;
}

function routeUrl(
  route: Route,
  settings: DiscoverySettings,
  params: Readonly<Record<string, string>> = {},
): string {
  const path = openApiPath(route.path).replaceAll(
    /\{(\w+)\}/g,
    (braced, name: string) => params[name] ?? braced,
  );
  return `${settings.baseUrl}${path}`;
}

function bodyArgs(route: Route, settings: DiscoverySettings): readonly string[] {
  const example = exampleRequest(route, settings);
  if (route.method === "GET" || example === undefined) return [];
  if ((route.multipart === "required" || route.multipart === "streamed") && isObject(example))
    return Object.entries(example).map(
      ([name, value]) => `-F ${shellQuote(`${name}=${String(value)}`)}`,
    );
  if (route.bodyType !== "form") {
    return ["-H 'content-type: application/json'", `-d ${shellQuote(JSON.stringify(example))}`];
  }
  if (!isObject(example)) return [];
  return Object.entries(example).map(
    ([name, value]) => `--data-urlencode ${shellQuote(`${name}=${String(value)}`)}`,
  );
}

function shellQuote(text: string): string {
  if (/^[\w\-./:]+$/.test(text)) return text;
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
