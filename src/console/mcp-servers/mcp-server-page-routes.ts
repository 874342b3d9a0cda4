// The routes of the page of MCP servers.

import { z } from "zod";
import type { FormError } from "../../http/pages/page-response.ts";
import type { Route } from "../../http/route.ts";
import { MCP_SERVER_NAME, McpServerForm } from "../../mcp-servers/mcp-servers-routes.ts";
import {
  deleteMcpServer,
  listMcpServers,
  type McpServerDeps,
  saveMcpServer,
} from "../../mcp-servers/mcp-servers.ts";
import { checkedForm } from "../checked-form.ts";
import { workspacePath } from "../console-layout.tsx";
import { donePath, DoneQuery } from "../done-notice.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";
import { AccountPath, workspaceForm, workspacePage } from "../workspace-routes.ts";
import { mcpServersPage } from "./mcp-servers-page.tsx";

const PATH = "/console/{account}/mcp-servers";
const NAME_MAX = 100;

export interface McpServerPageDeps extends ConsoleReadDeps {
  readonly mcpServers: McpServerDeps;
}

export function mcpServerPageRoutes(deps: McpServerPageDeps): readonly Route[] {
  return [listRoute(deps), changeRoute(deps)];
}

function listRoute(deps: McpServerPageDeps): Route {
  return workspacePage(deps, {
    path: PATH,
    id: "showMcpServers",
    summary: "List the MCP servers of a workspace",
    params: AccountPath,
    query: z.object({ ...DoneQuery, delete: z.string().max(NAME_MAX).optional() }),
    permission: "workspace.read",
    run: async ({ view, account, query: { delete: asked, done } }) => {
      const servers = await listMcpServers(deps.db, account);
      return mcpServersPage({ ...view, servers, asked, done });
    },
  });
}

const ChangeForm = z.discriminatedUnion("do", [
  z.object({
    do: z.literal("save"),
    name: z.string().max(NAME_MAX),
    url: z.string().max(3_000),
    allowed_tools: z.string().max(20_000),
    header_name: z.string().max(100),
    header_value: z.string().max(3_000),
  }),
  z.object({ do: z.literal("delete"), name: z.string().max(NAME_MAX) }),
]);

function changeRoute(deps: McpServerPageDeps): Route {
  return workspaceForm(deps, {
    path: PATH,
    id: "changeMcpServers",
    summary: "Save or delete an MCP server",
    params: AccountPath,
    body: ChangeForm,
    requestExample: {
      do: "save",
      name: "docs",
      url: "https://mcp.example.com/mcp",
      allowed_tools: "",
      header_name: "authorization",
      header_value: "Bearer sk-docs",
    },
    permission: "mcp_servers.change",
    write: async (tx, { act, body }) => {
      if (body.do === "delete") return deleteMcpServer(tx, act, body.name);
      const { name } = checkedForm(z.object({ name: MCP_SERVER_NAME }), { name: body.name });
      const tools = body.allowed_tools.split(/\r?\n/).flatMap((line) => line.trim() || []);
      const header = body.header_name.trim();
      const { headers, ...settings } = checkedForm(McpServerForm, {
        url: body.url,
        allowed_tools: tools.length === 0 ? null : tools,
        headers: header === "" ? {} : { [header]: body.header_value.trim() },
      });
      await saveMcpServer(tx, act, { name, settings, headers }, deps.mcpServers);
    },
    done: ({ account, body }) => donePath(workspacePath(account, "/mcp-servers"), body.do),
    rejected: async ({ view, account, body }, error: FormError) => {
      const servers = await listMcpServers(deps.db, account);
      // A secret that was typed is not sent back.
      const form = body.do === "save" ? { ...body, header_value: "" } : body;
      return mcpServersPage({ ...view, servers, rejected: { form, error } });
    },
  });
}
