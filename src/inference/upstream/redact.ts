// Removes keys, account names and ids from a provider's error message: it may quote the key that was sent and name the
// organization that owns it.

import type { Credential } from "../providers/credentials.ts";

/**
 * How providers write keys and accounts. Words of the same form, such as `api_connection`, are told apart by a digit or a
 * capital within 64 characters, so that long texts stay cheap to scan, or, for keys, by a run of more letters than a word has.
 * Anthropic's organizations and xAI's teams are UUIDs; Google's projects and Amazon's accounts are parts of paths.
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
  const clean = raw.length >= 8 ? text.replaceAll(raw, "[key]") : text;
  return SECRET_PATTERNS.reduce((so, [pattern, instead]) => so.replaceAll(pattern, instead), clean);
}
