/** @jsxImportSource hono/jsx */
// The usage of a workspace by model, key and day.

import type { Child } from "hono/jsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { SessionUser } from "../../http/route.ts";
import { withQuery } from "../confirm.tsx";
import { consolePage, workspacePath } from "../console-layout.tsx";
import type { WorkspaceContext } from "../authorize.ts";
import type { Spending, SpendingCursors } from "./read-usage.ts";
import { UsageTable } from "../../usage/usage-table.tsx";

export interface UsagePageProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly spending: Spending;
  readonly cursors: SpendingCursors;
}

export function usagePage({ user, workspace, spending, cursors }: UsagePageProps): PageLayout {
  const { byModel, byKey, byDay, keyLabels } = spending;
  const path = workspacePath(workspace.accountId, "/usage");
  return consolePage({
    title: "Usage",
    workspace,
    user,
    page: "/usage",
    main:
      byDay.length === 0 ? (
        <p>No calls in the last 30 days.</p>
      ) : (
        <>
          <p>
            The last 30 days. For single calls, use <code>GET /v1/usage</code> (JSON or CSV).
          </p>
          <h2 id="models">By model</h2>
          <UsageTable groupBy="model" sums={byModel.data} />
          <MoreRowsLink path={path} cursors={cursors} table="models" next={byModel.next_cursor} />
          <h2 id="keys">By key</h2>
          <UsageTable
            groupBy="key"
            sums={byKey.data}
            rowHeading={(id) => <KeyName id={id} label={keyLabels.get(id)} />}
          />
          <MoreRowsLink path={path} cursors={cursors} table="keys" next={byKey.next_cursor} />
          <h2>By day</h2>
          <UsageTable groupBy="day" sums={byDay} />
        </>
      ),
  });
}

function KeyName({
  id,
  label,
}: {
  readonly id: string;
  readonly label: ReturnType<Spending["keyLabels"]["get"]>;
}): Child {
  return label === undefined ? (
    id
  ) : (
    <>
      <bdi>{label.name ?? "Unnamed key"}</bdi> <code>{`${label.prefix}…${label.last4}`}</code>
      <span class="type">{id}</span>
    </>
  );
}

interface MoreRowsLinkProps {
  readonly path: string;
  readonly cursors: SpendingCursors;
  readonly table: keyof SpendingCursors;
  readonly next: string | null;
}

/** A link to the next page of one table, which keeps the page of the other. */
function MoreRowsLink({ path, cursors, table, next }: MoreRowsLinkProps): Child {
  if (next === null && cursors[table] === undefined) return null;
  const target = (cursor: string | null): string => {
    return `${withQuery(path, { ...cursors, [table]: cursor ?? undefined })}#${table}`;
  };
  return (
    <p>
      {next === null ? (
        <a href={target(null)}>First {table}</a>
      ) : (
        <a href={target(next)}>More {table}</a>
      )}
    </p>
  );
}
