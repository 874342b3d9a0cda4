/** @jsxImportSource hono/jsx */
// The sinks of a workspace, and the forms that save them.

import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import { formatInteger } from "../../base/text/format.ts";
import { Card, EmptyState, Tag } from "../../http/pages/components/content.tsx";
import { ErrorMessage, Field, SelectField, TextField } from "../../http/pages/components/form.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { FormError } from "../../http/pages/page-response.ts";
import type { SessionUser } from "../../http/route.ts";
import type { Sink } from "../../sinks/sink-rows.ts";
import { ConfirmDelete, ConfirmLink, withQuery } from "../confirm.tsx";
import { consolePage, HiddenFields, workspacePath } from "../console-layout.tsx";
import { DoneNotice } from "../done-notice.tsx";
import type { WorkspaceContext } from "../require-access.ts";

const PAGE = "/sinks";
const DONE_TEXTS = {
  save: "The sink is saved. It gets the usage of all calls that end from now on.",
  delete: "The sink is deleted.",
} as const;

interface RejectedForm {
  readonly form: Readonly<Record<string, string | undefined>>;
  readonly error: FormError;
}

export interface SinksPageProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly sinks: readonly Sink[];
  /** Calls that were not sent yet, by sink. */
  readonly queued: ReadonlyMap<string, number>;
  /** The sink whose deletion is to be confirmed. */
  readonly asked?: string | undefined;
  readonly done?: string | undefined;
  readonly rejected?: RejectedForm;
}

export function sinksPage(props: SinksPageProps): PageLayout {
  const { user, workspace, sinks, asked, done, rejected } = props;
  const path = workspacePath(workspace.accountId, PAGE);
  const canChange = hasPermission(workspace.role, "sinks.change");
  return consolePage({
    title: "Sinks",
    workspace,
    user,
    page: PAGE,
    main: (
      <>
        <DoneNotice texts={DONE_TEXTS} done={done} />
        <ErrorMessage message={rejected?.error.message} />
        {canChange ? (
          <ConfirmDelete user={user} path={path} noun="sink" items={sinks} asked={asked}>
            Delete {asked}? What it has not sent yet is not sent any more.
          </ConfirmDelete>
        ) : null}
        <Card id="sinks" title="Sinks" aside={<a href="/docs/sinks">How usage is sent</a>}>
          {sinks.length === 0 ? (
            <EmptyState title="No sinks yet">
              <p class="muted">
                A sink gets the usage of every call of this workspace: as OpenTelemetry traces, or
                as files in a bucket.
              </p>
            </EmptyState>
          ) : (
            <SinkTable {...props} path={path} canChange={canChange} />
          )}
        </Card>
        {canChange ? (
          <>
            <OtlpForm user={user} path={path} rejected={formOf(rejected, "otlp")} />
            <S3Form user={user} path={path} rejected={formOf(rejected, "s3")} />
          </>
        ) : null}
      </>
    ),
  });
}

function formOf(rejected: RejectedForm | undefined, kind: string): FormProps["rejected"] {
  return rejected?.form["do"] === kind ? rejected.form : undefined;
}

interface TableProps extends Pick<SinksPageProps, "sinks" | "queued"> {
  readonly path: string;
  readonly canChange: boolean;
}

function SinkTable({ sinks, queued, path, canChange }: TableProps): Child {
  return (
    <Table
      label="Sinks"
      isStacked
      columns={[
        { name: "Name" },
        { name: "Destination" },
        { name: "Status" },
        { name: "Last sent" },
        { name: "Waiting", isNumber: true },
        { name: "Actions", isNumber: true },
      ]}
      rows={sinks.map((sink) => [
        <span class="line">{sink.name}</span>,
        destinationOf(sink),
        <StatusTag sink={sink} />,
        sink.deliveredAt === null ? "never" : <RelativeTime at={sink.deliveredAt} />,
        formatInteger(queued.get(sink.name) ?? 0),
        canChange ? (
          <ConfirmLink
            href={withQuery(path, { delete: sink.name })}
            label="Delete"
            subject={sink.name}
          />
        ) : (
          "–"
        ),
      ])}
    />
  );
}

