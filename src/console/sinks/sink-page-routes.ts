// The routes of the page of sinks.

import { z } from "zod";
import type { FormError } from "../../http/pages/page-response.ts";
import type { Route } from "../../http/route.ts";
import { NewSink, SINK_NAME } from "../../sinks/sink-record.ts";
import { listSinks } from "../../sinks/sink-rows.ts";
import { countQueuedCalls, deleteSink, saveSink, type SinkDeps } from "../../sinks/sinks.ts";
import { checkedForm } from "../checked-form.ts";
import { workspacePath } from "../console-layout.tsx";
import { donePath, DoneQuery } from "../done-notice.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";
import { AccountPath, workspaceForm, workspacePage } from "../workspace-routes.ts";
import { sinksPage } from "./sinks-page.tsx";

const PATH = "/console/{account}/sinks";
const NAME_MAX = 100;
const TEXT_MAX = 3_000;

export interface SinkPageDeps extends ConsoleReadDeps {
  readonly sinks: SinkDeps;
  readonly onSinksChanged: () => void;
}

export function sinkPageRoutes(deps: SinkPageDeps): readonly Route[] {
  return [listRoute(deps), changeRoute(deps)];
}

async function readSinks({ db }: SinkPageDeps, account: string) {
  const [sinks, queued] = await Promise.all([
    listSinks(db, account),
    countQueuedCalls(db, account),
  ]);
  return { sinks, queued };
}

function listRoute(deps: SinkPageDeps): Route {
  return workspacePage(deps, {
    path: PATH,
    id: "showSinks",
    summary: "List the sinks of a workspace",
    params: AccountPath,
    query: z.object({ ...DoneQuery, delete: z.string().max(NAME_MAX).optional() }),
    permission: "sinks.read",
    run: async ({ view, account, query: { delete: asked, done } }) =>
      sinksPage({ ...view, ...(await readSinks(deps, account)), asked, done }),
  });
}

const Text = z.string().max(TEXT_MAX);
const Name = z.string().max(NAME_MAX);

const ChangeForm = z.discriminatedUnion("do", [
  z.object({
    do: z.literal("otlp"),
    name: Name,
    url: Text,
    headers: z.string().max(30_000).default(""),
    include_texts: z.string().default(""),
  }),
  z.object({
    do: z.literal("s3"),
    name: Name,
    url: Text,
    bucket: Text,
    prefix: Text.default(""),
    region: Text.default(""),
    access_key_id: Text,
    secret_access_key: Text.default(""),
    format: z.string(),
    every: z.string(),
  }),
  z.object({ do: z.literal("delete"), name: Name }),
]);
export type ChangedSink = z.infer<typeof ChangeForm>;

function changeRoute(deps: SinkPageDeps): Route {
  return workspaceForm(deps, {
    path: PATH,
    id: "changeSinks",
    summary: "Save or delete a sink",
    params: AccountPath,
    body: ChangeForm,
    requestExample: {
      do: "otlp",
      name: "langfuse",
      url: "https://cloud.langfuse.com/api/public/otel/v1/traces",
    },
    permission: "sinks.change",
    write: async (tx, { act, body }) => {
      if (body.do === "delete") return deleteSink(tx, act, body.name);
      const { name } = checkedForm(z.object({ name: SINK_NAME }), { name: body.name.trim() });
      const sink = checkedForm(NewSink, fieldsOf(body));
      await saveSink(tx, act, { name, sink }, deps.sinks);
    },
    done: ({ account, body }) => {
      deps.onSinksChanged();
      const done = body.do === "delete" ? "delete" : "save";
      return donePath(workspacePath(account, "/sinks"), done);
    },
    rejected: async ({ view, account, body }, error: FormError) =>
      sinksPage({ ...view, ...(await readSinks(deps, account)), rejected: { form: body, error } }),
  });
}

/** The body of the API. An empty field is left out. */
function fieldsOf(form: Exclude<ChangedSink, { do: "delete" }>): object {
  const { do: type, name: _, ...fields } = form;
  const sent = Object.fromEntries(
    Object.entries(fields)
      .map(([field, value]) => [field, value.trim()] as const)
      .filter(([, value]) => value !== ""),
  );
  if (form.do === "s3") return { ...sent, type };
  const headers = form.headers.trim();
  return {
    type,
    url: sent["url"],
    include_texts: form.include_texts === "true",
    ...(headers !== "" && { headers: headersOf(headers) }),
  };
}

/** One per line: `authorization: Bearer …`. */
function headersOf(text: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    text
      .split("\n")
      .map((line) => line.trim())
      .filter((line) => line !== "")
      .map((line) => {
        const [name = "", ...value] = line.split(":");
        return [name.trim(), value.join(":").trim()];
      }),
  );
}
