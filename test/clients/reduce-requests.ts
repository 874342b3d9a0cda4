// Reduces the recorded requests of a client to their shapes: fields, types and enumerated words stay; prose, ids, paths and
// schemas become neutral values.

import { isObject } from "../../src/base/json.ts";
import type { Json } from "../translation/support/harness.ts";
import type { Exchange } from "./recording-proxy.ts";

export interface RecordedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Json;
}

const KEPT_HEADERS = /^(?:anthropic-(?:beta|version)|x-claude-|x-codex-|x-openai-|session|thread)/;
/** A word of the API, or the name of a tool or model. */
const WORD = /^[A-Za-z][\w.:/-]{0,47}$/;
const ID = /^(?:[a-z]{1,6}_)?(?=[\w-]*\d)[A-Za-z0-9-]{20,}(?::\d+)?$/;
const SCHEMA_FIELDS = new Set(["parameters", "parametersJsonSchema", "input_schema", "schema"]);
const PROSE_FIELDS = new Set(["description", "text", "definition", "instructions", "output"]);
const NEUTRAL_TEXT = "text";

/**
 * Those requests of one run that have a field, type or word that no later one has: a later request has the turns before it.
 * Requests that continue a stored response are left out, because a replay has other responses.
 */
export function reduceRequests(exchanges: readonly Exchange[]): readonly RecordedRequest[] {
  const ids = new Map<string, string>();
  const seen = new Set<string>();
  const kept: RecordedRequest[] = [];
  for (const { method, path, headers, body } of exchanges.toReversed()) {
    if (body === "") continue;
    // The clients send objects.
    const reduced = reduceObject(JSON.parse(body) as Json, ids);
    if ("previous_response_id" in reduced) continue;
    const shapes = [...shapesOf(reduced, "")].filter((shape) => !seen.has(shape));
    if (shapes.length === 0) continue;
    for (const shape of shapes) seen.add(shape);
    kept.push({ method, path, headers: reduceHeaders(headers, ids), body: reduced });
  }
  return kept.toReversed();
}

function reduceHeaders(headers: Headers, ids: Map<string, string>): Record<string, string> {
  return Object.fromEntries(
    [...headers]
      .filter(([name]) => KEPT_HEADERS.test(name))
      .map(([name, value]) => [
        name,
        name.startsWith("anthropic-") ? value : reduceText(name, value, ids),
      ]),
  );
}

function reduceObject(object: Json, ids: Map<string, string>): Json {
  return Object.fromEntries(
    Object.entries(object).map(([name, value]) => [name, reduceValue(name, value, ids)]),
  );
}

function reduceValue(name: string, value: unknown, ids: Map<string, string>): unknown {
  if (typeof value === "string") return reduceText(name, value, ids);
  if (Array.isArray(value)) {
    const items = value.map((item) => reduceValue(name, item, ids));
    if (name === "tools") return oneOfEachShape(items);
    return name === "content" || name === "output" ? withoutEqual(items) : items;
  }
  if (!isObject(value)) return value;
  return SCHEMA_FIELDS.has(name) && value["type"] === "object"
    ? { type: "object", properties: { value: { type: "string" } } }
    : reduceObject(value, ids);
}

function reduceText(name: string, text: string, ids: Map<string, string>): string {
  if (text === "") return text;
  if (PROSE_FIELDS.has(name)) return NEUTRAL_TEXT;
  if (ID.test(text)) return neutralId(text, ids);
  if (text.startsWith("{")) return reduceJsonText(text, ids);
  return WORD.test(text) ? text : NEUTRAL_TEXT;
}

function reduceJsonText(text: string, ids: Map<string, string>): string {
  try {
    return JSON.stringify(reduceValue("", JSON.parse(text), ids));
  } catch {
    return NEUTRAL_TEXT;
  }
}

/** Equal ids stay equal, because a result names its call. */
function neutralId(id: string, ids: Map<string, string>): string {
  const [, prefix = ""] = /^([a-z]{1,6}_)/.exec(id) ?? [];
  const known = ids.get(id) ?? `${prefix}${String(ids.size + 1).padStart(24, "0")}`;
  ids.set(id, known);
  return known;
}

function withoutEqual(parts: readonly unknown[]): readonly unknown[] {
  const texts = parts.map((part) => JSON.stringify(part));
  return parts.filter((_, index) => texts.indexOf(texts[index] ?? "") === index);
}

function oneOfEachShape(tools: readonly unknown[]): readonly unknown[] {
  const shapes = new Set<string>();
  return tools.filter((tool) => {
    const shape = [...shapesOf(tool, "")].join();
    return !shapes.has(shape) && shapes.add(shape);
  });
}

/** Every path of a field, and every value that is a type or role. */
function* shapesOf(value: unknown, path: string): Generator<string> {
  if (Array.isArray(value)) for (const item of value) yield* shapesOf(item, `${path}[]`);
  else if (isObject(value))
    for (const [name, member] of Object.entries(value)) yield* shapesOf(member, `${path}.${name}`);
  else yield /\.(?:type|role)$/.test(path) ? `${path}=${String(value)}` : path;
}
