// Routes of /v1/mcp-servers.

import { z } from "zod";
import { namedResourceRoutes } from "../activity/named-resource-routes.ts";
import type { EndpointDeps } from "../base/network/public-endpoint.ts";
import type { Route } from "../http/route.ts";
import { timestamp } from "../http/schemas.ts";
import type { Db } from "../store/db.ts";
import {
  deleteMcpServer,
  getMcpServer,
  listMcpServers,
  type McpServer,
  saveMcpServer,
} from "./mcp-servers.ts";

const HEADERS_MAX = 10;
const TOOLS_MAX = 200;

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
    .optional()
    .meta({
      description:
        "Sent with every request to the server, and stored encrypted. Those of the same URL are kept if it is left out; `{}` removes them.",
    }),
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

export interface McpServerRouteDeps extends EndpointDeps {
  readonly db: Db;
}

export function mcpServerRoutes(deps: McpServerRouteDeps): readonly Route[] {
  return namedResourceRoutes({
    db: deps.db,
    path: "/v1/mcp-servers",
    object: "mcp_server",
    id: "McpServer",
    article: "an",
    noun: "MCP server",
    tag: "MCP servers",
    record: McpServerRecord,
    example: EXAMPLE,
    settings: McpServerForm.meta({ id: "McpServerSettings" }),
    settingsExample: {
      url: EXAMPLE.url,
      allowed_tools: EXAMPLE.allowed_tools,
      headers: { authorization: "Bearer sk-docs" },
    },
    notes: {
      list: "By name; at most 20.",
      save: "Creates it, or replaces its settings. Model calls of the workspace can then use its tools. See `/docs/mcp-tools`.",
      delete: "Calls cannot use its tools any more.",
    },
    list: async (reader, accountId) =>
      (await listMcpServers(reader, accountId)).map(toMcpServerRecord),
    get: async (reader, accountId, name) =>
      toMcpServerRecord(await getMcpServer(reader, accountId, name)),
    save: async (tx, act, name, { headers, ...settings }) =>
      toMcpServerRecord(await saveMcpServer(tx, act, { name, settings, headers }, deps)),
    remove: deleteMcpServer,
  });
}
