// Paths of what a provider does not take, by the names in the body that the caller sent: with its own spelling, and without
// names that only this gateway has.

import { isObject, type JsonObject } from "../../json-fields.ts";
import { camelCase } from "./normalize-gemini-request.ts";

/** A path that leads nowhere in the body is cut after what the body has of it. */
export function sentGeminiPath(body: JsonObject, path: string): string {
  const named = namedBy(body, path);
  if (named.isWhole) return named.path;
  for (const candidate of googlePaths(path)) {
    const found = namedBy(body, candidate);
    if (found.isWhole) return found.path;
  }
  return named.path === "" ? path : named.path;
}

/** The path by the caller's own names, as far as the body has it. */
export function namedAsSent(body: JsonObject, path: string): string {
  const { path: sent, rest } = namedBy(body, path);
  return [sent, rest].filter((part) => part !== "").join(".");
}

/** The paths that a field may have in this API, if the gateway has another name for it. */
function googlePaths(path: string): readonly string[] {
  const dot = path.lastIndexOf(".");
  const parent = path.slice(0, dot);
  const name = path.slice(dot + 1);
  switch (name) {
    case "is_error":
      return [`${parent}.functionResponse.response.error`];
    case "detail":
      return [`${parent}.mediaResolution`];
    case "filename":
      return [`${parent}.inlineData.displayName`, `${parent}.fileData.displayName`];
    case "strict":
      return ["toolConfig.functionCallingConfig.mode"];
    case "schema":
      return ["parametersJsonSchema", "parameters"]
        .map((one) => `${parent}.${one}`)
        .concat(
          ["responseJsonSchema", "_responseJsonSchema", "responseSchema"].map(
            (one) => `generationConfig.${one}`,
          ),
        );
    default:
      return [`${parent}.functionCall.${name}`, `${parent}.functionResponse.${name}`];
  }
}

interface NamedPath {
  readonly path: string;
  /** What the body does not have of it. */
  readonly rest: string;
  /** Whether the body has all of it. */
  readonly isWhole: boolean;
}

function namedBy(body: JsonObject, path: string): NamedPath {
  let value: unknown = body;
  const names: string[] = [];
  const steps = path.split(".");
  for (const [depth, step] of steps.entries()) {
    const [, name = "", index] = /^([^[]*)(?:\[(\d+)\])?$/.exec(step) ?? [];
    const key = isObject(value) ? keyOf(value, name) : undefined;
    if (!isObject(value) || key === undefined)
      return { path: names.join("."), rest: steps.slice(depth).join("."), isWhole: false };
    names.push(index === undefined ? key : `${key}[${index}]`);
    const member = value[key];
    // Google takes one object for a list of one.
    value = index !== undefined && Array.isArray(member) ? member[Number(index)] : member;
  }
  return { path: names.join("."), rest: "", isWhole: true };
}

function keyOf(object: JsonObject, name: string): string | undefined {
  return Object.hasOwn(object, name)
    ? name
    : Object.keys(object).find((key) => camelCase(key) === name);
}
