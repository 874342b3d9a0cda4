// Readers of untrusted JSON. A field that is missing or has another type is `undefined` or an empty value.

export type JsonObject = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function arrayIn(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : []; // Array.isArray gives any[].
}

export function numberIn(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

export function objectOrEmpty(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

export function stringOrEmpty(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** A string, or the strings of an array. */
export function stringsOf(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return arrayIn(value).filter((entry): entry is string => typeof entry === "string");
}

/** A table's own member. Reading a table by a name from outside would find `toString` and other inherited members. */
export function lookUp<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
