/** @jsxImportSource hono/jsx */
// The MCP servers of a workspace, and the form that saves one.

import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import { Card, EmptyState } from "../../http/pages/components/content.tsx";
import { ErrorMessage, Field, TextField } from "../../http/pages/components/form.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { FormError } from "../../http/pages/page-response.ts";
import type { SessionUser } from "../../http/route.ts";
import type { McpServer } from "../../mcp-servers/mcp-servers.ts";
import { ConfirmDelete, ConfirmLink, withQuery } from "../confirm.tsx";
import { consolePage, HiddenFields, workspacePath } from "../console-layout.tsx";
import { DoneNotice } from "../done-notice.tsx";
import type { WorkspaceContext } from "../require-access.ts";

const PAGE = "/mcp-servers";
const DONE_TEXTS = {
  save: "The MCP server is saved. Calls can use its tools.",
  delete: "The MCP server is deleted.",
} as const;

interface McpServersPageProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly servers: readonly McpServer[];
  /** The server whose deletion is to be confirmed. */
  readonly asked?: string | undefined;
  readonly done?: string | undefined;
  readonly rejected?: {
    readonly form: Readonly<Record<string, string | undefined>>;
    readonly error: FormError;
  };
}

export function mcpServersPage(props: McpServersPageProps): PageLayout {
  const { user, workspace, servers, asked, done, rejected } = props;
  const path = workspacePath(workspace.accountId, PAGE);
  const canChange = hasPermission(workspace.role, "mcp_servers.change");
  return consolePage({
    title: "MCP servers",
    workspace,
    user,
    page: PAGE,
    main: (
      <>
        <DoneNotice texts={DONE_TEXTS} done={done} />
        <ErrorMessage message={rejected?.error.message} />
        {canChange ? (
          <ConfirmDelete user={user} path={path} noun="MCP server" items={servers} asked={asked}>
            Delete {asked}? Calls cannot use its tools any more.
          </ConfirmDelete>
        ) : null}
        <Card
          id="mcp-servers"
          title="MCP servers"
          aside={<a href="/docs/mcp-tools">How calls use their tools</a>}
        >
          {servers.length === 0 ? (
            <EmptyState title="No MCP servers yet">
              <p class="muted">
                Calls that name one of these servers can use its tools with any model. The gateway
                sends the secret headers, so that keys need not have them.
              </p>
            </EmptyState>
          ) : (
            <ServerTable servers={servers} path={path} canChange={canChange} />
          )}
        </Card>
        {canChange ? <ServerForm user={user} path={path} form={rejected?.form ?? {}} /> : null}
      </>
    ),
  });
}

function ServerTable({
  servers,
  path,
  canChange,
}: {
  readonly servers: readonly McpServer[];
  readonly path: string;
  readonly canChange: boolean;
}): Child {
  return (
    <Table
      label="MCP servers"
      isStacked
      columns={[
        { name: "Name" },
        { name: "URL" },
        { name: "Tools" },
        { name: "Headers" },
        { name: "Saved" },
        { name: "Actions", isNumber: true },
      ]}
      rows={servers.map(({ name, url, allowed_tools: tools, headerNames, updatedAt }) => [
        <span class="line">{name}</span>,
        <span class="line">{url}</span>,
        tools === null ? "All" : tools.join(", "),
        headerNames.join(", ") || "–",
        <RelativeTime at={updatedAt} />,
        canChange ? (
          <ConfirmLink href={withQuery(path, { delete: name })} label="Delete" subject={name} />
        ) : (
          "–"
        ),
      ])}
    />
  );
}

function ServerForm({
  user,
  path,
  form,
}: {
  readonly user: SessionUser;
  readonly path: string;
  readonly form: Readonly<Record<string, string | undefined>>;
}): Child {
  const value = (name: string): string => form[name] ?? "";
  return (
    <Card id="save" title="Add an MCP server">
      <form method="post" action={path}>
        <HiddenFields user={user} fields={{ do: "save" }} />
        <Field
          id="server-name"
          name="name"
          label="Name"
          value={value("name")}
          hint="Lowercase letters, digits, - and _. An existing name is replaced."
          maxLength={64}
          isRequired
        />
        <Field
          id="server-url"
          name="url"
          type="url"
          label="URL"
          value={value("url")}
          placeholder="https://mcp.example.com/mcp"
          maxLength={2_048}
          isRequired
        />
        <TextField
          id="server-tools"
          name="allowed_tools"
          label="Allowed tools"
          value={value("allowed_tools")}
          hint="One per line. Empty: all tools."
        />
        <Field
          id="server-header"
          name="header_name"
          label="Secret header"
          value={value("header_name")}
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
        <div class="actions">
          <button type="submit">Save MCP server</button>
        </div>
      </form>
    </Card>
  );
}
