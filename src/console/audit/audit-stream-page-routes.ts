// The routes of the page of the audit log's stream.

import { z } from "zod";
import { countQueued, findStream, STREAM_KINDS } from "../../activity/audit-stream-rows.ts";
import type { Route } from "../../http/route.ts";
import {
  type AuditStreamDeps,
  changeAuditStream,
  removeAuditStream,
} from "../../webhooks/audit-streams.ts";
import { donePath, DoneQuery } from "../done-notice.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";
import { AccountPath, workspaceForm, workspacePage } from "../workspace-routes.ts";
import { AuditStreamForm } from "./audit-stream-form.ts";
import { auditStreamPage, auditStreamPath, type StreamStatus } from "./audit-stream-page.tsx";

export interface AuditStreamPageDeps extends ConsoleReadDeps {
  readonly auditStreams: AuditStreamDeps;
}

export function auditStreamRoutes(deps: AuditStreamPageDeps): readonly Route[] {
  return [showRoute(deps), changeRoute(deps)];
}

function showRoute(deps: AuditStreamPageDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/audit/stream",
    id: "showAuditStream",
    summary: "Show the stream of the audit log",
    params: AccountPath,
    query: z.object({ ask: z.literal("remove").optional(), ...DoneQuery }),
    permission: "audit.read",
    run: async ({ view, account, query: { ask, done } }) =>
      auditStreamPage({ ...view, status: await readStatus(deps, account), ask, done }),
  });
}

async function readStatus({ db }: ConsoleReadDeps, account: string): Promise<StreamStatus> {
  const [stream, queued] = await Promise.all([findStream(db, account), countQueued(db, account)]);
  return { stream, queued };
}

function changeRoute(deps: AuditStreamPageDeps): Route {
  return workspaceForm(deps, {
    path: "/console/{account}/audit/stream",
    id: "changeAuditStream",
    summary: "Set up or remove the stream of the audit log",
    params: AccountPath,
    body: AuditStreamForm,
    requestExample: { do: "save", kind: STREAM_KINDS[0], url: "https://example.com/audit" },
    permission: "audit.stream",
    write: async (tx, { act, body }) => {
      if (body.do === "remove") return await removeAuditStream(tx, act);
      const { kind, url, header_name: headerName, header_value: headerValue } = body;
      await changeAuditStream(tx, act, { kind, url, headerName, headerValue }, deps.auditStreams);
    },
    done: ({ account, body }) => donePath(auditStreamPath(account), body.do),
    rejected: async ({ view, account, body: values }, error) =>
      auditStreamPage({
        ...view,
        status: await readStatus(deps, account),
        rejected: { values, error },
      }),
  });
}
