/** @jsxImportSource hono/jsx */
// The workspaces of a person, and their pending invitations.

import { utcDay } from "../../base/time.ts";
import type { Child } from "hono/jsx";
import type { Invitation } from "../../accounts/invitations.ts";
import type { Membership } from "../../accounts/members.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { SessionUser } from "../../http/route.ts";
import { HiddenFields, workspacePath, SignedInFooter } from "../console-layout.tsx";

export interface WorkspacesPageProps {
  readonly user: SessionUser;
  readonly workspaces: readonly Membership[];
  readonly invitations: readonly Invitation[];
}

export function workspacesPage(props: WorkspacesPageProps): PageLayout {
  return {
    title: "Your workspaces – Postern",
    isPrivate: true,
    main: (
      <>
        <h1>Your workspaces</h1>
        {props.invitations.map((invitation) => (
          <InvitationCard invitation={invitation} user={props.user} />
        ))}
        {props.workspaces.length === 0 ? (
          <NoWorkspaces />
        ) : (
          <WorkspaceList workspaces={props.workspaces} />
        )}
      </>
    ),
    footer: <SignedInFooter user={props.user} />,
  };
}

function NoWorkspaces(): Child {
  return (
    <p class="notice">
      You have no workspaces yet. You get one by claiming an account that an agent has opened: the
      agent sends you a link. To get started, give an agent the address of{" "}
      <a href="/auth.md">auth.md</a>.
    </p>
  );
}

function WorkspaceList({ workspaces }: { readonly workspaces: readonly Membership[] }): Child {
  return (
    <div class="scroll" role="region" aria-label="Workspaces" tabindex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">Workspace</th>
            <th scope="col">Role</th>
            <th scope="col">Member since</th>
          </tr>
        </thead>
        <tbody>
          {workspaces.map((workspace) => (
            <tr>
              <th scope="row">
                <a href={workspacePath(workspace.accountId, "")}>{workspace.accountId}</a>
              </th>
              <td>{workspace.role}</td>
              <td>{utcDay(workspace.addedAt)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function InvitationCard({
  invitation,
  user,
}: {
  readonly invitation: Invitation;
  readonly user: SessionUser;
}): Child {
  return (
    <section class="card" aria-labelledby={invitation.id}>
      <h2 id={invitation.id}>Invitation from {invitation.invitedBy}</h2>
      <p>
        You are invited to join the workspace <code>{invitation.accountId}</code> as a developer.
        Developers can see its usage and create keys that spend its balance. The invitation expires
        on {utcDay(invitation.expiresAt)}.
      </p>
      <form method="post" action="/console/invitations">
        <HiddenFields user={user} fields={{ invitation: invitation.id }} />
        <div class="actions">
          <button type="submit" name="answer" value="accept" aria-describedby={invitation.id}>
            Join workspace
          </button>
          <button
            type="submit"
            name="answer"
            value="decline"
            class="secondary"
            aria-describedby={invitation.id}
          >
            Decline
          </button>
        </div>
      </form>
    </section>
  );
}
