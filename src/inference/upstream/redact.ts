// Removes keys, account names and ids from a provider's error message: it may quote the key that was sent and name the
// organization that owns it.

import type { Credential } from "../providers/credentials.ts";

/**
 * The forms of the providers' keys and account ids. Error messages also contain ordinary words of this form, such as
 * `api_connection`. A match is a key only if a digit or a capital follows within 64 characters (a bound that keeps long texts
 * cheap to scan), or if it has a run of 16 letters, which words do not have. UUIDs are Anthropic's organizations and
 * xAI's teams; Google's projects and Amazon's accounts are parts of paths.
 */
const SECRET_PATTERNS: readonly (readonly [pattern: RegExp, instead: string])[] = [
  [/\b(sk|pk|gsk|xai|rk|pplx|csk|fw)[-_](?=[a-z*_-]{0,64}[A-Z\d*])[A-Za-z0-9*_-]{8,}/g, "[key]"],
  [/\b(sk|pk|gsk|xai|rk|pplx|csk|fw)[-_](?:[a-z]{1,16}[-_]){0,3}[a-z]{16}[a-z_-]*/g, "[key]"],
  [/\b(key|api)[-_](?=[a-z*_-]{0,64}[A-Z\d*])[A-Za-z0-9*_-]{8,}/g, "[key]"],
  [/\b(org|proj|project|acct)-[A-Za-z0-9]{8,}/g, "[account]"],
  [/\b(org|proj|project|acct|team|user)[-_](?=[a-z]*[A-Z\d])[A-Za-z0-9]{8,}/g, "[account]"],
  [/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gi, "[id]"],
  [/\b(projects?\/|project_number:|project_id:)[\w-]{4,}/g, "$1[account]"],
  [/\barn:aws[\w-]*:([\w-]*):([\w-]*):\d{12}:/g, "arn:aws:$1:$2:[account]:"],
  [/\bAIza[\w-]{20,}/g, "[key]"],
  [/\bBearer\s+\S+/gi, "Bearer [key]"],
];

export function redact(text: string, { apiKey }: Credential): string {
  const raw = apiKey?.reveal() ?? "";
  const withoutSentKey = raw.length >= 8 ? text.replaceAll(raw, "[key]") : text;
  return SECRET_PATTERNS.reduce(
    (clean, [pattern, instead]) => clean.replaceAll(pattern, instead),
    withoutSentKey,
  );
}
