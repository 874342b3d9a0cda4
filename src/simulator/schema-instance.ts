// Makes a value that a JSON schema accepts, always the same one for the same schema.

import { isFields, listOf, numberOf, textOf, textsOf, type Fields } from "./json.ts";

/** Below this depth only what a schema demands is filled in, so that a schema which contains itself comes to an end. */
const GENEROUS_DEPTH = 4;
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

interface Place {
  readonly root: unknown;
  /** The property that the value is for. */
  readonly name: string;
  readonly depth: number;
  /** Which of several values this is; they differ where the schema lets them. */
  readonly variant: number;
}

export function schemaInstance(schema: unknown, variant = 0): unknown {
  return make(schema, { root: schema, name: "value", depth: 0, variant });
}

function make(schema: unknown, place: Place): unknown {
  if (!isFields(schema) || place.depth > MAX_DEPTH) return null;
  const plain = flatten(schema, place, 0);
  if ("const" in plain) return plain["const"];
  const choices = listOf(plain["enum"]);
  if (choices.length > 0) return choices[place.variant % choices.length];
  switch (typeOf(plain)) {
    case "object":
      return makeObject(plain, place);
    case "array":
      return makeArray(plain, place);
    case "string":
      return makeString(plain, place);
    case "integer":
      return makeNumber(plain, place, true);
    case "number":
      return makeNumber(plain, place, false);
    case "boolean":
      return place.variant % 2 === 0;
    default:
      return null;
  }
}

/** Follows references and folds allOf, and the alternative that is taken, into one flat schema. */
function flatten(schema: Fields, place: Place, hops: number): Fields {
  if (hops > MAX_DEPTH) return schema;
  const { $ref: reference, allOf, anyOf, oneOf, ...rest } = schema;
  let flat: Fields = rest;
  const target = typeof reference === "string" ? lookUp(place.root, reference) : undefined;
  if (isFields(target)) flat = merge(flatten(target, place, hops + 1), flat);
  for (const part of listOf(allOf))
    if (isFields(part)) flat = merge(flat, flatten(part, place, hops + 1));
  for (const alternatives of [anyOf, oneOf]) {
    const taken = pickAlternative(listOf(alternatives), place);
    if (taken !== undefined) flat = merge(flat, flatten(taken, place, hops + 1));
  }
  return flat;
}

/** The first alternative that is not null; deep inside, the one that ends soonest. */
function pickAlternative(alternatives: readonly unknown[], place: Place): Fields | undefined {
  const usable = alternatives.filter(isFields);
  if (place.depth < GENEROUS_DEPTH)
    return usable.find((entry) => entry["type"] !== "null") ?? usable[0];
  return usable.toSorted((a, b) => weight(a, place) - weight(b, place))[0];
}

function weight(schema: Fields, place: Place): number {
  const target = typeof schema["$ref"] === "string" ? lookUp(place.root, schema["$ref"]) : schema;
  if (!isFields(target)) return 9;
  if (target["type"] === "null") return 0;
  const demands = textsOf(target["required"]).length + (numberOf(target["minItems"]) ?? 0);
  return typeOf(target) === "object" || typeOf(target) === "array" ? 2 + demands : 1;
}

