// The routes of the page Directory sync.

import { z } from "zod";
import { MEMBER_ROLES } from "../../accounts/members.ts";
import type { Act } from "../../activity/audit.ts";
import type { Route } from "../../http/route.ts";
import {
  changeDirectory,
  createDirectoryToken,
  findDirectory,
  removeDirectory,
} from "../../scim/directory.ts";
import { listGroups, setGroupRole } from "../../scim/scim-groups.ts";
import { listUsers } from "../../scim/scim-users.ts";
import type { Tx } from "../../store/db.ts";
import { workspacePath } from "../console-layout.tsx";
import { donePath, DoneQuery } from "../done-notice.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";
import { workspaceForm, workspacePage } from "../workspace-routes.ts";
import { type DirectoryListing, directorySyncPage } from "./directory-sync-page.tsx";

const USERS_SHOWN_MAX = 50;
const GROUPS_SHOWN_MAX = 200;

export interface DirectorySyncPageDeps extends ConsoleReadDeps {
  readonly baseUrl: string;
}

export function directorySyncPageRoutes(deps: DirectorySyncPageDeps): readonly Route[] {
  return [showRoute(deps), changeRoute(deps)];
}

function showRoute(deps: DirectorySyncPageDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/directory-sync",
    id: "showDirectorySync",
    summary: "Show the directory sync of a workspace",
    query: z.object({ ask: z.literal("disable").optional(), ...DoneQuery }),
    permission: "sso.read",
    run: async ({ view, account, query: { ask, done } }) =>
      directorySyncPage({ ...view, listing: await readDirectory(deps, account), ask, done }),
  });
}

async function readDirectory(
  { db, baseUrl }: DirectorySyncPageDeps,
  account: string,
): Promise<DirectoryListing> {
  const [directory, { items: groups }, { items: users, total }] = await Promise.all([
    findDirectory(db, account),
    listGroups(db, account, { offset: 0, limit: GROUPS_SHOWN_MAX }),
    listUsers(db, account, { offset: 0, limit: USERS_SHOWN_MAX }),
  ]);
  return { directory, groups, users, totalUsers: total, url: `${baseUrl}/scim/v2` };
}

function changeRoute(deps: DirectorySyncPageDeps): Route {
  return workspaceForm(deps, {
    path: "/console/{account}/directory-sync",
    id: "changeDirectorySync",
    summary: "Create a token, map groups to roles, or disable directory sync",
    body: DirectoryForm,
    requestExample: { do: "create_token" },
    permission: "sso.change",
    write: (tx, { act, body }) => changeSync(tx, act, body),
    done: async ({ view, account, body }, token) =>
      token === undefined
        ? donePath(workspacePath(account, "/directory-sync"), body.do)
        : directorySyncPage({ ...view, listing: await readDirectory(deps, account), token }),
    rejected: async ({ view, account }, { message: errorMessage }) =>
      directorySyncPage({ ...view, listing: await readDirectory(deps, account), errorMessage }),
  });
}

/** Returns the token if it created one. */
async function changeSync(tx: Tx, act: Act, form: DirectoryForm): Promise<string | undefined> {
  switch (form.do) {
    case "create_token":
      return await createDirectoryToken(tx, act);
    case "save": {
      const handsOverKeys = form.keys === "hand_over";
      await changeDirectory(tx, act, { fallbackRole: form.fallback_role, handsOverKeys });
      return undefined;
    }
    case "set_role": {
      const role = form.role === "" ? null : form.role;
      await setGroupRole(tx, act, { id: form.group, role });
      return undefined;
    }
    case "disable":
      await removeDirectory(tx, act);
      return undefined;
  }
}

// The form of the page Directory sync.

const DirectoryForm = z.discriminatedUnion("do", [
  z.object({ do: z.literal("create_token") }),
  z.object({
    do: z.literal("save"),
    fallback_role: z.enum(MEMBER_ROLES),
    keys: z.enum(["revoke", "hand_over"]),
  }),
  z.object({
    do: z.literal("set_role"),
    group: z.string().max(100),
    role: z.enum([...MEMBER_ROLES, ""]),
  }),
  z.object({ do: z.literal("disable") }),
]);
type DirectoryForm = z.infer<typeof DirectoryForm>;
