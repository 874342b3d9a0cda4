// Sanitizes a provider's error message about a rejected key: one short line without any part of the key.

import type { Secret } from "../base/crypto/secret.ts";
import { parseJson } from "../base/json.ts";

const MESSAGE_MAX_CHARACTERS = 300;
/** A word that shares this many consecutive characters with the key is redacted. */
const KEY_FRAGMENT_MIN_CHARACTERS = 6;

export function refusalMessage(errorBody: string, apiKey: Secret): string {
  const raw = apiKey.reveal();
  const words = errorMessageIn(errorBody)
    .split(/[\s\p{Cc}\p{Cf}]+/u)
    .filter((word) => word !== "")
    .map((word) => (revealsKey(word, raw) ? "[key]" : word))
    .join(" ");
  return words.length > MESSAGE_MAX_CHARACTERS
    ? `${words.slice(0, MESSAGE_MAX_CHARACTERS)}…`
    : words;
}

function errorMessageIn(errorBody: string): string {
  const outer = parseJson(errorBody);
  const body: unknown = Array.isArray(outer) ? outer[0] : outer;
  const error = fieldOf(body, "error");
  const candidates = [fieldOf(error, "message"), error, fieldOf(body, "message")];
  return [...candidates, fieldOf(body, "detail")].find((value) => typeof value === "string") ?? "";
}

// Providers echo keys in full, in part, or with asterisks in the middle.
function revealsKey(word: string, raw: string): boolean {
  if (/\*{2}|\.{3}[^.]|…./.test(word)) return true;
  for (let start = 0; start + KEY_FRAGMENT_MIN_CHARACTERS <= word.length; start++)
    if (raw.includes(word.slice(start, start + KEY_FRAGMENT_MIN_CHARACTERS))) return true;
  return false;
}

function fieldOf(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
  return Reflect.get(value, name);
}
