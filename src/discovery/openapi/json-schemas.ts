// Converts the routes' zod schemas to JSON Schema. A schema with `.meta({ id })` becomes a named component. Inputs and
// outputs are converted separately: a field with a default is optional in requests and always present in responses.

import { z } from "zod";
import { describeFields } from "./field-descriptions.ts";

export type JsonSchema = z.core.JSONSchema.BaseSchema;
type SchemaDirection = "input" | "output";

export interface SchemaRegistry {
  readonly components: Readonly<Record<string, JsonSchema>>;
  /** The JSON Schema; a reference if the schema is a named component. */
  readonly jsonSchemaFor: (direction: SchemaDirection, schema: z.ZodType) => JsonSchema;
}

interface ConvertedSchemas {
  readonly defs: Readonly<Record<string, JsonSchema>>;
  readonly bySchema: ReadonlyMap<z.ZodType, JsonSchema>;
}

const COMPONENTS_PREFIX = "#/components/schemas/";
const DEFS_PREFIX = "#/$defs/";

export function createSchemaRegistry(
  inputs: readonly z.ZodType[],
  outputs: readonly z.ZodType[],
): SchemaRegistry {
  const inputSchemas = convertSchemas(inputs, "input");
  const outputSchemas = convertSchemas(outputs, "output");
  const names = {
    input: componentNames(inputSchemas, outputSchemas, "Input"),
    output: componentNames(outputSchemas, undefined, ""),
  };
  const components: Record<string, JsonSchema> = {};
  for (const [direction, converted] of [
    ["output", outputSchemas],
    ["input", inputSchemas],
  ] as const) {
    for (const [key, schema] of Object.entries(converted.defs)) {
      const name = names[direction].get(key) ?? key;
      components[name] = describeFields(withReferences(schema, names[direction]), name);
    }
  }
  return {
    components: Object.fromEntries(
      Object.entries(components).toSorted(([a], [b]) => a.localeCompare(b)),
    ),
    jsonSchemaFor: (direction, schema) => {
      const found = (direction === "input" ? inputSchemas : outputSchemas).bySchema.get(schema);
      if (found === undefined) throw new Error("the schema is not registered");
      return describeFields(withReferences(found, names[direction]), "");
    },
  };
}

/** Converts all schemas as fields of one object, so that shared schemas are converted once. */
function convertSchemas(
  schemas: readonly z.ZodType[],
  direction: SchemaDirection,
): ConvertedSchemas {
  const unique = [...new Set(schemas)];
  const whole = z.object(Object.fromEntries(unique.map((schema, index) => [`s${index}`, schema])));
  const { properties = {}, $defs = {} } = z.toJSONSchema(whole, {
    io: direction,
    unrepresentable: "any",
    override: overrideSchema,
  });
  const bySchema = new Map<z.ZodType, JsonSchema>();
  for (const [index, schema] of unique.entries()) {
    const converted = properties[`s${index}`];
    if (typeof converted === "object") bySchema.set(schema, converted);
  }
  return { defs: $defs, bySchema };
}

interface OverrideContext {
  readonly zodSchema: z.core.$ZodTypes;
  readonly jsonSchema: JsonSchema;
}

export function overrideSchema({ zodSchema, jsonSchema }: OverrideContext): void {
  const { def } = zodSchema._zod;
  if (def.type === "bigint") jsonSchema.type = "integer";
  if (def.type === "date") Object.assign(jsonSchema, { type: "string", format: "date-time" });
  // Responses may gain fields, so only an explicitly strict object forbids additional properties.
  if (def.type === "object" && def.catchall === undefined) delete jsonSchema.additionalProperties;
  // `format` is enough; zod's pattern for it is long and unreadable.
  if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
  // JSON Schema has only `examples`; `.meta` may use either.
  if (jsonSchema["example"] !== undefined) {
    jsonSchema.examples ??= [jsonSchema["example"]];
    delete jsonSchema["example"];
  }
  // The safe-integer bounds say nothing about the field.
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
}

/**
 * The component name of each definition. An input schema that equals the output schema of the same name shares its
 * component; if it differs, it and all schemas that refer to it get the suffix.
 */
function componentNames(
  converted: ConvertedSchemas,
  other: ConvertedSchemas | undefined,
  suffix: string,
): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const key of Object.keys(converted.defs)) names.set(key, componentName(key));
  if (other === undefined) return names;
  const differs = new Set(
    Object.keys(converted.defs).filter((key) => isDifferent(converted.defs[key], other.defs[key])),
  );
  for (let before = -1; before !== differs.size;) {
    before = differs.size;
    for (const [key, schema] of Object.entries(converted.defs)) {
      if ([...differs].some((name) => JSON.stringify(schema).includes(`"${DEFS_PREFIX}${name}"`)))
        differs.add(key);
    }
  }
  for (const key of differs) names.set(key, `${componentName(key)}${suffix}`);
  return names;
}

function isDifferent(input: JsonSchema | undefined, output: JsonSchema | undefined): boolean {
  return output !== undefined && JSON.stringify(input) !== JSON.stringify(output);
}

/** zod names a recursive schema without an id `__schema0`. */
function componentName(key: string): string {
  return key.replace(/^__schema(\d+)$/, "Recursive$1");
}

function withReferences(schema: JsonSchema, names: ReadonlyMap<string, string>): JsonSchema {
  // Safe because only the text of references changes, not the shape.
  return rewriteReferences(schema, names) as JsonSchema;
}

function rewriteReferences(value: unknown, names: ReadonlyMap<string, string>): unknown {
  if (Array.isArray(value)) return value.map((item) => rewriteReferences(item, names));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => {
      if (key !== "$ref" || typeof item !== "string") return [key, rewriteReferences(item, names)];
      const name = item.slice(DEFS_PREFIX.length);
      return [key, `${COMPONENTS_PREFIX}${names.get(name) ?? name}`];
    }),
  );
}
