// The OpenAPI description, generated from the mounted routes.

import { FAULTS } from "../../base/fault.ts";
import { type Route, requiresKey } from "../../http/route.ts";
import { openApiPath } from "../curl.ts";
import { type DiscoverySettings, PRODUCT_NAME, creditsText } from "../discovery-settings.ts";
import { ERROR_ADVICE, acceptsIdempotencyKey } from "../error-docs.ts";
import { TAGLINE } from "../home-page.tsx";
import { RESPONSE_HEADERS, errorResponseComponents } from "./error-responses.ts";
import type { OpenApiDocument, Operation, Tag } from "./openapi-types.ts";
import { SECURITY_SCHEMES, createRouteSchemas, routeOperation } from "./operation.ts";

export const OPENAPI_CONTENT_TYPE = "application/yaml; charset=utf-8";

export function openApiDocument(
  routes: readonly Route[],
  settings: DiscoverySettings,
): OpenApiDocument {
  const visible = routes.filter((route) => route.hidden !== true);
  const registry = createRouteSchemas(visible);
  const paths = pathsOf(visible, (route) => routeOperation(route, registry, settings));
  return {
    openapi: "3.1.1",
    info: infoOf(settings),
    externalDocs: { url: settings.docsUrl, description: "Documentation." },
    servers: [{ url: settings.baseUrl, description: `This ${PRODUCT_NAME} gateway.` }],
    "x-service-info": {
      categories: ["ai"],
      docs: {
        apiReference: `${settings.baseUrl}/docs/api`,
        homepage: settings.baseUrl,
        llms: `${settings.baseUrl}/llms.txt`,
      },
    },
    tags: tagsOf(visible),
    paths,
    components: {
      securitySchemes: usedSchemes(paths),
      headers: usedHeaders(visible),
      responses: errorResponseComponents(visible, registry),
      schemas: registry.components,
    },
  };
}

/** Quotes strings that parsers of YAML 1.1 read as booleans, such as `on`. */
export function openApiYaml(document: OpenApiDocument): string {
  // A copy, because an object that the document has twice would become an alias.
  return Bun.YAML.stringify(JSON.parse(JSON.stringify(document)), undefined, 2);
}

function infoOf(settings: DiscoverySettings): OpenApiDocument["info"] {
  return {
    title: PRODUCT_NAME,
    version: settings.version,
    summary: `${TAGLINE}.`,
    description: [
      `One request creates an account with ${creditsText(settings.startingCredits)} and returns an API key, without a human or a browser.`,
      "Every model works with the OpenAI, Anthropic and Google APIs. Credits are prepaid; usage is billed at the providers' list prices.",
      `For agents, [auth.md](${settings.baseUrl}/auth.md) has everything on one page.`,
      "Clients must ignore unknown fields: responses may gain new ones.",
      "**Errors** have a stable `code` and the format of the API that was called:",
      errorTable(),
    ].join("\n\n"),
    ...(settings.termsUrl === undefined ? {} : { termsOfService: settings.termsUrl }),
    ...(settings.contactUrl === undefined ? {} : { contact: { url: settings.contactUrl } }),
  };
}

function errorTable(): string {
  const rows = Object.entries(FAULTS).map(
    ([code, [status]]) => `| ${status} | \`${code}\` | ${adviceFor(code)} |`,
  );
  return ["| Status | Code | What to do |", "| --- | --- | --- |", ...rows].join("\n");
}

function adviceFor(code: string): string {
  return Object.entries(ERROR_ADVICE).find(([name]) => name === code)?.[1].next ?? "";
}

function tagsOf(routes: readonly Route[]): readonly Tag[] {
  return [...new Set(routes.map((route) => route.tag))].map((name) => ({
    name,
    description: tagDescription(name),
  }));
}

function pathsOf(
  routes: readonly Route[],
  operationFor: (route: Route) => Operation,
): OpenApiDocument["paths"] {
  const paths: Record<string, Record<string, Operation>> = {};
  for (const route of routes) {
    const path = openApiPath(route.path);
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationFor(route) };
  }
  return paths;
}

/** The linter rejects unused components. */
function usedSchemes(
  paths: OpenApiDocument["paths"],
): OpenApiDocument["components"]["securitySchemes"] {
  const operations = Object.values(paths).flatMap((item) => Object.values(item));
  const used = new Set(operations.flatMap(({ security }) => security.flatMap(Object.keys)));
  return Object.fromEntries(Object.entries(SECURITY_SCHEMES).filter(([name]) => used.has(name)));
}

/** Only headers that some response refers to: the linter rejects unused components. */
function usedHeaders(routes: readonly Route[]): OpenApiDocument["components"]["headers"] {
  const { Replayed, Challenge, PaymentRequired, PaymentChallenge, ...always } = RESPONSE_HEADERS;
  return {
    ...always,
    ...(Challenge !== undefined && routes.some(requiresKey) ? { Challenge } : {}),
    ...(Replayed !== undefined && routes.some(acceptsIdempotencyKey) ? { Replayed } : {}),
    ...(PaymentRequired !== undefined &&
    PaymentChallenge !== undefined &&
    routes.some((route) => route.faults.includes("payment_required"))
      ? { PaymentRequired, PaymentChallenge }
      : {}),
  };
}

// Descriptions of the tags. A tag without one gets a generic sentence.
const TAG_DESCRIPTIONS: Readonly<Record<string, string>> = {
  accounts: "Create an account without a human, and get its balance and budgets.",
  models: "Call a model with the OpenAI, Anthropic or Gemini API. List models and their prices.",
  keys: "Create, list, change and revoke API keys.",
  usage: "What each call used and what it cost.",
  billing: "Buy prepaid credits.",
  "provider keys": "Use your own API keys from model providers. These calls cost no credits.",
  claims: "Let a human claim the account. Its keys keep working.",
  members: "The members of a workspace and their roles.",
  audit: "The changes of the account: time, actor, action and target.",
  batches: "Run many requests without a client that waits.",
  files: "The input and the output of batches.",
  presets: "Stored settings of calls, which a request names as its model.",
  guardrails:
    "Checks of what calls send and get: secrets, personal data, topics and your own hooks.",
  sinks: "Send the usage of calls to an OpenTelemetry endpoint or a bucket.",
  "mcp servers": "MCP servers whose tools any model of the workspace can call.",
  "device sign in":
    "Get a key for a program on a device, which a person approves in a browser (RFC 8628).",
  "app sign in": "Let people sign in to an app with their workspace.",
  "mcp sign in": "OAuth for clients of the MCP server.",
  "directory sync": "Create and remove members from a directory (SCIM 2.0).",
  webhooks: "Receive events as signed HTTP requests (Standard Webhooks).",
  agents: "The Model Context Protocol (MCP) server, for agents.",
  discovery: "Machine-readable descriptions of this service.",
  operations: "Health checks and metrics.",
};

function tagDescription(tag: string): string {
  return TAG_DESCRIPTIONS[tag.toLowerCase().replaceAll("-", " ")] ?? `${tag} endpoints.`;
}
