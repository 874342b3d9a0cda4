// Flattens a JSON Schema into table rows: nested fields become `balance.credits` and `data[].id`.

import type { JsonSchema } from "./json-schemas.ts";

export interface SchemaRow {
  readonly name: string;
  readonly type: string;
  readonly required: boolean;
  readonly description: string;
  /** The named schema of the field, which has its own table. */
  readonly schemaName?: string;
}

type NamedSchemas = Readonly<Record<string, JsonSchema>>;

const COMPONENTS_PREFIX = "#/components/schemas/";
const DEPTH_MAX = 4;

export function schemaRows(schema: JsonSchema, schemas: NamedSchemas): readonly SchemaRow[] {
  return rowsIn(resolveReference(schema, schemas), schemas, "", 0);
}

function rowsIn(
  schema: JsonSchema,
  schemas: NamedSchemas,
  prefix: string,
  depth: number,
): readonly SchemaRow[] {
  if (depth > DEPTH_MAX) return [];
  const parts = [...(schema.allOf ?? []), ...(schema.anyOf ?? []), ...(schema.oneOf ?? [])];
  const properties = Object.entries(schema.properties ?? {}).flatMap(([name, property]) => {
    if (typeof property !== "object") return [];
    return fieldRows(`${prefix}${name}`, property, schema.required?.includes(name) ?? false, {
      schemas,
      depth,
    });
  });
  return [
    ...properties,
    ...parts.flatMap((part) =>
      typeof part === "object" && part.$ref === undefined
        ? rowsIn(part, schemas, prefix, depth + 1)
        : [],
    ),
  ];
}

interface NestingContext {
  readonly schemas: NamedSchemas;
  readonly depth: number;
}

function fieldRows(
  name: string,
  field: JsonSchema,
  required: boolean,
  nesting: NestingContext,
): readonly SchemaRow[] {
  const schemaName = schemaNameOf(field);
  const row: SchemaRow = {
    name,
    type: typeName(field),
    required,
    description: descriptionOf(field),
    ...(schemaName === undefined ? {} : { schemaName }),
  };
  if (schemaName !== undefined) return [row];
  const item = itemOf(field);
  const inner =
    item === undefined
      ? rowsIn(field, nesting.schemas, `${name}.`, nesting.depth + 1)
      : rowsIn(item, nesting.schemas, `${name}[].`, nesting.depth + 1);
  return [row, ...inner];
}

/** The type as text: `string (date-time) or null`, `array of ApiKey`, `"day" or "week"`. */
export function typeName(schema: JsonSchema): string {
  if (schema.$ref !== undefined) return schema.$ref.slice(COMPONENTS_PREFIX.length);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined)
    return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) return [...new Set(choices.map(partTypeName))].join(" or ");
  const item = itemOf(schema);
  if (item !== undefined) return `array of ${typeName(item)}`;
  const types =
    typeof schema.type === "string"
      ? [schema.type]
      : // Safe because `type` is a name or a list of names in JSON Schema.
        ((schema.type as readonly string[] | undefined) ?? []);
  if (types.length === 0) return "any";
  const names = types.map((type) =>
    type === "string" && schema.format !== undefined ? `string (${schema.format})` : type,
  );
  return names.join(" or ");
}

function partTypeName(part: JsonSchema | boolean): string {
  return typeof part === "object" ? typeName(part) : "any";
}

function itemOf(schema: JsonSchema): JsonSchema | undefined {
  const { items } = schema;
  return typeof items === "object" && !Array.isArray(items) ? items : undefined;
}

function schemaNameOf(schema: JsonSchema): string | undefined {
  const parts = [schema, itemOf(schema), ...(schema.anyOf ?? [])];
  for (const part of parts) {
    if (typeof part === "object" && part.$ref !== undefined)
      return part.$ref.slice(COMPONENTS_PREFIX.length);
  }
  return undefined;
}

function descriptionOf(schema: JsonSchema): string {
  const facts: string[] = [];
  if (schema.default !== undefined) facts.push(`Default ${JSON.stringify(schema.default)}.`);
  if (schema.minimum !== undefined) facts.push(`At least ${schema.minimum}.`);
  if (schema.maximum !== undefined) facts.push(`At most ${schema.maximum}.`);
  const { minLength = 0, maxLength } = schema;
  if (maxLength !== undefined)
    facts.push(`${minLength > 1 ? `${minLength} to` : "Up to"} ${maxLength} characters.`);
  return [schema.description ?? "", ...facts].filter((part) => part !== "").join(" ");
}

function resolveReference(schema: JsonSchema, schemas: NamedSchemas): JsonSchema {
  return schema.$ref === undefined
    ? schema
    : (schemas[schema.$ref.slice(COMPONENTS_PREFIX.length)] ?? {});
}
