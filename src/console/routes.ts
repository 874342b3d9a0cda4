// The human pages: the HTTP face of the console. Every page says which action it needs, and `accounts/members.ts` says
// which role may do it.

import { z } from "zod";
import { answerInvitation, invitationsFor } from "../accounts/invitations.ts";
import { joinedBy, workspacesOf } from "../accounts/members.ts";
import { personRoute, type Route } from "../http/route.ts";
import type { Webhooks } from "../events/webhooks.ts";
import { AccountPath, PAGE, redirect, show } from "./answers.ts";
import { type BillingPageParts, billingPageRoutes } from "./billing-routes.ts";
import { budgetPageRoutes } from "./budget-routes.ts";
import { pathOf } from "./frame.tsx";
import { homePage } from "./home-page.tsx";
import { type KeyPageParts, keyPageRoutes } from "./key-routes.ts";
import { type MemberPageParts, memberPageRoutes } from "./member-routes.ts";
import { operatingRoutes } from "./operating-routes.ts";
import { overviewPage } from "./overview-page.tsx";
import { type ProviderKeyPageParts, providerKeyPageRoutes } from "./provider-key-routes.ts";
import { usagePage } from "./usage-page.tsx";
import { enter, readOverview, readSpending } from "./workspace.ts";

export interface ConsoleRouteParts
  extends BillingPageParts, KeyPageParts, MemberPageParts, ProviderKeyPageParts {
  readonly webhooks: Webhooks;
}

export function consoleRoutes(parts: ConsoleRouteParts): readonly Route[] {
  return [
    homeRoute(parts),
    invitationRoute(parts),
    overviewRoute(parts),
    usageRoute(parts),
    ...keyPageRoutes(parts),
    ...providerKeyPageRoutes(parts),
    ...memberPageRoutes(parts),
    ...budgetPageRoutes(parts),
    ...billingPageRoutes(parts),
    ...operatingRoutes(parts),
  ];
}

function homeRoute({ db }: ConsoleRouteParts): Route {
  return personRoute({
    ...PAGE,
    method: "GET",
    path: "/console",
    id: "showWorkspaces",
    summary: "The workspaces of a person",
    run: async ({ caller, now }) => {
      const [workspaces, invitations] = await Promise.all([
        workspacesOf(db, caller.personId),
        invitationsFor(db, caller.email, now),
      ]);
      const [only, ...others] = workspaces;
      if (only !== undefined && others.length === 0 && invitations.length === 0)
        return redirect(pathOf(only.accountId, ""));
      return show(homePage({ visitor: caller, workspaces, invitations }));
    },
  });
}

function invitationRoute({ db, onMemberChange: tell }: ConsoleRouteParts): Route {
  return personRoute({
    ...PAGE,
    method: "POST",
    path: "/console/invitations",
    id: "answerInvitation",
    summary: "Accept or decline an invitation",
    body: z.object({ invitation: z.string(), answer: z.enum(["accept", "decline"]) }),
    example: { invitation: "inst_01kah5t3mq7d2c9w4e6r8t0yax", answer: "accept" },
    run: async ({ caller, body, address, now }) => {
      const { personId, email } = caller;
      const accept = body.answer === "accept";
      try {
        const { accountId, role } = await db.write(async (tx) => {
          const answer = { id: body.invitation, accept, personId, email, now };
          const answered = await answerInvitation(tx, answer);
          const { role, joined } = answered;
          const common = { accountId: answered.accountId, by: caller, address, now };
          if (role !== undefined && joined)
            await tell?.(tx, { ...common, kind: "member.added", target: personId, email, role });
          return answered;
        });
        return redirect(role === undefined ? "/console" : pathOf(accountId, ""));
      } catch (error) {
        // The second of two clicks, or a page that is loaded again.
        const joined = accept ? await joinedBy(db, personId, body.invitation) : undefined;
        if (joined === undefined) throw error;
        return redirect(pathOf(joined, ""));
      }
    },
  });
}

function overviewRoute(parts: ConsoleRouteParts): Route {
  return personRoute({
    ...PAGE,
    method: "GET",
    path: "/console/{account}",
    id: "showWorkspace",
    summary: "The overview of a workspace",
    params: AccountPath,
    run: async ({ caller, params, now }) => {
      const place = await enter(parts, params.account, caller.personId, "workspace.read");
      return show(overviewPage(caller, place, await readOverview(parts, params.account, now)));
    },
  });
}

function usageRoute(parts: ConsoleRouteParts): Route {
  return personRoute({
    ...PAGE,
    method: "GET",
    path: "/console/{account}/usage",
    id: "showWorkspaceUsage",
    summary: "What a workspace spent",
    params: AccountPath,
    query: z.object({
      models: z
        .string()
        .regex(/^model:./)
        .optional(),
      keys: z
        .string()
        .regex(/^key:./)
        .optional(),
    }),
    run: async ({ caller, params, query, now }) => {
      const place = await enter(parts, params.account, caller.personId, "usage.read");
      const spending = await readSpending(parts, params.account, now, query);
      return show(usagePage({ visitor: caller, place, spending, from: query }));
    },
  });
}
