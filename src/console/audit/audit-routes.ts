// The route of the audit log page.

import { z } from "zod";
import { listAuditEntries } from "../../audit/audit.ts";
import { sessionRoute, type Route } from "../../http/route.ts";
import { pageResponse } from "../../http/pages/page-response.ts";
import { cursorSchema } from "../../http/schemas.ts";
import { type ConsoleReadDeps, requireAccess } from "../authorize.ts";
import { AccountPath, PAGE_DEFAULTS } from "../page-defaults.ts";
import { AUDIT_ENTRIES_PER_PAGE, auditPage } from "./audit-page.tsx";

export function auditRoute(deps: ConsoleReadDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "GET",
    path: "/console/{account}/audit",
    id: "showWorkspaceAudit",
    summary: "Show the audit log of a workspace",
    params: AccountPath,
    query: z.object({ cursor: cursorSchema("aud") }),
    run: async ({ caller, params, query: { cursor } }) => {
      const workspace = await requireAccess(deps, params.account, caller.personId, "audit.read");
      const page = { limit: AUDIT_ENTRIES_PER_PAGE, ...(cursor === undefined ? {} : { cursor }) };
      return pageResponse(
        auditPage(caller, workspace, await listAuditEntries(deps.db, params.account, page)),
      );
    },
  });
}
