/** @jsxImportSource hono/jsx */
// The door of the console: the workspaces of a person, and the invitations that wait for them.

import { dayOf } from "../base/day.ts";
import type { Child } from "hono/jsx";
import type { Invitation } from "../accounts/invitations.ts";
import type { Membership } from "../accounts/members.ts";
import type { PageFrame } from "../http/layout.tsx";
import type { Visitor } from "../http/route.ts";
import { Hidden, pathOf, SignedIn } from "./frame.tsx";

export interface HomeState {
  readonly visitor: Visitor;
  readonly workspaces: readonly Membership[];
  readonly invitations: readonly Invitation[];
}

export function homePage(state: HomeState): PageFrame {
  return {
    title: "Your workspaces – Postern",
    isPrivate: true,
    main: (
      <>
        <h1>Your workspaces</h1>
        {state.invitations.map((invitation) => (
          <InvitationCard invitation={invitation} visitor={state.visitor} />
        ))}
        {state.workspaces.length === 0 ? <Nothing /> : <Workspaces workspaces={state.workspaces} />}
      </>
    ),
    foot: <SignedIn visitor={state.visitor} />,
  };
}

function Nothing(): Child {
  return (
    <p class="notice">
      You have no workspace yet. An agent opens an account by itself and sends you a link to take it
      over; what an agent needs to know is in <a href="/auth.md">/auth.md</a>.
    </p>
  );
}

function Workspaces({ workspaces }: { readonly workspaces: readonly Membership[] }): Child {
  return (
    <div class="scroll" role="region" aria-label="Workspaces" tabindex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">Workspace</th>
            <th scope="col">Your role</th>
            <th scope="col">Since</th>
          </tr>
        </thead>
        <tbody>
          {workspaces.map((workspace) => (
            <tr>
              <th scope="row">
                <a href={pathOf(workspace.accountId, "")}>{workspace.accountId}</a>
              </th>
              <td>{workspace.role}</td>
              <td>{dayOf(workspace.addedAt)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function InvitationCard({
  invitation,
  visitor,
}: {
  readonly invitation: Invitation;
  readonly visitor: Visitor;
}): Child {
  return (
    <section class="card" aria-labelledby={invitation.id}>
      <h2 id={invitation.id}>{invitation.invitedBy} invites you</h2>
      <p>
        You would join the workspace <code>{invitation.accountId}</code> as a developer: you could
        see its usage and make keys that spend its balance. The invitation stands until{" "}
        {dayOf(invitation.expiresAt)}.
      </p>
      <form method="post" action="/console/invitations">
        <Hidden visitor={visitor} fields={{ invitation: invitation.id }} />
        <div class="choices">
          <button type="submit" name="answer" value="accept" aria-describedby={invitation.id}>
            Join the workspace
          </button>
          <button
            type="submit"
            name="answer"
            value="decline"
            class="quiet"
            aria-describedby={invitation.id}
          >
            Decline
          </button>
        </div>
      </form>
    </section>
  );
}
