// The page of a workspace's members: the owner invites, removes and hands over, a developer leaves.

import { z } from "zod";
import { invite, withdraw } from "../accounts/invitations.ts";
import {
  type Action,
  handOver,
  type MemberChange,
  removeMember,
  roleOf,
} from "../accounts/members.ts";
import { personRoute, type Route, type Visitor } from "../http/route.ts";
import type { Db, Tx } from "../store/db.ts";
import { AccountPath, correctable, PAGE, redirect, show } from "./answers.ts";
import { membersPage, membersPath, QUESTIONS } from "./members-page.tsx";
import { type ConsoleStore, enter, enterToChange, readPeople } from "./workspace.ts";

export interface MemberPageParts extends ConsoleStore {
  readonly db: Db;
  /** Told in the transaction of the change. */
  readonly onMemberChange?: (tx: Tx, change: MemberChange) => Promise<void>;
}

export function memberPageRoutes(parts: MemberPageParts): readonly Route[] {
  return [membersRoute(parts), changeMembersRoute(parts)];
}

/** With which member the page begins: since when they belong to the workspace, and who they are. */
const FromMember = z
  .string()
  .regex(/^\d{1,15}-usr_[0-9a-z]{26}$/)
  .optional();

function membersRoute(parts: MemberPageParts): Route {
  return personRoute({
    ...PAGE,
    method: "GET",
    path: "/console/{account}/members",
    id: "showWorkspaceMembers",
    summary: "The members of a workspace",
    params: AccountPath,
    query: z.object({
      from: FromMember,
      ask: z.enum(QUESTIONS).optional(),
      person: z.string().optional(),
    }),
    run: async ({ caller, params, query, now }) => {
      const place = await enter(parts, params.account, caller.personId, "members.read");
      const people = await readPeople(parts, params.account, now, query.from);
      return show(membersPage({ visitor: caller, place, people, question: query }));
    },
  });
}

const MemberForm = z.discriminatedUnion("do", [
  z.object({ do: z.literal("invite"), email: z.string() }),
  z.object({ do: z.literal("withdraw"), invitation: z.string() }),
  z.object({ do: z.literal("remove"), person: z.string(), from: FromMember }),
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

function changeMembersRoute(parts: MemberPageParts): Route {
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
      const from = body.do === "remove" ? body.from : undefined;
      const done = () =>
        redirect(body.do === "leave" ? "/console" : membersPath(account, { from }));
      try {
        const place = await enter(parts, account, caller.personId, MEMBER_ACTIONS[body.do]);
        try {
          await parts.db.write(async (tx) => {
            await enterToChange(tx, account, caller.personId, MEMBER_ACTIONS[body.do]);
            const change = await changeMembers(tx, account, caller, { form: body, now });
            if (change === undefined) return;
            const common = { accountId: account, by: caller, address, now };
            await parts.onMemberChange?.(tx, { ...common, ...change });
          });
        } catch (error) {
          const wrong = correctable(error);
          const people = await readPeople(parts, account, now, from);
          const typed = body.do === "invite" ? body.email : undefined;
          return show(membersPage({ visitor: caller, place, people, wrong, typed }), 400);
        }
        return done();
      } catch (error) {
        if (await isDone(parts, account, caller, body)) return done();
        throw error;
      }
    },
  });
}

/**
 * Whether the first of two clicks has done it, after which the person may do it no more. Who leaves a workspace that is
 * somebody else's learns nothing: they do not belong to it, as they wish.
 */
async function isDone(
  { db }: MemberPageParts,
  accountId: string,
  { personId }: Visitor,
  form: MemberForm,
): Promise<boolean> {
  const role = await roleOf(db, accountId, personId);
  if (form.do === "leave") return role === undefined;
  if (form.do !== "hand_over" || role === undefined) return false;
  return (await roleOf(db, accountId, form.person)) === "owner";
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
      // The second of two clicks, or another tab.
      if ((await roleOf(tx, accountId, target)) === undefined) return undefined;
      const email = await removeMember(tx, accountId, target);
      return { kind: "member.removed", target, email };
    }
  }
}
