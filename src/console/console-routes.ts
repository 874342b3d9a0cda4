// The routes of the console. Each page requires a permission; `accounts/members.ts` defines the permissions of each role.

import { z } from "zod";
import { respondToInvitation, workspaceJoinedVia } from "../accounts/invitations.ts";
import { formRoute, pageRoute } from "../http/pages/page-routes.ts";
import { networksOf } from "../http/request/client-ip.ts";
import type { Route } from "../http/route.ts";
import type { Webhooks } from "../webhooks/webhooks.ts";
import {
  type AgentSessionPageDeps,
  agentSessionPageRoutes,
} from "./agent-sessions/agent-sessions-page.tsx";
import { type AuditPageDeps, auditRoutes } from "./audit/audit-page-routes.ts";
import { type BatchPageDeps, batchPageRoutes } from "./batches/batches-page.tsx";
import { type BillingPageDeps, billingPageRoutes } from "./billing/billing-page-routes.ts";
import { budgetPageRoutes } from "./budgets/budgets-page.tsx";
import { COMPONENTS_PATH, componentsPage } from "./components-page.tsx";
import { connectedAppRoutes } from "./connected-apps/connected-apps-page.tsx";
import { workspacePath } from "./console-layout.tsx";
import { type SearchDeps, searchRoute } from "./console-search.tsx";
import {
  type DirectorySyncPageDeps,
  directorySyncPageRoutes,
} from "./directory-sync/directory-sync-page.tsx";
import { type GuardrailPageDeps, guardrailPageRoutes } from "./guardrails/guardrails-page.tsx";
import { type KeyPageDeps, keyPageRoutes } from "./keys/key-page-routes.ts";
import { type LogPageDeps, logPageRoutes } from "./logs/log-page-routes.ts";
import { type McpServerPageDeps, mcpServerPageRoutes } from "./mcp-servers/mcp-servers-page.tsx";
import { type MemberPageDeps, memberPageRoutes } from "./members/member-page-routes.ts";
import { overviewPage } from "./overview/overview-page.tsx";
import { readOverview } from "./overview/read-overview.ts";
import { playgroundRoutes } from "./playground/playground-page.tsx";
import { presetPageRoutes } from "./presets/presets-page.tsx";
import {
  type ProviderKeyPageDeps,
  providerKeyPageRoutes,
} from "./provider-keys/provider-key-page-routes.ts";
import { type ResponsePageDeps, responsePageRoutes } from "./responses/responses-page.tsx";
import { type SettingsPageDeps, settingsPageRoutes } from "./settings/settings-page-routes.ts";
import { type SinkPageDeps, sinkPageRoutes } from "./sinks/sinks-page.tsx";
import { type SsoPageDeps, ssoPageRoutes } from "./sso/sso-page-routes.ts";
import { type StartPageDeps, startRoutes } from "./start/start-page-routes.ts";
import { usagePageRoutes } from "./usage/usage-page-routes.ts";
import { inTimeZoneOf, periodOf, UsageQuery } from "./usage/usage-query.ts";
import { webhookPageRoutes } from "./webhooks/webhook-page-routes.ts";
import { workspacePage, CONSOLE_PAGE } from "./workspace-routes.ts";

export interface ConsoleRouteDeps
  extends
    AgentSessionPageDeps,
    AuditPageDeps,
    BatchPageDeps,
    BillingPageDeps,
    DirectorySyncPageDeps,
    GuardrailPageDeps,
    McpServerPageDeps,
    KeyPageDeps,
    MemberPageDeps,
    ProviderKeyPageDeps,
    ResponsePageDeps,
    SettingsPageDeps,
    SsoPageDeps,
    StartPageDeps,
    LogPageDeps,
    SinkPageDeps,
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
    ...batchPageRoutes(deps),
    ...keyPageRoutes(deps),
    ...connectedAppRoutes(deps),
    ...presetPageRoutes(deps),
    ...guardrailPageRoutes(deps),
    ...mcpServerPageRoutes(deps),
    ...providerKeyPageRoutes(deps),
    ...memberPageRoutes(deps),
    ...ssoPageRoutes(deps),
    ...directorySyncPageRoutes(deps),
    ...budgetPageRoutes(deps),
    ...billingPageRoutes(deps),
    ...responsePageRoutes(deps),
    ...webhookPageRoutes(deps),
    ...sinkPageRoutes(deps),
    ...auditRoutes(deps),
    ...settingsPageRoutes(deps),
    searchRoute(deps),
    ...(deps.isDevelopment ? [componentsRoute()] : []),
  ];
}

function componentsRoute(): Route {
  return pageRoute({
    ...CONSOLE_PAGE,
    path: COMPONENTS_PATH,
    id: "showComponents",
    summary: "Show all components of the pages",
    run: ({ caller, now }) => componentsPage(caller, now),
  });
}

function invitationRoute({ db }: ConsoleRouteDeps): Route {
  return formRoute({
    ...CONSOLE_PAGE,
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
        return role === undefined ? "/console" : workspacePath(accountId, "");
      } catch (error) {
        // A double click or a reload: the person has joined already.
        const joined = accept ? await workspaceJoinedVia(db, personId, body.invitation) : undefined;
        if (joined === undefined) throw error;
        return workspacePath(joined, "");
      }
    },
  });
}

function overviewRoute(deps: ConsoleRouteDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}",
    id: "showWorkspace",
    summary: "Show the overview of a workspace",
    query: UsageQuery,
    permission: "workspace.read",
    run: async ({ view, account, query: sent, now }) => {
      const query = inTimeZoneOf(sent, view.user);
      const period = periodOf(query, now);
      const { createdAt } = view.workspace;
      const overview = await readOverview(deps, account, {
        query,
        period,
        createdAt,
        user: view.user,
        now,
      });
      return overviewPage({ ...view, overview, query, period, snippets: deps.snippets, now });
    },
  });
}
