/** @jsxImportSource hono/jsx */
// The stream of the audit log: where it is sent, and whether it arrives.

import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import { type AuditStream, QUEUE_DAYS } from "../../activity/audit-stream-rows.ts";
import { Card, Details, Notice } from "../../http/pages/components/content.tsx";
import { ErrorMessage, Field, PostForm } from "../../http/pages/components/form.tsx";
import { DateTime } from "../../http/pages/components/local-time.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { FormError } from "../../http/pages/page-response.ts";
import { Confirm, ConfirmLink, withQuery } from "../confirm.tsx";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { DoneNotice } from "../done-notice.tsx";
import type { WorkspaceView } from "../require-access.ts";
import type { AuditStreamForm } from "./audit-stream-form.ts";

export interface StreamStatus {
  readonly stream: AuditStream | undefined;
  /** Entries that were not delivered yet. */
  readonly queued: number;
}

export interface AuditStreamPageProps extends WorkspaceView {
  readonly status: StreamStatus;
  readonly ask?: "remove" | undefined;
  readonly done?: string | undefined;
  readonly rejected?: { readonly values: AuditStreamForm; readonly error: FormError };
}

const DONE_TEXTS = {
  save: "The stream is saved. The entry of this change is sent first.",
  remove: "The stream is removed.",
} as const;

const KIND_LABELS = { webhook: "Webhook (JSON)", otlp: "OpenTelemetry logs (OTLP/HTTP, JSON)" };

export function auditStreamPath(accountId: string): string {
  return `${workspacePath(accountId, "/audit")}/stream`;
}

export function auditStreamPage(props: AuditStreamPageProps): PageLayout {
  const { user, workspace, status, rejected } = props;
  const { accountId, role } = workspace;
  return consolePage({
    title: "Audit log stream",
    workspace,
    user,
    page: "/audit",
    crumbs: [{ href: workspacePath(accountId, "/audit"), label: "Audit log" }],
    main: (
      <>
        <ErrorMessage
          message={rejected?.error.field === undefined ? rejected?.error.message : undefined}
        />
        <DoneNotice texts={DONE_TEXTS} done={props.done} />
        <p>
          Each new entry is sent to your log system, in order and at least once. Entries have the
          address of the actor. <a href="/docs/webhooks#stream-the-audit-log">Format and retries</a>
          .
        </p>
        {status.stream === undefined ? null : <StatusCard {...props} stream={status.stream} />}
        {hasPermission(role, "audit.stream") ? (
          <DestinationCard {...props} />
        ) : (
          <Notice>Only the owner can change the stream.</Notice>
        )}
      </>
    ),
  });
}

function StatusCard({
  user,
  workspace,
  status,
  stream,
  ask,
}: AuditStreamPageProps & { readonly stream: AuditStream }): Child {
  const path = auditStreamPath(workspace.accountId);
  const { kind, url, failingSince, lastError, deliveredAt } = stream;
  return (
    <Card id="status" title="Status">
      {failingSince === null ? null : (
        <Notice tone="danger">
          Failing since <DateTime at={failingSince} />: {lastError}. It is tried again, and entries
          wait for {QUEUE_DAYS} days.
        </Notice>
      )}
      <Details
        items={[
          ["Destination", `${KIND_LABELS[kind]} at ${new URL(url).host}`],
          ["Last delivery", deliveredAt === null ? "none yet" : <DateTime at={deliveredAt} />],
          ["Waiting entries", String(status.queued)],
        ]}
      />
      {!hasPermission(workspace.role, "audit.stream") ? null : ask === "remove" ? (
        <Confirm
          user={user}
          action={path}
          fields={{ do: "remove" }}
          confirmLabel="Remove stream"
          cancelHref={path}
        >
          Entries that wait are not sent any more. The audit log keeps them.
        </Confirm>
      ) : (
        <div class="actions">
          <ConfirmLink
            href={withQuery(path, { ask: "remove" })}
            label="Remove"
            subject="the stream"
          />
        </div>
      )}
    </Card>
  );
}

function DestinationCard(props: AuditStreamPageProps): Child {
  const { user, workspace, status, rejected } = props;
  const sent = rejected?.values.do === "save" ? rejected.values : undefined;
  const { stream } = status;
  const selected = sent?.kind ?? stream?.kind;
  const errorOf = (field: string): string | undefined =>
    rejected?.error.field === field ? rejected.error.message : undefined;
  return (
    <Card id="destination" title="Destination">
      <PostForm
        user={user}
        action={auditStreamPath(workspace.accountId)}
        fields={{ do: "save" }}
        submit="Save stream"
      >
        <div class="field">
          <label for="kind">Format</label>
          <select id="kind" name="kind">
            {Object.entries(KIND_LABELS).map(([kind, label]) => (
              <option value={kind} selected={kind === selected}>
                {label}
              </option>
            ))}
          </select>
        </div>
        <Field
          id="url"
          name="url"
          label="URL"
          placeholder="https://otlp.example.com/v1/logs"
          value={sent?.url ?? stream?.url}
          error={errorOf("url")}
          autoComplete="off"
          isRequired
        />
        <Field
          id="header-name"
          name="header_name"
          label="Header"
          placeholder="authorization"
          value={sent?.header_name ?? stream?.headerName ?? undefined}
          error={errorOf("header_name")}
          autoComplete="off"
          hint="Authenticates the requests. Leave it empty if the URL does."
        />
        <Field
          id="header-value"
          name="header_value"
          type="password"
          label="Value of the header"
          error={errorOf("header_value")}
          autoComplete="new-password"
          hint={
            stream?.headerName == null
              ? "Stored encrypted, and not shown again."
              : "Stored encrypted. Leave it empty to keep it; another URL or header needs its own."
          }
        />
      </PostForm>
    </Card>
  );
}
