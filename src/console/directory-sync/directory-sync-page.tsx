/** @jsxImportSource hono/jsx */
// Directory sync (SCIM) of a workspace: its URL and token, the roles of groups, and the users of the directory.

import type { Child } from "hono/jsx";
import { z } from "zod";
import { hasPermission, MEMBER_ROLES } from "../../accounts/members.ts";
import type { Act } from "../../activity/audit.ts";
import {
  Card,
  CodeBlock,
  CopyText,
  Details,
  Notice,
  Tag,
} from "../../http/pages/components/content.tsx";
import { ErrorMessage, PostForm } from "../../http/pages/components/form.tsx";
import { DateTime } from "../../http/pages/components/local-time.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { Route, SessionUser } from "../../http/route.ts";
import {
  changeDirectory,
  createDirectoryToken,
  type Directory,
  findDirectory,
  FORMER_TOKEN_DAYS,
  removeDirectory,
} from "../../scim/directory.ts";
import type { ScimGroup } from "../../scim/scim-group-rows.ts";
import { listGroups, setGroupRole } from "../../scim/scim-groups.ts";
import type { ScimUser } from "../../scim/scim-user-rows.ts";
import { listUsers } from "../../scim/scim-users.ts";
import type { Tx } from "../../store/db.ts";
import { Confirm, ConfirmLink, withQuery } from "../confirm.tsx";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { DoneNotice, donePath, DoneQuery } from "../done-notice.tsx";
import { ROLE_LABELS } from "../members/member-texts.ts";
import type { ConsoleReadDeps, WorkspaceView } from "../require-access.ts";
import { workspaceForm, workspacePage } from "../workspace-routes.ts";

interface DirectoryListing {
  readonly directory: Directory | undefined;
  readonly groups: readonly ScimGroup[];
  readonly users: readonly ScimUser[];
  readonly totalUsers: number;
  /** The base URL for the directory. */
  readonly url: string;
}

interface DirectorySyncPageProps extends WorkspaceView {
  readonly listing: DirectoryListing;
  readonly ask?: "disable" | undefined;
  readonly done?: string | undefined;
  /** A new token, which is shown once. */
  readonly token?: string;
  readonly errorMessage?: string;
}

const DONE_TEXTS = {
  save: "The settings are saved.",
  set_role: "The role of the group is saved.",
  disable: "Directory sync is disabled. The members stay.",
} as const;

function directorySyncPage(props: DirectorySyncPageProps): PageLayout {
  const { user, workspace, listing, token } = props;
  const canChange = hasPermission(workspace.role, "sso.change");
  return consolePage({
    title: "Directory sync",
    workspace,
    user,
    page: "/directory-sync",
    main: (
      <>
        <ErrorMessage message={props.errorMessage} />
        <DoneNotice texts={DONE_TEXTS} done={props.done} />
        {token === undefined ? null : (
          <section class="card notice" role="status">
            <h2>Token</h2>
            <p>Copy it now. It is not shown again.</p>
            <CodeBlock code={token} />
          </section>
        )}
        <p>
          Your directory creates, changes and deactivates members with SCIM 2.0.{" "}
          <a href="/docs/guides/single-sign-on#directory-sync">
            Steps for Okta and Microsoft Entra
          </a>
          .
        </p>
        {canChange ? null : <Notice>Only the owner can change directory sync.</Notice>}
        <ConnectionCard {...props} canChange={canChange} />
        {listing.directory === undefined ? null : (
          <>
            <SettingsCard {...props} directory={listing.directory} canChange={canChange} />
            <GroupsCard {...props} canChange={canChange} />
            <UsersCard {...props} />
          </>
        )}
      </>
    ),
  });
}

type CardProps = DirectorySyncPageProps & { readonly canChange: boolean };

