/** @jsxImportSource hono/jsx */
// The page of sinks, and the forms that save them.

import type { Child } from "hono/jsx";
import { z } from "zod";
import { invalid } from "../../base/fault.ts";
import type { EndpointDeps } from "../../base/network/public-endpoint.ts";
import { formatInteger } from "../../base/text/format.ts";
import { Tag } from "../../http/pages/components/content.tsx";
import { Field, SelectField, TextField } from "../../http/pages/components/form.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import type { Route } from "../../http/route.ts";
import { NewSink } from "../../sinks/sink-record.ts";
import { listSinks, type Sink } from "../../sinks/sink-rows.ts";
import { countQueuedCalls, deleteSink, saveSink } from "../../sinks/sinks.ts";
import { checkedForm } from "../checked-form.ts";
import {
  type FormValues,
  ItemForm,
  type ItemForms,
  NAME_FIELD,
  namedItemsRoutes,
} from "../named-items-page.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";

export interface SinkPageDeps extends ConsoleReadDeps {
  readonly endpoints: EndpointDeps;
  readonly forgetLookUps: () => void;
}

interface ListedSink {
  readonly name: string;
  readonly sink: Sink;
  /** Calls that were not sent yet. */
  readonly queued: number;
}

const Text = z.string().max(3_000);

const SinkForm = z.discriminatedUnion("do", [
  z.object({
    do: z.literal("otlp"),
    ...NAME_FIELD,
    url: Text,
    headers: z.string().max(30_000).default(""),
    include_texts: z.string().default(""),
  }),
  z.object({
    do: z.literal("s3"),
    ...NAME_FIELD,
    url: Text,
    bucket: Text,
    prefix: Text.default(""),
    region: Text.default(""),
    access_key_id: Text,
    secret_access_key: Text.default(""),
    format: z.string(),
    every: z.string(),
  }),
]);
type SinkForm = z.infer<typeof SinkForm>;

export function sinkPageRoutes(deps: SinkPageDeps): readonly Route[] {
  return namedItemsRoutes<ListedSink, SinkForm>(deps, {
    page: "/sinks",
    title: "Sinks",
    id: "Sink",
    noun: "sink",
    permissions: { read: "sinks.read", change: "sinks.change" },
    docs: { href: "/docs/sinks", label: "How usage is sent" },
    notes: {
      save: "It gets the usage of all calls that end from now on.",
      delete: "What it has not sent yet is not sent any more.",
    },
    purpose:
      "A sink gets the usage of every call of this workspace: as OpenTelemetry traces, or as files in a bucket.",
    columns: [
      { name: "Destination", isWide: true },
      { name: "Status", isWide: true },
      { name: "Last sent" },
      { name: "Waiting", isNumber: true },
    ],
    cells: ({ sink, queued }) => [
      destinationOf(sink),
      <StatusTag sink={sink} />,
      sink.deliveredAt === null ? "never" : <RelativeTime at={sink.deliveredAt} />,
      formatInteger(queued),
    ],
    forms: (props) => (
      <>
        <OtlpForm {...props} />
        <S3Form {...props} />
      </>
    ),
    body: SinkForm,
    requestExample: {
      do: "otlp",
      name: "langfuse",
      url: "https://cloud.langfuse.com/api/public/otel/v1/traces",
      headers: "",
      include_texts: "",
    },
    list: async (reader, account) => {
      const [sinks, queued] = await Promise.all([
        listSinks(reader, account),
        countQueuedCalls(reader, account),
      ]);
      return sinks.map((sink) => ({ name: sink.name, sink, queued: queued.get(sink.name) ?? 0 }));
    },
    edit: valuesOf,
    save: async (tx, act, name, form) => {
      const all = await listSinks(tx, act.accountId);
      const former = all.find((sink) => sink.name === name);
      const sink = checkedForm(NewSink, fieldsOf(form, former));
      return saveSink(tx, act, { name, sink }, deps.endpoints);
    },
    remove: deleteSink,
    onChanged: deps.forgetLookUps,
  });
}

/** Without the secrets, which are kept if no values are entered. */
function valuesOf({ name, sink: { settings } }: ListedSink): FormValues {
  if (settings.type === "otlp") {
    const { url, include_texts: hasTexts } = settings;
    const headers = settings.headers.map((header) => `${header}:`).join("\n");
    return { do: "otlp", name, url, headers, include_texts: hasTexts ? "true" : "" };
  }
  const { type, ...fields } = settings;
  return { do: type, name, ...fields };
}

