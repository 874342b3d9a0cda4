// The route of /v1/audit.

import { z } from "zod";
import { keyRoute, type Route } from "../http/route.ts";
import { cursorSchema, listSchema, PageQuery } from "../http/schemas.ts";
import type { Db } from "../store/db.ts";
import { AUDIT_EXAMPLE, AuditEntryRecord, toAuditEntryRecord } from "./audit-record.ts";
import { AUDIT_ACTIONS, type AuditAction, listAuditEntries } from "./audit.ts";

const ID_MAX = 320;

const Action = z.custom<AuditAction>(
  (name) => typeof name === "string" && Object.hasOwn(AUDIT_ACTIONS, name),
  `must be one of ${Object.keys(AUDIT_ACTIONS).join(", ")}`,
);

export function auditRoutes({ db }: { readonly db: Db }): readonly Route[] {
  return [
    keyRoute({
      method: "GET",
      path: "/v1/audit",
      id: "listAuditEntries",
      scope: "audit:read",
      tag: "Audit",
      summary: "List audit entries",
      description:
        "Newest first. The audit log has an entry for every change of keys, provider keys, webhooks, members, invoices, budgets and auto top-up, made by keys, people, operators or the gateway. Entries are never changed or deleted.",
      dialect: "openai",
      query: z.strictObject({
        ...PageQuery,
        cursor: cursorSchema("aud"),
        action: Action.optional().meta({
          description: "Only entries with this action, such as `key.revoked`.",
        }),
        actor: z.string().max(ID_MAX).optional().meta({
          description: "Only entries of the actor with this id.",
        }),
        target: z.string().max(ID_MAX).optional().meta({
          description: "Only entries about the object with this id.",
        }),
      }),
      responses: {
        200: {
          description: "A page of audit entries.",
          schema: listSchema(AuditEntryRecord, "AuditEntryList"),
          example: { object: "list", data: [AUDIT_EXAMPLE], has_more: false, next_cursor: null },
        },
      },
      faults: [],
      run: async ({ caller, query }) => {
        const page = await listAuditEntries(db, caller.accountId, query, query);
        return { status: 200, body: { ...page, data: page.data.map(toAuditEntryRecord) } };
      },
    }),
  ];
}
