// The context of the text documents: routes by method and path, with their commands, examples and fields.

import { isObject } from "../base/json.ts";
import type { Method, Route } from "../http/route.ts";
import { type CurlOptions, curlCommand } from "./curl.ts";
import type { DiscoverySettings } from "./discovery-settings.ts";
import { exampleResponse } from "./examples.ts";
import { type OpenApiDocument } from "./openapi/openapi-types.ts";
import { schemaRows } from "./openapi/schema-rows.ts";
import {
  CLAIM_TOKEN_ROUTE,
  DEVICE_AUTHORIZATION_ROUTE,
  DEVICE_TOKEN_ROUTE,
  START_CLAIM_ROUTE,
} from "./route-keys.ts";

export type RouteKey = `${Method} /${string}`;

/** What happened and the first thing to do: the page of the code has the rest. */
export function firstSentences(text: string): string {
  return text.split(/(?<=\.) (?=[A-Z`])/, 2).join(" ");
}

/** Documents that a client of their specification finds by their address. Texts for models do not list them. */
export function isWellKnown(path: string): boolean {
  if (path === "/robots.txt" || path.startsWith("/sitemap.")) return true;
  return path.startsWith("/.well-known/") && !path.endsWith("/SKILL.md");
}

const SIGN_IN_ROUTES: ReadonlySet<RouteKey> = new Set([
  START_CLAIM_ROUTE,
  CLAIM_TOKEN_ROUTE,
  DEVICE_AUTHORIZATION_ROUTE,
  DEVICE_TOKEN_ROUTE,
]);

export interface DocContext {
  readonly routes: readonly Route[];
  readonly settings: DiscoverySettings;
  /** Whether the gateway has this route. False for claims if no human can sign in. */
  readonly isMounted: (routeKey: RouteKey) => boolean;
  /** The route's command as a fenced code block; empty if the route is not mounted. */
  readonly curl: (
    routeKey: RouteKey,
    options?: CurlOptions & {
      readonly before?: readonly string[];
      readonly after?: readonly string[];
    },
  ) => string;
  /** The example of the route's success response as a fenced code block, or empty. */
  readonly responseExample: (routeKey: RouteKey, leftOut?: ReadonlySet<string>) => string;
  /** A field of that example by its path, such as `claim_attempt.user_code`, or the path itself. */
  readonly exampleField: (routeKey: RouteKey, fieldPath: string) => string;
  /** A table of the request body's fields, or empty. */
  readonly bodyFields: (routeKey: RouteKey, leftOut?: ReadonlySet<string>) => string;
}

export function createDocContext(
  routes: readonly Route[],
  document: OpenApiDocument,
  settings: DiscoverySettings,
): DocContext {
  const find = (routeKey: RouteKey): Route | undefined =>
    routes.find((route) => `${route.method} ${route.path}` === routeKey && route.hidden !== true);
  const successExample = (routeKey: RouteKey): unknown => {
    const route = find(routeKey);
    const example = successResponse(route)?.[1].example;
    return route === undefined ? example : exampleResponse(route, settings, example);
  };
  return {
    routes,
    settings,
    isMounted: (routeKey) =>
      find(routeKey) !== undefined &&
      !(settings.isSignInDisabled === true && SIGN_IN_ROUTES.has(routeKey)),
    curl: (routeKey, options) => {
      const route = find(routeKey);
      if (route === undefined) return "";
      return codeBlock(
        "sh",
        [
          ...(options?.before ?? []),
          curlCommand(route, settings, options),
          ...(options?.after ?? []),
        ].join("\n"),
      );
    },
    responseExample: (routeKey, leftOut = new Set()) => {
      const example = successExample(routeKey);
      if (!isObject(example)) return "";
      const shown = Object.entries(example).filter(([name]) => !leftOut.has(name));
      return codeBlock("json", JSON.stringify(Object.fromEntries(shown), null, 2));
    },
    exampleField: (routeKey, fieldPath) => {
      let value = successExample(routeKey);
      for (const name of fieldPath.split(".")) value = isObject(value) ? value[name] : undefined;
      return typeof value === "string" ? value : fieldPath;
    },
    bodyFields: (routeKey, leftOut) => {
      const [method = "", path = ""] = routeKey.split(" ");
      const content = document.paths[path]?.[method.toLowerCase()]?.requestBody?.content ?? {};
      const schema = Object.values(content)[0]?.schema;
      const rows = schema === undefined ? [] : schemaRows(schema, document.components.schemas);
      return markdownTable(
        ["Field", "Type", "Description"],
        rows
          .filter(({ name }) => leftOut?.has(name) !== true)
          .map((row) => [
            `\`${row.name}\``,
            row.required ? row.type : `${row.type}, optional`,
            row.description,
          ]),
      );
    },
  };
}

/** The success status, such as 201. */
export function successStatus(context: DocContext, routeKey: RouteKey): string {
  const route = context.routes.find((each) => `${each.method} ${each.path}` === routeKey);
  return successResponse(route)?.[0] ?? "200";
}

function successResponse(
  route: Route | undefined,
): readonly [string, Route["responses"][number]] | undefined {
  return Object.entries(route?.responses ?? {}).find(([status]) => status.startsWith("2"));
}

export function codeBlock(language: string, text: string): string {
  return `\`\`\`${language}\n${text}\n\`\`\``;
}

/** A Markdown table; empty if it has no rows. */
export function markdownTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  /** The columns that are numbers, which are aligned to the right. */
  numbers: readonly string[] = [],
): string {
  if (rows.length === 0) return "";
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", String.raw`\|`)).join(" | ")} |`;
  return [
    line(head),
    line(head.map((name) => (numbers.includes(name) ? "---:" : "---"))),
    ...rows.map(line),
  ].join("\n");
}

/** Joins the paragraphs that are not empty. */
export function joinParagraphs(parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join("\n\n");
}
