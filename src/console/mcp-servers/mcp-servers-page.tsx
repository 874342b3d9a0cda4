/** @jsxImportSource hono/jsx */
// The page of MCP servers, and the form that saves one.

import type { Child } from "hono/jsx";
import { z } from "zod";
import { invalid } from "../../base/fault.ts";
import type { EndpointDeps } from "../../base/network/public-endpoint.ts";
import { Field, TextField } from "../../http/pages/components/form.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import type { Route } from "../../http/route.ts";
import { McpServerForm } from "../../mcp-servers/mcp-servers-routes.ts";
import {
  deleteMcpServer,
  type Headers,
  listMcpServers,
  type McpServer,
  saveMcpServer,
} from "../../mcp-servers/mcp-servers.ts";
import { checkedForm } from "../checked-form.ts";
import {
  type FormValues,
  ItemForm,
  type ItemForms,
  NAME_FIELD,
  namedItemsRoutes,
} from "../named-items-page.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";

export interface McpServerPageDeps extends ConsoleReadDeps {
  readonly endpoints: EndpointDeps;
}

const ServerForm = z.object({
  do: z.literal("save"),
  ...NAME_FIELD,
  url: z.string().max(3_000),
  allowed_tools: z.string().max(20_000),
  header_name: z.string().max(1_000),
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
    edit: valuesOf,
    save: async (tx, act, name, form) => {
      const tools = form.allowed_tools.split("\n").flatMap((line) => line.trim() || []);
      const all = await listMcpServers(tx, act.accountId);
      const { headers, ...settings } = checkedForm(McpServerForm, {
        url: form.url,
        allowed_tools: tools.length === 0 ? null : tools,
        headers: headersOf(
          form,
          all.find((server) => server.name === name),
        ),
      });
      return saveMcpServer(tx, act, { name, settings, headers }, deps.endpoints);
    },
    remove: deleteMcpServer,
  });
}

/** Without the values of the headers, which are kept if their field stays empty. */
function valuesOf({ name, url, allowed_tools: tools, headerNames }: McpServer): FormValues {
  return {
    do: "save",
    name,
    url,
    allowed_tools: tools?.join("\n") ?? "",
    header_name: headerNames.join(", "),
  };
}

/** Undefined to keep those that the server has. */
function headersOf(form: ServerForm, former: McpServer | undefined): Headers | undefined {
  const [name, value] = [form.header_name.trim(), form.header_value.trim()];
  if (name === "") return {};
  if (value !== "") return { [name]: value };
  if (former?.headerNames.join(", ") === name) return undefined;
  throw invalid("header_value", `Enter the value of the header ${name}.`);
}

function SaveForm({ valuesOf: formOf, ...props }: ItemForms<McpServer>): Child {
  const form = formOf("save");
  const hasHeader = (form?.["header_name"] ?? "") !== "";
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
        hint={
          hasHeader ? "Empty: its headers are removed. The API sets several headers." : undefined
        }
        maxLength={1_000}
      />
      <Field
        id="server-header-value"
        name="header_value"
        type="password"
        label="Value of the header"
        value=""
        hint={`Stored encrypted, and sent only to this URL.${hasHeader ? " Leave it empty to keep the value; another URL or header needs its own." : ""}`}
        maxLength={2_000}
      />
    </ItemForm>
  );
}
