/** @jsxImportSource hono/jsx */
// The audit log of a workspace, newest first.

import type { Child } from "hono/jsx";
import { publicActor, toOwnAuditRecord } from "../../activity/audit-record.ts";
import { AUDIT_ACTIONS, type AuditEntry, type AuditFilter } from "../../activity/audit.ts";
import { formatAuditDetail } from "../../activity/format-detail.ts";
import type { Page } from "../../base/pagination.ts";
import { Card, EmptyState } from "../../http/pages/components/content.tsx";
import { FilterSelect } from "../../http/pages/components/form.tsx";
import { DateTime, useTimeZone } from "../../http/pages/components/local-time.tsx";
import { OlderLink, Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { ActorNames } from "../../keys/actor-names.ts";
import { withQuery } from "../confirm.tsx";
import { consolePage, workspacePath } from "../console-layout.tsx";
import type { WorkspaceView } from "../require-access.ts";

export const AUDIT_ENTRIES_PER_PAGE = 50;

export interface ActorOption {
  readonly value: string;
  readonly label: string;
}

export interface AuditPageProps extends WorkspaceView {
  readonly entries: Page<AuditEntry>;
  readonly filter: AuditFilter;
  readonly actors: readonly ActorOption[];
  readonly names: ActorNames;
  /** Whether the person sees where actors were. */
  readonly hasAddresses: boolean;
}

export function auditPage(props: AuditPageProps): PageLayout {
  const { user, workspace, entries, filter, names, hasAddresses } = props;
  const path = workspacePath(workspace.accountId, "/audit");
  return consolePage({
    title: "Audit log",
    workspace,
    user,
    page: "/audit",
    actions: (
      <>
        <a class="button secondary" href={withQuery(`${path}.csv`, { ...filter })}>
          Export CSV
        </a>
        <a class="button secondary" href={withQuery(`${path}.jsonl`, { ...filter })}>
          Export JSON
        </a>
        <a class="button secondary" href={`${path}/stream`}>
          Stream
        </a>
      </>
    ),
    main: (
      <>
        <FilterForm path={path} {...props} />
        {entries.data.length === 0 ? (
          <EmptyState title="No entries">
            <p class="muted">Changes of keys, members, billing and webhooks appear here.</p>
          </EmptyState>
        ) : (
          <Card id="entries" title="Entries">
            <Table
              label="Entries"
              isStacked
              columns={[
                { name: "Time", isDate: true },
                { name: "Actor", isWide: true },
                { name: "Action", isWide: true },
                { name: "Target", isWide: true },
              ]}
              rows={entries.data.map((entry) => [
                <DateTime at={entry.at} />,
                <>
                  <ActorCell actor={publicActor(entry.actor)} names={names} />
                  {hasAddresses ? <span class="type">{toOwnAuditRecord(entry).ip}</span> : null}
                </>,
                <>
                  <span title={actionText(entry.action)}>{entry.action}</span>
                  <span class="type">
                    <Detail {...entry} />
                  </span>
                </>,
                <Named id={entry.target} names={names} />,
              ])}
            />
            <OlderLink path={path} query={{ ...filter }} cursor={entries.next_cursor} />
          </Card>
        )}
      </>
    ),
  });
}

function FilterForm({ path, filter, actors }: AuditPageProps & { readonly path: string }): Child {
  return (
    <form class="inline filters" method="get" action={path}>
      <FilterSelect
        name="action"
        label="Action"
        allLabel="All actions"
        options={Object.keys(AUDIT_ACTIONS)}
        selected={filter.action}
      />
      <FilterSelect
        name="actor"
        label="Actor"
        allLabel="All people and keys"
        options={actors}
        selected={filter.actor}
      />
      <div>
        <label for="target">Target id</label>
        <input id="target" name="target" value={filter.target} maxlength={60} />
      </div>
      <button type="submit" class="secondary">
        Apply
      </button>
      {Object.values(filter).every((value) => value === undefined) ? null : (
        <a class="button secondary" href={path}>
          Clear
        </a>
      )}
    </form>
  );
}

function Detail({ detail }: AuditEntry): Child {
  return <bdi>{formatAuditDetail(detail, useTimeZone())}</bdi>;
}

function actionText(action: string): string | undefined {
  return Object.entries(AUDIT_ACTIONS).find(([name]) => name === action)?.[1];
}

function ActorCell({
  actor: { type, id },
  names,
}: {
  readonly actor: AuditEntry["actor"];
  readonly names: ActorNames;
}): Child {
  if (type === id) return type;
  return (
    <>
      <Named id={id} names={names} />
      <span class="type">{type}</span>
    </>
  );
}

/** The name of a person or key with its id as title; other ids as they are. */
function Named({ id, names }: { readonly id: string | null; readonly names: ActorNames }): Child {
  if (id === null) return null;
  const name = names.get(id);
  return name === undefined ? (
    <code class="line" title={id}>
      {id}
    </code>
  ) : (
    <bdi class="line" title={id}>
      {name}
    </bdi>
  );
}
