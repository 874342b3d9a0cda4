// The human pages: the HTTP face of the console. Every page says which action it needs, and `accounts/members.ts` says
// which role may do it.

import { z } from "zod";
import { answerInvitation, invitationsFor, invite, withdraw } from "../accounts/invitations.ts";
import {
  type Action,
  handOver,
  joinedBy,
  type MemberChange,
  removeMember,
  workspacesOf,
} from "../accounts/members.ts";
import { personRoute, type Route, type Visitor } from "../http/route.ts";
import type { Webhooks } from "../events/webhooks.ts";
import type { Db, Tx } from "../store/db.ts";
import { AccountPath, correctable, PAGE, redirect, show } from "./answers.ts";
import { type BillingPageParts, billingPageRoutes } from "./billing-routes.ts";
import { budgetPageRoutes } from "./budget-routes.ts";
import { pathOf } from "./frame.tsx";
import { homePage } from "./home-page.tsx";
import { type KeyPageParts, keyPageRoutes } from "./key-routes.ts";
import { membersPage } from "./members-page.tsx";
import { operatingRoutes } from "./operating-routes.ts";
import { overviewPage } from "./overview-page.tsx";
import { type ProviderKeyPageParts, providerKeyPageRoutes } from "./provider-key-routes.ts";
import { usagePage } from "./usage-page.tsx";
import {
  type ConsoleStore,
  enter,
  enterToChange,
  readOverview,
  readPeople,
  readSpending,
} from "./workspace.ts";

export interface ConsoleRouteParts extends BillingPageParts, KeyPageParts, ProviderKeyPageParts {
  readonly db: Db;
  readonly walletOf: ConsoleStore["walletOf"];
  readonly webhooks: Webhooks;
  /** Told in the transaction of the change. */
  readonly onMemberChange?: (tx: Tx, change: MemberChange) => Promise<void>;
}

export function consoleRoutes(parts: ConsoleRouteParts): readonly Route[] {
  return [
    homeRoute(parts),
    invitationRoute(parts),
    overviewRoute(parts),
    usageRoute(parts),
    ...keyPageRoutes(parts),
    ...providerKeyPageRoutes(parts),
    membersRoute(parts),
    changeMembersRoute(parts),
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

function membersRoute(parts: ConsoleRouteParts): Route {
  return personRoute({
    ...PAGE,
    method: "GET",
    path: "/console/{account}/members",
    id: "showWorkspaceMembers",
    summary: "The members of a workspace",
    params: AccountPath,
    run: async ({ caller, params, now }) => {
      const place = await enter(parts, params.account, caller.personId, "members.read");
      return show(
        membersPage({
          visitor: caller,
          place,
          people: await readPeople(parts, params.account, now),
        }),
      );
    },
  });
}

const MemberForm = z.discriminatedUnion("do", [
  z.object({ do: z.literal("invite"), email: z.string() }),
  z.object({ do: z.literal("withdraw"), invitation: z.string() }),
  z.object({ do: z.literal("remove"), person: z.string() }),
  z.object({ do: z.literal("hand_over"), person: z.string() }),
  z.object({ do: z.literal("leave") }),
]);
type MemberForm = z.infer<typeof MemberForm>;

const MEMBER_ACTIONS: Readonly<Record<MemberForm["do"], Action>> = {
  invite: "members.invite",
  withdraw: "members.invite",
  remove: "members.remove",
  hand_over: "workspace.hand_over",
  leave: "workspace.leave",
};

function changeMembersRoute(parts: ConsoleRouteParts): Route {
  return personRoute({
    ...PAGE,
    method: "POST",
    path: "/console/{account}/members",
    id: "changeWorkspaceMembers",
    summary: "Invite, remove, hand over or leave",
    params: AccountPath,
    body: MemberForm,
    example: { do: "invite", email: "ada@example.com" },
    run: async ({ caller, params, body, address, now }) => {
      const { account } = params;
      const place = await enter(parts, account, caller.personId, MEMBER_ACTIONS[body.do]);
      try {
        await parts.db.write(async (tx) => {
          await enterToChange(tx, account, caller.personId, MEMBER_ACTIONS[body.do]);
          const done = await changeMembers(tx, account, caller, { form: body, now });
          if (done === undefined) return;
          const common = { accountId: account, by: caller, address, now };
          await parts.onMemberChange?.(tx, { ...common, ...done });
        });
      } catch (error) {
        const people = await readPeople(parts, account, now);
        const typed = body.do === "invite" ? body.email : undefined;
        const told = { wrong: correctable(error), typed };
        return show(membersPage({ visitor: caller, place, people, ...told }), 400);
      }
      return redirect(body.do === "leave" ? "/console" : pathOf(account, "/members"));
    },
  });
}

/** Answers what was changed; undefined for nothing. */
async function changeMembers(
  tx: Tx,
  accountId: string,
  visitor: Visitor,
  { form, now }: { readonly form: MemberForm; readonly now: number },
): Promise<Pick<MemberChange, "kind" | "target" | "email"> | undefined> {
  switch (form.do) {
    case "invite": {
      const request = { accountId, email: form.email, invitedBy: visitor.email, now };
      const { id, email } = await invite(tx, request);
      return { kind: "member.invited", target: id, email };
    }
    case "withdraw": {
      const email = await withdraw(tx, accountId, form.invitation);
      if (email === undefined) return undefined;
      return { kind: "invitation.withdrawn", target: form.invitation, email };
    }
    case "hand_over": {
      const email = await handOver(tx, accountId, visitor.personId, form.person);
      return { kind: "owner.changed", target: form.person, email };
    }
    case "remove":
    case "leave": {
      const target = form.do === "leave" ? visitor.personId : form.person;
      const email = await removeMember(tx, accountId, target);
      return { kind: "member.removed", target, email };
    }
  }
}
