// Reading what a client sent, of which nothing is known yet.

export type JsonObject = Readonly<Record<string, unknown>>;

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The object in a field, or an empty one. */
export function objectOrEmpty(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

export function arrayOrEmpty(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function stringOrEmpty(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export function numberOrUndefined(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

export function stringsOf(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return arrayOrEmpty(value).filter((entry): entry is string => typeof entry === "string");
}
