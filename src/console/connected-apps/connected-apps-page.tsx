/** @jsxImportSource hono/jsx */
// The apps to which people gave a key of the workspace, with what each spent and when it was last used.

import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import { formatCosts } from "../../base/text/format.ts";
import { utcDay } from "../../base/time.ts";
import { Card, EmptyState, UsageBar } from "../../http/pages/components/content.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { ActorNames } from "../../keys/actor-names.ts";
import type { Key } from "../../keys/key.ts";
import { Confirm, ConfirmLink, withQuery } from "../confirm.tsx";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { DoneNotice } from "../done-notice.tsx";
import { keyPath, LastUse } from "../keys/keys-page.tsx";
import type { WorkspaceView } from "../require-access.ts";

const PAGE = "/connected-apps";
const DONE_TEXTS = { revoked: "The app's key is revoked. Its requests are rejected." } as const;

export interface ConnectedAppsPageProps extends WorkspaceView {
  readonly apps: readonly Key[];
  readonly people: ActorNames;
  /** The key whose revocation is to be confirmed. */
  readonly ask: string | undefined;
  readonly done: string | undefined;
}

export function connectedAppsPage(props: ConnectedAppsPageProps): PageLayout {
  const { user, workspace, apps, ask, done } = props;
  const path = workspacePath(workspace.accountId, PAGE);
  const asked = apps.find(({ id }) => id === ask);
  return consolePage({
    title: "Connected apps",
    workspace,
    user,
    page: PAGE,
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
        <Card
          id="apps"
          title="Apps"
          aside={<a href="/docs/sign-in-with-postern">How apps connect</a>}
        >
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
        </Card>
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