function destinationOf({ settings }: Sink): string {
  const { host } = new URL(settings.url);
  if (settings.type === "s3") return `${settings.bucket}/${settings.prefix} at ${host}`;
  return settings.include_texts ? `${host}, with prompts` : host;
}

function StatusTag({ sink }: { readonly sink: Sink }): Child {
  if (sink.status === "disabled")
    return (
      <>
        <Tag tone="danger">disabled</Tag> {sink.disabledReason}
      </>
    );
  if (sink.lastError === null) return <Tag tone="good">active</Tag>;
  return (
    <>
      <Tag tone="warn">failing</Tag> {sink.lastError}
    </>
  );
}

interface FormProps {
  readonly user: SessionUser;
  readonly path: string;
  readonly rejected: RejectedForm["form"] | undefined;
}

function NameField({
  id,
  value,
}: {
  readonly id: string;
  readonly value: string | undefined;
}): Child {
  return (
    <Field
      id={id}
      name="name"
      label="Name"
      value={value ?? ""}
      hint="Lowercase letters, digits, - and _. An existing name is replaced."
      maxLength={64}
      isRequired
    />
  );
}

function OtlpForm({ user, path, rejected }: FormProps): Child {
  return (
    <Card id="otlp" title="Send traces (OpenTelemetry)">
      <form method="post" action={path}>
        <HiddenFields user={user} fields={{ do: "otlp" }} />
        <NameField id="otlp-name" value={rejected?.["name"]} />
        <Field
          id="otlp-url"
          name="url"
          type="url"
          label="URL"
          value={rejected?.["url"] ?? ""}
          hint="The OTLP/HTTP endpoint for traces of Langfuse, Datadog, Honeycomb or another service."
          placeholder="https://api.honeycomb.io/v1/traces"
          maxLength={2_048}
          isRequired
        />
        <TextField
          id="otlp-headers"
          name="headers"
          label="Headers"
          value=""
          hint="One per line, such as authorization: Basic …. Stored encrypted. Leave empty to keep those of the same URL."
        />
        <SelectField
          id="otlp-texts"
          name="include_texts"
          label="Requests and replies"
          options={[
            ["", "not sent"],
            ["true", "of keys with prompt logging"],
          ]}
          value={rejected?.["include_texts"]}
        />
        <div class="actions">
          <button type="submit">Save trace sink</button>
        </div>
      </form>
    </Card>
  );
}

function S3Form({ user, path, rejected }: FormProps): Child {
  const text = (name: string, label: string, more: object = {}): Child => (
    <Field id={`s3-${name}`} name={name} label={label} value={rejected?.[name] ?? ""} {...more} />
  );
  return (
    <Card id="s3" title="Write files to a bucket (S3)">
      <form method="post" action={path}>
        <HiddenFields user={user} fields={{ do: "s3" }} />
        <NameField id="s3-name" value={rejected?.["name"]} />
        <div class="fields">
          {text("url", "Endpoint", {
            type: "url",
            placeholder: "https://s3.eu-central-1.amazonaws.com",
            isRequired: true,
          })}
          {text("region", "Region", { placeholder: "us-east-1" })}
          {text("bucket", "Bucket", { isRequired: true, maxLength: 63 })}
          {text("prefix", "Prefix", { placeholder: "usage/", maxLength: 200 })}
        </div>
        <div class="fields">
          {text("access_key_id", "Access key", { isRequired: true, maxLength: 128 })}
          <Field
            id="s3-secret"
            name="secret_access_key"
            type="password"
            label="Secret access key"
            value=""
            hint="Stored encrypted. Leave empty to keep that of the same endpoint and access key."
          />
        </div>
        <div class="fields">
          <SelectField
            id="s3-every"
            name="every"
            label="A file for each"
            options={[
              ["day", "day"],
              ["hour", "hour"],
            ]}
            value={rejected?.["every"]}
          />
          <SelectField
            id="s3-format"
            name="format"
            label="Format"
            options={[
              ["jsonl", "JSON lines"],
              ["csv", "CSV"],
            ]}
            value={rejected?.["format"]}
          />
        </div>
        <div class="actions">
          <button type="submit">Save bucket sink</button>
        </div>
      </form>
    </Card>
  );
}
