/** @jsxImportSource hono/jsx */
// Directory sync (SCIM) of a workspace: its URL and token, the roles of groups, and the users of the directory.

import type { Child } from "hono/jsx";
import { hasPermission, MEMBER_ROLES } from "../../accounts/members.ts";
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
import type { SessionUser } from "../../http/route.ts";
import { type Directory, FORMER_TOKEN_DAYS } from "../../scim/directory.ts";
import type { ScimGroup } from "../../scim/scim-group-rows.ts";
import type { ScimUser } from "../../scim/scim-user-rows.ts";
import { Confirm, ConfirmLink, withQuery } from "../confirm.tsx";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { DoneNotice } from "../done-notice.tsx";
import { ROLE_LABELS } from "../members/member-texts.ts";
import type { WorkspaceView } from "../require-access.ts";

export interface DirectoryListing {
  readonly directory: Directory | undefined;
  readonly groups: readonly ScimGroup[];
  readonly users: readonly ScimUser[];
  readonly totalUsers: number;
  /** The base URL for the directory. */
  readonly url: string;
}

export interface DirectorySyncPageProps extends WorkspaceView {
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

export function directorySyncPage(props: DirectorySyncPageProps): PageLayout {
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
                label="Disable"
                subject="directory sync"
              />
            )}
          </div>
          {directory === undefined ? null : (
            <p class="hint">
              The present token works for {FORMER_TOKEN_DAYS} more day after it is replaced.
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
          <label for="fallback-role">Role of people in no group with a role</label>
          <select id="fallback-role" name="fallback_role">
            {MEMBER_ROLES.map((role) => (
              <option value={role} selected={role === fallbackRole}>
                {ROLE_LABELS[role]}
              </option>
            ))}
          </select>
        </div>
        <div class="field">
          <label for="keys">Keys of people who leave</label>
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
