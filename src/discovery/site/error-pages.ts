// A page for each error code, written from the table of faults.

import { type FaultCode, FAULTS } from "../../base/fault.ts";
import { type Dialect, endpointSlug, type Route } from "../../http/route.ts";
import { openApiPath } from "../curl.ts";
import { codeBlock, joinParagraphs, markdownTable } from "../doc-context.ts";
import {
  ERROR_ADVICE,
  type ErrorAdvice,
  errorExample,
  faultMeaning,
  possibleFaults,
  TOKEN_ERRORS,
} from "../error-docs.ts";
import type { SitePage, SiteSection } from "./site-types.ts";

const RETRY_TEXT: Readonly<Record<ErrorAdvice["retry"], string>> = {
  no: "Do not send the same request again: it fails again.",
  "after retry-after": "Send the same request again after the seconds in the `retry-after` header.",
  "with backoff":
    "Send the same request again with exponential backoff: wait 1, 2, 4 … seconds, with some randomness.",
};

const FORMATS: readonly (readonly [Dialect, string])[] = [
  ["openai", "OpenAI format"],
  ["messages", "Anthropic format"],
  ["google", "Google format"],
];

/** Endpoints that are listed on the page of a code; beyond it most endpoints return the code. */
const ENDPOINTS_MAX = 15;

export function errorSection(routes: readonly Route[]): SiteSection {
  // Safe because FaultCode is the keys of this table; `Object.keys` returns string[].
  const codes = Object.keys(FAULTS) as FaultCode[];
  return {
    title: "Errors",
    audience: "customers",
    isCollapsed: true,
    pages: [indexPage(codes), ...codes.map((code) => errorPage(code, routes)), tokenErrorPage()],
  };
}

function indexPage(codes: readonly FaultCode[]): SitePage {
  return {
    slug: "errors",
    label: "All errors",
    markdown: joinParagraphs([
      "# Errors",
      "Every error has a stable `code` to act on, a message that says what to do, and often `next`: requests that you can make now. Act on `code` and not on the message, which may change.",
      "The body has the format of the API that you called, so the official SDKs raise their own exceptions. `x-request-id` is in every response: name it when you report a problem.",
      markdownTable(
        ["Status", "Code", "What to do", "Retry"],
        codes.map((code) => [
          String(FAULTS[code][0]),
          `[\`${code}\`](/docs/errors/${code})`,
          ERROR_ADVICE[code].next,
          ERROR_ADVICE[code].retry,
        ]),
      ),
      "Within a stream, an error is the last event and has the same fields.",
    ]),
  };
}

function errorPage(code: FaultCode, routes: readonly Route[]): SitePage {
  const [status, message] = FAULTS[code];
  const { retry, next } = ERROR_ADVICE[code];
  return {
    slug: `errors/${code}`,
    label: code,
    keywords: `${status} ${message}`,
    markdown: joinParagraphs([
      `# \`${code}\``,
      `HTTP status ${status}.`,
      "## Cause",
      faultMeaning(message),
      "## Fix",
      next,
      "## Retry",
      RETRY_TEXT[retry],
      "## Endpoints",
      endpointList(code, routes),
    ]),
    examples: joinParagraphs([
      "**Response body**",
      [
        `<!-- tabs: ${FORMATS.map(([, label]) => label).join(", ")} -->`,
        ...FORMATS.map(([dialect]) =>
          codeBlock("json", JSON.stringify(errorExample(code, dialect), null, 2)),
        ),
        "<!-- /tabs -->",
      ].join("\n"),
    ]),
  };
}

function endpointList(code: FaultCode, routes: readonly Route[]): string {
  const documented = routes.filter((route) => route.hidden !== true);
  const returning = documented.filter((route) => possibleFaults(route).includes(code));
  if (returning.length === 0) return "Requests that match no endpoint.";
  if (returning.length > ENDPOINTS_MAX)
    return returning.length === documented.length
      ? "All endpoints."
      : `${returning.length} of ${documented.length} endpoints; the page of each endpoint lists its errors.`;
  return returning
    .map(
      (route) =>
        `- [\`${route.method} ${openApiPath(route.path)}\`](/docs/${endpointSlug(route.id)})`,
    )
    .join("\n");
}

function tokenErrorPage(): SitePage {
  return {
    slug: "errors/token-endpoint",
    label: "Token endpoint",
    markdown: joinParagraphs([
      "# Errors of the token endpoint",
      "`POST /oauth2/token` returns errors in the format of RFC 6749, with the codes of RFC 8628. Agents poll it to learn whether a person has [claimed](/docs/claim) the account.",
      markdownTable(
        ["Status", "`error`", "Meaning", "What to do"],
        TOKEN_ERRORS.map(({ status, error, meaning, next }) => [
          String(status),
          `\`${error}\``,
          meaning,
          next,
        ]),
      ),
    ]),
  };
}
