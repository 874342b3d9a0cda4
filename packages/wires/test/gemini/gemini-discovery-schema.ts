// Validates requests by the discovery document of Google's API.

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

/** A function that lists the violations of the named schema; undefined without the discovery document. */
export function geminiValidator(): ((schema: string, value: unknown) => string[]) | undefined {
  if (!existsSync(FILE)) {
    console.log("skipped: Gemini schema checks: require ../shared/specs (or set POSTERN_SPECS)");
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
          : [`${at} is not an array`];
      case "object":
        return checkObject(schema, value, at);
      case "integer":
        return Number.isInteger(value) ? [] : [`${at} is not an integer`];
      case "string":
        return checkString(schema, value, at);
      default:
        return typeof value === schema.type ? [] : [`${at} is not a ${schema.type}`];
    }
  };
  const checkObject = (schema: Schema, value: unknown, at: string): string[] => {
    if (typeof value !== "object" || value === null || Array.isArray(value))
      return [`${at} is not an object`];
    return Object.entries(value).flatMap(([key, one]) => {
      const found = schema.properties?.[key] ?? schema.additionalProperties;
      return found === undefined ? [`${at}.${key} is unknown`] : check(found, one, `${at}.${key}`);
    });
  };
  return (schema, value) => check({ $ref: schema }, value, schema);
}

function checkString(schema: Schema, value: unknown, at: string): string[] {
  if (typeof value !== "string") return [`${at} is not a string`];
  if (schema.format === "byte" && !/^[A-Za-z0-9+/_-]*=*$/.test(value))
    return [`${at} is not base64`];
  return schema.enum?.includes(value) === false ? [`${at} may not be ${value}`] : [];
}
