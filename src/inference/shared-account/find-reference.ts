// Searches a request body for references to storage in the provider account, and for fields with text that the gateway does
// not know, which could be references. References are listed in reference-table.ts, known fields in known-members.ts. Fields
// that contain the caller's own data, such as the arguments of a function, are skipped.

import { WIRE_TRAITS } from "@postern/wires";
import { isObject, type JsonObject } from "../../base/json.ts";
import { isBareItem, isEmptyItem } from "./bare-items.ts";
import { isCallerData } from "./caller-data.ts";
import { membersOf } from "./known-members.ts";
import { hasUnknownType, membersOfUnknownType } from "./known-types.ts";
import { couldIdentify } from "./plain-words.ts";
import {
  fieldRule,
  GOOGLE_EXTRA_FIELDS,
  type ReferenceRule,
  ROOT,
  ROOT_REFERENCES,
  SEND_HISTORY,
  snakeCase,
} from "./reference-table.ts";
import type { Destination } from "./source-url.ts";
import { type FoundReference, inText, type Position } from "./text-reference.ts";

/** Deeper than the JSON that the gateway accepts. */
const DEPTH_MAX = 200;

/** The first reference; its path is that in the body. `parent` is the field that contains the object, if it is not the body. */
export function findReference(
  body: JsonObject,
  destination: Destination,
  parent = ROOT,
): FoundReference | undefined {
  const members = destination.allowsUnknown ? undefined : membersOf(parent);
  return inObject(body, { parent, depth: 0, isTool: parent === "tools", members, destination });
}

function inObject(object: JsonObject, outer: Position): FoundReference | undefined {
  const bare = asBareItem(object, outer);
  if (bare !== undefined) return bare;
  const position = positionOf(object, outer);
  const { members } = position;
  for (const key in object) {
    const value = object[key];
    if (isNullOrNumber(value)) continue;
    const known = knownField(key, position);
    const isKnown = members === undefined || known !== undefined;
    const rule = known === undefined ? fieldRule(key) : known;
    // Most of a body is text, so it is skipped first.
    if (isKnown && rule?.kind === "text" && typeof value === "string") continue;
    if (isCallerData(key, object, position.parent)) continue;
    const found =
      rule?.kind === "reference"
        ? asReference(key, value, rule)
        : isKnown
          ? inField(key, value, object, position)
          : inUnknown(key, value, object, position);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** A tool has fields that only this wire has: elsewhere, what they turn on has no known price. */
function knownField(key: string, { members, parent, destination }: Position) {
  const listed = members?.get(key);
  if (listed !== undefined || parent !== "tools") return listed;
  return WIRE_TRAITS[destination.wire].toolFields?.has(key) === true ? null : undefined;
}

function asBareItem(item: JsonObject, { parent, depth }: Position): FoundReference | undefined {
  if (depth !== 1 || parent !== "input" || !isBareItem(item)) return undefined;
  return { path: "id", alternative: isEmptyItem(item) ? undefined : SEND_HISTORY };
}

/** An object of an unknown type has fewer known fields. */
function positionOf(object: JsonObject, outer: Position): Position {
  return outer.members !== undefined && hasUnknownType(object, outer.parent)
    ? { ...outer, members: membersOfUnknownType() }
    : outer;
}

function isNullOrNumber(value: unknown): value is null | undefined | number {
  return value === null || value === undefined || typeof value === "number";
}

function asReference(
  path: string,
  value: unknown,
  { alternative }: ReferenceRule,
): FoundReference | undefined {
  return isPresent(value) ? { path, alternative } : undefined;
}

// Below an unknown field, references are looked for first, because their error is more specific.
function inUnknown(
  key: string,
  value: unknown,
  holder: JsonObject,
  position: Position,
): FoundReference | undefined {
  const found = inField(key, value, holder, { ...position, members: undefined });
  if (found !== undefined) return found;
  // In a tool, an object enables the feature that the field names, and features can have a price.
  const isFeature = position.parent === "tools" && isObject(value);
  return isFeature || couldIdentify(key, value) ? { path: key, alternative: undefined } : undefined;
}

function inField(
  key: string,
  value: unknown,
  holder: JsonObject,
  position: Position,
): FoundReference | undefined {
  const { parent } = position;
  if (parent === ROOT) {
    const alternative = ROOT_REFERENCES.get(key);
    if (alternative !== undefined && isPresent(value)) return { path: key, alternative };
    if (key === "extra_body") return inExtraBody(value, position);
  }
  if (typeof value === "string") return inText(key, value, holder, position);
  if (typeof value !== "object" || value === null) return undefined;
  if (position.depth >= DEPTH_MAX) return { path: key, alternative: "Nest it less deeply" };
  const isTool = position.isTool || key === "tools" || key === "mcp_servers";
  const { destination, depth } = position;
  const members = position.members === undefined ? undefined : membersOf(key);
  const next = { parent: key, depth: depth + 1, isTool, members, destination };
  if (!Array.isArray(value)) return prefixed(key, inObject(value as JsonObject, next)); // An object: not null, no array.
  return prefixed(key, inArray(key, value, next, position));
}

function inArray(
  key: string,
  list: readonly unknown[],
  next: Position,
  position: Position,
): FoundReference | undefined {
  for (let index = 0; index < list.length; index++) {
    const item = list[index];
    if (typeof item === "number") continue;
    const found = isObject(item)
      ? inObject(item, next)
      : Array.isArray(item) && next.depth < DEPTH_MAX
        ? inArray(key, item, { ...next, depth: next.depth + 1 }, position)
        : typeof item === "string"
          ? inText(key, item, {}, position)
          : undefined;
    // A string's path is its field, so it is replaced by the index.
    if (found !== undefined)
      return typeof item === "string"
        ? { ...found, path: `[${index}]` }
        : prefixed(`[${index}]`, found);
  }
  return undefined;
}

// The OpenAI-compatible API of Google is the only one with this field.
function inExtraBody(extra: unknown, position: Position): FoundReference | undefined {
  if (!isObject(extra)) return undefined;
  const allowed = [...GOOGLE_EXTRA_FIELDS].map((name) => `\`google.${name}\``).join(" and ");
  const alternative = `Of \`extra_body\`, send only ${allowed}`;
  for (const [key, value] of Object.entries(extra)) {
    if (!isPresent(value)) continue;
    if (key !== "google" || !isObject(value)) return { path: `extra_body.${key}`, alternative };
    for (const [name, setting] of Object.entries(value))
      if (isPresent(setting) && !GOOGLE_EXTRA_FIELDS.has(snakeCase(name)))
        return { path: `extra_body.google.${name}`, alternative };
    const members = position.members && membersOf(key);
    const found = inObject(value, { ...position, parent: key, members });
    if (found !== undefined) return prefixed("extra_body.google", found);
  }
  return undefined;
}

function isPresent(value: unknown): boolean {
  return (
    value !== undefined &&
    value !== null &&
    value !== false &&
    !(Array.isArray(value) && value.length === 0)
  );
}

function prefixed(path: string, found: FoundReference | undefined): FoundReference | undefined {
  if (found === undefined) return undefined;
  const separator = found.path.startsWith("[") ? "" : ".";
  return { ...found, path: `${path}${separator}${found.path}` };
}
