// auth.md: errors, retries, limits and links.

import { type FaultCode, FAULTS } from "../../base/fault.ts";
import { BODY_LIMIT_DEFAULT_BYTES } from "../../http/request/body.ts";
import { MCP_PATH } from "../agents/mcp-card.ts";
import { creditsText } from "../discovery-settings.ts";
import {
  type DocContext,
  codeBlock,
  isWellKnown,
  firstSentences,
  joinParagraphs,
  markdownTable,
} from "../doc-context.ts";
import { ERROR_ADVICE, errorExample, acceptsIdempotencyKey, faultMeaning } from "../error-docs.ts";
import type { Section } from "./registration-sections.ts";

export function errorsSection(context: DocContext): Section {
  const rows = Object.entries(FAULTS).map(([code, [status, sentence]]) => {
    const advice = adviceFor(code);
    return [
      String(status),
      `\`${code}\``,
      faultMeaning(sentence),
      firstSentences(advice?.next ?? ""),
      advice?.retry ?? "",
    ];
  });
  return {
    title: "Errors",
    text: joinParagraphs([
      "Act on `code`, not on the message. Errors use the format of the API that you called. On most paths:",
      codeBlock("json", JSON.stringify(errorExample("model_not_found", "openai"), null, 2)),
      context.isMounted("POST /v1/messages")
        ? 'On `/v1/messages`, `error` has the same members and is inside Anthropic\'s `{"type":"error"}`.'
        : "",
      "`error.next`, if present, lists possible next steps as `{method, url, body, why}`; do one of them. `param` names the invalid field or header. On `402`, `affordable_max_tokens` is the longest output that the balance covers.",
      markdownTable(["Status", "`code`", "Meaning", "What to do", "Retry the same request?"], rows),
      "Errors from a model's provider keep their status and `retry-after`.",
    ]),
  };
}

function adviceFor(code: string): (typeof ERROR_ADVICE)[FaultCode] | undefined {
  return Object.entries(ERROR_ADVICE).find(([name]) => name === code)?.[1];
}

export function retrySection(context: DocContext): Section {
  const hasIdempotentRoutes = context.routes.some(acceptsIdempotencyKey);
  return {
    title: "Retries",
    text: [
      "- **With `retry-after`** (always on 429 and `overloaded`, sometimes on 409, 502 and 504): wait that many seconds, then send the same request. On `workspace_budget_reached` (403) this can be hours or days: tell the human instead of waiting.",
      "- **5xx, or no response:** send the same request after 1, 2, 4 and 8 seconds, each plus a random delay. Then stop and report the `x-request-id`.",
      "- **`provider_not_configured`:** do not retry, although it is a 503.",
      "- **Any other 4xx:** do not send the same request again. Change it, or stop.",
      "- **401 for a key that used to work:** the key was revoked or has expired. Discard it and start again at *Find an existing key*.",
      ...(hasIdempotentRoutes
        ? [
            "- **Before you retry a request that creates something,** make sure that it was sent with an `idempotency-key` header: a random string of 128 bits, the same for every retry. For 24 hours (ten minutes if it has a secret), retries return the first response.",
          ]
        : []),
    ].join("\n"),
  };
}

export function limitsSection(context: DocContext): Section {
  const { settings } = context;
  const modelCalls = context.routes.filter(({ kind }) => kind === "model");
  const largest = Math.max(0, ...modelCalls.map((route) => route.bodyLimitBytes ?? 0));
  const rows: (readonly [string, string])[] = [
    ["Starting credits", creditsText(settings.startingCredits)],
    ["Usage price", "the provider's list price, no markup"],
    ["Purchase fee", `${settings.feePercent}% of the amount, before tax`],
    [
      "Maximum request body",
      `${sizeText(BODY_LIMIT_DEFAULT_BYTES)}${largest === 0 ? "" : `; model calls ${sizeText(largest)}`}`,
    ],
  ];
  // Zero means unlimited.
  const { requestsPerMinute = 0, concurrentCalls = 0, accountsPerHour = 0 } = settings;
  if (requestsPerMinute > 0) rows.push(["Requests per key", `${requestsPerMinute} per minute`]);
  if (concurrentCalls > 0) rows.push(["Concurrent model calls per key", String(concurrentCalls)]);
  if (accountsPerHour > 0) rows.push(["New accounts per network", `${accountsPerHour} per hour`]);
  if (settings.grants !== undefined) {
    const { percentPerHour, percentPerDay } = settings.grants;
    rows.push([
      "Starting credits per network",
      `${percentPerHour}% of the gateway's daily budget per hour, and ${percentPerDay}% per day, for one IPv4 address or IPv6 /64; more for wider networks`,
    ]);
  }
  return { title: "Limits and prices", text: markdownTable(["What", "Value"], rows) };
}

const KIB = 1_024;
const MIB = 1_024 * KIB;

function sizeText(bytes: number): string {
  return bytes >= MIB ? `${bytes / MIB} MiB` : `${bytes / KIB} KiB`;
}

export function linksSection(context: DocContext): Section {
  const { settings } = context;
  const documents = context.routes.filter(
    (route) =>
      route.tag === "Discovery" &&
      route.hidden !== true &&
      !route.path.endsWith("auth.md") &&
      // The first table has the URL of the server.
      !route.path.startsWith(`${MCP_PATH}/`) &&
      !isWellKnown(route.path),
  );
  return {
    title: "Links",
    text: [
      ...documents.map(
        ({ path, responses }) =>
          `- [${path}](${settings.baseUrl}${path}): ${responses[200]?.description ?? ""}`,
      ),
      `- [Documentation](${settings.docsUrl})`,
      ...(settings.termsUrl === undefined ? [] : [`- [Terms](${settings.termsUrl})`]),
      ...(settings.privacyUrl === undefined ? [] : [`- [Privacy](${settings.privacyUrl})`]),
      ...(settings.contactUrl === undefined ? [] : [`- [Contact](${settings.contactUrl})`]),
    ].join("\n"),
  };
}
