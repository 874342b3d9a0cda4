/** @jsxImportSource hono/jsx */
// Who belongs to a workspace. The owner invites, removes and hands over; a developer may leave.

import { dayOf } from "../base/day.ts";
import type { Child } from "hono/jsx";
import type { Invitation } from "../accounts/invitations.ts";
import { type Member, mayDo } from "../accounts/members.ts";
import type { PageFrame } from "../http/layout.tsx";
import type { Visitor } from "../http/route.ts";
import { consolePage, Hidden, pathOf } from "./frame.tsx";
import type { People, Place } from "./workspace.ts";

export interface MembersState {
  readonly visitor: Visitor;
  readonly place: Place;
  readonly people: People;
  readonly wrong?: string;
  /** The address that was typed into the form that was refused. */
  readonly typed?: string | undefined;
}

export function membersPage({ visitor, place, people, wrong, typed }: MembersState): PageFrame {
  const action = pathOf(place.accountId, "/members");
  return consolePage({
    title: "Members",
    place,
    visitor,
    page: "/members",
    main: (
      <>
        {wrong === undefined ? null : (
          <p class="wrong" role="alert">
            {wrong}
          </p>
        )}
        {people.members.map((member) => (
          <MemberCard member={member} action={action} visitor={visitor} place={place} />
        ))}
        {mayDo(place.role, "members.invite") ? (
          <Invite
            action={action}
            visitor={visitor}
            invitations={people.invitations}
            typed={typed}
          />
        ) : null}
        {mayDo(place.role, "workspace.leave") ? (
          <form method="post" action={action}>
            <Hidden visitor={visitor} fields={{ do: "leave" }} />
            <button type="submit" class="danger">
              Leave this workspace
            </button>
          </form>
        ) : (
          <p class="note">An owner leaves by handing the workspace over first.</p>
        )}
      </>
    ),
  });
}

interface MemberCardProps {
  readonly member: Member;
  readonly action: string;
  readonly visitor: Visitor;
  readonly place: Place;
}

function MemberCard({ member, action, visitor, place }: MemberCardProps): Child {
  const isOther = member.personId !== visitor.personId;
  return (
    <section class="card">
      <h2>{member.email}</h2>
      <p>
        {member.role === "owner" ? "Owner" : "Developer"} since {dayOf(member.addedAt)}
        {isOther ? "" : ", and you"}.
      </p>
      {isOther && mayDo(place.role, "members.remove") ? (
        <form method="post" action={action}>
          <Hidden visitor={visitor} fields={{ person: member.personId }} />
          <div class="choices">
            <button type="submit" name="do" value="hand_over" class="quiet">
              Hand the workspace over
            </button>
            <button type="submit" name="do" value="remove" class="danger">
              Remove
            </button>
          </div>
        </form>
      ) : null}
    </section>
  );
}

interface InviteProps {
  readonly action: string;
  readonly visitor: Visitor;
  readonly invitations: readonly Invitation[];
  readonly typed: string | undefined;
}

function Invite({ action, visitor, invitations, typed }: InviteProps): Child {
  return (
    <section class="card" aria-labelledby="invite">
      <h2 id="invite">Invite a developer</h2>
      <p>
        Nothing is mailed: tell them to sign in at /console with this address, and the invitation is
        there.
      </p>
      <form method="post" action={action}>
        <Hidden visitor={visitor} fields={{ do: "invite" }} />
        <label for="invite-email">Email address</label>
        <input id="invite-email" name="email" type="email" required value={typed} />
        <button type="submit">Invite</button>
      </form>
      {invitations.map((invitation) => (
        <form method="post" action={action}>
          <Hidden visitor={visitor} fields={{ do: "withdraw", invitation: invitation.id }} />
          <p>
            {invitation.email}, invited until {dayOf(invitation.expiresAt)}{" "}
            <button type="submit" class="quiet">
              Withdraw
            </button>
          </p>
        </form>
      ))}
    </section>
  );
}
