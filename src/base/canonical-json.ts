// JSON with sorted keys in base64url, the encoding of the Payment scheme's HTTP headers.

import { isObject } from "./json.ts";

/** Canonical JSON (RFC 8785) for strings, integers, arrays and objects, which clients encode again byte for byte. */
export function encodeJson(value: unknown): string {
  return Buffer.from(JSON.stringify(sortKeys(value))).toString("base64url");
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
