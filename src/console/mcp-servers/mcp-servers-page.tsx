/** @jsxImportSource hono/jsx */
// The page of MCP servers, and the form that saves one.

import type { Child } from "hono/jsx";
import { z } from "zod";
import type { EndpointDeps } from "../../base/network/public-endpoint.ts";
import { Field, TextField } from "../../http/pages/components/form.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import type { Route } from "../../http/route.ts";
import { McpServerForm } from "../../mcp-servers/mcp-servers-routes.ts";
import {
  deleteMcpServer,
  listMcpServers,
  type McpServer,
  saveMcpServer,
} from "../../mcp-servers/mcp-servers.ts";
import { checkedForm } from "../checked-form.ts";
import { ItemForm, type ItemForms, NAME_FIELD, namedItemsRoutes } from "../named-items-page.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";

export interface McpServerPageDeps extends ConsoleReadDeps {
  readonly endpoints: EndpointDeps;
}

const ServerForm = z.object({
  do: z.literal("save"),
  ...NAME_FIELD,
  url: z.string().max(3_000),
  allowed_tools: z.string().max(20_000),
  header_name: z.string().max(100),
  header_value: z.string().max(3_000),
});
type ServerForm = z.infer<typeof ServerForm>;

export function mcpServerPageRoutes(deps: McpServerPageDeps): readonly Route[] {
  return namedItemsRoutes<McpServer, ServerForm>(deps, {
    page: "/mcp-servers",
    title: "MCP servers",
    id: "McpServer",
    article: "an",
    noun: "MCP server",
    permissions: { read: "workspace.read", change: "mcp_servers.change" },
    docs: { href: "/docs/mcp-tools", label: "How calls use their tools" },
    notes: { save: "Calls can use its tools.", delete: "Calls cannot use its tools any more." },
    purpose:
      "Calls that name one of these servers can use its tools with any model. The gateway sends the secret headers, so that keys need not have them.",
    columns: [{ name: "URL" }, { name: "Tools" }, { name: "Headers" }, { name: "Saved" }],
    cells: ({ url, allowed_tools: tools, headerNames, updatedAt }) => [
      <span class="line">{url}</span>,
      tools === null ? "All" : tools.join(", "),
      headerNames.join(", ") || "–",
      <RelativeTime at={updatedAt} />,
    ],
    forms: (props) => <SaveForm {...props} />,
    body: ServerForm,
    requestExample: {
      do: "save",
      name: "docs",
      url: "https://mcp.example.com/mcp",
      allowed_tools: "",
      header_name: "authorization",
      header_value: "Bearer sk-docs",
    },
    list: listMcpServers,
    save: (tx, act, name, form) => {
      const tools = form.allowed_tools.split("\n").flatMap((line) => line.trim() || []);
      const header = form.header_name.trim();
      const { headers, ...settings } = checkedForm(McpServerForm, {
        url: form.url,
        allowed_tools: tools.length === 0 ? null : tools,
        headers: header === "" ? {} : { [header]: form.header_value.trim() },
      });
      return saveMcpServer(tx, act, { name, settings, headers }, deps.endpoints);
    },
    remove: deleteMcpServer,
  });
}

function SaveForm({ valuesOf, ...props }: ItemForms<McpServer>): Child {
  const form = valuesOf("save");
  return (
    <ItemForm
      props={props}
      kind="save"
      title="Add an MCP server"
      submit="Save MCP server"
      name={form?.["name"]}
    >
      <Field
        id="server-url"
        name="url"
        type="url"
        label="URL"
        value={form?.["url"] ?? ""}
        placeholder="https://mcp.example.com/mcp"
        maxLength={2_048}
        isRequired
      />
      <TextField
        id="server-tools"
        name="allowed_tools"
        label="Allowed tools"
        value={form?.["allowed_tools"] ?? ""}
        hint="One per line. Empty: all tools."
      />
      <Field
        id="server-header"
        name="header_name"
        label="Secret header"
        value={form?.["header_name"] ?? ""}
        placeholder="authorization"
        maxLength={64}
      />
      <Field
        id="server-header-value"
        name="header_value"
        type="password"
        label="Value of the header"
        value=""
        hint="Stored encrypted, and sent only to this URL."
        maxLength={2_000}
      />
    </ItemForm>
  );
}