/** The body of the API. An empty field is left out. */
function fieldsOf(form: SinkForm, former: Sink | undefined): object {
  const { do: type, name: _, ...fields } = form;
  const sent = Object.fromEntries(
    Object.entries(fields)
      .map(([field, value]) => [field, value.trim()] as const)
      .filter(([, value]) => value !== ""),
  );
  if (form.do === "s3") return { ...sent, type };
  return {
    type,
    url: sent["url"],
    include_texts: form.include_texts === "true",
    headers: headersOf(form.headers, former),
  };
}

/** One per line: `authorization: Bearer …`. Undefined to keep those that the sink has. */
function headersOf(
  text: string,
  former: Sink | undefined,
): Readonly<Record<string, string>> | undefined {
  const headers = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .map((line) => {
      const [name = "", ...value] = line.split(":");
      return [name.trim(), value.join(":").trim()] as const;
    });
  const without = headers.filter(([, value]) => value === "").map(([name]) => name);
  if (without.length === 0) return Object.fromEntries(headers);
  const names = former?.settings.type === "otlp" ? former.settings.headers : [];
  if (without.join() === names.join() && headers.length === names.length) return undefined;
  throw invalid("headers", `Enter the value of the header ${without.join(", ")}.`);
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

function OtlpForm({ valuesOf: formOf, ...props }: ItemForms<ListedSink>): Child {
  const form = formOf("otlp");
  return (
    <ItemForm
      props={props}
      kind="otlp"
      isOpen={form !== undefined}
      title="Send traces (OpenTelemetry)"
      submit="Save trace sink"
      name={form?.["name"]}
    >
      <Field
        id="otlp-url"
        name="url"
        type="url"
        label="URL"
        value={form?.["url"] ?? ""}
        hint="The OTLP/HTTP endpoint for traces of Langfuse, Datadog, Honeycomb or another service."
        placeholder="https://api.honeycomb.io/v1/traces"
        maxLength={2_048}
        isRequired
      />
      <TextField
        id="otlp-headers"
        name="headers"
        label="Headers"
        value={form?.["headers"] ?? ""}
        hint="One per line, such as authorization: Basic …. Stored encrypted. A saved header has no value here and keeps its own; another URL needs the values again."
      />
      <SelectField
        id="otlp-texts"
        name="include_texts"
        label="Requests and replies"
        options={[
          ["", "Not sent"],
          ["true", "Sent for keys with prompt logging"],
        ]}
        value={form?.["include_texts"]}
      />
    </ItemForm>
  );
}

function S3Form({ valuesOf: formOf, ...props }: ItemForms<ListedSink>): Child {
  const form = formOf("s3");
  const text = (name: string, label: string, more: object = {}): Child => (
    <Field id={`s3-${name}`} name={name} label={label} value={form?.[name] ?? ""} {...more} />
  );
  return (
    <ItemForm
      props={props}
      kind="s3"
      isOpen={form !== undefined}
      title="Write files to a bucket (S3)"
      submit="Save bucket sink"
      name={form?.["name"]}
    >
      <div class="fields">
        {text("url", "Endpoint", {
          type: "url",
          placeholder: "https://s3.amazonaws.com",
          isRequired: true,
        })}
        {text("region", "Region", { placeholder: "us-east-1" })}
        {text("bucket", "Bucket", { isRequired: true, maxLength: 63 })}
        {text("prefix", "Prefix", { placeholder: "usage/", maxLength: 200 })}
        {text("access_key_id", "Access key", { isRequired: true, maxLength: 128 })}
        <Field
          id="s3-secret"
          name="secret_access_key"
          type="password"
          label="Secret access key"
          value=""
          hint="Stored encrypted. Leave empty to keep that of the same endpoint and access key."
        />
        <SelectField
          id="s3-every"
          name="every"
          label="New file"
          options={[
            ["day", "Every day"],
            ["hour", "Every hour"],
          ]}
          value={form?.["every"]}
        />
        <SelectField
          id="s3-format"
          name="format"
          label="Format"
          options={[
            ["jsonl", "JSON lines"],
            ["csv", "CSV"],
          ]}
          value={form?.["format"]}
        />
      </div>
    </ItemForm>
  );
}
