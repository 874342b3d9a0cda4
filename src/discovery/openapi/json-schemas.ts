// The routes' zod schemas as JSON Schema. A schema with `.meta({ id })` becomes a named component; what a client sends
// and what it gets are described apart, because a default is optional on the way in and always there on the way out.

import { z } from "zod";

export type JsonSchema = z.core.JSONSchema.BaseSchema;
type SchemaDirection = "input" | "output";

export interface SchemaRegistry {
  readonly components: Readonly<Record<string, JsonSchema>>;
  /** The schema's description, as a reference where it is a named one. */
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
      components[names[direction].get(key) ?? key] = withReferences(schema, names[direction]);
    }
  }
  return {
    components: Object.fromEntries(
      Object.entries(components).toSorted(([a], [b]) => a.localeCompare(b)),
    ),
    jsonSchemaFor: (direction, schema) => {
      const found = (direction === "input" ? inputSchemas : outputSchemas).bySchema.get(schema);
      if (found === undefined) throw new Error("this schema was not bound into the book");
      return withReferences(found, names[direction]);
    },
  };
}

/** All schemas of one side are converted as fields of one object, so that what they share is described once. */
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

function overrideSchema({ zodSchema, jsonSchema }: OverrideContext): void {
  const { def } = zodSchema._zod;
  if (def.type === "bigint") jsonSchema.type = "integer";
  if (def.type === "date") Object.assign(jsonSchema, { type: "string", format: "date-time" });
  // An answer may grow new fields: only a schema that is strict by its own word is closed.
  if (def.type === "object" && def.catchall === undefined) delete jsonSchema.additionalProperties;
  // The format says it; its expression is for machines and fills a screen.
  if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
  // JSON Schema has only the plural; a schema's `.meta` may say either.
  if (jsonSchema["example"] !== undefined) {
    jsonSchema.examples ??= [jsonSchema["example"]];
    delete jsonSchema["example"];
  }
  // The bounds of a double say nothing about the field.
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
}

/**
 * What each definition is called among the components. An input schema that reads as the output schema of the same
 * name shares its component; another gets the suffix, and so does whatever refers to it.
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

function isDifferent(mine: JsonSchema | undefined, theirs: JsonSchema | undefined): boolean {
  return theirs !== undefined && JSON.stringify(mine) !== JSON.stringify(theirs);
}

/** A recursive schema without an id is called `__schema0` by the converter. */
function componentName(key: string): string {
  return key.replace(/^__schema(\d+)$/, "Recursive$1");
}

function withReferences(schema: JsonSchema, names: ReadonlyMap<string, string>): JsonSchema {
  // Safe because a rewritten object keeps its shape: only the text of its references changes.
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
