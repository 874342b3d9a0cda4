// GET /v1/events, for agents that cannot receive webhooks, and GET /v1/audit.

import { z } from "zod";
import { keyRoute, type Route } from "../http/route.ts";
import { cursorSchema, listResponse, PageQuery } from "../http/schemas.ts";
import type { Db } from "../store/db.ts";
import { AUDIT_EXAMPLE, AuditEntryRecord, toAuditEntryRecord } from "./audit-record.ts";
import { AUDIT_ACTIONS, type AuditAction, listAuditEntries } from "./audit.ts";
import { EVENT_EXAMPLE, EventRecord, toEventRecord } from "./event-record.ts";
import { EVENT_TYPES, listEvents } from "./events.ts";

const ID_MAX = 320;

const Action = z.custom<AuditAction>(
  (name) => typeof name === "string" && Object.hasOwn(AUDIT_ACTIONS, name),
  `must be one of ${Object.keys(AUDIT_ACTIONS).join(", ")}`,
);

export function activityRoutes({ db }: { readonly db: Db }): readonly Route[] {
  return [listEventsRoute(db), listAuditRoute(db)];
}

function listEventsRoute(db: Db): Route {
  return keyRoute({
    tag: "Webhooks",
    dialect: "openai",
    method: "GET",
    path: "/v1/events",
    id: "listEvents",
    scope: "webhooks:read",
    summary: "List events",
    description:
      "The events that webhooks receive, newest first. They are recorded even without a webhook, so poll this endpoint if you cannot receive webhooks. Kept for 30 days.",
    query: z.strictObject({
      ...PageQuery,
      cursor: cursorSchema("evt"),
      type: z.enum(EVENT_TYPES).optional().meta({ description: "Only events of this type." }),
    }),
    responses: listResponse("A page of events.", EventRecord, "EventList", EVENT_EXAMPLE),
    faults: [],
    run: async ({ caller, query }) => {
      const page = await listEvents(db, caller.accountId, query, query.type);
      return { status: 200, body: { ...page, data: page.data.map(toEventRecord) } };
    },
  });
}

function listAuditRoute(db: Db): Route {
  return keyRoute({
    method: "GET",
    path: "/v1/audit",
    id: "listAuditEntries",
    scope: "audit:read",
    tag: "Audit",
    summary: "List audit entries",
    description:
      "Newest first. The audit log has an entry for every change of settings, keys, members, invoices, batches and files, made by keys, people, operators or the gateway. Entries are never changed or deleted; what is erased of a closed account is their details.",
    dialect: "openai",
    query: z.strictObject({
      ...PageQuery,
      cursor: cursorSchema("aud"),
      action: Action.optional().meta({
        description: "Only entries with this action, such as `key.revoked`.",
        type: "string",
      }),
      actor: z.string().max(ID_MAX).optional().meta({
        description: "Only entries of the actor with this id.",
      }),
      target: z.string().max(ID_MAX).optional().meta({
        description: "Only entries about the object with this id.",
      }),
    }),
    responses: listResponse(
      "A page of audit entries.",
      AuditEntryRecord,
      "AuditEntryList",
      AUDIT_EXAMPLE,
    ),
    faults: [],
    run: async ({ caller, query }) => {
      const page = await listAuditEntries(db, caller.accountId, query, query);
      return { status: 200, body: { ...page, data: page.data.map(toAuditEntryRecord) } };
    },
  });
}
