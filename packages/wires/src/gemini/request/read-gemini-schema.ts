// Google's own form of schemas, a part of OpenAPI's, as JSON Schema.

import { isObject, type JsonObject } from "../../json-fields.ts";

const DEPTH_MAX = 64;
/** Counts, which Google's SDKs write as text. */
const COUNTS: ReadonlySet<string> = new Set([
  "minItems",
  "maxItems",
  "minProperties",
  "maxProperties",
  "minLength",
  "maxLength",
]);
/** In Google's form only: the order of properties, and a word that repeats the type. */
const DROPPED: ReadonlySet<string> = new Set(["propertyOrdering", "nullable"]);
const SNAKE_NAMES: Readonly<Record<string, string>> = {
  any_of: "anyOf",
  min_items: "minItems",
  max_items: "maxItems",
  min_properties: "minProperties",
  max_properties: "maxProperties",
  min_length: "minLength",
  max_length: "maxLength",
  property_ordering: "propertyOrdering",
};

/** The same object if it is JSON Schema already. */
export function readGeminiSchema(schema: JsonObject, depth = 0): JsonObject {
  const read: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema)) {
    const name = Object.hasOwn(SNAKE_NAMES, key) ? (SNAKE_NAMES[key] ?? key) : key;
    if (!DROPPED.has(name)) read[name] = readMember(name, value, depth);
  }
  if (schema["nullable"] === true && typeof read["type"] === "string")
    read["type"] = [read["type"], "null"];
  return read;
}

function readMember(name: string, value: unknown, depth: number): unknown {
  if (depth > DEPTH_MAX) return value;
  if (name === "type")
    return typeof value === "string" && /^[A-Z_]+$/.test(value) ? value.toLowerCase() : value;
  if (COUNTS.has(name) && typeof value === "string" && /^\d{1,15}$/.test(value))
    return Number(value);
  if (name === "properties" || name === "$defs") {
    if (!isObject(value)) return value;
    const members = Object.entries(value).map(([key, one]): [string, unknown] => [
      key,
      isObject(one) ? readGeminiSchema(one, depth + 1) : one,
    ]);
    return Object.fromEntries(members);
  }
  if (name === "items" && isObject(value)) return readGeminiSchema(value, depth + 1);
  if (name === "anyOf" && Array.isArray(value))
    return value.map((one: unknown) => (isObject(one) ? readGeminiSchema(one, depth + 1) : one));
  return value;
}
