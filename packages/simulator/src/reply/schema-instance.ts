// Generates a value that is valid against a JSON schema, always the same one for the same schema.

import {
  isObject,
  arrayIn,
  numberIn,
  type JsonObject,
  lookUp,
  stringOrEmpty,
  stringsOf,
} from "../json-readers.ts";

/** From this depth on only required members are generated, so that recursive schemas terminate. */
const OPTIONAL_DEPTH_MAX = 4;
const MAX_DEPTH = 24;
const MAX_ITEMS = 200;

const FORMATS: Readonly<Record<string, string>> = {
  "date-time": "2026-01-02T03:04:05Z",
  date: "2026-01-02",
  time: "03:04:05Z",
  duration: "P1D",
  email: "agent@example.com",
  "idn-email": "agent@example.com",
  hostname: "example.com",
  uri: "https://example.com/",
  url: "https://example.com/",
  "uri-reference": "/example",
  iri: "https://example.com/",
  uuid: "123e4567-e89b-42d3-a456-426614174000",
  ipv4: "192.0.2.1",
  ipv6: "2001:db8::1",
  byte: "ZXhhbXBsZQ==",
};

interface GenerationContext {
  readonly root: unknown;
  /** The name of the property that holds the value. */
  readonly name: string;
  readonly depth: number;
  /** The index among several values, which differ if the schema allows it. */
  readonly variant: number;
}

export function schemaInstance(schema: unknown, variant = 0): unknown {
  return generate(schema, { root: schema, name: "value", depth: 0, variant });
}

function generate(schema: unknown, context: GenerationContext): unknown {
  if (!isObject(schema) || context.depth > MAX_DEPTH) return null;
  const plain = flatten(schema, context, 0);
  if ("const" in plain) return plain["const"];
  const choices = arrayIn(plain["enum"]);
  if (choices.length > 0) return choices[context.variant % choices.length];
  switch (typeOf(plain)) {
    case "object":
      return makeObject(plain, context);
    case "array":
      return makeArray(plain, context);
    case "string":
      return makeString(plain, context);
    case "integer":
      return makeNumber(plain, context, true);
    case "number":
      return makeNumber(plain, context, false);
    case "boolean":
      return context.variant % 2 === 0;
    default:
      return null;
  }
}

/** Resolves `$ref` and merges `allOf` and the picked alternative of `anyOf` and `oneOf` into one schema. */
function flatten(schema: JsonObject, context: GenerationContext, hops: number): JsonObject {
  if (hops > MAX_DEPTH) return schema;
  const { $ref: reference, allOf, anyOf, oneOf, ...rest } = schema;
  let flat: JsonObject = rest;
  const target =
    typeof reference === "string" ? resolveReference(context.root, reference) : undefined;
  if (isObject(target)) flat = merge(flatten(target, context, hops + 1), flat);
  for (const part of arrayIn(allOf))
    if (isObject(part)) flat = merge(flat, flatten(part, context, hops + 1));
  for (const alternatives of [anyOf, oneOf]) {
    const picked = pickAlternative(arrayIn(alternatives), context);
    if (picked !== undefined) flat = merge(flat, flatten(picked, context, hops + 1));
  }
  return flat;
}

/** The first alternative that is not null; at depth, the one with the least nesting. */
function pickAlternative(
  alternatives: readonly unknown[],
  context: GenerationContext,
): JsonObject | undefined {
  const usable = alternatives.filter(isObject);
  if (context.depth < OPTIONAL_DEPTH_MAX)
    return usable.find((entry) => entry["type"] !== "null") ?? usable[0];
  return usable.toSorted((a, b) => nestingCost(a, context) - nestingCost(b, context))[0];
}

function nestingCost(schema: JsonObject, context: GenerationContext): number {
  const target =
    typeof schema["$ref"] === "string" ? resolveReference(context.root, schema["$ref"]) : schema;
  if (!isObject(target)) return 9;
  if (target["type"] === "null") return 0;
  const requiredCount = stringsOf(target["required"]).length + (numberIn(target["minItems"]) ?? 0);
  return typeOf(target) === "object" || typeOf(target) === "array" ? 2 + requiredCount : 1;
}

function merge(a: JsonObject, b: JsonObject): JsonObject {
  const both: Record<string, unknown> = { ...a, ...b };
  if (isObject(a["properties"]) && isObject(b["properties"]))
    both["properties"] = { ...a["properties"], ...b["properties"] };
  const required = [...stringsOf(a["required"]), ...stringsOf(b["required"])];
  if (required.length > 0) both["required"] = [...new Set(required)];
  for (const [key, stricter] of BOUNDS) {
    const [left, right] = [numberIn(a[key]), numberIn(b[key])];
    if (left !== undefined && right !== undefined) both[key] = stricter(left, right);
  }
  return both;
}

const BOUNDS: readonly (readonly [string, (a: number, b: number) => number])[] = [
  ["minimum", Math.max],
  ["exclusiveMinimum", Math.max],
  ["minLength", Math.max],
  ["minItems", Math.max],
  ["maximum", Math.min],
  ["exclusiveMaximum", Math.min],
  ["maxLength", Math.min],
  ["maxItems", Math.min],
];

function resolveReference(root: unknown, reference: string): unknown {
  if (!reference.startsWith("#")) return undefined;
  let value: unknown = root;
  for (const step of reference.slice(1).split("/").slice(1)) {
    const key = decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(value)) value = value[Number(key)];
    else value = isObject(value) ? value[key] : undefined;
  }
  return value;
}

