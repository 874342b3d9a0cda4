// The routes of the members page. The owner invites, removes and transfers ownership; a developer can leave.

import { z } from "zod";
import { requestAllowance } from "../../accounts/allowance-requests.ts";
import { invite, resendInvitation, withdrawInvitation } from "../../accounts/invitations.ts";
import {
  type Allowance,
  changeMember,
  MEMBER_ROLES,
  type Permission,
  removeMember,
  roleOf,
} from "../../accounts/members.ts";
import { type Act, personAct } from "../../activity/audit.ts";
import { transferWorkspace } from "../../billing/top-up/auto-top-up.ts";
import { formRoute, submitForm } from "../../http/pages/page-routes.ts";
import type { Route, SessionUser } from "../../http/route.ts";
import { removeMemberAndKeys } from "../../keys/member-keys.ts";
import type { Db, Tx } from "../../store/db.ts";
import { workspacePath } from "../console-layout.tsx";
import { donePath, DoneQuery } from "../done-notice.tsx";
import { parseLimit } from "../keys/limit-form.ts";
import { type ConsoleReadDeps, requireAccess } from "../require-access.ts";
import { workspaceErrorPage } from "../workspace-error-page.tsx";
import { AccountPath, CONSOLE_PAGE, workspacePage } from "../workspace-routes.ts";
import { membersPage, membersPath, CONFIRMATIONS } from "./members-page.tsx";
import { readMembers } from "./read-members.ts";

export interface MemberPageDeps extends ConsoleReadDeps {
  readonly db: Db;
  readonly baseUrl: string;
}

export function memberPageRoutes(deps: MemberPageDeps): readonly Route[] {
  return [showRoute(deps), changeRoute(deps)];
}

/** The first member of the page: when they were added, and their id. */
const MemberCursor = z
  .string()
  .regex(/^\d{1,15}-usr_[0-9a-z]{26}$/)
  .optional();

function showRoute(deps: MemberPageDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/members",
    id: "showWorkspaceMembers",
    summary: "List the members of a workspace",
    query: z.object({
      from: MemberCursor,
      ask: z.enum(CONFIRMATIONS).optional(),
      person: z.string().optional(),
      ...DoneQuery,
    }),
    permission: "members.read",
    run: async ({ view, account, query, now }) => {
      const listing = await readMembers(deps, account, now, query.from);
      const { baseUrl } = deps;
      return membersPage({ ...view, listing, baseUrl, confirm: query, done: query.done });
    },
  });
}

const MemberForm = z.discriminatedUnion("do", [
  z.object({
    do: z.literal("invite"),
    email: z.string(),
    role: z.enum(MEMBER_ROLES).default("developer"),
    allowance_usd: z.string().optional(),
    allowance_window: z.string().optional(),
  }),
  z.object({ do: z.literal("resend"), invitation: z.string() }),
  z.object({ do: z.literal("request_allowance") }),
  z.object({ do: z.literal("withdraw"), invitation: z.string() }),
  z.object({ do: z.literal("remove"), person: z.string(), from: MemberCursor }),
  z.object({
    do: z.literal("change"),
    person: z.string(),
    role: z.enum(MEMBER_ROLES),
    allowance_usd: z.string().optional(),
    allowance_window: z.string().optional(),
    from: MemberCursor,
  }),
  z.object({ do: z.literal("hand_over"), person: z.string() }),
  z.object({ do: z.literal("leave") }),
]);
type MemberForm = z.infer<typeof MemberForm>;

const MEMBER_PERMISSIONS: Readonly<Record<MemberForm["do"], Permission>> = {
  invite: "members.invite",
  resend: "members.invite",
  withdraw: "members.invite",
  request_allowance: "keys.create",
  remove: "members.remove",
  change: "members.change",
  hand_over: "workspace.transfer",
  leave: "workspace.leave",
};

function changeRoute(deps: MemberPageDeps): Route {
  return formRoute({
    ...CONSOLE_PAGE,
    path: "/console/{account}/members",
    id: "changeWorkspaceMembers",
    summary: "Invite, change or remove a member, transfer ownership, or leave",
    params: AccountPath,
    body: MemberForm,
    requestExample: { do: "invite", email: "ada@example.com" },
    run: async (input) => {
      const { caller: user, params, body, clientIp, now } = input;
      const { account } = params;
      const from = body.do === "remove" || body.do === "change" ? body.from : undefined;
      const done = donePathOf(account, body, from);
      const submit = async (): Promise<string> => {
        const act = personAct(account, user.personId, { clientIp, now });
        await deps.db.write((tx) => changeMembers(tx, act, body));
        return done;
      };
      try {
        const permission = MEMBER_PERMISSIONS[body.do];
        const workspace = await requireAccess(deps, account, user.personId, permission);
        return await submitForm(submit, async (error) => {
          const listing = await readMembers(deps, account, now, from);
          const confirm = body.do === "change" ? { ask: body.do, person: body.person } : {};
          return membersPage({
            user,
            workspace,
            listing,
            baseUrl: deps.baseUrl,
            rejected: { values: body, error },
            confirm,
          });
        });
      } catch (error) {
        if (await isAlreadyDone(deps, account, user, body)) return done;
        return await workspaceErrorPage(deps, { ...input, account }, error);
      }
    },
  });
}

/**
 * Whether the form was applied before: after the first of two clicks, the person no longer has the permission. Leaving a
 * workspace without being a member succeeds, so that it does not reveal whether the workspace exists.
 */
async function isAlreadyDone(
  { db }: MemberPageDeps,
  accountId: string,
  { personId }: SessionUser,
  form: MemberForm,
): Promise<boolean> {
  const role = await roleOf(db, accountId, personId);
  if (form.do === "leave") return role === undefined;
  if (form.do !== "hand_over" || role === undefined) return false;
  return (await roleOf(db, accountId, form.person)) === "owner";
}

function donePathOf(account: string, form: MemberForm, from: string | undefined): string {
  if (form.do === "leave") return "/console";
  if (form.do === "request_allowance") return donePath(workspacePath(account, "/keys"), form.do);
  return membersPath(account, { from, done: form.do });
}

function allowanceOf(form: {
  readonly allowance_usd?: string | undefined;
  readonly allowance_window?: string | undefined;
}): Allowance | undefined {
  const { limit, limitWindow: window } = parseLimit({
    limit_usd: form.allowance_usd,
    limit_window: form.allowance_window,
  });
  return limit === null || limit === undefined ? undefined : { limit, window: window ?? null };
}

async function changeMembers(tx: Tx, act: Act, form: MemberForm): Promise<void> {
  switch (form.do) {
    case "invite": {
      const { email, role } = form;
      await invite(tx, act, { email, role, allowance: allowanceOf(form) });
      return;
    }
    case "resend":
      return await resendInvitation(tx, act, form.invitation);
    case "request_allowance":
      return await requestAllowance(tx, act);
    case "withdraw":
      return await withdrawInvitation(tx, act, form.invitation);
    case "change": {
      const change = { role: form.role, allowance: allowanceOf(form) };
      return await changeMember(tx, act, form.person, change);
    }
    case "hand_over":
      return await transferWorkspace(tx, act, form.person);
    case "remove":
      return await removeMemberAndKeys(tx, act, form.person);
    case "leave":
      await removeMember(tx, act, act.actor.id);
  }
}
