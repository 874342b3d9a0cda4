// auth.md, the tables at its end: errors, retries, limits, links.

import { type FaultCode, FAULTS } from "../../base/fault.ts";
import { BODY_LIMIT_DEFAULT_BYTES } from "../../http/request/body.ts";
import { type DocContext, codeBlock, joinParagraphs, markdownTable } from "../doc-context.ts";
import { ERROR_ADVICE, errorExample, acceptsIdempotencyKey } from "../error-docs.ts";
import type { Section } from "./registration-sections.ts";
import { creditsText } from "../discovery-settings.ts";

export function errorsSection(context: DocContext): Section {
  const rows = Object.entries(FAULTS).map(([code, [status, sentence]]) => {
    const advice = adviceFor(code);
    return [
      String(status),
      `\`${code}\``,
      firstSentence(sentence),
      advice?.next ?? "",
      advice?.retry ?? "",
    ];
  });
  const { baseUrl } = context.settings;
  return {
    title: "Errors",
    text: joinParagraphs([
      "Act on `code`, not on the words. Errors have the form of the API that you called. On most paths:",
      codeBlock(
        "json",
        JSON.stringify(errorExample("model_not_found", "openai", baseUrl), null, 2),
      ),
      context.isMounted("POST /v1/messages") ? "On `/v1/messages`:" : "",
      context.isMounted("POST /v1/messages")
        ? codeBlock(
            "json",
            JSON.stringify(errorExample("model_not_found", "messages", baseUrl), null, 2),
          )
        : "",
      "Where the next step is known, `error.next` holds it as data: a list of `{method, url, body, why}`. Do one of these. `param` names the field or header that is wrong. On a `402`, `affordable_max_tokens` says how long an answer the balance covers.",
      markdownTable(["Status", "`code`", "Meaning", "What to do", "Same request again?"], rows),
      "A provider's own error keeps its status and its `retry-after`.",
    ]),
  };
}

function adviceFor(code: string): (typeof ERROR_ADVICE)[FaultCode] | undefined {
  return Object.entries(ERROR_ADVICE).find(([name]) => name === code)?.[1];
}

export function retrySection(context: DocContext): Section {
  const hasIdempotentRoutes = context.routes.some(acceptsIdempotencyKey);
  return {
    title: "Trying again",
    text: [
      "- **`retry-after` is there** (always with 429 and `overloaded`, sometimes with 409, 502 and 504): wait that many seconds, then send the same request. With `workspace_budget_reached` (403) it may be hours or days: tell the human instead of waiting.",
      "- **5xx, or no answer at all:** send the same request after 1, 2, 4 and 8 seconds, each with some random time on top; then stop and report the `x-request-id`.",
      "- **`provider_not_configured`:** do not repeat it; it is 503, but waiting does not help.",
      "- **Any other 4xx:** do not send the same request again. Change it, or stop.",
      "- **401 on a key that worked:** it was revoked or has expired. Drop it, and begin at *Look for a key first*.",
      ...(hasIdempotentRoutes
        ? [
            "- **Before you repeat a request that creates something,** be sure that you sent it with an `idempotency-key` header: a random text of 16 to 255 characters, the same for each repetition. For 24 hours it gets the first answer again.",
          ]
        : []),
    ].join("\n"),
  };
}

export function limitsSection(context: DocContext): Section {
  const { settings } = context;
  const large = context.routes.filter(
    (route) => (route.bodyLimitBytes ?? 0) > BODY_LIMIT_DEFAULT_BYTES,
  );
  const largest = Math.max(0, ...large.map((route) => route.bodyLimitBytes ?? 0));
  const rows: (readonly [string, string])[] = [
    ["Starting credit", creditsText(settings.startingCredits)],
    ["Price of usage", "the provider's list price, no markup"],
    ["Fee on a purchase of credits", `${settings.feePercent} % of the amount, before tax`],
    [
      "Request body",
      `${sizeText(BODY_LIMIT_DEFAULT_BYTES)}${largest === 0 ? "" : `; model calls ${sizeText(largest)}`}`,
    ],
  ];
  // Zero is no limit.
  const { requestsPerMinute = 0, concurrentCalls = 0, accountsPerHour = 0 } = settings;
  if (requestsPerMinute > 0) rows.push(["Requests of one key", `${requestsPerMinute} a minute`]);
  if (concurrentCalls > 0) rows.push(["Model calls of one key at once", String(concurrentCalls)]);
  if (accountsPerHour > 0)
    rows.push(["New accounts from one network", `${accountsPerHour} an hour`]);
  return { title: "Limits and prices", text: markdownTable(["What", "Value"], rows) };
}

function sizeText(bytes: number): string {
  return bytes >= 1_048_576 ? `${bytes / 1_048_576} MiB` : `${bytes / 1_024} KiB`;
}

export function linksSection(context: DocContext): Section {
  const { settings } = context;
  const documents = context.routes.filter(
    (route) =>
      route.tag === "Discovery" && route.hidden !== true && !route.path.endsWith("auth.md"),
  );
  return {
    title: "More",
    text: [
      ...documents.map((route) => `- [${route.summary}](${settings.baseUrl}${route.path})`),
      `- [Documentation for humans](${settings.docsUrl})`,
      ...(settings.termsUrl === undefined ? [] : [`- [Terms](${settings.termsUrl})`]),
      ...(settings.privacyUrl === undefined ? [] : [`- [Privacy](${settings.privacyUrl})`]),
      ...(settings.contactUrl === undefined ? [] : [`- [Contact](${settings.contactUrl})`]),
    ].join("\n"),
  };
}

/** The rest of a fault's sentence says what to do, which has its own column. */
function firstSentence(text: string): string {
  return /^.*?\.(?= |$)/.exec(text)?.[0] ?? text;
}
