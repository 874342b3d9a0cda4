// A JSON Schema as the rows of a table that a human reads: nested fields become `balance.credits` and `data[].id`.

import type { JsonSchema } from "./schemas.ts";

export interface SchemaRow {
  readonly name: string;
  readonly type: string;
  readonly required: boolean;
  readonly description: string;
  /** The named record that the field holds, which is described in its own table. */
  readonly record?: string;
}

type Records = Readonly<Record<string, JsonSchema>>;

const COMPONENTS = "#/components/schemas/";
const DEPTH_MAX = 4;

export function schemaRows(schema: JsonSchema, records: Records): readonly SchemaRow[] {
  return rowsIn(resolved(schema, records), records, "", 0);
}

function rowsIn(
  schema: JsonSchema,
  records: Records,
  prefix: string,
  depth: number,
): readonly SchemaRow[] {
  if (depth > DEPTH_MAX) return [];
  const parts = [...(schema.allOf ?? []), ...(schema.anyOf ?? []), ...(schema.oneOf ?? [])];
  const own = Object.entries(schema.properties ?? {}).flatMap(([name, property]) => {
    if (typeof property !== "object") return [];
    return fieldRows(`${prefix}${name}`, property, schema.required?.includes(name) ?? false, {
      records,
      depth,
    });
  });
  return [
    ...own,
    ...parts.flatMap((part) =>
      typeof part === "object" && part.$ref === undefined
        ? rowsIn(part, records, prefix, depth + 1)
        : [],
    ),
  ];
}

interface Place {
  readonly records: Records;
  readonly depth: number;
}

function fieldRows(
  name: string,
  field: JsonSchema,
  required: boolean,
  place: Place,
): readonly SchemaRow[] {
  const record = recordName(field);
  const row: SchemaRow = {
    name,
    type: typeName(field),
    required,
    description: descriptionOf(field),
    ...(record === undefined ? {} : { record }),
  };
  if (record !== undefined) return [row];
  const item = itemOf(field);
  const inner =
    item === undefined
      ? rowsIn(field, place.records, `${name}.`, place.depth + 1)
      : rowsIn(item, place.records, `${name}[].`, place.depth + 1);
  return [row, ...inner];
}

/** `text`-like words for a type: `string (date-time) or null`, `array of ApiKey`, `"day" or "week"`. */
export function typeName(schema: JsonSchema): string {
  const record = schema.$ref === undefined ? undefined : schema.$ref.slice(COMPONENTS.length);
  if (record !== undefined) return record;
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined)
    return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) return [...new Set(choices.map(nameOfPart))].join(" or ");
  const item = itemOf(schema);
  if (item !== undefined) return `array of ${typeName(item)}`;
  const types =
    typeof schema.type === "string"
      ? [schema.type]
      : // Safe because JSON Schema's `type` is a name or a list of names.
        ((schema.type as readonly string[] | undefined) ?? []);
  if (types.length === 0) return "any";
  const words = types.map((type) =>
    type === "string" && schema.format !== undefined ? `string (${schema.format})` : type,
  );
  return words.join(" or ");
}

function nameOfPart(part: JsonSchema | boolean): string {
  return typeof part === "object" ? typeName(part) : "any";
}

function itemOf(schema: JsonSchema): JsonSchema | undefined {
  const { items } = schema;
  return typeof items === "object" && !Array.isArray(items) ? items : undefined;
}

function recordName(schema: JsonSchema): string | undefined {
  const parts = [schema, itemOf(schema), ...(schema.anyOf ?? [])];
  for (const part of parts) {
    if (typeof part === "object" && part.$ref !== undefined)
      return part.$ref.slice(COMPONENTS.length);
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

function resolved(schema: JsonSchema, records: Records): JsonSchema {
  return schema.$ref === undefined ? schema : (records[schema.$ref.slice(COMPONENTS.length)] ?? {});
}
