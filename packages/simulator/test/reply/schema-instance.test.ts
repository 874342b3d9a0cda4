import { describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { runs } from "../../../../test/support/full.ts";
import { schemaInstance } from "../../src/reply/schema-instance.ts";
import type { Json } from "../simulator-harness.ts";

type Schema = Record<string, Json>;

// A separate validator, so that the generator is not tested by its own code.
function validates(value: Json, schema: Schema | boolean, root: Schema): boolean {
  if (typeof schema === "boolean") return schema;
  const checks: (() => boolean)[] = [
    () =>
      schema["$ref"] === undefined ||
      validates(value, root["$defs"][schema["$ref"].split("/").at(-1)], root),
    () => !("const" in schema) || Bun.deepEquals(value, schema["const"]),
    () =>
      schema["enum"] === undefined ||
      schema["enum"].some((entry: unknown) => Bun.deepEquals(value, entry)),
    () =>
      schema["type"] === undefined || [schema["type"]].flat().some((type) => isType(value, type)),
    () =>
      schema["anyOf"] === undefined ||
      schema["anyOf"].some((entry: Schema) => validates(value, entry, root)),
    () =>
      schema["allOf"] === undefined ||
      schema["allOf"].every((entry: Schema) => validates(value, entry, root)),
    () => typeof value !== "number" || numberFits(value, schema),
    () =>
      typeof value !== "string" ||
      (value.length >= (schema["minLength"] ?? 0) &&
        value.length <= (schema["maxLength"] ?? Infinity)),
    () => !Array.isArray(value) || arrayFits(value, schema, root),
    () => !isType(value, "object") || objectFits(value, schema, root),
  ];
  return checks.every((check) => check());
}

function isType(value: unknown, type: string): boolean {
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  if (type === "integer") return Number.isInteger(value);
  if (type === "object")
    return typeof value === "object" && value !== null && !Array.isArray(value);
  return typeof value === type;
}

function numberFits(value: number, schema: Schema): boolean {
  const {
    minimum = -Infinity,
    maximum = Infinity,
    exclusiveMinimum = -Infinity,
    exclusiveMaximum = Infinity,
    multipleOf,
  } = schema;
  const whole =
    multipleOf === undefined ||
    Math.abs(value / multipleOf - Math.round(value / multipleOf)) < 1e-9;
  return (
    value >= minimum &&
    value <= maximum &&
    value > exclusiveMinimum &&
    value < exclusiveMaximum &&
    whole
  );
}

function arrayFits(value: unknown[], schema: Schema, root: Schema): boolean {
  if (value.length < (schema["minItems"] ?? 0) || value.length > (schema["maxItems"] ?? Infinity))
    return false;
  const first: Schema[] = schema["prefixItems"] ?? [];
  return value.every((entry, index) =>
    validates(entry, first[index] ?? schema["items"] ?? true, root),
  );
}

function objectFits(value: Record<string, unknown>, schema: Schema, root: Schema): boolean {
  const properties: Schema = schema["properties"] ?? {};
  if ((schema["required"] ?? []).some((name: string) => !Object.hasOwn(value, name))) return false;
  if (Object.keys(value).length < (schema["minProperties"] ?? 0)) return false;
  return Object.entries(value).every(([name, entry]) =>
    validates(
      entry,
      Object.hasOwn(properties, name) ? properties[name] : (schema["additionalProperties"] ?? true),
      root,
    ),
  );
}

const range = fc.tuple(fc.integer({ min: -50, max: 50 }), fc.integer({ min: 0, max: 60 }));
const name = fc.constantFrom("a", "b", "c", "long_name", "__proto__", "ü");
const { node: anySchema } = fc.letrec<{ node: Schema }>((tie) => ({
  node: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom<Schema>(
      { type: "boolean" },
      { type: "null" },
      { const: "x" },
      { const: { deep: [1] } },
      { enum: [3, "three", null] },
      { type: ["null", "string"] },
      {},
    ),
    range.map(([minimum, size]): Schema => ({ type: "integer", minimum, maximum: minimum + size })),
    range.map(([low, size]): Schema => ({
      type: "number",
      exclusiveMinimum: low,
      exclusiveMaximum: low + size + 1,
    })),
    range.map(([low, size]): Schema => ({
      type: "number",
      minimum: low,
      maximum: low + size + 1,
      multipleOf: 0.5,
    })),
    fc.tuple(fc.nat(30), fc.nat(30)).map(([least, more]): Schema => ({
      type: "string",
      minLength: least,
      maxLength: least + more,
    })),
    fc
      .constantFrom("date-time", "uuid", "email")
      .map((format): Schema => ({ type: "string", format })),
    fc.tuple(tie("node"), fc.nat(3), fc.nat(3)).map(([items, least, more]): Schema => ({
      type: "array",
      items,
      minItems: least,
      maxItems: least + more,
    })),
    fc
      .tuple(tie("node"), tie("node"))
      .map((prefixItems): Schema => ({ type: "array", prefixItems, minItems: 2, items: false })),
    fc
      .tuple(fc.dictionary(name, tie("node"), { maxKeys: 4 }), fc.boolean())
      .map(([properties, strict]): Schema => ({
        type: "object",
        properties,
        required: Object.keys(properties).slice(strict ? 0 : 1),
        additionalProperties: false,
      })),
    fc.tuple(tie("node"), fc.nat(3)).map(([additionalProperties, minProperties]): Schema => ({
      type: "object",
      additionalProperties,
      minProperties,
    })),
    fc.array(tie("node"), { minLength: 1, maxLength: 3 }).map((anyOf): Schema => ({ anyOf })),
    fc.constantFrom<Schema>(
      { $ref: "#/$defs/list" },
      { $ref: "#/$defs/tree" },
      {
        allOf: [
          { $ref: "#/$defs/tree" },
          { type: "object", properties: { extra: { type: "string" } }, required: ["extra"] },
        ],
      },
    ),
  ),
}));

