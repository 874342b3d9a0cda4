/** @jsxImportSource hono/jsx */
// Who belongs to a workspace. The owner invites, removes and hands over; a developer may leave.

import { dayOf } from "../base/day.ts";
import type { Child } from "hono/jsx";
import type { Invitation } from "../accounts/invitations.ts";
import { type Member, mayDo } from "../accounts/members.ts";
import type { PageFrame } from "../http/layout.tsx";
import type { Visitor } from "../http/route.ts";
import { AskingLink, Question, withQuery } from "./ask-first.tsx";
import { consolePage, Hidden, pathOf } from "./frame.tsx";
import type { People, Place } from "./workspace.ts";

/** What the page asks about once more. */
export const QUESTIONS = ["hand_over", "remove", "leave"] as const;

interface Asked {
  readonly ask?: (typeof QUESTIONS)[number] | undefined;
  /** Whom it is about. */
  readonly person?: string | undefined;
}

export interface MembersState {
  readonly visitor: Visitor;
  readonly place: Place;
  readonly people: People;
  readonly question?: Asked;
  readonly wrong?: string;
  /** The address that was typed into the form that was refused. */
  readonly typed?: string | undefined;
}

/** The page, from a member on where there are too many for one, and with a question where it asks one. */
export function membersPath(
  accountId: string,
  { from, ask, person }: Asked & { readonly from?: string | undefined },
): string {
  return withQuery(pathOf(accountId, "/members"), { from, ask, person });
}

export function membersPage(state: MembersState): PageFrame {
  const { visitor, place, people, wrong } = state;
  const { from, next } = people;
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
        {mayDo(place.role, "members.invite") ? <Invite {...state} /> : null}
        {people.members.map((member) => (
          <MemberCard member={member} state={state} />
        ))}
        {next === undefined && from === undefined ? null : (
          <p>
            {next === undefined ? (
              <a href={membersPath(place.accountId, {})}>The first members</a>
            ) : (
              <a href={membersPath(place.accountId, { from: next })}>More members</a>
            )}
          </p>
        )}
        {mayDo(place.role, "workspace.leave") ? (
          <Leave {...state} />
        ) : (
          <p class="note">An owner leaves by handing the workspace over first.</p>
        )}
      </>
    ),
  });
}

interface MemberCardProps {
  readonly member: Member;
  readonly state: MembersState;
}

function MemberCard({ member, state }: MemberCardProps): Child {
  const { visitor, place, people, question } = state;
  const { personId, email } = member;
  const isOther = personId !== visitor.personId;
  const asking = (ask: "hand_over" | "remove"): string =>
    membersPath(place.accountId, { from: people.from, ask, person: personId });
  const isAsked = question?.person === personId && question.ask !== "leave";
  return (
    <section class="card" aria-labelledby={personId}>
      <h2 id={personId}>{email}</h2>
      <p>
        {member.role === "owner" ? "Owner" : "Developer"} since {dayOf(member.addedAt)}
        {isOther ? "" : ", and you"}.
      </p>
      {!isOther || !mayDo(place.role, "members.remove") ? null : isAsked ? (
        <AskOfMember member={member} state={state} />
      ) : (
        <div class="choices">
          <AskingLink
            href={asking("hand_over")}
            label="Hand the workspace over"
            of={`to ${email}`}
            kind="quiet"
          />
          <AskingLink href={asking("remove")} label="Remove" of={email} />
        </div>
      )}
    </section>
  );
}

function AskOfMember({ member, state }: MemberCardProps): Child {
  const { visitor, place, people, question } = state;
  const { personId, email } = member;
  const { from } = people;
  const common = {
    visitor,
    action: pathOf(place.accountId, "/members"),
    back: membersPath(place.accountId, { from }),
  };
  return question?.ask === "hand_over" ? (
    <Question
      {...common}
      fields={{ do: "hand_over", person: personId }}
      yes="Hand it over"
      no="Keep the workspace"
    >
      Hand the workspace over to {email}? You become a developer in it, and only they can hand it
      back. A saved payment method is removed, and auto top-up is turned off.
    </Question>
  ) : (
    <Question
      {...common}
      fields={{ do: "remove", person: personId, ...(from === undefined ? {} : { from }) }}
      yes="Remove the member"
      no="Keep them"
    >
      Remove {email} from this workspace? They see none of its pages from that moment on, and come
      back by an invitation alone. Keys that they have made go on working: revoke those that should
      not.
    </Question>
  );
}

function Leave({ visitor, place, people, question }: MembersState): Child {
  const { from } = people;
  return (
    <section class="card" aria-labelledby="leave">
      <h2 id="leave">Leave this workspace</h2>
      {question?.ask === "leave" ? (
        <Question
          visitor={visitor}
          action={pathOf(place.accountId, "/members")}
          fields={{ do: "leave" }}
          yes="Leave it"
          no="Stay"
          back={membersPath(place.accountId, { from })}
        >
          Leave this workspace for good? You see none of its pages from that moment on, and come
          back by the owner's invitation alone.
        </Question>
      ) : (
        <div class="choices">
          <AskingLink
            href={membersPath(place.accountId, { from, ask: "leave" })}
            label="Leave"
            of="this workspace"
          />
        </div>
      )}
    </section>
  );
}

function Invite({ visitor, place, people, typed }: MembersState): Child {
  const action = pathOf(place.accountId, "/members");
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
        <div class="choices">
          <button type="submit">Invite</button>
        </div>
      </form>
      {people.invitations.map((invitation) => (
        <Invited invitation={invitation} action={action} visitor={visitor} />
      ))}
    </section>
  );
}

interface InvitedProps {
  readonly invitation: Invitation;
  readonly action: string;
  readonly visitor: Visitor;
}

function Invited({ invitation, action, visitor }: InvitedProps): Child {
  return (
    <form method="post" action={action}>
      <Hidden visitor={visitor} fields={{ do: "withdraw", invitation: invitation.id }} />
      <p>
        {invitation.email}, invited until {dayOf(invitation.expiresAt)}{" "}
        <button type="submit" class="quiet">
          Withdraw <span class="visually-hidden">the invitation of {invitation.email}</span>
        </button>
      </p>
    </form>
  );
}
