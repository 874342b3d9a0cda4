// Google's JSON takes every field by its camelCase name and by its snake_case name, and one object for a list of one. Here a
// body gets the names and lists of Google's own SDKs, so that one reader is enough.

import { invalid } from "../../invalid-request.ts";
import { isObject, type JsonObject } from "../../json-fields.ts";

/** Fields with data of the caller, whose names are not Google's. */
const DATA_FIELDS: ReadonlySet<string> = new Set([
  "args",
  "response",
  "parameters",
  "parametersJsonSchema",
  "responseSchema",
  "responseJsonSchema",
  "_responseJsonSchema",
  "labels",
  "headers",
]);
/** Fields for a gateway itself. */
const GATEWAY_FIELDS: ReadonlySet<string> = new Set(["postern", "provider", "models"]);
const LISTS: ReadonlySet<string> = new Set([
  "contents",
  "parts",
  "tools",
  "functionDeclarations",
  "safetySettings",
]);

/** The same object if nothing has to be changed. */
export function normalizeGeminiRequest(body: JsonObject): JsonObject {
  return normalizeObject(body, "");
}

function normalizeObject(object: JsonObject, path: string): JsonObject {
  const normalized: Record<string, unknown> = {};
  let isChanged = false;
  for (const [key, value] of Object.entries(object)) {
    if (path === "" && GATEWAY_FIELDS.has(key)) {
      normalized[key] = value;
      continue;
    }
    const name = camelCase(key);
    const at = path === "" ? name : `${path}.${name}`;
    if (name !== key && Object.hasOwn(object, name))
      throw invalid(at, `\`${at}\` is also sent as \`${key}\`. Send it once.`);
    const changed = DATA_FIELDS.has(name) ? value : normalizeValue(value, at, LISTS.has(name));
    isChanged ||= name !== key || changed !== value;
    normalized[name] = changed;
  }
  return isChanged ? normalized : object;
}

function normalizeValue(value: unknown, path: string, isList: boolean): unknown {
  if (Array.isArray(value)) {
    const list = value.map((one: unknown, at) => normalizeValue(one, `${path}[${at}]`, false));
    return list.some((one, at) => one !== value[at]) ? list : value;
  }
  if (!isObject(value)) return value;
  return isList ? [normalizeObject(value, `${path}[0]`)] : normalizeObject(value, path);
}

/** Names with a leading underscore are Google's own. */
export function camelCase(name: string): string {
  return name.replaceAll(/([a-z0-9])_([a-z0-9])/g, (_, before: string, letter: string) =>
    before.concat(letter.toUpperCase()),
  );
}
