// The published description of Google's API, as a checker of the requests that are made.
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly format?: string;
  readonly enum?: readonly string[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema;
}

const FILE = resolve(
  import.meta.dir,
  "..",
  "..",
  "..",
  process.env["POSTERN_SPECS"] ?? join("..", "shared", "specs"),
  "google-generativelanguage-discovery.json",
);

/** Says what is wrong with a value by the schema of that name; undefined where the description is absent. */
export function geminiValidator(): ((schema: string, value: unknown) => string[]) | undefined {
  if (!existsSync(FILE)) {
    console.log("skipped: no description of Google's API found (set POSTERN_SPECS to its folder)");
    return undefined;
  }
  const { schemas } = JSON.parse(readFileSync(FILE, "utf8")) as {
    schemas: Readonly<Record<string, Schema>>;
  };
  const check = (schema: Schema, value: unknown, at: string): string[] => {
    if (schema.$ref !== undefined) return check(schemas[schema.$ref] ?? {}, value, at);
    switch (schema.type) {
      case undefined:
      case "any":
        return [];
      case "array":
        return Array.isArray(value)
          ? value.flatMap((one, index) => check(schema.items ?? {}, one, `${at}[${index}]`))
          : [`${at} is no array`];
      case "object":
        return checkObject(schema, value, at);
      case "integer":
        return Number.isInteger(value) ? [] : [`${at} is no integer`];
      case "string":
        return checkString(schema, value, at);
      default:
        return typeof value === schema.type ? [] : [`${at} is no ${schema.type}`];
    }
  };
  const checkObject = (schema: Schema, value: unknown, at: string): string[] => {
    if (typeof value !== "object" || value === null || Array.isArray(value))
      return [`${at} is no object`];
    return Object.entries(value).flatMap(([key, one]) => {
      const found = schema.properties?.[key] ?? schema.additionalProperties;
      return found === undefined ? [`${at}.${key} is unknown`] : check(found, one, `${at}.${key}`);
    });
  };
  return (schema, value) => check({ $ref: schema }, value, schema);
}

function checkString(schema: Schema, value: unknown, at: string): string[] {
  if (typeof value !== "string") return [`${at} is no string`];
  if (schema.format === "byte" && !/^[A-Za-z0-9+/_-]*=*$/.test(value))
    return [`${at} is not base64`];
  return schema.enum?.includes(value) === false ? [`${at} may not be ${value}`] : [];
}
