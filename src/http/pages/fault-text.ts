// The message of a fault as a page shows it: without advice for API clients, and with the labels of form fields instead of
// their API names.

import type { Fault } from "../../base/fault.ts";

const FIELD_LABELS: Readonly<Record<string, string>> = {
  amount_usd: "amount",
  low_usd: "amount",
  threshold_usd: "balance threshold",
  monthly_ceiling_usd: "monthly limit",
  limit_usd: "limit",
  expires_at: "expiry date",
  url: "URL",
  provider: "provider",
  api_key: "API key",
  name: "name",
  domain: "domain",
  issuer: "issuer",
  client_id: "client id",
  client_secret: "client secret",
  header_name: "header",
  header_value: "value",
};
const API_ONLY = /\/v1\/|\/openapi\.|\/llms\.txt|`next_cursor`|`allow` header|`param`/;
const RETRY_AFTER =
  /(?:Retry after|Wait(?: for)?) `retry-after` seconds(?: and (?:try again|retry))?/g;

export function faultText({ publicMessage, options }: Fault): string {
  const { malformed, param, retryAfterSeconds } = options;
  if (malformed === "query")
    return "This page does not exist under this URL. Go back and follow the links on the page.";
  if (malformed === "body" || publicMessage.includes("`next_cursor`"))
    return malformedFormText(param);
  const text = publicMessage
    .replace(/^There is no endpoint at \S+\./, "Nothing exists at this URL.")
    .replace(/^`?(\w+)`?(?=[ :])/, (match, name: string) => labelOf(name, "The") ?? match)
    .replaceAll(/`(\w+)`/g, (match, name: string) => labelOf(name, "the") ?? match)
    .replaceAll(RETRY_AFTER, retryText(retryAfterSeconds));
  const sentences = text.split(/(?<=\.) (?=[A-Z])/);
  const forPeople = sentences.filter((sentence) => !API_ONLY.test(sentence));
  const shown = forPeople.length === 0 ? text : forPeople.join(" ");
  const unquoted = shown.replaceAll("`", "");
  const sentence = unquoted.charAt(0).toUpperCase() + unquoted.slice(1);
  return /[.!?]$/.test(sentence) ? sentence : `${sentence}.`;
}

function labelOf(name: string, article: string): string | undefined {
  const label = Object.hasOwn(FIELD_LABELS, name) ? FIELD_LABELS[name] : undefined;
  return label === undefined ? undefined : `${article} ${label}`;
}

function retryText(retryAfterSeconds: number | undefined): string {
  if (retryAfterSeconds === undefined) return "Try again later";
  const seconds = Math.max(1, Math.ceil(retryAfterSeconds));
  return `Try again in ${seconds} ${seconds === 1 ? "second" : "seconds"}`;
}

function malformedFormText(field: string | undefined): string {
  const subject = field === undefined ? "The form" : `The form field “${field}”`;
  return `${subject} is missing or invalid. Nothing was changed. Go back, reload the page and submit its form again.`;
}
