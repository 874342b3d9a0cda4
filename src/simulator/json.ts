// Readers of untrusted JSON that return an empty value if a field is missing or has another type.

import { arrayIn, objectIn, stringIn, type JsonObject } from "../base/json.ts";

export function objectOrEmpty(value: unknown): JsonObject {
  return objectIn(value) ?? {};
}

export function stringOrEmpty(value: unknown): string {
  return stringIn(value) ?? "";
}

/** A string, or the strings of an array. */
export function stringsOf(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return arrayIn(value).filter((entry): entry is string => typeof entry === "string");
}
