/** @jsxImportSource hono/jsx */
// The batches of a workspace: progress, cost, results, and how to cancel one. Owners and admins see them:
// results have content.

import type { Child } from "hono/jsx";
import { z } from "zod";
import { authorize, hasPermission } from "../../accounts/members.ts";
import { formatCosts, formatInteger } from "../../base/text/format.ts";
import { type Batch, type BatchStatus, listBatches } from "../../batches/batch-rows.ts";
import { type Batches, getBatch, unfinishedFault } from "../../batches/batches.ts";
import { resultsResponse } from "../../batches/results.ts";
import { EmptyState, Tag } from "../../http/pages/components/content.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import { OlderLink, Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { wholeAccount } from "../../http/reach.ts";
import type { Route } from "../../http/route.ts";
import { Confirm, ConfirmLink, withQuery } from "../confirm.tsx";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { DoneNotice, donePath, DoneQuery } from "../done-notice.tsx";
import type { ConsoleReadDeps, WorkspaceView } from "../require-access.ts";
import { AccountPath, workspaceForm, workspacePage } from "../workspace-routes.ts";

const PAGE = "/batches";

interface BatchesPageProps extends WorkspaceView {
  readonly batches: readonly Batch[];
  readonly next: string | null;
  /** The batch whose cancellation is to be confirmed. */
  readonly cancel: string | undefined;
  readonly done: string | undefined;
}

function batchesPage(props: BatchesPageProps): PageLayout {
  const { user, workspace, batches, next, cancel, done } = props;
  const path = workspacePath(workspace.accountId, PAGE);
  const canCancel = hasPermission(workspace.role, "batches.manage");
  const asked = batches.find(({ id, status }) => id === cancel && status === "in_progress");
  return consolePage({
    title: "Batches",
    workspace,
    user,
    page: PAGE,
    actions: <a href="/docs/batches">How batches work</a>,
    main: (
      <>
        <DoneNotice done={done} texts={{ canceled: "The batch is being canceled." }} />
        {canCancel && asked !== undefined ? (
          <Confirm
            user={user}
            action={`${path}/${asked.id}`}
            fields={{}}
            confirmLabel="Cancel batch"
            cancelHref={path}
          >
            Requests that run are finished and charged; the others of <code>{asked.id}</code> are
            canceled. This cannot be undone.
          </Confirm>
        ) : null}
        <div class="card">
          {batches.length === 0 ? (
            <EmptyState title="No batches yet">
              <p class="muted">
                Batches of <code>POST /v1/batches</code> and <code>POST /v1/messages/batches</code>{" "}
                appear here for 30 days.
              </p>
            </EmptyState>
          ) : (
            <BatchTable
              batches={batches}
              path={path}
              logs={workspacePath(workspace.accountId, "/logs")}
              canCancel={canCancel}
            />
          )}
          <OlderLink path={path} query={{}} cursor={next} />
        </div>
      </>
    ),
  });
}

interface BatchTableProps {
  readonly batches: readonly Batch[];
  readonly path: string;
  readonly logs: string;
  readonly canCancel: boolean;
}

function BatchTable({ batches, path, logs, canCancel }: BatchTableProps): Child {
  const costs = formatCosts(batches.map(({ cost }) => cost));
  return (
    <Table
      label="Batches"
      columns={[
        { name: "Batch" },
        { name: "Status" },
        { name: "Created", isDate: true, isExtra: true },
        { name: "Run by", isExtra: true },
        { name: "Done", isNumber: true, isExtra: true },
        { name: "Failed", isNumber: true, isExtra: true },
        { name: "Cost", isNumber: true, isExtra: true },
        { name: "Actions", isNumber: true },
      ]}
      rows={batches.map((batch, index) => [
        <a class="name" href={withQuery(logs, { batch: batch.id })}>
          {batch.id}
        </a>,
        <StatusTag status={batch.status} />,
        <RelativeTime at={batch.createdAt} />,
        batch.provider ?? "Gateway",
        `${formatInteger(batch.succeeded)} of ${formatInteger(batch.requests)}`,
        formatInteger(batch.errored + batch.canceled + batch.expired),
        costs[index],
        <BatchAction batch={batch} path={path} canCancel={canCancel} />,
      ])}
    />
  );
}

