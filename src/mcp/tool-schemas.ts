// The JSON schemas of a tool, from the zod schemas of its route.

import { z } from "zod";
import { isObject, type JsonObject } from "../base/json.ts";
import { overrideSchema } from "../discovery/openapi/json-schemas.ts";
import { type Route, requiresKey } from "../http/route.ts";
import {
  acceptsIdempotencyKey,
  API_KEY_ARGUMENT,
  IDEMPOTENCY_ARGUMENT,
  type ToolListing,
} from "./tool.ts";

const API_KEY_SCHEMA = {
  type: "string",
  description: "API key, if the connection sends none.",
};
const IDEMPOTENCY_SCHEMA = {
  type: "string",
  description: "128 random bits; a repeated call returns the first result.",
};

export interface InputOptions {
  /** Fields that the tool sets itself. */
  readonly fixed: JsonObject;
  /** Set if an `id` chooses one record. */
  readonly idDescription: string | undefined;
}

/** All fields of the route's path, query and body as arguments. */
export function inputSchema(
  route: Route,
  own: z.ZodType | undefined,
  { fixed, idDescription }: InputOptions,
): ToolListing["inputSchema"] {
  const parts =
    own === undefined
      ? [route.params, route.query, route.body].filter((part) => part !== undefined).map(toSchema)
      : [toSchema(own)];
  const properties: Record<string, unknown> = Object.assign(
    idDescription === undefined ? {} : { id: { type: "string", description: idDescription } },
    ...parts.map((part) => part["properties"]),
  );
  for (const name of Object.keys(fixed)) delete properties[name];
  // In a change, null removes a setting. Elsewhere it counts as left out.
  if (route.method !== "PATCH")
    for (const [name, schema] of Object.entries(properties)) properties[name] = withoutNull(schema);
  const required = parts.flatMap((part) =>
    Array.isArray(part["required"]) ? part["required"] : [],
  );
  const definitions: Record<string, unknown> = Object.assign(
    {},
    ...parts.map((part) => part["$defs"]),
  );
  if (acceptsIdempotencyKey(route)) properties[IDEMPOTENCY_ARGUMENT] = IDEMPOTENCY_SCHEMA;
  if (requiresKey(route)) properties[API_KEY_ARGUMENT] = API_KEY_SCHEMA;
  const isOpen = parts.some(({ additionalProperties: rest }) => rest === true || isObject(rest));
  return {
    type: "object",
    properties,
    ...(required.length === 0 ? {} : { required: required.filter((name) => !(name in fixed)) }),
    additionalProperties: isOpen,
    ...(Object.keys(definitions).length === 0 ? {} : { $defs: definitions }),
  };
}

/**
 * The members of the success response with their types alone: a client reads all schemas of a server into its model's
 * context, and `next` or the HTTP API's description explain the rest.
 */
export function outputSchema(
  route: Route,
  own: z.ZodType | undefined,
): ToolListing["outputSchema"] {
  const [, response] =
    Object.entries(route.responses).find(([status]) => status.startsWith("2")) ?? [];
  const schema = own ?? response?.schema;
  if (schema === undefined) return { type: "object" };
  const { properties, required } = toSchema(schema);
  const members = Object.entries(isObject(properties) ? properties : {});
  return {
    type: "object",
    properties: Object.fromEntries(members.map(([name, member]) => [name, typeOnly(member)])),
    ...(required === undefined ? {} : { required }),
  };
}

/** `$ref`s are records, and so objects. */
function typeOnly(member: unknown): JsonObject {
  const { type, anyOf, const: only } = isObject(member) ? member : {};
  if (Array.isArray(anyOf))
    return { type: [...new Set(anyOf.flatMap((one) => typeOnly(one)["type"]))] };
  if (only !== undefined) return { type: typeof only };
  return { type: type ?? "object" };
}

function withoutNull(schema: unknown): unknown {
  const { anyOf, ...rest } = isObject(schema) ? schema : {};
  if (!Array.isArray(anyOf)) return schema;
  const others = anyOf.filter((one) => !isObject(one) || one["type"] !== "null");
  const [only, ...more] = others;
  return isObject(only) && more.length === 0 ? { ...rest, ...only } : { ...rest, anyOf: others };
}

/** The schema with its root in place: MCP requires `type: "object"` there, where zod has a reference. */
function toSchema(schema: z.ZodType): JsonObject {
  const {
    $schema: _dialect,
    $ref: reference,
    $defs: definitions,
    ...inline
  } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any", override: overrideSchema });
  if (reference === undefined)
    return portable(definitions === undefined ? inline : { ...inline, $defs: definitions });
  const name = reference.slice("#/$defs/".length);
  const { [name]: root, ...others } = definitions ?? {};
  return portable({ ...root, ...(Object.keys(others).length === 0 ? {} : { $defs: others }) });
}

/** Clients pass these schemas to models, whose providers may take only one `type` and no empty schema. */
function portable<T>(value: T): T;
function portable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item: unknown) => portable(item));
  if (!isObject(value)) return value;
  const entries = Object.entries(value).flatMap(([name, member]) => {
    const kept = portableMember(name, member);
    return kept === undefined ? [] : [[name, kept] as const];
  });
  const { type, description, examples, ...rest }: JsonObject = Object.fromEntries(entries);
  if (!Array.isArray(type)) return Object.fromEntries(entries);
  const [first, ...others]: readonly unknown[] = type;
  return {
    ...(description === undefined ? {} : { description }),
    ...(examples === undefined ? {} : { examples }),
    anyOf: [{ type: first, ...rest }, ...others.map((other) => ({ type: other }))],
  };
}

/** The server checks them and names them in its error: a model does not need them in its context. */
const BOUNDS: ReadonlySet<string> = new Set(["minLength", "maxLength", "pattern", "maxItems"]);

/** Undefined for a member that is left out. */
function portableMember(name: string, member: unknown): unknown {
  if (name === "examples") return member;
  if (BOUNDS.has(name) && !isObject(member)) return undefined;
  const isAny = name === "additionalProperties" && isObject(member) && isEmpty(member);
  return isAny ? true : portable(member);
}

function isEmpty(value: JsonObject): boolean {
  return Object.keys(value).length === 0;
}
