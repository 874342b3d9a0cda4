// The arguments of tool calls as JSON text.

import { isObject, optionalString } from "../../json-fields.ts";

/** For a call without arguments, clients omit the field, or send an empty text or `null`. */
export function readArguments(value: unknown, path: string): string {
  if (isObject(value)) return JSON.stringify(value);
  const text = optionalString(value, path);
  const isEmpty = text === undefined || text.trim() === "" || text.trim() === "null";
  return isEmpty ? "{}" : text;
}
