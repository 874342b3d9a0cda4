// The workspaces of a person, and the form that creates one without an agent.

import { z } from "zod";
import { listInvitationsForEmail } from "../../accounts/invitations.ts";
import { listMemberships } from "../../accounts/members.ts";
import type { Nano } from "../../base/money/money.ts";
import { listWaitingClaims } from "../../claims/claim-attempt-rows.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { redirect } from "../../http/pages/page-response.ts";
import { formRoute, pageRoute, submitForm } from "../../http/pages/page-routes.ts";
import type { Route, SessionUser } from "../../http/route.ts";
import { FORM_TOKEN, newFormToken, submitOnce } from "../../idempotency/form-submission.ts";
import type { Idempotency } from "../../idempotency/idempotency.ts";
import type { Tx } from "../../store/db.ts";
import { workspacePath } from "../console-layout.tsx";
import { type ConsoleReadDeps, requireAccess } from "../require-access.ts";
import type { SnippetSettings } from "../usage/call-snippets.tsx";
import { CONSOLE_PAGE } from "../workspace-routes.ts";
import { firstKeyPage } from "./first-key-page.tsx";
import { workspacesPage } from "./workspaces-page.tsx";

export interface StartPageDeps extends ConsoleReadDeps {
  readonly idempotency: Idempotency;
  readonly snippets: SnippetSettings;
  readonly createWorkspace: (tx: Tx, request: WorkspaceRequest) => Promise<FirstKey>;
}

interface WorkspaceRequest {
  readonly owner: SessionUser;
  readonly name: string;
  readonly clientIp: string;
  readonly now: number;
}

interface FirstKey {
  readonly accountId: string;
  /** The raw key. */
  readonly raw: string;
  readonly bonus: Nano;
}

export function startRoutes(deps: StartPageDeps): readonly Route[] {
  return [showRoute(deps), createRoute(deps)];
}

function showRoute(deps: StartPageDeps): Route {
  return pageRoute({
    ...CONSOLE_PAGE,
    path: "/console",
    id: "showWorkspaces",
    summary: "List your workspaces",
    query: z.object({
      all: z.literal("true").optional(),
      /** The id in the link of an invitation. */
      invitation: z.string().max(100).optional(),
    }),
    run: async ({ caller, query: { all, invitation }, now }) => {
      const lists = await readLists(deps, caller, now);
      const [only, ...others] = lists.workspaces;
      const isOnly = others.length === 0 && lists.invitations.length === 0;
      if (only !== undefined && isOnly && all === undefined && invitation === undefined)
        return redirect(workspacePath(only.accountId, ""));
      const form = { token: newFormToken() };
      const isListed = lists.invitations.some(({ id }) => id === invitation);
      const missingInvitation = isListed ? undefined : invitation;
      return workspacesPage({ user: caller, ...lists, form, missingInvitation });
    },
  });
}

function createRoute(deps: StartPageDeps): Route {
  return formRoute({
    ...CONSOLE_PAGE,
    path: "/console/workspaces",
    id: "createWorkspace",
    summary: "Create a workspace with its first key",
    body: z.object({
      name: z.string().optional(),
      /** Absent if the form was not rendered by this page. */
      once: z.string().regex(FORM_TOKEN).optional(),
    }),
    requestExample: { name: "Acme production" },
    run: async ({ caller, body, clientIp, now }) => {
      const { name = "", once: token = newFormToken() } = body;
      const scope = `${caller.personId} console.workspace`;
      const submit = async (): Promise<PageLayout> => {
        const { accountId, raw, bonus } = await deps.db.write(async (tx) => {
          const request = { owner: caller, name, clientIp, now };
          const submission = { scope, token, payload: { name }, now };
          const create = async (): Promise<string> => {
            const created = await deps.createWorkspace(tx, request);
            return JSON.stringify({ ...created, bonus: String(created.bonus) });
          };
          return parseFirstKey(await submitOnce(tx, deps.idempotency, submission, create));
        });
        const workspace = await requireAccess(deps, accountId, caller.personId, "workspace.read");
        return firstKeyPage({ user: caller, workspace, raw, bonus, snippets: deps.snippets });
      };
      return await submitForm(submit, async ({ message: nameError }) => {
        const lists = await readLists(deps, caller, now);
        return workspacesPage({ user: caller, ...lists, form: { token, name, nameError } });
      });
    },
  });
}

async function readLists({ db }: StartPageDeps, user: SessionUser, now: number) {
  const [workspaces, invitations, waitingClaims] = await Promise.all([
    listMemberships(db, user.personId),
    user.ssoAccountId === undefined ? listInvitationsForEmail(db, user.email, now) : [],
    listWaitingClaims(db, user, now),
  ]);
  return { workspaces, invitations, waitingClaims, now };
}

function parseFirstKey(json: string): FirstKey {
  // Safe because `create` above wrote it.
  const stored = JSON.parse(json) as Readonly<Record<"accountId" | "raw" | "bonus", string>>;
  return { ...stored, bonus: BigInt(stored.bonus) };
}
