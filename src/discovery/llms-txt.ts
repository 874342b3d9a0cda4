// /llms.txt in the format of llmstxt.org: a title, a summary, prose without headings, then lists of links.

import { endpointSlug, type Route, requiresKey } from "../http/route.ts";
import { openApiPath } from "./curl.ts";
import { cheapModelsText, creditsText, PRODUCT_NAME } from "./discovery-settings.ts";
import { type DocContext, isWellKnown, joinParagraphs } from "./doc-context.ts";
import { TAGLINE } from "./home-page.tsx";
import {
  consentRules,
  exportKeyLine,
  KEY_IS_SHOWN_ONCE,
  KEY_STAYS_IN_FILE,
  registerCommands,
} from "./key-commands.ts";
import { START_CLAIM_ROUTE, REGISTER_ROUTE } from "./route-keys.ts";

/** Plain text, because browsers download `text/markdown` instead of showing it. */
export const LLMS_CONTENT_TYPE = "text/plain; charset=utf-8";

export function llmsTxt(context: DocContext): string {
  const { settings } = context;
  const visible = context.routes.filter((route) => route.hidden !== true);
  const tags = [...new Set(visible.map((route) => route.tag))].filter(
    (tag) => !OPTIONAL_TAGS.has(tag) && !NOT_FOR_AGENTS.has(tag),
  );
  return `${joinParagraphs([
    `# ${PRODUCT_NAME}`,
    `> ${TAGLINE}. One request creates an account with ${creditsText(settings.startingCredits)} and returns an API key, without a human. Every model works with the APIs of OpenAI, Anthropic and Google. Usage is prepaid and billed at the providers' list prices.`,
    quickStart(context),
    section("Start here", [
      `- [auth.md](${settings.baseUrl}/auth.md): everything that an agent needs on one page`,
      `- [OpenAPI description](${settings.baseUrl}/openapi.yaml): every endpoint, field, error and example`,
      `- [API reference](${settings.baseUrl}/docs/api): the same for human readers`,
    ]),
    ...tags.flatMap((tag) => {
      const links = visible
        .filter((route) => route.tag === tag && !OMITTED_PATHS.has(route.path))
        .map((route) => routeLink(route, context));
      return links.length === 0 ? [] : [section(tag, links)];
    }),
    section("Optional", [
      `- [Documentation](${settings.docsUrl})`,
      ...visible
        .filter(({ tag, path }) => OPTIONAL_TAGS.has(tag) && !isWellKnown(path))
        .map((route) => routeLink(route, context)),
    ]),
  ])}\n`;
}

/** llmstxt.org's "Optional" section: links that a reader with a short context can skip. */
const OPTIONAL_TAGS: ReadonlySet<string> = new Set(["Discovery", "Operations"]);
/** Endpoints that agents rarely need; the OpenAPI description has them. */
const OMITTED_PATHS: ReadonlySet<string> = new Set([
  "/v2/rerank",
  "/v1/billing/details",
  "/v1/presets",
  "/v1/presets/{name}",
  "/v1/guardrails",
  "/v1/guardrails/{name}",
  "/v1/sinks",
  "/v1/sinks/{name}",
  "/v1/mcp-servers",
  "/v1/mcp-servers/{name}",
  "/v1/moderations",
  "/v1/images/edits",
  "/v1/decisions",
  "/v1/completions",
  "/v1/audio/speech",
  "/v1/audio/transcriptions",
  "/v1/audio/translations",
  "/v1/responses/input_tokens",
  "/v1beta/models",
  "/v1beta/models/{model+}",
  ...[
    "generateContent",
    "streamGenerateContent",
    "countTokens",
    "embedContent",
    "batchEmbedContents",
  ].map((method) => `/v1beta/models/{model+}:${method}`),
]);
/** For programs that sign a person in. */
const NOT_FOR_AGENTS: ReadonlySet<string> = new Set([
  "App sign-in",
  "Device sign-in",
  "Directory sync",
  "MCP sign-in",
]);

function quickStart(context: DocContext): string {
  const { baseUrl } = context.settings;
  return joinParagraphs([
    `The base URL is ${baseUrl}. OpenAI SDKs use ${baseUrl}/v1, Anthropic's and Google's ${baseUrl}. Send the API key as \`authorization: Bearer <API_KEY>\` or as \`x-api-key\`.`,
    context.isMounted(REGISTER_ROUTE) ? `Create an account. ${KEY_STAYS_IN_FILE}` : "",
    registerCommands(context, [exportKeyLine(context)]),
    context.isMounted(REGISTER_ROUTE) ? `${KEY_IS_SHOWN_ONCE} ${consentRules(context)}` : "",
    context.isMounted("POST /v1/chat/completions")
      ? joinWords(cheapModelsText(context.settings), "Call a model:")
      : "",
    context.curl("POST /v1/chat/completions"),
    context.isMounted("GET /v1/account") ? "Check the balance:" : "",
    context.curl("GET /v1/account"),
    context.isMounted(START_CLAIM_ROUTE)
      ? "A human can claim the account later, and the key keeps working; see auth.md."
      : "",
    "Every error has a stable `code` and says what to do next.",
  ]);
}

function joinWords(...parts: readonly (string | undefined)[]): string {
  return parts.filter((part) => part !== undefined).join(" ");
}

function section(title: string, lines: readonly string[]): string {
  return `## ${title}\n\n${lines.join("\n")}`;
}

function routeLink(route: Route, context: DocContext): string {
  const { baseUrl } = context.settings;
  const path = `${route.method} ${openApiPath(route.path)}`;
  const url =
    route.tag === "Discovery" ? `${baseUrl}${route.path}` : `/docs/${endpointSlug(route.id)}.md`;
  return `- [${path}](${url}): ${route.summary}${requiresKey(route) ? "" : " (no key)"}`;
}
