// JSON schemas for providers that take only a part of JSON Schema. A keyword that the provider rejects moves into the
// description, where the model still reads it; what no description can replace makes the schema unusable.

import { isObject, type JsonObject } from "../json-fields.ts";

export interface SchemaRules {
  readonly unsupported: ReadonlySet<string>;
  /** The supported values of `format`; undefined if all are. */
  readonly formats?: ReadonlySet<string> | undefined;
  /** Every object must have `additionalProperties: false`. */
  readonly closesObjects?: true | undefined;
  /** Has no schemas that refer to themselves. */
  readonly rejectsRecursion?: true | undefined;
}

const ARRAY_AND_OBJECT_LIMITS = ["uniqueItems", "minProperties", "maxProperties", "contains"];
const COMMON_UNSUPPORTED = [
  ...ARRAY_AND_OBJECT_LIMITS,
  ..."minLength maxLength multipleOf exclusiveMinimum exclusiveMaximum patternProperties propertyNames not if then else examples minContains maxContains dependentRequired dependentSchemas unevaluatedProperties".split(
    " ",
  ),
];

/** https://platform.claude.com/docs/en/build-with-claude/structured-outputs, also for Claude on Bedrock. */
export const CLAUDE_SCHEMA: SchemaRules = {
  unsupported: new Set([...COMMON_UNSUPPORTED, "minimum", "maximum", "minItems", "maxItems"]),
  formats: new Set("date-time time date duration email hostname uri ipv4 ipv6 uuid".split(" ")),
  closesObjects: true,
  rejectsRecursion: true,
};
/** https://ai.google.dev/gemini-api/docs/structured-output: the keywords of `responseJsonSchema`. */
export const GEMINI_SCHEMA: SchemaRules = {
  unsupported: new Set([...COMMON_UNSUPPORTED, "pattern", "default"]),
};

export interface ReducedSchema {
  readonly schema: JsonObject;
  readonly isChanged: boolean;
}

/** Undefined if the provider cannot take the schema: it is recursive, or has an object with arbitrary property names. */
export function reduceSchema(schema: JsonObject, rules: SchemaRules): ReducedSchema | undefined {
  if (rules.rejectsRecursion === true && isRecursive(schema)) return undefined;
  const state: ReduceState = { rules, isChanged: false, isUsable: true };
  const reduced = reduce(schema, state);
  if (!state.isUsable || !isObject(reduced)) return undefined;
  return { schema: state.isChanged ? reduced : schema, isChanged: state.isChanged };
}

interface ReduceState {
  readonly rules: SchemaRules;
  isChanged: boolean;
  isUsable: boolean;
}

const MAPS: ReadonlySet<string> = new Set(["properties", "$defs", "definitions"]);
const LISTS: ReadonlySet<string> = new Set(["anyOf", "oneOf", "allOf", "prefixItems"]);

function reduce(value: unknown, state: ReduceState): unknown {
  if (!isObject(value)) return value;
  const { rules } = state;
  const out: Record<string, unknown> = {};
  const moved: Record<string, unknown> = {};
  for (const [key, member] of Object.entries(value)) {
    if (isUnsupported(key, member, rules)) moved[key] = member;
    else if (MAPS.has(key) && isObject(member))
      out[key] = Object.fromEntries(
        Object.entries(member).map(([name, one]) => [name, reduce(one, state)]),
      );
    else if (LISTS.has(key) && Array.isArray(member))
      out[key] = member.map((one: unknown) => reduce(one, state));
    else if (key === "items") out[key] = reduce(member, state);
    else out[key] = member;
  }
  if (Object.keys(moved).length > 0) {
    state.isChanged = true;
    out["description"] = [value["description"], `Constraints: ${JSON.stringify(moved)}`]
      .filter((one) => typeof one === "string" && one !== "")
      .join("\n\n");
  }
  if (rules.closesObjects === true) closeObject(value, out, state);
  return out;
}

function isUnsupported(
  key: string,
  value: unknown,
  { unsupported, formats }: SchemaRules,
): boolean {
  // Claude takes the two smallest lower bounds of an array.
  if (key === "minItems" && (value === 0 || value === 1)) return false;
  if (key === "format" && formats !== undefined) return !formats.has(String(value));
  return unsupported.has(key);
}

// An object without `properties`, or with a schema for further ones, is a map, which the provider cannot express.
function closeObject(value: JsonObject, out: Record<string, unknown>, state: ReduceState): void {
  const isObjectSchema = value["type"] === "object" || isObject(value["properties"]);
  if (!isObjectSchema || value["additionalProperties"] === false) return;
  if (!isObject(value["properties"]) || isObject(value["additionalProperties"]))
    state.isUsable = false;
  state.isChanged = true;
  out["additionalProperties"] = false;
}

/** Whether a definition refers to itself, directly or through others, or the schema to its root. */
function isRecursive(schema: JsonObject): boolean {
  const definitions = new Map<string, ReadonlySet<string>>();
  for (const key of ["$defs", "definitions"])
    for (const [name, one] of Object.entries(isObject(schema[key]) ? schema[key] : {}))
      definitions.set(`#/${key}/${name}`, referencesIn(one));
  if (referencesIn(schema).has("#")) return true;
  // Depth-first search. Each definition is searched once, so that a long chain takes linear time.
  const finished = new Set<string>();
  const started = new Set<string>();
  const open = [...definitions.keys()];
  for (let next = open.at(-1); next !== undefined; next = open.at(-1)) {
    if (finished.has(next) || started.has(next)) {
      finished.add(next);
      open.pop();
      continue;
    }
    started.add(next);
    for (const reference of definitions.get(next) ?? []) {
      if (finished.has(reference)) continue;
      if (started.has(reference)) return true;
      open.push(reference);
    }
  }
  return false;
}

function referencesIn(value: unknown, found = new Set<string>()): ReadonlySet<string> {
  if (Array.isArray(value)) for (const one of value) referencesIn(one, found);
  else if (isObject(value))
    for (const [key, one] of Object.entries(value))
      if (key === "$ref" && typeof one === "string") found.add(one);
      else referencesIn(one, found);
  return found;
}
