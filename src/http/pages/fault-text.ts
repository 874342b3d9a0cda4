// What a fault tells a person: its own sentence, without what only a program can do, and with a page's names for fields.

import type { Fault } from "../../base/fault.ts";

/** How the pages name what the API calls so. */
const FIELD_LABELS: Readonly<Record<string, string>> = {
  amount_usd: "The amount",
  threshold_usd: "The balance to buy below",
  monthly_ceiling_usd: "The most in a calendar month",
  limit_usd: "The limit",
  expires_at: "The last day",
  url: "The address",
  provider: "The provider",
  api_key: "The key",
  name: "The name",
};
/** What a schema says by itself of a field that no form of ours sends so. */
const SCHEMA_MESSAGE = /^(?:(\w+): )?(?:Invalid |Too (?:small|big)|Unrecognized )|`next_cursor`/;
const API_ONLY = /\/v1\/|\/openapi\.|`next_cursor`|`allow` header/;
const RETRY_AFTER_TEXT = "Wait for `retry-after` seconds";

export function faultText({ publicMessage, options }: Fault): string {
  if (publicMessage.startsWith("query "))
    return "The address holds something that this page does not know. Go back, and follow the links of the page.";
  const ofSchema = SCHEMA_MESSAGE.exec(publicMessage);
  if (ofSchema !== null) return invalidFormField(ofSchema[1] ?? options.param);
  const { retryAfterSeconds } = options;
  const wait =
    retryAfterSeconds === undefined
      ? "Wait a moment"
      : `Wait for ${Math.max(1, Math.ceil(retryAfterSeconds))} seconds`;
  const named = publicMessage
    .replace(/^(\w+)(?:: (?=(?:must|is) ))?/, (start, first: string) => {
      const name = Object.hasOwn(FIELD_LABELS, first) ? FIELD_LABELS[first] : undefined;
      return name === undefined ? start : start.endsWith(" ") ? `${name} ` : name;
    })
    .replaceAll(RETRY_AFTER_TEXT, wait);
  const sentences = named.split(/(?<=\.) (?=[A-Z])/);
  const plain = sentences.filter((sentence) => !API_ONLY.test(sentence));
  const said = plain.length === 0 ? named : plain.join(" ");
  return /[.!?]$/.test(said) ? said : `${said}.`;
}

function invalidFormField(field: string | undefined): string {
  const what = field === undefined ? "What was sent" : `The field “${field}” of the form`;
  return `${what} is missing, or holds what this page does not know. Nothing was changed. Go back, load the page again, and use its form.`;
}
