// Readers of untrusted JSON. The lenient ones are for providers' replies, where any field may be missing or of another
// type; the strict ones are for callers' requests and throw a 400 that names the field.

import { invalid } from "./fault.ts";

export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// ---- Lenient: `undefined` (or an empty array) for a value of another type.

export function objectIn(value: unknown): JsonObject | undefined {
  return isObject(value) ? value : undefined;
}

export function arrayIn(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : []; // Array.isArray gives any[].
}

export function stringIn(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

export function numberIn(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

/** Whether a field is set: null counts as absent. */
export function isSet(value: unknown): boolean {
  return value !== undefined && value !== null;
}

export function valueAt(object: JsonObject, path: readonly string[]): unknown {
  let value: unknown = object;
  for (const key of path) value = isObject(value) ? value[key] : undefined;
  return value;
}

/** Undefined for text that is not JSON: one malformed line must not end a stream. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function parseObject(text: string): JsonObject | undefined {
  return objectIn(parseJson(text));
}

// ---- Strict: null counts as absent, as in all of these APIs.

export function mustBeObject(value: unknown, path: string): JsonObject {
  if (!isObject(value))
    throw invalid(
      path || undefined,
      `${path === "" ? "The body" : `\`${path}\``} must be an object.`,
    );
  return value;
}

export function optionalString(value: unknown, path: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "string") throw invalid(path, `\`${path}\` must be a string.`);
  return value;
}

export function optionalBoolean(value: unknown, path: string): boolean | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "boolean") throw invalid(path, `\`${path}\` must be true or false.`);
  return value;
}

export function optionalInteger(
  value: unknown,
  path: string,
  min: number,
  max: number,
): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (!Number.isSafeInteger(value) || Number(value) < min || Number(value) > max)
    throw invalid(
      path,
      `\`${path}\` must be an integer from ${min} to ${max.toLocaleString("en-US")}.`,
    );
  return Number(value);
}