const $defs = {
  list: {
    anyOf: [
      {
        type: "object",
        properties: { value: { type: "integer" }, next: { $ref: "#/$defs/list" } },
        required: ["value", "next"],
      },
      { type: "null" },
    ],
  },
  tree: {
    type: "object",
    properties: {
      name: { type: "string" },
      children: { type: "array", items: { $ref: "#/$defs/tree" } },
    },
    required: ["name", "children"],
  },
};

describe("schemaInstance", () => {
  test("generates a valid instance, deterministically", () => {
    fc.assert(
      fc.property(anySchema, fc.nat(3), (schema, variant) => {
        const root = { ...schema, $defs };
        const value = schemaInstance(root, variant);
        expect(schemaInstance(root, variant)).toEqual(value);
        // The value is sent as JSON, so validate it after a round trip.
        if (!validates(JSON.parse(JSON.stringify(value)), root, root))
          throw new Error(`${JSON.stringify(value)} is not valid`);
      }),
      { numRuns: runs(1_500) },
    );
  });

  test("accepts Gemini's upper-case types and OpenAPI's nullable", () => {
    expect(
      schemaInstance({ type: "OBJECT", nullable: true, properties: { n: { type: "INTEGER" } } }),
    ).toEqual({ n: 1 });
  });

  test("derives values from names, formats and bounds", () => {
    const schema = {
      type: "object",
      properties: {
        city: { type: "string" },
        when: { type: "string", format: "date" },
        unit: { enum: ["c", "f"] },
        price: { type: "number", multipleOf: 0.01, minimum: 0.03 },
      },
    };
    expect(schemaInstance(schema)).toEqual({
      city: "example city",
      when: "2026-01-02",
      unit: "c",
      price: 0.03,
    });
  });

  test("does not throw on invalid schemas", () => {
    for (const schema of [
      null,
      5,
      "x",
      [],
      { $ref: "#/nowhere" },
      { $ref: "#" },
      { allOf: [{ $ref: "#" }] },
      { anyOf: [] },
      { type: "array", minItems: 1e12 },
    ]) {
      expect(() => JSON.stringify(schemaInstance(schema))).not.toThrow();
    }
  });
});
