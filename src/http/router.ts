// Matches requests to routes. Static paths are found by one map lookup; paths with parameters are tried in order.

import type { Route } from "./route.ts";

export type RouteMatch =
  | {
      readonly kind: "route";
      readonly route: Route;
      readonly params: Readonly<Record<string, string>>;
    }
  | { readonly kind: "method-not-allowed"; readonly allow: readonly string[] }
  | { readonly kind: "none" };

export type MatchRoute = (method: string, path: string) => RouteMatch;

interface Pattern {
  readonly expression: RegExp;
  readonly route: Route;
}

/** Clients of OpenRouter, whose API is below `/api/v1`, call the same endpoints there. */
const OPENROUTER_BASE =
  /^\/api(?=\/v1\/(?:chat\/completions|responses|messages|embeddings|models)(?:\/|$))/;

/** Google's SDKs can be set to other versions of its API, whose calls are the same. */
const GOOGLE_VERSIONS =
  /^\/v1(?:alpha|beta1)(?=\/models(?:\/|$))|^\/v1(?=\/models\/.+:(?:generateContent|streamGenerateContent|countTokens|embedContent|batchEmbedContents)$)/;

const NO_PARAMS: Readonly<Record<string, string>> = {};

export function createRouter(routes: readonly Route[]): MatchRoute {
  const staticRoutes = new Map<string, RouteMatch>();
  const patterns: Pattern[] = [];
  for (const route of routes) {
    if (route.path.includes("{")) patterns.push({ expression: pathPattern(route.path), route });
    else if (staticRoutes.has(`${route.method} ${route.path}`))
      throw new Error(`two routes at ${route.method} ${route.path}`);
    else
      staticRoutes.set(`${route.method} ${route.path}`, {
        kind: "route",
        route,
        params: NO_PARAMS,
      });
  }
  const find = (method: string, path: string): RouteMatch | undefined => {
    const found = staticRoutes.get(`${method} ${path}`);
    if (found !== undefined) return found;
    for (const pattern of patterns) {
      if (pattern.route.method !== method) continue;
      const params = pattern.expression.exec(path)?.groups;
      if (params !== undefined)
        return { kind: "route", route: pattern.route, params: decodeParams(params) };
    }
    return undefined;
  };
  const methods = [...new Set(routes.map((route) => route.method))];
  return (method, asked) => {
    const path = asked.replace(OPENROUTER_BASE, "").replace(GOOGLE_VERSIONS, "/v1beta");
    const found = find(method === "HEAD" ? "GET" : method, path);
    if (found !== undefined) return found;
    const allow = methods.filter((other) => find(other, path) !== undefined);
    return allow.length === 0
      ? { kind: "none" }
      : { kind: "method-not-allowed", allow: allow.includes("GET") ? [...allow, "HEAD"] : allow };
  };
}

function pathPattern(path: string): RegExp {
  const source = path
    .split(/(\{\w+\+?\})/)
    .map((part) => {
      const name = /^\{(\w+)(\+?)\}$/.exec(part);
      if (name === null) return part.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
      return name[2] === "+" ? `(?<${name[1]}>.+)` : `(?<${name[1]}>[^/]+)`;
    })
    .join("");
  return new RegExp(`^${source}$`);
}

function decodeParams(params: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(params).map(([name, value]) => [name, decodeOrRaw(value)]),
  );
}

function decodeOrRaw(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
