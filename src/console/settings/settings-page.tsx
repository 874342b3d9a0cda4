/** @jsxImportSource hono/jsx */
// The settings of a workspace.

import type { Child } from "hono/jsx";
import type { Closing } from "../../account-data/closing.ts";
import { hasPermission } from "../../accounts/members.ts";
import { utcDay } from "../../base/time.ts";
import { Card, CopyText, Details, Notice } from "../../http/pages/components/content.tsx";
import { ErrorMessage, Field, PostForm } from "../../http/pages/components/form.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { consolePage, workspacePath } from "../console-layout.tsx";
import type { WorkspaceView } from "../require-access.ts";
import { CloseCard, type CloseCardProps } from "./close-card.tsx";

export interface SettingsPageProps extends WorkspaceView {
  /** Whether every call gets a signed receipt. */
  readonly signsReceipts: boolean;
  readonly promptRetentionDays: number | null;
  readonly dataPolicy: string | null;
  readonly isSaved?: boolean;
  readonly closing?: Closing | undefined;
  /** What is wrong with the time zone that was sent. */
  readonly timeZoneError?: string;
  readonly rejectedClose?: CloseCardProps["rejectedClose"];
  /** The values of the rejected form. */
  readonly form?: {
    readonly name: string;
    readonly promptDays: string | undefined;
    readonly dataPolicy: string | undefined;
    /** The field with the error. */
    readonly field: string | undefined;
    readonly error: string;
  };
}

export function settingsPage(props: SettingsPageProps): PageLayout {
  const { user, workspace, isSaved = false } = props;
  const { accountId, createdAt } = workspace;
  return consolePage({
    title: "Settings",
    workspace,
    user,
    page: "/settings",
    main: (
      <>
        {isSaved ? <Notice>Saved.</Notice> : null}
        <div class="side-by-side">
          {hasPermission(workspace.role, "workspace.rename") ? <NameForm {...props} /> : null}
          <div>
            <TimeZoneForm {...props} />
            {workspace.sendsEmails ? (
              <Card id="emails" title="Emails">
                <p>
                  <a href="/emails">Choose which emails you get</a>. The choice applies to all your
                  workspaces.
                </p>
              </Card>
            ) : null}
            <Card id="about" title="About this workspace">
              <Details
                items={[
                  ["Account id", <CopyText text={accountId} />],
                  ["Created", utcDay(createdAt)],
                  ["Your role", workspace.role],
                ]}
              />
            </Card>
          </div>
        </div>
        {hasPermission(workspace.role, "workspace.export") ? (
          <ExportCard accountId={accountId} />
        ) : null}
        {hasPermission(workspace.role, "workspace.close") ? <CloseCard {...props} /> : null}
      </>
    ),
  });
}

function TimeZoneForm({ user, workspace, timeZoneError }: SettingsPageProps): Child {
  const { timeZone = "UTC" } = user;
  return (
    <Card id="time-zone-title" title="Your time zone">
      <ErrorMessage message={timeZoneError} />
      <PostForm
        user={user}
        action={`/console/${workspace.accountId}/time-zone`}
        submit="Save time zone"
        isSecondary
      >
        <label for="time-zone">Time zone</label>
        <select id="time-zone" name="time_zone" aria-describedby="time-zone-hint">
          {["UTC", ...Intl.supportedValuesOf("timeZone").filter((name) => name !== "UTC")].map(
            (name) => (
              <option value={name} selected={name === timeZone}>
                {name}
              </option>
            ),
          )}
        </select>
        <p id="time-zone-hint" class="hint">
          The console shows times in this time zone, in all your workspaces, and the days on the
          Usage page begin at its midnight. Limits, budgets and invoices use days in UTC.
        </p>
      </PostForm>
    </Card>
  );
}

function ExportCard({ accountId }: { readonly accountId: string }): Child {
  return (
    <Card id="export" title="Export data">
      <p>
        All records of the workspace as newline-delimited JSON: members, keys, webhooks, invoices,
        transfers, usage, events and the audit log. Secrets are not included.
      </p>
      <div class="actions">
        <a class="button secondary" href={`/console/${accountId}/export`} download>
          Download export
        </a>
      </div>
    </Card>
  );
}

function NameForm(props: SettingsPageProps): Child {
  const { user, workspace, form, signsReceipts, promptRetentionDays, dataPolicy } = props;
  const errorOf = (field: string): string | undefined =>
    (form?.field ?? "name") === field ? form?.error : undefined;
  return (
    <Card id="name-title" title="Workspace">
      <PostForm user={user} action={workspacePath(workspace.accountId, "/settings")} submit="Save">
        <Field
          id="name"
          name="name"
          label="Workspace name"
          value={form?.name ?? workspace.name ?? ""}
          error={errorOf("name")}
          maxLength={80}
          hint={`Shown in the console${workspace.sendsEmails ? ", in invitations and in emails" : " and in invitations"}. Leave it empty to show the account id.`}
        />
        <label for="receipts">Signed receipts</label>
        <select id="receipts" name="receipts" aria-describedby="receipts-hint">
          <option value="asked">If a call asks for one</option>
          <option value="all" selected={signsReceipts}>
            For every call
          </option>
        </select>
        <p id="receipts-hint" class="hint">
          A <a href="/docs/quotes-and-receipts">receipt</a> proves what a call was and what it cost.
        </p>
        <Field
          id="data-policy"
          name="data_policy"
          label="Data policy of providers"
          value={form?.dataPolicy ?? dataPolicy ?? ""}
          error={errorOf("data_policy")}
          placeholder="zdr"
          maxLength={60}
          hint="Comma-separated: zdr (nothing is stored), deny (no training), region=us. Empty: any provider."
        />
        <Field
          id="prompt-days"
          name="prompt_retention_days"
          label="Retention of logged prompts (days)"
          value={form?.promptDays ?? String(promptRetentionDays ?? "")}
          error={errorOf("prompt_retention_days")}
          inputMode="numeric"
          maxLength={3}
          hint="Of keys with prompt logging. Empty: as long as this gateway allows."
        />
      </PostForm>
    </Card>
  );
}
