/** @jsxImportSource hono/jsx */
// The apps to which people gave a key of the workspace, with what each spent and when it was last used. All members
// see them; a revocation ends the key of one.

import type { Child } from "hono/jsx";
import { z } from "zod";
import { hasPermission } from "../../accounts/members.ts";
import { formatCosts } from "../../base/text/format.ts";
import { utcDay } from "../../base/time.ts";
import { EmptyState, UsageBar } from "../../http/pages/components/content.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { Route } from "../../http/route.ts";
import { type ActorNames, readActorNames } from "../../keys/actor-names.ts";
import type { Key } from "../../keys/key.ts";
import { listAppKeys } from "../../keys/keys.ts";
import { revokeKeyForMember } from "../../keys/member-keys.ts";
import { Confirm, ConfirmLink, withQuery } from "../confirm.tsx";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { DoneNotice, donePath, DoneQuery } from "../done-notice.tsx";
import { keyPath, LastUse } from "../keys/keys-page.tsx";
import type { ConsoleReadDeps, WorkspaceView } from "../require-access.ts";
import { workspaceForm, workspacePage } from "../workspace-routes.ts";

const PAGE = "/connected-apps";
const DONE_TEXTS = { revoked: "The app's key is revoked. Its requests are rejected." } as const;

interface ConnectedAppsPageProps extends WorkspaceView {
  readonly apps: readonly Key[];
  readonly people: ActorNames;
  /** The key whose revocation is to be confirmed. */
  readonly ask: string | undefined;
  readonly done: string | undefined;
}

function connectedAppsPage(props: ConnectedAppsPageProps): PageLayout {
  const { user, workspace, apps, ask, done } = props;
  const path = workspacePath(workspace.accountId, PAGE);
  const asked = apps.find(({ id }) => id === ask);
  return consolePage({
    title: "Connected apps",
    workspace,
    user,
    page: PAGE,
    actions: <a href="/docs/sign-in-with-postern">How apps connect</a>,
    main: (
      <>
        <DoneNotice texts={DONE_TEXTS} done={done} />
        {asked === undefined ? null : (
          <Confirm
            user={user}
            action={path}
            fields={{ key: asked.id }}
            confirmLabel="Revoke"
            cancelHref={path}
          >
            Revoke the key of <bdi>{asked.app}</bdi>? The app must be connected again to work.
          </Confirm>
        )}
        <div class="card">
          {apps.length === 0 ? (
            <EmptyState title="No connected apps">
              <p class="muted">
                Apps that offer “Sign in with Postern”, and MCP clients in which you sign in, appear
                here.
              </p>
            </EmptyState>
          ) : (
            <AppTable {...props} path={path} />
          )}
        </div>
      </>
    ),
  });
}

function AppTable({
  workspace: { accountId, role },
  apps,
  people,
  path,
}: ConnectedAppsPageProps & { readonly path: string }): Child {
  const canRevoke = hasPermission(role, "keys.revoke");
  const spends = formatCosts(apps.map(({ spent }) => spent));
  return (
    <Table
      label="Connected apps"
      isStacked
      columns={[
        { name: "App" },
        { name: "Spend and limit" },
        { name: "Models" },
        { name: "Connected by" },
        { name: "Last used" },
        { name: "Expires", isDate: true },
        { name: "Actions" },
      ]}
      rows={apps.map((key, index) => [
        <a class="line" href={keyPath(accountId, key.id)} title={key.id}>
          <bdi>{key.app}</bdi>
        </a>,
        <Spend apiKey={key} spend={spends[index]} />,
        <span class="line">{key.policy.models?.join(", ") ?? "all"}</span>,
        <span class="line">{people.get(key.createdBy ?? "") ?? "–"}</span>,
        <LastUse apiKey={key} />,
        key.expiresAt === null ? "never" : utcDay(key.expiresAt - 1),
        canRevoke ? (
          <ConfirmLink
            href={withQuery(path, { ask: key.id })}
            label="Revoke"
            subject={key.app ?? ""}
          />
        ) : (
          "–"
        ),
      ])}
    />
  );
}

function Spend({
  apiKey: { spent, limit },
  spend,
}: {
  readonly apiKey: Key;
  readonly spend: string | undefined;
}): Child {
  return (
    <>
      {limit === null ? null : <UsageBar label="Limit" used={spent} limit={limit} />}
      {spend}
    </>
  );
}

const PATH = "/console/{account}/connected-apps";

export function connectedAppRoutes(deps: ConsoleReadDeps): readonly Route[] {
  return [listRoute(deps), revokeRoute(deps)];
}

function listRoute(deps: ConsoleReadDeps): Route {
  return workspacePage(deps, {
    path: PATH,
    id: "showConnectedApps",
    summary: "List the connected apps of a workspace",
    query: z.object({ ...DoneQuery, ask: z.string().max(100).optional() }),
    permission: "keys.read",
    run: async ({ view, account, query: { ask, done }, now }) => {
      const apps = await listAppKeys(deps.db, account, now);
      const people = await readActorNames(
        deps.db,
        account,
        apps.map(({ createdBy }) => createdBy),
      );
      return connectedAppsPage({ ...view, apps, people, ask, done });
    },
  });
}

function revokeRoute(deps: ConsoleReadDeps): Route {
  return workspaceForm(deps, {
    path: PATH,
    id: "revokeConnectedApp",
    summary: "Revoke the key of a connected app",
    body: z.object({ key: z.string().max(100) }),
    requestExample: { key: "key_01kah5t3mq7d2c9w4e6r8t0yax" },
    permission: "keys.revoke",
    write: (tx, { act, body: { key } }) => revokeKeyForMember(tx, act, key),
    done: ({ account }) => donePath(workspacePath(account, "/connected-apps"), "revoked"),
  });
}