function typeOf(schema: JsonObject): string {
  // Gemini writes its types in capitals.
  const types = stringsOf(schema["type"]).map((type) => type.toLowerCase());
  const stated = types.find((type) => type !== "null") ?? types[0];
  if (stated !== undefined) return stated;
  if ("properties" in schema || "required" in schema || "additionalProperties" in schema)
    return "object";
  if ("items" in schema || "prefixItems" in schema || "minItems" in schema) return "array";
  return "minimum" in schema || "maximum" in schema || "multipleOf" in schema ? "number" : "string";
}

function makeObject(schema: JsonObject, context: GenerationContext): JsonObject {
  const properties = isObject(schema["properties"]) ? schema["properties"] : {};
  const required = new Set(stringsOf(schema["required"]));
  const result: Record<string, unknown> = {};
  const includesOptional = context.depth < OPTIONAL_DEPTH_MAX;
  const maxCount = numberIn(schema["maxProperties"]) ?? Infinity;
  const names = [
    ...required,
    ...Object.keys(properties).filter((name) => !required.has(name) && properties[name] !== false),
  ];
  for (const name of names) {
    if (!required.has(name) && (!includesOptional || Object.keys(result).length >= maxCount))
      continue;
    const own = Object.hasOwn(properties, name) ? properties[name] : additionalSchema(schema);
    defineProperty(result, name, generate(own, { ...context, name, depth: context.depth + 1 }));
  }
  const minCount = numberIn(schema["minProperties"]) ?? 0;
  for (let index = 1; Object.keys(result).length < minCount && index <= MAX_ITEMS; index++) {
    const name = `extra_${index}`;
    if (!Object.hasOwn(result, name))
      result[name] = generate(additionalSchema(schema), {
        ...context,
        name,
        depth: context.depth + 1,
      });
  }
  return result;
}

/** Defines the property even if its name is `__proto__`. */
function defineProperty(made: Record<string, unknown>, name: string, value: unknown): void {
  Object.defineProperty(made, name, {
    value,
    enumerable: true,
    configurable: true,
    writable: true,
  });
}

function additionalSchema(schema: JsonObject): unknown {
  return isObject(schema["additionalProperties"])
    ? schema["additionalProperties"]
    : { type: "string" };
}

function makeArray(schema: JsonObject, context: GenerationContext): unknown[] {
  const first = arrayIn(schema["prefixItems"]);
  const minCount = Math.min(MAX_ITEMS, numberIn(schema["minItems"]) ?? 0);
  const maxCount = numberIn(schema["maxItems"]) ?? Infinity;
  const defaultCount = context.depth < OPTIONAL_DEPTH_MAX && schema["items"] !== false ? 1 : 0;
  const count = Math.min(maxCount, Math.max(minCount, first.length, defaultCount));
  const items: unknown[] = [];
  for (let index = 0; index < count; index++) {
    const own = first[index] ?? (isObject(schema["items"]) ? schema["items"] : { type: "string" });
    items.push(
      generate(own, { ...context, depth: context.depth + 1, variant: context.variant + index }),
    );
  }
  return items;
}

function makeString(schema: JsonObject, context: GenerationContext): string {
  const format = lookUp(FORMATS, stringOrEmpty(schema["format"]));
  const minLength = numberIn(schema["minLength"]) ?? 0;
  const maxLength = numberIn(schema["maxLength"]) ?? Infinity;
  if (format !== undefined && format.length >= minLength && format.length <= maxLength)
    return format;
  const text =
    context.variant === 0
      ? `example ${context.name}`
      : `${context.variant + 1}. example ${context.name}`;
  return text.padEnd(minLength, ".").slice(0, maxLength);
}

function makeNumber(schema: JsonObject, context: GenerationContext, isInteger: boolean): number {
  const above = numberIn(schema["exclusiveMinimum"]);
  const below = numberIn(schema["exclusiveMaximum"]);
  const step = numberIn(schema["multipleOf"]) ?? (isInteger ? 1 : undefined);
  const low = Math.max(numberIn(schema["minimum"]) ?? -Infinity, above ?? -Infinity);
  const high = Math.min(numberIn(schema["maximum"]) ?? Infinity, below ?? Infinity);
  if (step !== undefined)
    return nearestMultiple(step, { low, high, above, below, wanted: context.variant + 1 });
  const wanted = context.variant + 1.5;
  if (wanted > low && wanted < high) return wanted;
  if (low === -Infinity) return high - 1;
  if (high === Infinity) return low + 1;
  return low + (high - low) / 2;
}

interface NumberRange {
  readonly low: number;
  readonly high: number;
  readonly above: number | undefined;
  readonly below: number | undefined;
  readonly wanted: number;
}

/** The multiple of `step` within the range that is nearest to `wanted`. */
function nearestMultiple(step: number, range: NumberRange): number {
  let lowest = Math.ceil(range.low / step);
  if (range.above !== undefined && lowest * step <= range.above) lowest += 1;
  let highest = Math.floor(range.high / step);
  if (range.below !== undefined && highest * step >= range.below) highest -= 1;
  const multiple = Math.min(highest, Math.max(lowest, range.wanted));
  // Rounds 0.030000000000000002 to 0.03.
  return Number((multiple * step).toPrecision(15));
}