function ConnectionCard({ user, workspace, listing, ask, canChange }: CardProps): Child {
  const { directory, url } = listing;
  const path = workspacePath(workspace.accountId, "/directory-sync");
  return (
    <Card id="connection" title="Connection">
      <Details
        items={[
          ["SCIM base URL", <CopyText text={url} />],
          ...(directory === undefined
            ? []
            : ([
                ["Token", `ends with ${directory.last4}`],
                [
                  "Last request",
                  directory.usedAt === null ? "none yet" : <DateTime at={directory.usedAt} />,
                ],
              ] as const)),
        ]}
      />
      {!canChange ? null : ask === "disable" ? (
        <Confirm
          user={user}
          action={path}
          fields={{ do: "disable" }}
          confirmLabel="Disable directory sync"
          cancelHref={path}
        >
          The token stops working, and users and groups of the directory are forgotten. Members and
          their roles stay.
        </Confirm>
      ) : (
        <PostForm user={user} action={path} fields={{ do: "create_token" }}>
          <div class="actions">
            <button type="submit" class={directory === undefined ? undefined : "secondary"}>
              {directory === undefined ? "Create token" : "Replace token"}
            </button>
            {directory === undefined ? null : (
              <ConfirmLink
                href={withQuery(path, { ask: "disable" })}
                label="Disable directory sync"
              />
            )}
          </div>
          {directory === undefined ? null : (
            <p class="hint">
              The current token works for {FORMER_TOKEN_DAYS} more day after it is replaced.
            </p>
          )}
        </PostForm>
      )}
    </Card>
  );
}

function SettingsCard({
  user,
  workspace,
  directory,
  canChange,
}: CardProps & { readonly directory: Directory }): Child {
  const { fallbackRole, handsOverKeys } = directory;
  if (!canChange) return null;
  return (
    <Card id="settings" title="Settings">
      <PostForm
        user={user}
        action={workspacePath(workspace.accountId, "/directory-sync")}
        fields={{ do: "save" }}
        submit="Save settings"
        isSecondary
      >
        <div class="field">
          <label for="fallback-role">Default role (users in no group with a role)</label>
          <select id="fallback-role" name="fallback_role">
            {MEMBER_ROLES.map((role) => (
              <option value={role} selected={role === fallbackRole}>
                {ROLE_LABELS[role]}
              </option>
            ))}
          </select>
        </div>
        <div class="field">
          <label for="keys">Keys of deactivated members</label>
          <select id="keys" name="keys">
            <option value="revoke" selected={!handsOverKeys}>
              Are revoked
            </option>
            <option value="hand_over" selected={handsOverKeys}>
              Keep working, and belong to the owner
            </option>
          </select>
        </div>
      </PostForm>
    </Card>
  );
}

function GroupsCard({ user, workspace, listing: { groups }, canChange }: CardProps): Child {
  return (
    <Card id="groups" title="Groups">
      <p>
        Once a group has a role, the directory decides the roles of its users: those in several
        groups have the first of admin, developer, billing and viewer.
      </p>
      {groups.length === 0 ? (
        <p class="muted">The directory has sent no groups yet.</p>
      ) : (
        <Table
          label="Groups"
          isStacked
          columns={[{ name: "Group" }, { name: "Role" }]}
          rows={groups.map((group) => [
            <span class="line">{group.displayName}</span>,
            canChange ? (
              <RoleForm user={user} accountId={workspace.accountId} group={group} />
            ) : group.role === null ? (
              "no role"
            ) : (
              ROLE_LABELS[group.role]
            ),
          ])}
        />
      )}
    </Card>
  );
}

function RoleForm({
  user,
  accountId,
  group: { id, displayName, role },
}: {
  readonly user: SessionUser;
  readonly accountId: string;
  readonly group: ScimGroup;
}): Child {
  return (
    <PostForm
      class="inline-form option"
      user={user}
      action={workspacePath(accountId, "/directory-sync")}
      fields={{ do: "set_role", group: id }}
    >
      <label class="visually-hidden" for={`role-${id}`}>
        Role of {displayName}
      </label>
      <select id={`role-${id}`} name="role">
        <option value="" selected={role === null}>
          No role
        </option>
        {MEMBER_ROLES.map((option) => (
          <option value={option} selected={option === role}>
            {ROLE_LABELS[option]}
          </option>
        ))}
      </select>
      <button type="submit" class="secondary small">
        Save <span class="visually-hidden">the role of {displayName}</span>
      </button>
    </PostForm>
  );
}

function UsersCard({ listing: { users, totalUsers } }: DirectorySyncPageProps): Child {
  return (
    <Card id="users" title={`Users (${totalUsers})`}>
      {users.length === 0 ? (
        <p class="muted">The directory has sent no users yet.</p>
      ) : (
        <Table
          label="Users"
          isStacked
          columns={[{ name: "User" }, { name: "Status" }]}
          rows={users.map(({ email, displayName, active, personId }) => [
            <span class="line">
              {email}
              {displayName === null ? null : <span class="type">{displayName}</span>}
            </span>,
            <Tag tone={active ? (personId === null ? undefined : "good") : "danger"}>
              {active ? (personId === null ? "Not signed in yet" : "Active") : "Deactivated"}
            </Tag>,
          ])}
        />
      )}
    </Card>
  );
}

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
