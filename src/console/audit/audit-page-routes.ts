// The route of the audit log page.

import { z } from "zod";
import { listMembers } from "../../accounts/members.ts";
import { publicActor, toAuditEntryRecord, toOwnAuditRecord } from "../../activity/audit-record.ts";
import { countQueued, findStream, STREAM_KINDS } from "../../activity/audit-stream-rows.ts";
import {
  AUDIT_ACTIONS,
  type AuditAction,
  type AuditEntry,
  listAuditEntries,
} from "../../activity/audit.ts";
import type { EndpointDeps } from "../../base/network/public-endpoint.ts";
import { type CsvColumn, writeCsv } from "../../base/text/csv-writer.ts";
import { csvDownload, EXPORTED_MAX, jsonLinesDownload } from "../../http/csv-download.ts";
import type { Route } from "../../http/route.ts";
import { cursorSchema } from "../../http/schemas.ts";
import { readEntryNames } from "../../keys/actor-names.ts";
import { listKeysFrom } from "../../keys/keys.ts";
import { changeAuditStream, removeAuditStream } from "../../webhooks/audit-streams.ts";
import { donePath, DoneQuery } from "../done-notice.tsx";
import type { ConsoleReadDeps, WorkspaceView } from "../require-access.ts";
import { keyName } from "../usage/read-usage.ts";
import { workspaceForm, workspacePage } from "../workspace-routes.ts";
import { type ActorOption, AUDIT_ENTRIES_PER_PAGE, auditPage } from "./audit-page.tsx";
import { AuditStreamForm } from "./audit-stream-form.ts";
import { auditStreamPage, auditStreamPath, type StreamStatus } from "./audit-stream-page.tsx";

const ACTORS_OFFERED_MAX = 50;

// Safe because these are the keys of the table.
const ACTION_NAMES = Object.keys(AUDIT_ACTIONS) as AuditAction[];

/** A select without a choice sends an empty value. */
const optionalText = z
  .string()
  .optional()
  .transform((text) => (text === "" ? undefined : text));

const AuditQuery = z.object({
  cursor: cursorSchema("aud"),
  action: z.union([z.literal("").transform(() => undefined), z.enum(ACTION_NAMES)]).optional(),
  actor: optionalText,
  target: optionalText,
});

export function auditRoutes(deps: AuditPageDeps): readonly Route[] {
  return [auditRoute(deps), exportRoute(deps), jsonExportRoute(deps), ...auditStreamRoutes(deps)];
}

export type AuditPageDeps = AuditStreamPageDeps;

/** Only the owner sees the addresses of others. */
function seesAddresses({ workspace }: WorkspaceView): boolean {
  return workspace.role === "owner";
}

function jsonExportRoute(deps: ConsoleReadDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/audit.jsonl",
    id: "exportWorkspaceAuditJson",
    summary: "Export the audit log of a workspace as newline-delimited JSON",
    query: AuditQuery,
    responses: { 200: { description: "The entries.", contentType: "application/x-ndjson" } },
    permission: "audit.read",
    run: async ({ view, account, query: { cursor, ...filter } }) => {
      const page = { limit: EXPORTED_MAX, ...(cursor === undefined ? {} : { cursor }) };
      const { data } = await listAuditEntries(deps.db, account, page, filter);
      const toRecord = seesAddresses(view) ? toOwnAuditRecord : toAuditEntryRecord;
      return jsonLinesDownload(data.map(toRecord), "audit.jsonl");
    },
  });
}

function exportRoute(deps: ConsoleReadDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/audit.csv",
    id: "exportWorkspaceAudit",
    summary: "Export the audit log of a workspace as CSV",
    query: AuditQuery,
    responses: { 200: { description: "The entries of the page.", contentType: "text/csv" } },
    permission: "audit.read",
    run: async ({ view, account, query: { cursor, ...filter } }) => {
      const page = { limit: EXPORTED_MAX, ...(cursor === undefined ? {} : { cursor }) };
      const { data } = await listAuditEntries(deps.db, account, page, filter);
      const names = await readEntryNames(deps.db, data);
      const columns: readonly CsvColumn<AuditEntry>[] = [
        ["id", ({ id }) => id],
        ["created_at", ({ at }) => new Date(at).toISOString()],
        ["actor_type", ({ actor }) => publicActor(actor).type],
        ["actor_id", ({ actor }) => publicActor(actor).id],
        ["actor_name", ({ actor }) => names.get(actor.id) ?? ""],
        ["action", ({ action }) => action],
        ["target", ({ target }) => target ?? ""],
        ["target_name", ({ target }) => names.get(target ?? "") ?? ""],
        ["detail", ({ detail }) => JSON.stringify(detail)],
      ];
      const ip: CsvColumn<AuditEntry> = ["ip", (entry) => toOwnAuditRecord(entry).ip ?? ""];
      const shown = seesAddresses(view) ? [...columns, ip] : columns;
      return csvDownload(await writeCsv(shown, data), "audit.csv");
    },
  });
}

function auditRoute(deps: ConsoleReadDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/audit",
    id: "showWorkspaceAudit",
    summary: "Show the audit log of a workspace",
    query: AuditQuery,
    permission: "audit.read",
    run: async ({ view, account, query, now }) => {
      const { cursor, ...filter } = query;
      const page = { limit: AUDIT_ENTRIES_PER_PAGE, ...(cursor === undefined ? {} : { cursor }) };
      const [entries, actors] = await Promise.all([
        listAuditEntries(deps.db, account, page, filter),
        readActors(deps, account, now),
      ]);
      const names = await readEntryNames(deps.db, entries.data);
      const hasAddresses = seesAddresses(view);
      return auditPage({ ...view, entries, filter, actors, names, hasAddresses });
    },
  });
}

/** The people and keys that the filter offers. */
async function readActors(
  { db }: ConsoleReadDeps,
  accountId: string,
  now: number,
): Promise<readonly ActorOption[]> {
  const limit = ACTORS_OFFERED_MAX;
  const [members, keys] = await Promise.all([
    listMembers(db, accountId, { limit }),
    listKeysFrom(db, accountId, { revoked: false, limit, now }),
  ]);
  return [
    ...members.map(({ personId, email }) => ({ value: personId, label: email })),
    ...keys.map((key) => ({ value: key.id, label: `Key ${keyName(key)}` })),
  ];
}

// The routes of the page of the audit log's stream.

interface AuditStreamPageDeps extends ConsoleReadDeps {
  readonly endpoints: EndpointDeps;
}

function auditStreamRoutes(deps: AuditStreamPageDeps): readonly Route[] {
  return [showRoute(deps), changeRoute(deps)];
}

function showRoute(deps: AuditStreamPageDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/audit/stream",
    id: "showAuditStream",
    summary: "Show the stream of the audit log",
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
    body: AuditStreamForm,
    requestExample: { do: "save", kind: STREAM_KINDS[0], url: "https://example.com/audit" },
    permission: "audit.stream",
    write: async (tx, { act, body }) => {
      if (body.do === "remove") return await removeAuditStream(tx, act);
      const { kind, url, header_name: headerName, header_value: headerValue } = body;
      await changeAuditStream(tx, act, { kind, url, headerName, headerValue }, deps.endpoints);
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
