// Searches a request body for references to storage in the provider account. Which fields count is in reference-table.ts;
// fields that contain the caller's own data, such as the arguments of a function, are skipped.

import { isObject, type JsonObject } from "../../base/json.ts";
import { isCallerData } from "./caller-data.ts";
import {
  fieldRule,
  GOOGLE_EXTRA_FIELDS,
  ID_HOLDERS,
  REFERENCE_TYPES,
  ROOT,
  ROOT_REFERENCES,
  snakeCase,
} from "./reference-table.ts";
import { type Destination, isAllowedSource, isStorageValue } from "./source-url.ts";

export interface StoredReference {
  readonly path: string;
  readonly alternative: string;
}

/** Deeper than the JSON that the gateway accepts. */
const DEPTH_MAX = 200;
export const SEND_SOURCE =
  "Send its content as base64, or as an `https:` URL of a public web server";

interface Position {
  /** The field that contains the object, also through an array. */
  readonly parent: string;
  readonly depth: number;
  /** URLs in tools are of the caller's own servers. */
  readonly isTool: boolean;
  readonly destination: Destination;
}

/** The first reference; its path is that in the body. `parent` is the field that contains the object, if it is not the body. */
export function findReference(
  body: JsonObject,
  destination: Destination,
  parent = ROOT,
): StoredReference | undefined {
  return inObject(body, { parent, depth: 0, isTool: parent === "tools", destination });
}

function inObject(object: JsonObject, position: Position): StoredReference | undefined {
  for (const key in object) {
    const value = object[key];
    if (value === null || value === undefined || typeof value === "number") continue;
    const rule = fieldRule(key);
    // Most of a body is text, so it is skipped first.
    if (rule?.kind === "text" && typeof value === "string") continue;
    if (isCallerData(key, object, position.parent)) continue;
    if (rule?.kind === "reference") {
      if (isPresent(value)) return { path: key, alternative: rule.alternative };
      continue;
    }
    const found = inField(key, value, object, position);
    if (found !== undefined) return found;
  }
  return undefined;
}

function inField(
  key: string,
  value: unknown,
  holder: JsonObject,
  position: Position,
): StoredReference | undefined {
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
  const next = { parent: key, depth: depth + 1, isTool, destination };
  if (!Array.isArray(value)) return prefixed(key, inObject(value as JsonObject, next)); // An object: not null, no array.
  return prefixed(key, inArray(key, value, next, position));
}

function inArray(
  key: string,
  list: readonly unknown[],
  next: Position,
  position: Position,
): StoredReference | undefined {
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

function inText(
  key: string,
  value: string,
  holder: JsonObject,
  { parent, isTool, destination }: Position,
): StoredReference | undefined {
  if (key === "type") {
    const alternative = REFERENCE_TYPES.get(value);
    return alternative === undefined ? undefined : { path: key, alternative };
  }
  if (key === "id") {
    const alternative = ID_HOLDERS.get(parent);
    return alternative === undefined ? undefined : { path: key, alternative };
  }
  if (key === "container")
    return { path: key, alternative: "Let the provider create a new container" };
  const kind = fieldRule(key)?.kind;
  if (kind === "text") return undefined;
  const isMedia = kind === "media" || (kind === "url" && isMediaHolder(parent, holder));
  const isAllowed =
    isMedia || (kind === "url" && !isTool)
      ? isAllowedSource(value, isMedia, destination)
      : !isStorageValue(value);
  return isAllowed ? undefined : { path: key, alternative: SEND_SOURCE };
}

const MEDIA_TYPE = /^(?:input_)?(?:image|video|audio|document|file)(?:_url)?$|^url$/;

function isMediaHolder(parent: string, { type }: JsonObject): boolean {
  return (
    fieldRule(parent)?.kind === "media" ||
    fieldRule(parent)?.kind === "url" ||
    (typeof type === "string" && MEDIA_TYPE.test(type))
  );
}

// The OpenAI-compatible API of Google is the only one with this field.
function inExtraBody(extra: unknown, position: Position): StoredReference | undefined {
  if (!isObject(extra)) return undefined;
  const allowed = [...GOOGLE_EXTRA_FIELDS].map((name) => `\`google.${name}\``).join(" and ");
  const alternative = `Of \`extra_body\`, send only ${allowed}`;
  for (const [key, value] of Object.entries(extra)) {
    if (!isPresent(value)) continue;
    if (key !== "google" || !isObject(value)) return { path: `extra_body.${key}`, alternative };
    for (const [name, setting] of Object.entries(value))
      if (isPresent(setting) && !GOOGLE_EXTRA_FIELDS.has(snakeCase(name)))
        return { path: `extra_body.google.${name}`, alternative };
    const found = inObject(value, { ...position, parent: key });
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

function prefixed(path: string, found: StoredReference | undefined): StoredReference | undefined {
  if (found === undefined) return undefined;
  const separator = found.path.startsWith("[") ? "" : ".";
  return { ...found, path: `${path}${separator}${found.path}` };
}
