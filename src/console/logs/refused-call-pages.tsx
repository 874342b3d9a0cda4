/** @jsxImportSource hono/jsx */
// Calls that were refused before a provider was called: the table of the log, and the page of one.

import type { Child } from "hono/jsx";
import type { RefusedCall } from "../../http/finish-response.ts";
import { Card, CopyText, Details, EmptyState, Tag } from "../../http/pages/components/content.tsx";
import { ClockLink, DateTime } from "../../http/pages/components/local-time.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { REFUSALS_PER_DAY_MAX } from "../../usage/refused-calls.ts";
import { consolePage, workspacePath } from "../console-layout.tsx";
import type { WorkspaceContext, WorkspaceView } from "../require-access.ts";
import type { KeyNames } from "../usage/read-usage.ts";

interface RefusedTableProps {
  readonly calls: readonly RefusedCall[];
  readonly keyNames: KeyNames;
  readonly workspace: WorkspaceContext;
}

export function RefusedTable({ calls, keyNames, workspace }: RefusedTableProps): Child {
  if (calls.length === 0)
    return (
      <EmptyState title="No refused calls in this period">
        <p class="muted">
          Calls that are refused before a provider is called, such as for a missing balance, appear
          here some seconds later. They cost nothing.
        </p>
      </EmptyState>
    );
  return (
    <Table
      label="Refused calls"
      isStacked
      columns={[
        { name: "Time", isDate: true },
        { name: "Status" },
        { name: "Cause and advice", isWide: true },
        { name: "Model" },
        { name: "Key" },
      ]}
      rows={calls.map((call) => [
        <ClockLink at={call.createdAt} href={callPath(workspace, call.id)} />,
        <>
          <Tag tone="warn">{call.status}</Tag>
          <span class="type">{call.code}</span>
        </>,
        call.message,
        <bdi class="line" title={call.model ?? undefined}>
          {call.model ?? "–"}
        </bdi>,
        <bdi class="line" title={call.keyId}>
          {keyNames.get(call.keyId) ?? call.keyId}
        </bdi>,
      ])}
    />
  );
}

export function RefusedNote(): Child {
  return (
    <p class="note">
      Refused calls cost nothing. They are kept for 30 days, at most {REFUSALS_PER_DAY_MAX} per day.
    </p>
  );
}

function callPath({ accountId }: WorkspaceContext, id: string): string {
  return `${workspacePath(accountId, "/logs")}/${id}`;
}

export interface RefusedCallPageProps extends WorkspaceView {
  readonly call: RefusedCall;
  readonly keyName: string;
}

export function refusedCallPage({
  user,
  workspace,
  call,
  keyName,
}: RefusedCallPageProps): PageLayout {
  const { accountId } = workspace;
  return consolePage({
    title: `Refused call ${call.id}`,
    heading: "Refused call",
    workspace,
    user,
    page: "/logs",
    crumbs: [{ href: workspacePath(accountId, "/logs"), label: "Logs" }],
    main: (
      <>
        <div class="notice danger" role="status">
          <b>{call.message}</b> It cost nothing: no provider was called.{" "}
          <CauseLink call={call} accountId={accountId} />
        </div>
        <Card id="request" title="Request">
          <Details
            items={[
              ["Status", `${call.status} ${call.code}`],
              ["Time", <DateTime at={call.createdAt} />],
              ["Endpoint", <code>{call.path}</code>],
              ["Model", call.model === null ? "–" : <bdi>{call.model}</bdi>],
              [
                "Key",
                <a href={`${workspacePath(accountId, "/keys")}/${call.keyId}`}>
                  <bdi>{keyName}</bdi>
                </a>,
              ],
              ["Request id", <CopyText text={call.id} />],
            ]}
          />
        </Card>
      </>
    ),
  });
}

const BUDGET_CODES = new Set(["workspace_budget_reached"]);
const KEY_CODES = new Set(["key_limit_reached", "forbidden", "invalid_api_key", "rate_limited"]);

function CauseLink({
  call: { code, keyId },
  accountId,
}: {
  readonly call: RefusedCall;
  readonly accountId: string;
}): Child {
  if (code === "insufficient_credits")
    return <a href={`${workspacePath(accountId, "/billing")}/buy`}>Buy credits</a>;
  if (BUDGET_CODES.has(code)) return <a href={workspacePath(accountId, "/budgets")}>Budgets</a>;
  if (KEY_CODES.has(code))
    return <a href={`${workspacePath(accountId, "/keys")}/${keyId}`}>Limits of the key</a>;
  if (code === "model_not_found") return <a href="/models">Models</a>;
  return <a href="/docs/errors">Errors and what to do</a>;
}
