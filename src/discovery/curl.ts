// A route as a command that can be pasted into a shell. Its body is the route's own example.

import { isObject } from "../base/json.ts";
import type { Route } from "../http/route.ts";
import { EMBEDDINGS_ROUTE } from "./route-keys.ts";
import type { DiscoverySettings } from "./discovery-settings.ts";

export interface CurlOptions {
  /** Values for the path's parameters; the others stay in braces. */
  readonly params?: Readonly<Record<string, string>>;
  /** Written before the body, such as `-o file`. */
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
  if (route.auth === "key") parts.push(`-H "authorization: Bearer $POSTERN_API_KEY"`);
  if (route.dialect === "messages") parts.push(`-H 'anthropic-version: 2023-06-01'`);
  parts.push(...(options.extraArgs ?? []), ...bodyArgs(route, settings));
  return parts.join(" \\\n  ");
}

/** The route's example of a body, about a model that this gateway can call. */
export function exampleBody(route: Route, settings: DiscoverySettings): unknown {
  const { requestExample } = route;
  if (!isObject(requestExample) || typeof requestExample["model"] !== "string")
    return requestExample;
  const isEmbeddings = `${route.method} ${route.path}` === EMBEDDINGS_ROUTE;
  return {
    ...requestExample,
    model: isEmbeddings ? settings.exampleEmbeddingModel : settings.exampleModel,
  };
}

/** OpenAPI knows no parameter that takes the rest of a path. */
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
  const example = exampleBody(route, settings);
  if (route.method === "GET" || example === undefined) return [];
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
