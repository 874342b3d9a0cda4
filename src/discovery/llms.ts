// /llms.txt in the form of llmstxt.org: a title, a summary, prose without headings, then lists of links.

import type { Route } from "../http/route.ts";
import { CLAIM_START, REGISTER } from "./addresses.ts";
import { templateOf } from "./curl.ts";
import { type Desk, paragraphs } from "./desk.ts";
import { creditsText, NAME } from "./settings.ts";

/** A text file by its name and by what fetches it; a browser shows it instead of saving it. */
export const LLMS_CONTENT_TYPE = "text/plain; charset=utf-8";

export function llmsText(desk: Desk): string {
  const { settings } = desk;
  const shown = desk.routes.filter((route) => route.hidden !== true);
  const tags = [...new Set(shown.map((route) => route.tag))].filter((tag) => !LAST_TAGS.has(tag));
  return `${paragraphs([
    `# ${NAME}`,
    `> An AI gateway that agents let themselves into: one call opens an account with ${creditsText(settings.startingCredits)} and answers a key, without a human; any model answers through the OpenAI and Anthropic APIs; usage is prepaid and billed at the providers' list prices.`,
    quickStart(desk),
    section("Start here", [
      `- [auth.md](${settings.baseUrl}/auth.md): everything that an agent needs on one page, from the first key to every error`,
      `- [OpenAPI description](${settings.baseUrl}/openapi.yaml): every endpoint, field, error and example`,
      `- [API reference](${settings.baseUrl}/docs): the same, to read`,
    ]),
    ...tags.map((tag) =>
      section(
        tag,
        shown.filter((route) => route.tag === tag).map((route) => lineOf(route, desk)),
      ),
    ),
    section("Optional", [
      `- [Documentation for humans](${settings.docsUrl})`,
      ...shown.filter((route) => LAST_TAGS.has(route.tag)).map((route) => lineOf(route, desk)),
    ]),
  ])}\n`;
}

/** What a reader in a hurry may skip. */
const LAST_TAGS: ReadonlySet<string> = new Set(["Discovery", "Operations"]);

function quickStart(desk: Desk): string {
  const { baseUrl } = desk.settings;
  return paragraphs([
    `The base URL is ${baseUrl}; OpenAI's SDKs take ${baseUrl}/v1, Anthropic's take ${baseUrl}. Send the key as \`authorization: Bearer <API_KEY>\` or as \`x-api-key\`.`,
    desk.has(REGISTER)
      ? "Open an account. The answer holds `api_key`, which is shown once: save it in a file with mode 0600 and as `POSTERN_API_KEY`."
      : "",
    desk.curl(REGISTER),
    desk.has("POST /v1/chat/completions") ? "Call a model:" : "",
    desk.curl("POST /v1/chat/completions"),
    desk.has("GET /v1/account") ? "See what is left:" : "",
    desk.curl("GET /v1/account"),
    desk.has(CLAIM_START)
      ? "A human can take the account over later, and the key keeps working: auth.md says how."
      : "",
    "Every error has a stable `code` and says what to do next.",
  ]);
}

function section(title: string, lines: readonly string[]): string {
  return `## ${title}\n\n${lines.join("\n")}`;
}

function lineOf(route: Route, desk: Desk): string {
  const { baseUrl } = desk.settings;
  const address = `${route.method} ${templateOf(route.path)}`;
  const url = route.tag === "Discovery" ? `${baseUrl}${route.path}` : `${baseUrl}/docs#${route.id}`;
  return `- [${address}](${url}): ${route.summary}${route.auth === "key" ? "" : " (no key)"}`;
}
