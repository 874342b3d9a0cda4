// The published description of Google's API, as a checker of the requests that are made.
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

type Json = Record<string, any>;

const FILE = resolve(
  import.meta.dir,
  "..",
  "..",
  process.env["POSTERN_SPECS"] ?? join("..", "shared", "specs"),
  "google-generativelanguage-discovery.json",
);

/** Says what is wrong with a value by the schema of that name; undefined where the description is absent. */
export function geminiChecker(): ((schema: string, value: unknown) => string[]) | undefined {
  if (!existsSync(FILE)) {
    console.log("skipped: no description of Google's API found (set POSTERN_SPECS to its folder)");
    return undefined;
  }
  const { schemas } = JSON.parse(readFileSync(FILE, "utf8")) as { schemas: Record<string, Json> };
  const check = (schema: Json, value: unknown, at: string): string[] => {
    if (typeof schema["$ref"] === "string") {
      const found = schemas[schema["$ref"]];
      return found === undefined ? [] : check(found, value, at);
    }
    switch (schema["type"]) {
      case "any":
        return [];
      case "array":
        if (!Array.isArray(value)) return [`${at} is no array`];
        return value.flatMap((one, index) => check(schema["items"], one, `${at}[${index}]`));
      case "object":
        return checkObject(schema, value, at);
      case "integer":
        return Number.isInteger(value) ? [] : [`${at} is no integer`];
      case "string":
        if (typeof value !== "string") return [`${at} is no string`];
        if (schema["format"] === "byte" && !/^[A-Za-z0-9+/_-]*=*$/.test(value))
          return [`${at} is not base64`];
        return schema["enum"] === undefined || schema["enum"].includes(value)
          ? []
          : [`${at}: ${value} is not among ${schema["enum"].join(", ")}`];
      default:
        return typeof value === schema["type"] ? [] : [`${at} is no ${schema["type"]}`];
    }
  };
  const checkObject = (schema: Json, value: unknown, at: string): string[] => {
    if (typeof value !== "object" || value === null || Array.isArray(value))
      return [`${at} is no object`];
    const { properties = {}, additionalProperties } = schema;
    return Object.entries(value).flatMap(([key, one]) => {
      const found: Json | undefined = properties[key] ?? additionalProperties;
      return found === undefined ? [`${at}.${key} is unknown`] : check(found, one, `${at}.${key}`);
    });
  };
  return (schema, value) => check({ $ref: schema }, value, schema);
}
