// The routes of things that a workspace keeps by name, such as presets: list, get, save and delete.

import { z } from "zod";
import { keyRoute, keyWriteRoute, type Route } from "../http/route.ts";
import { listResponse } from "../http/schemas.ts";
import type { Scope } from "../http/scopes.ts";
import type { Db, Reader, Tx } from "../store/db.ts";
import { type Act, keyAct } from "./audit.ts";

export const ResourceName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, "must be lowercase letters, digits, `-` and `_`");

interface NamedResource<S, Q> {
  readonly db: Db;
  readonly path: string;
  /** As in `object`, such as `mcp_server`. */
  readonly object: string;
  /** As in the ids of routes, such as `McpServer`. */
  readonly id: string;
  readonly article?: "a" | "an";
  /** As in texts, such as `MCP server`. */
  readonly noun: string;
  readonly tag: string;
  readonly record: z.ZodType;
  readonly example: { readonly name: string };
  readonly settings: z.ZodType<S>;
  readonly settingsExample: object;
  /** The query of one record; none if absent. */
  readonly query?: z.ZodType<Q>;
  /** What reading needs; `usage:read` if absent. */
  readonly readScope?: Scope;
  /** Descriptions. */
  readonly notes: Readonly<Record<"list" | "save" | "delete", string>>;
  readonly list: (reader: Reader, accountId: string) => Promise<readonly unknown[]>;
  readonly get: (reader: Reader, accountId: string, name: string, query: Q) => Promise<unknown>;
  readonly save: (tx: Tx, act: Act, name: string, settings: S) => Promise<unknown>;
  readonly remove: (tx: Tx, act: Act, name: string) => Promise<void>;
  /** Other processes notice a change within seconds. */
  readonly onChanged?: () => void;
}

export function namedResourceRoutes<S, Q = unknown>(
  resource: NamedResource<S, Q>,
): readonly Route[] {
  return [listRoute(resource), getRoute(resource), saveRoute(resource), deleteRoute(resource)];
}

function listRoute<S, Q>({ db, list, ...resource }: NamedResource<S, Q>): Route {
  const { record, example, id, noun, readScope = "usage:read" } = resource;
  return keyRoute({
    tag: resource.tag,
    dialect: "openai",
    method: "GET",
    path: resource.path,
    id: `list${id}s`,
    scope: readScope,
    summary: `List ${noun}s`,
    description: resource.notes.list,
    query: z.strictObject({}),
    responses: listResponse(`All ${noun}s.`, record, `${id}List`, example),
    faults: [],
    run: async ({ caller }) => {
      const data = await list(db, caller.accountId);
      return { status: 200, body: { object: "list", data, has_more: false, next_cursor: null } };
    },
  });
}

function getRoute<S, Q>({ db, get, ...resource }: NamedResource<S, Q>): Route {
  return keyRoute({
    ...docOfOne(resource),
    method: "GET",
    id: `get${resource.id}`,
    scope: resource.readScope ?? "usage:read",
    summary: `Get ${nounOf(resource)}`,
    // Safe because without a query, `get` takes any.
    query: resource.query ?? (z.strictObject({}) as unknown as z.ZodType<Q>),
    faults: ["not_found"],
    run: async ({ caller, params: { name }, query }) => ({
      status: 200,
      body: await get(db, caller.accountId, name, query),
    }),
  });
}

function saveRoute<S, Q>({ save, onChanged, ...resource }: NamedResource<S, Q>): Route {
  return keyWriteRoute({
    ...docOfOne(resource),
    method: "POST",
    id: `save${resource.id}`,
    scope: "account:write",
    summary: `Save ${nounOf(resource)}`,
    description: resource.notes.save,
    body: resource.settings,
    requestExample: resource.settingsExample,
    faults: ["conflict"],
    run: async (tx, { caller, params: { name }, body: settings, clientIp, now }) => {
      const body = await save(tx, keyAct(caller, { clientIp, now }), name, settings);
      return { status: 200, body, ...(onChanged && { afterCommit: onChanged }) };
    },
  });
}

function deleteRoute<S, Q>({ remove, onChanged, ...resource }: NamedResource<S, Q>): Route {
  const { object, id, noun, example } = resource;
  return keyWriteRoute({
    ...docOfOne(resource),
    method: "DELETE",
    id: `delete${id}`,
    scope: "account:write",
    summary: `Delete ${nounOf(resource)}`,
    description: resource.notes.delete,
    responses: {
      200: {
        description: `The ${noun} is deleted.`,
        schema: z
          .object({ object: z.literal(object), name: z.string(), deleted: z.literal(true) })
          .meta({ id: `Deleted${id}` }),
        example: { object, name: example.name, deleted: true },
      },
    },
    faults: ["not_found"],
    run: async (tx, { caller, params: { name }, clientIp, now }) => {
      await remove(tx, keyAct(caller, { clientIp, now }), name);
      const body = { object, name, deleted: true };
      return { status: 200, body, ...(onChanged && { afterCommit: onChanged }) };
    },
  });
}

type Doc = Pick<
  NamedResource<unknown, unknown>,
  "tag" | "path" | "article" | "noun" | "record" | "example"
>;

function nounOf({ article = "a", noun }: Doc): string {
  return `${article} ${noun}`;
}

function docOfOne({ tag, path, noun, record, example }: Doc) {
  return {
    tag,
    dialect: "openai",
    path: `${path}/{name}`,
    params: z.object({
      name: ResourceName.meta({ description: `The name of the ${noun}.`, example: example.name }),
    }),
    responses: { 200: { description: `The ${noun}.`, schema: record, example } },
  } as const;
}
