// JSON with sorted keys; in base64url, it is the encoding of the Payment scheme's HTTP headers.

import { isObject, parseJson } from "./json.ts";

/** Canonical JSON (RFC 8785) for strings, integers, arrays and objects, which clients encode again byte for byte. */
export function encodeJson(value: unknown): string {
  return Buffer.from(canonicalText(value)).toString("base64url");
}

/** The same text for objects that differ only in the order of their keys. */
export function canonicalText(value: unknown): string {
  return JSON.stringify(sortKeys(value));
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.keys(value)
      .toSorted()
      .map((name) => [name, sortKeys(value[name])]),
  );
}

/** The value that base64url text of JSON has; undefined if it has none. */
export function decodeJson(encoded: string): unknown {
  return parseJson(Buffer.from(encoded, "base64url").toString("utf8"));
}
