// Values from a JSON Schema, and values that programs often handle wrongly.

import type { Random } from "./random.ts";

export type Json = Readonly<Record<string, unknown>>;

const DEPTH_MAX = 6;
const ITEMS_MAX = 3;
const OPTIONAL_SHARE = 0.5;

export const HOSTILE_TEXTS: readonly [string, ...string[]] = [
  "",
  " ",
  "a".repeat(300),
  "a".repeat(9_000),
  "\u0000",
  "a\u0000b",
  "\ud800",
  "\udfff\ud800",
  "\u202eevil\u202c",
  "\ufeff",
  "e\u0301",
  "ﬁ",
  "İ",
  "👩‍👩‍👧‍👦",
  "__proto__",
  "constructor",
  "hasOwnProperty",
  "toString",
  "null",
  "undefined",
  "NaN",
  "-0",
  "1e999",
  "0x10",
  "' or 1=1 --",
  "%",
  "%00",
  "%ff",
  "../../etc/passwd",
  "<script>alert(1)</script>",
  "${7*7}{{7*7}}",
  "\r\nset-cookie: a=b",
  "2027-13-45T99:99:99Z",
  "9999-12-31T23:59:59.999Z",
  "-271821-04-20T00:00:00Z",
  "http://127.0.0.1:1/",
  "http://[::1]:1/",
  "javascript:alert(1)",
  "data:application/pdf;base64,JVBERi0xLjQK",
  "data:image/png;base64,%%%",
  "gs://bucket/object",
  "*",
  "**/*?[",
  "a/".repeat(50),
  "Europe/Nowhere",
  "claude/sim/echo",
  "sim/echo",
];

const HOSTILE_VALUES: readonly [unknown, ...unknown[]] = [
  null,
  true,
  false,
  0,
  -0,
  -1,
  1,
  0.1,
  1e-7,
  1e21,
  1e308,
  -1e308,
  2 ** 31,
  2 ** 32,
  2 ** 53,
  2 ** 53 + 2,
  2 ** 63,
  2 ** 64,
  [],
  {},
  [[]],
  [null],
  [{}],
  { a: { a: {} } },
  { length: 3 },
  { toString: 1 },
];

export function hostileValue(random: Random): unknown {
  return random.chance(0.5) ? random.pick(HOSTILE_TEXTS) : random.pick(HOSTILE_VALUES);
}

export interface SchemaSource {
  /** The OpenAPI description that references point into. */
  readonly document: Json;
  readonly random: Random;
  /** A known id for a field of this name; undefined if there is none. */
  readonly knownValue: (field: string) => unknown;
}

/** A value that mostly fits the schema. */
export function valueFor(source: SchemaSource, schema: unknown, field = "", depth = 0): unknown {
  const { random } = source;
  const known = source.knownValue(field);
  if (known !== undefined && random.chance(0.8)) return known;
  if (!isJson(schema) || depth > DEPTH_MAX) return random.pick(HOSTILE_VALUES);
  const { $ref: reference, enum: options, const: constant, examples } = schema;
  if (typeof reference === "string")
    return valueFor(source, followReference(source.document, reference), field, depth + 1);
  if (constant !== undefined) return constant;
  if (Array.isArray(options)) return random.pickFrom(options);
  if (Array.isArray(examples) && random.chance(0.7)) return random.pickFrom(examples);
  const choices = schema["anyOf"] ?? schema["oneOf"];
  if (Array.isArray(choices)) return valueFor(source, random.pickFrom(choices), field, depth + 1);
  return valueOfType(source, schema, field, depth);
}

function valueOfType(source: SchemaSource, schema: Json, field: string, depth: number): unknown {
  const { random } = source;
  const { type } = schema;
  switch (Array.isArray(type) ? random.pickFrom(type) : type) {
    case "object":
      return objectFor(source, schema, depth);
    case "array":
      return Array.from({ length: random.integer(ITEMS_MAX + 1) }, () =>
        valueFor(source, schema["items"], field, depth + 1),
      );
    case "string":
      return random.chance(0.6) ? `text ${random.integer(1_000)}` : random.pick(HOSTILE_TEXTS);
    case "integer":
      return numberOr(schema["minimum"], 0) + random.integer(200);
    case "number":
      return random.integer(1_000) / 100;
    case "boolean":
      return random.chance(0.5);
    case "null":
      return null;
    default:
      return hostileValue(random);
  }
}

function objectFor(source: SchemaSource, schema: Json, depth: number): Json {
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const properties = isJson(schema["properties"]) ? schema["properties"] : {};
  return Object.fromEntries(
    Object.entries(properties)
      .filter(([name]) => required.includes(name) || source.random.chance(OPTIONAL_SHARE))
      .map(([name, member]) => [name, valueFor(source, member, name, depth + 1)]),
  );
}

function followReference(document: Json, reference: string): unknown {
  return reference
    .slice(2)
    .split("/")
    .reduce<unknown>((value, name) => (isJson(value) ? value[name] : undefined), document);
}

export function isJson(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function numberOr(value: unknown, fallback: number): number {
  return typeof value === "number" && value > -1_000 ? value : fallback;
}
