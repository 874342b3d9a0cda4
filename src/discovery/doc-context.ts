// What the writers of the text documents work with: the routes by their address, their commands and their records.

import { START_CLAIM_ROUTE, CLAIM_TOKEN_ROUTE } from "./route-keys.ts";
import type { Method, Route } from "../http/route.ts";
import { type CurlOptions, curlCommand } from "./curl.ts";
import { type OpenApiDocument } from "./openapi/openapi-types.ts";
import { schemaRows } from "./reference/schema-rows.ts";
import type { DiscoverySettings } from "./discovery-settings.ts";

export type RouteKey = `${Method} /${string}`;

const CLAIM_ROUTES: ReadonlySet<RouteKey> = new Set([START_CLAIM_ROUTE, CLAIM_TOKEN_ROUTE]);

export interface DocContext {
  readonly routes: readonly Route[];
  readonly settings: DiscoverySettings;
  /** Whether an agent can do that here. */
  readonly isMounted: (routeKey: RouteKey) => boolean;
  /** A fenced shell command, or nothing where that route is not mounted. */
  readonly curl: (
    routeKey: RouteKey,
    options?: CurlOptions & { readonly before?: readonly string[] },
  ) => string;
  /** The fenced example of the route's good answer, or nothing. */
  readonly responseExample: (routeKey: RouteKey) => string;
  /** The fields of the route's body as a table, or nothing. */
  readonly bodyFields: (routeKey: RouteKey) => string;
}

export function createDocContext(
  routes: readonly Route[],
  document: OpenApiDocument,
  settings: DiscoverySettings,
): DocContext {
  const find = (routeKey: RouteKey): Route | undefined =>
    routes.find((route) => `${route.method} ${route.path}` === routeKey && route.hidden !== true);
  return {
    routes,
    settings,
    isMounted: (routeKey) =>
      find(routeKey) !== undefined &&
      !(settings.isSignInDisabled === true && CLAIM_ROUTES.has(routeKey)),
    curl: (routeKey, options) => {
      const route = find(routeKey);
      if (route === undefined) return "";
      return codeBlock(
        "sh",
        [...(options?.before ?? []), curlCommand(route, settings, options)].join("\n"),
      );
    },
    responseExample: (routeKey) => {
      const example = successResponse(find(routeKey))?.[1].example;
      return example === undefined ? "" : codeBlock("json", JSON.stringify(example, null, 2));
    },
    bodyFields: (routeKey) => {
      const [method = "", path = ""] = routeKey.split(" ");
      const content = document.paths[path]?.[method.toLowerCase()]?.requestBody?.content ?? {};
      const schema = Object.values(content)[0]?.schema;
      const rows = schema === undefined ? [] : schemaRows(schema, document.components.schemas);
      return markdownTable(
        ["Field", "Type", "Meaning"],
        rows.map((row) => [
          `\`${row.name}\``,
          row.required ? row.type : `${row.type}, optional`,
          row.description,
        ]),
      );
    },
  };
}

/** The status that means success, such as 201. */
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

/** A Markdown table, or nothing where it has no rows. */
export function markdownTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  if (rows.length === 0) return "";
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", String.raw`\|`)).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

/** Paragraphs with an empty line between them; what is empty is left out. */
export function joinParagraphs(parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join("\n\n");
}