function merge(a: Fields, b: Fields): Fields {
  const both: Record<string, unknown> = { ...a, ...b };
  if (isFields(a["properties"]) && isFields(b["properties"]))
    both["properties"] = { ...a["properties"], ...b["properties"] };
  const required = [...textsOf(a["required"]), ...textsOf(b["required"])];
  if (required.length > 0) both["required"] = [...new Set(required)];
  for (const [key, stricter] of BOUNDS) {
    const [left, right] = [numberOf(a[key]), numberOf(b[key])];
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

function lookUp(root: unknown, reference: string): unknown {
  if (!reference.startsWith("#")) return undefined;
  let value: unknown = root;
  for (const step of reference.slice(1).split("/").slice(1)) {
    const key = decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(value)) value = value[Number(key)];
    else value = isFields(value) ? value[key] : undefined;
  }
  return value;
}

function typeOf(schema: Fields): string {
  // Gemini writes its types in capitals.
  const types = textsOf(schema["type"]).map((type) => type.toLowerCase());
  const stated = types.find((type) => type !== "null") ?? types[0];
  if (stated !== undefined) return stated;
  if ("properties" in schema || "required" in schema || "additionalProperties" in schema)
    return "object";
  if ("items" in schema || "prefixItems" in schema || "minItems" in schema) return "array";
  return "minimum" in schema || "maximum" in schema || "multipleOf" in schema ? "number" : "string";
}

function makeObject(schema: Fields, place: Place): Fields {
  const properties = isFields(schema["properties"]) ? schema["properties"] : {};
  const required = new Set(textsOf(schema["required"]));
  const made: Record<string, unknown> = {};
  const generous = place.depth < GENEROUS_DEPTH;
  const most = numberOf(schema["maxProperties"]) ?? Infinity;
  const names = [
    ...required,
    ...Object.keys(properties).filter((name) => !required.has(name) && properties[name] !== false),
  ];
  for (const name of names) {
    if (!required.has(name) && (!generous || Object.keys(made).length >= most)) continue;
    const own = Object.hasOwn(properties, name) ? properties[name] : extraSchema(schema);
    define(made, name, make(own, { ...place, name, depth: place.depth + 1 }));
  }
  const least = numberOf(schema["minProperties"]) ?? 0;
  for (let index = 1; Object.keys(made).length < least && index <= MAX_ITEMS; index++) {
    const name = `extra_${index}`;
    if (!Object.hasOwn(made, name))
      made[name] = make(extraSchema(schema), { ...place, name, depth: place.depth + 1 });
  }
  return made;
}

/** A property called `__proto__` must become a property as well. */
function define(made: Record<string, unknown>, name: string, value: unknown): void {
  Object.defineProperty(made, name, {
    value,
    enumerable: true,
    configurable: true,
    writable: true,
  });
}

function extraSchema(schema: Fields): unknown {
  return isFields(schema["additionalProperties"])
    ? schema["additionalProperties"]
    : { type: "string" };
}

function makeArray(schema: Fields, place: Place): unknown[] {
  const first = listOf(schema["prefixItems"]);
  const least = Math.min(MAX_ITEMS, numberOf(schema["minItems"]) ?? 0);
  const most = numberOf(schema["maxItems"]) ?? Infinity;
  const generous = place.depth < GENEROUS_DEPTH && schema["items"] !== false ? 1 : 0;
  const count = Math.min(most, Math.max(least, first.length, generous));
  const items: unknown[] = [];
  for (let index = 0; index < count; index++) {
    const own = first[index] ?? (isFields(schema["items"]) ? schema["items"] : { type: "string" });
    items.push(make(own, { ...place, depth: place.depth + 1, variant: place.variant + index }));
  }
  return items;
}

function makeString(schema: Fields, place: Place): string {
  const format = FORMATS[textOf(schema["format"])];
  const least = numberOf(schema["minLength"]) ?? 0;
  const most = numberOf(schema["maxLength"]) ?? Infinity;
  if (format !== undefined && format.length >= least && format.length <= most) return format;
  const text =
    place.variant === 0 ? `example ${place.name}` : `${place.variant + 1}. example ${place.name}`;
  return text.padEnd(least, ".").slice(0, most);
}

function makeNumber(schema: Fields, place: Place, whole: boolean): number {
  const above = numberOf(schema["exclusiveMinimum"]);
  const below = numberOf(schema["exclusiveMaximum"]);
  const step = numberOf(schema["multipleOf"]) ?? (whole ? 1 : undefined);
  const low = Math.max(numberOf(schema["minimum"]) ?? -Infinity, above ?? -Infinity);
  const high = Math.min(numberOf(schema["maximum"]) ?? Infinity, below ?? Infinity);
  if (step !== undefined)
    return onStep(step, { low, high, above, below, wanted: place.variant + 1 });
  const wanted = place.variant + 1.5;
  if (wanted > low && wanted < high) return wanted;
  if (low === -Infinity) return high - 1;
  if (high === Infinity) return low + 1;
  return low + (high - low) / 2;
}

interface Range {
  readonly low: number;
  readonly high: number;
  readonly above: number | undefined;
  readonly below: number | undefined;
  readonly wanted: number;
}

/** The multiple of a step that lies in the range, nearest to the wanted one. */
function onStep(step: number, range: Range): number {
  let lowest = Math.ceil(range.low / step);
  if (range.above !== undefined && lowest * step <= range.above) lowest += 1;
  let highest = Math.floor(range.high / step);
  if (range.below !== undefined && highest * step >= range.below) highest -= 1;
  const multiple = Math.min(highest, Math.max(lowest, range.wanted));
  // Steps such as 0.01 give 0.030000000000000002 by plain multiplication.
  return Number((multiple * step).toPrecision(15));
}