function BatchAction({
  batch: { id, status, endedAt },
  path,
  canCancel,
}: Omit<BatchTableProps, "batches" | "logs"> & { readonly batch: Batch }): Child {
  if (endedAt !== null)
    return (
      <a href={`${path}/${id}/results`}>
        Download <span class="visually-hidden">the results of {id}</span>
      </a>
    );
  return canCancel && status === "in_progress" ? (
    <ConfirmLink href={withQuery(path, { cancel: id })} label="Cancel" subject={id} />
  ) : null;
}

const STATUSES: Readonly<Record<BatchStatus, readonly [label: string, tone?: "good" | "danger"]>> =
  {
    validating: ["Validating"],
    in_progress: ["In progress"],
    canceling: ["Canceling"],
    completed: ["Completed", "good"],
    expired: ["Expired", "danger"],
    canceled: ["Canceled"],
  };

function StatusTag({ status }: { readonly status: BatchStatus }): Child {
  const [label, tone] = STATUSES[status];
  return <Tag tone={tone}>{label}</Tag>;
}

export interface BatchPageDeps extends ConsoleReadDeps {
  readonly batches: Batches;
}

const PATH = "/console/{account}/batches";
const PER_PAGE = 50;
const BatchPath = AccountPath.extend({ batch: z.string().max(200) });

export function batchPageRoutes(deps: BatchPageDeps): readonly Route[] {
  return [listRoute(deps), resultsRoute(deps), cancelRoute(deps)];
}

function listRoute(deps: BatchPageDeps): Route {
  return workspacePage(deps, {
    path: PATH,
    id: "showWorkspaceBatches",
    summary: "Show the batches of a workspace",
    query: z.object({
      ...DoneQuery,
      cursor: z.string().max(200).optional(),
      cancel: z.string().max(200).optional(),
    }),
    permission: "batches.manage",
    run: async ({ view, account, query: { cursor, cancel, done } }) => {
      const page = { limit: PER_PAGE, cursor };
      const found = await listBatches(deps.db, wholeAccount(account), page);
      const batches = found.slice(0, PER_PAGE);
      const next = found.length > PER_PAGE ? (batches.at(-1)?.id ?? null) : null;
      return batchesPage({ ...view, batches, next, cancel, done });
    },
  });
}

function resultsRoute(deps: BatchPageDeps): Route {
  return workspacePage(deps, {
    path: `${PATH}/{batch}/results`,
    id: "downloadWorkspaceBatchResults",
    summary: "Download the results of a batch",
    params: BatchPath,
    permission: "batches.manage",
    run: async ({ account, params: { batch: id } }) => {
      const { db, kek } = deps.batches;
      const batch = await getBatch(db, wholeAccount(account), id);
      if (batch.endedAt === null) throw unfinishedFault(id);
      const response = resultsResponse(db, kek, { batch, form: batch.form });
      response.headers.set("content-disposition", `attachment; filename="${batch.id}.jsonl"`);
      return response;
    },
  });
}

function cancelRoute(deps: BatchPageDeps): Route {
  return workspaceForm(deps, {
    path: `${PATH}/{batch}`,
    id: "cancelWorkspaceBatch",
    summary: "Cancel a batch of a workspace",
    params: BatchPath,
    body: z.object({}),
    requestExample: {},
    permission: "batches.manage",
    write: async (tx, { act, params: { batch } }) => {
      await authorize(tx, act, "batches.manage");
      return deps.batches.cancel(tx, act, wholeAccount(act.accountId), batch);
    },
    done: ({ account }) => donePath(workspacePath(account, "/batches"), "canceled"),
  });
}
