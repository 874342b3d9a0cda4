/** @jsxImportSource hono/jsx */
// The audit log of a workspace, newest first.

import type { Child } from "hono/jsx";
import type { AuditEntry } from "../../audit/audit.ts";
import { publicActor } from "../../audit/api-record.ts";
import { utcDay } from "../../base/time.ts";
import type { Page } from "../../base/pagination.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { SessionUser } from "../../http/route.ts";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { formatAuditDetail } from "../../audit/format-detail.ts";
import { formatDateTime } from "../../base/format.ts";
import type { WorkspaceContext } from "../authorize.ts";

export const AUDIT_ENTRIES_PER_PAGE = 50;

export function auditPage(
  user: SessionUser,
  workspace: WorkspaceContext,
  page: Page<AuditEntry>,
): PageLayout {
  const entries = page.data;
  return consolePage({
    title: "Audit log",
    workspace,
    user,
    page: "/audit",
    main:
      entries.length === 0 ? (
        <p>No entries yet.</p>
      ) : (
        <>
          <div class="scroll" role="region" aria-label="Entries" tabindex={0}>
            <table>
              <thead>
                <tr>
                  <th scope="col" class="date">
                    Time
                  </th>
                  <th scope="col">Actor</th>
                  <th scope="col">Action and target</th>
                </tr>
              </thead>
              <tbody>
                {entries.map((entry) => (
                  <tr>
                    <th scope="row" class="date">
                      {utcDay(entry.at)}
                      <span class="type">
                        {formatDateTime(entry.at).slice("YYYY-MM-DD ".length)}
                      </span>
                    </th>
                    <td>
                      <ActorCell actor={publicActor(entry.actor)} />
                    </td>
                    <td>
                      {entry.action}
                      {entry.target === null ? null : (
                        <>
                          <br />
                          <code>{entry.target}</code>
                        </>
                      )}
                      <span class="type">
                        <bdi>{formatAuditDetail(entry.detail)}</bdi>
                      </span>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {page.next_cursor === null ? null : (
            <p>
              <a
                href={`${workspacePath(workspace.accountId, "/audit")}?cursor=${page.next_cursor}`}
              >
                Older entries
              </a>
            </p>
          )}
        </>
      ),
  });
}

function ActorCell({ actor: { type, id } }: { readonly actor: AuditEntry["actor"] }): Child {
  if (type === id) return type;
  return (
    <>
      {type}
      <br />
      <code>{id}</code>
    </>
  );
}
