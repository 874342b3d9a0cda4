// Routes of /v1/mcp_servers.

import { z } from "zod";
import { keyAct } from "../activity/audit.ts";
import { keyRoute, keyWriteRoute, type Route } from "../http/route.ts";
import { timestamp } from "../http/schemas.ts";
import type { Db } from "../store/db.ts";
import {
  deleteMcpServer,
  getMcpServer,
  listMcpServers,
  type McpServer,
  type McpServerDeps,
  saveMcpServer,
} from "./mcp-servers.ts";

const HEADERS_MAX = 10;
const TOOLS_MAX = 200;

export const MCP_SERVER_NAME = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, "must be lowercase letters, digits, `-` and `_`")
  .meta({ description: "The name of the MCP server.", example: "docs" });

const AllowedTools = z
  .array(z.string().min(1).max(128))
  .min(1)
  .max(TOOLS_MAX)
  .nullable()
  .meta({ description: "The tools that calls may use; null for all." });

const McpServerRecord = z
  .object({
    object: z.literal("mcp_server"),
    name: z.string(),
    url: z.string().meta({ description: "Where the server has its Streamable HTTP endpoint." }),
    allowed_tools: AllowedTools,
    header_names: z
      .array(z.string())
      .meta({ description: "The headers that the gateway sends. Their values are never shown." }),
    created_at: z.string(),
    updated_at: z.string().meta({ description: "When its settings were last changed." }),
  })
  .meta({ id: "McpServer" });

export const McpServerForm = z.strictObject({
  url: z.string().min(1).max(2_048).meta({ description: "An HTTPS URL." }),
  allowed_tools: AllowedTools.default(null),
  headers: z
    .record(z.string().max(64), z.string().max(2_000))
    .refine((headers) => Object.keys(headers).length <= HEADERS_MAX, {
      error: `must have at most ${HEADERS_MAX} headers`,
    })
    .default({})
    .meta({ description: "Sent with every request to the server, and stored encrypted." }),
});

const EXAMPLE = {
  object: "mcp_server",
  name: "docs",
  url: "https://mcp.example.com/mcp",
  allowed_tools: ["search", "read"],
  header_names: ["authorization"],
  created_at: "2026-11-29T09:30:00.000Z",
  updated_at: "2026-11-29T09:30:00.000Z",
};

const DOC = { tag: "MCP servers", dialect: "openai" } as const;
const ONE = {
  200: { description: "The MCP server.", schema: McpServerRecord, example: EXAMPLE },
};
const ServerPath = z.object({ name: MCP_SERVER_NAME });

export function toMcpServerRecord(server: McpServer) {
  return {
    object: "mcp_server",
    name: server.name,
    url: server.url,
    allowed_tools: server.allowed_tools,
    header_names: server.headerNames,
    created_at: timestamp(server.createdAt),
    updated_at: timestamp(server.updatedAt),
  };
}

export interface McpServerRouteDeps extends McpServerDeps {
  readonly db: Db;
}

export function mcpServerRoutes(deps: McpServerRouteDeps): readonly Route[] {
  return [listRoute(deps), getRoute(deps), saveRoute(deps), deleteRoute()];
}

function listRoute({ db }: McpServerRouteDeps): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    path: "/v1/mcp_servers",
    id: "listMcpServers",
    scope: "usage:read",
    summary: "List MCP servers",
    description: "By name; at most 20.",
    query: z.strictObject({}),
    responses: {
      200: {
        description: "All MCP servers.",
        schema: z
          .object({ object: z.literal("list"), data: z.array(McpServerRecord) })
          .meta({ id: "McpServerList" }),
        example: { object: "list", data: [EXAMPLE] },
      },
    },
    faults: [],
    run: async ({ caller }) => {
      const servers = await listMcpServers(db, caller.accountId);
      return { status: 200, body: { object: "list", data: servers.map(toMcpServerRecord) } };
    },
  });
}

function getRoute({ db }: McpServerRouteDeps): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    path: "/v1/mcp_servers/{name}",
    id: "getMcpServer",
    scope: "usage:read",
    summary: "Get an MCP server",
    params: ServerPath,
    query: z.strictObject({}),
    responses: ONE,
    faults: ["not_found"],
    run: async ({ caller, params: { name } }) => ({
      status: 200,
      body: toMcpServerRecord(await getMcpServer(db, caller.accountId, name)),
    }),
  });
}

function saveRoute(deps: McpServerRouteDeps): Route {
  return keyWriteRoute({
    ...DOC,
    method: "POST",
    path: "/v1/mcp_servers/{name}",
    id: "saveMcpServer",
    scope: "account:write",
    summary: "Save an MCP server",
    description:
      "Creates it, or replaces all of its settings, also its headers. Model calls of the workspace can then use its tools. See `/docs/mcp-tools`.",
    params: ServerPath,
    body: McpServerForm.meta({ id: "McpServerSettings" }),
    requestExample: {
      url: EXAMPLE.url,
      allowed_tools: EXAMPLE.allowed_tools,
      headers: { authorization: "Bearer sk-docs" },
    },
    responses: ONE,
    faults: ["conflict"],
    run: async (tx, { caller, params: { name }, body, clientIp, now }) => {
      const { headers, ...settings } = body;
      const act = keyAct(caller, { clientIp, now });
      const server = await saveMcpServer(tx, act, { name, settings, headers }, deps);
      return { status: 200, body: toMcpServerRecord(server) };
    },
  });
}

function deleteRoute(): Route {
  return keyWriteRoute({
    ...DOC,
    method: "DELETE",
    path: "/v1/mcp_servers/{name}",
    id: "deleteMcpServer",
    scope: "account:write",
    summary: "Delete an MCP server",
    description: "Calls cannot use its tools any more.",
    params: ServerPath,
    responses: {
      200: {
        description: "The MCP server is deleted.",
        schema: z
          .object({ object: z.literal("mcp_server"), name: z.string(), deleted: z.literal(true) })
          .meta({ id: "DeletedMcpServer" }),
        example: { object: "mcp_server", name: EXAMPLE.name, deleted: true },
      },
    },
    faults: ["not_found"],
    run: async (tx, { caller, params: { name }, clientIp, now }) => {
      await deleteMcpServer(tx, keyAct(caller, { clientIp, now }), name);
      return { status: 200, body: { object: "mcp_server", name, deleted: true } };
    },
  });
}
