// The routes of the console. Each page requires a permission; `accounts/members.ts` defines the permissions of each role.

import { z } from "zod";
import { respondToInvitation } from "../accounts/invitations.ts";
import { workspaceJoinedVia } from "../accounts/members.ts";
import { pageResponse, redirect } from "../http/pages/page-response.ts";
import { networksOf } from "../http/request/client-ip.ts";
import { sessionRoute, type Route } from "../http/route.ts";
import type { Webhooks } from "../webhooks/webhooks.ts";
import {
  type AgentSessionPageDeps,
  agentSessionPageRoutes,
} from "./agent-sessions/agent-session-page-routes.ts";
import { auditRoute } from "./audit/audit-page-routes.ts";
import { type BillingPageDeps, billingPageRoutes } from "./billing/billing-page-routes.ts";
import { budgetPageRoutes } from "./budgets/budget-page-routes.ts";
import { COMPONENTS_PATH, componentsPage } from "./components-page.tsx";
import { workspacePath } from "./console-layout.tsx";
import { type SearchDeps, searchRoute } from "./console-search.tsx";
import { type KeyPageDeps, keyPageRoutes } from "./keys/key-page-routes.ts";
import { logPageRoutes } from "./logs/log-page-routes.ts";
import { type MemberPageDeps, memberPageRoutes } from "./members/member-page-routes.ts";
import { overviewPage } from "./overview/overview-page.tsx";
import { readOverview } from "./overview/read-overview.ts";
import { AccountPath, PAGE_DEFAULTS } from "./page-defaults.ts";
import { playgroundRoutes } from "./playground/playground-page-routes.ts";
import {
  type ProviderKeyPageDeps,
  providerKeyPageRoutes,
} from "./provider-keys/provider-key-page-routes.ts";
import { requireAccess } from "./require-access.ts";
import { type ResponsePageDeps, responsePageRoutes } from "./responses/response-page-routes.ts";
import { settingsPageRoutes, type SettingsPageDeps } from "./settings/settings-page-routes.ts";
import { startRoutes, type StartPageDeps } from "./start/start-page-routes.ts";
import { type UsagePageDeps, usagePageRoutes } from "./usage/usage-page-routes.ts";
import { inTimeZoneOf, periodOf, UsageQuery } from "./usage/usage-query.ts";
import { webhookPageRoutes } from "./webhooks/webhook-page-routes.ts";

export interface ConsoleRouteDeps
  extends
    AgentSessionPageDeps,
    BillingPageDeps,
    KeyPageDeps,
    MemberPageDeps,
    ProviderKeyPageDeps,
    ResponsePageDeps,
    SettingsPageDeps,
    StartPageDeps,
    UsagePageDeps,
    SearchDeps {
  readonly webhooks: Webhooks;
  /** Shows the page of all components. */
  readonly isDevelopment: boolean;
}

export function consoleRoutes(deps: ConsoleRouteDeps): readonly Route[] {
  return [
    ...startRoutes(deps),
    invitationRoute(deps),
    overviewRoute(deps),
    ...usagePageRoutes(deps),
    ...logPageRoutes(deps),
    ...playgroundRoutes(deps),
    ...agentSessionPageRoutes(deps),
    ...keyPageRoutes(deps),
    ...providerKeyPageRoutes(deps),
    ...memberPageRoutes(deps),
    ...budgetPageRoutes(deps),
    ...billingPageRoutes(deps),
    ...responsePageRoutes(deps),
    ...webhookPageRoutes(deps),
    auditRoute(deps),
    ...settingsPageRoutes(deps),
    searchRoute(deps),
    ...(deps.isDevelopment ? [componentsRoute()] : []),
  ];
}

function componentsRoute(): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "GET",
    path: COMPONENTS_PATH,
    id: "showComponents",
    summary: "Show all components of the pages",
    run: ({ caller, now }) => pageResponse(componentsPage(caller, now)),
  });
}

function invitationRoute({ db }: ConsoleRouteDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "POST",
    path: "/console/invitations",
    id: "answerInvitation",
    summary: "Accept or decline an invitation",
    body: z.object({ invitation: z.string(), answer: z.enum(["accept", "decline"]) }),
    requestExample: { invitation: "inst_01kah5t3mq7d2c9w4e6r8t0yax", answer: "accept" },
    run: async ({ caller, body, clientIp, now }) => {
      const { personId, email } = caller;
      const accept = body.answer === "accept";
      try {
        const network = networksOf(clientIp)[1];
        const decision = { id: body.invitation, accept, personId, email, network, now };
        const { accountId, role } = await db.write((tx) => respondToInvitation(tx, decision));
        return redirect(role === undefined ? "/console" : workspacePath(accountId, ""));
      } catch (error) {
        // A double click or a reload: the person has joined already.
        const joined = accept ? await workspaceJoinedVia(db, personId, body.invitation) : undefined;
        if (joined === undefined) throw error;
        return redirect(workspacePath(joined, ""));
      }
    },
  });
}

function overviewRoute(deps: ConsoleRouteDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "GET",
    path: "/console/{account}",
    id: "showWorkspace",
    summary: "Show the overview of a workspace",
    params: AccountPath,
    query: UsageQuery,
    run: async ({ caller, params, query: sent, now }) => {
      const query = inTimeZoneOf(sent, caller);
      const { account } = params;
      const workspace = await requireAccess(deps, account, caller.personId, "workspace.read");
      const period = periodOf(query, now);
      const view = { query, period, createdAt: workspace.createdAt, now };
      const overview = await readOverview(deps, account, view);
      const { snippets } = deps;
      const page = { user: caller, workspace, overview, query, period, snippets, now };
      return pageResponse(overviewPage(page));
    },
  });
}
