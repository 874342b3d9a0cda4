// Readers of untrusted JSON. The lenient ones are for providers' replies, where any field may be missing or of another
// type; the strict ones are for callers' requests and throw an `InvalidRequest` that names the field.

import { invalid } from "./invalid-request.ts";

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

/** An array index below `limit`, or undefined. */
export function indexIn(value: unknown, limit: number): number | undefined {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value < limit
    ? value
    : undefined;
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

export function mustBeArray(value: unknown, path: string): readonly unknown[] {
  if (!Array.isArray(value)) throw invalid(path, `\`${path}\` must be an array.`);
  return value as readonly unknown[]; // Array.isArray gives any[].
}

export function mustBeString(value: unknown, path: string): string {
  if (typeof value !== "string") throw invalid(path, `\`${path}\` must be a string.`);
  return value;
}

export function mustBeName(value: unknown, path: string): string {
  if (typeof value !== "string" || value === "")
    throw invalid(path, `\`${path}\` must be a non-empty string.`);
  return value;
}

export function optionalObject(value: unknown, path: string): JsonObject | undefined {
  return value === undefined || value === null ? undefined : mustBeObject(value, path);
}

export function optionalArray(value: unknown, path: string): readonly unknown[] | undefined {
  return value === undefined || value === null ? undefined : mustBeArray(value, path);
}

export function optionalString(value: unknown, path: string): string | undefined {
  return value === undefined || value === null ? undefined : mustBeString(value, path);
}

export function optionalBoolean(value: unknown, path: string): boolean | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "boolean") throw invalid(path, `\`${path}\` must be true or false.`);
  return value;
}

export function optionalNumber(
  value: unknown,
  path: string,
  min: number,
  max: number,
): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || !(value >= min && value <= max))
    throw invalid(path, `\`${path}\` must be a number from ${min} to ${max}.`);
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

export function oneOf<const T extends string>(
  value: unknown,
  path: string,
  allowed: readonly T[],
): T {
  const found = allowed.find((one) => one === value);
  if (found === undefined) {
    const values = allowed.map((one) => `\`${one}\``).join(", ");
    throw invalid(path, `\`${path}\` must be one of ${values}.`);
  }
  return found;
}

export function optionalOneOf<const T extends string>(
  value: unknown,
  path: string,
  allowed: readonly T[],
): T | undefined {
  return value === undefined || value === null ? undefined : oneOf(value, path, allowed);
}

/** The fields outside `known` that are set: the content of `NativeFields`. */
export function unknownFields(
  object: JsonObject,
  known: ReadonlySet<string>,
): JsonObject | undefined {
  let rest: Record<string, unknown> | undefined;
  for (const key in object) {
    if (known.has(key) || object[key] === null || object[key] === undefined) continue;
    rest ??= {};
    rest[key] = object[key];
  }
  return rest;
}

/** Undefined for an object whose members are all undefined. */
export function omitIfEmpty(object: JsonObject): JsonObject | undefined {
  return Object.values(object).some((value) => value !== undefined) ? object : undefined;
}

export function valueAt(object: JsonObject, path: readonly string[]): unknown {
  let value: unknown = object;
  for (const key of path) value = isObject(value) ? value[key] : undefined;
  return value;
}

/** A table's own member. Reading a table by a name from outside would find `toString` and other inherited members. */
export function lookUp<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
