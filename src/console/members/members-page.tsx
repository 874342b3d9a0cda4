/** @jsxImportSource hono/jsx */
// Who belongs to a workspace. The owner invites, removes and hands over; a developer may leave.

import { utcDay } from "../../base/time.ts";
import type { Child } from "hono/jsx";
import type { Invitation } from "../../accounts/invitations.ts";
import { type Member, hasPermission } from "../../accounts/members.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { SessionUser } from "../../http/route.ts";
import { ConfirmLink, Confirm, withQuery } from "../confirm.tsx";
import { consolePage, HiddenFields, workspacePath } from "../console-layout.tsx";
import type { WorkspaceContext } from "../authorize.ts";
import type { MemberListing } from "./read-members.ts";

/** What the page asks about once more. */
export const CONFIRMATIONS = ["hand_over", "remove", "leave"] as const;

interface ConfirmQuery {
  readonly ask?: (typeof CONFIRMATIONS)[number] | undefined;
  /** Whom it is about. */
  readonly person?: string | undefined;
}

export interface MembersPageProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly listing: MemberListing;
  readonly confirm?: ConfirmQuery;
  readonly errorMessage?: string;
  /** The address that was typed into the form that was refused. */
  readonly formValues?: string | undefined;
}

/** The page, from a member on where there are too many for one, and with a question where it asks one. */
export function membersPath(
  accountId: string,
  { from, ask, person }: ConfirmQuery & { readonly from?: string | undefined },
): string {
  return withQuery(workspacePath(accountId, "/members"), { from, ask, person });
}

export function membersPage(props: MembersPageProps): PageLayout {
  const { user, workspace, listing, errorMessage } = props;
  const { from, next } = listing;
  return consolePage({
    title: "Members",
    workspace,
    user,
    page: "/members",
    main: (
      <>
        {errorMessage === undefined ? null : (
          <p class="error" role="alert">
            {errorMessage}
          </p>
        )}
        {hasPermission(workspace.role, "members.invite") ? <InviteForm {...props} /> : null}
        {listing.members.map((member) => (
          <MemberCard member={member} page={props} />
        ))}
        {next === undefined && from === undefined ? null : (
          <p>
            {next === undefined ? (
              <a href={membersPath(workspace.accountId, {})}>The first members</a>
            ) : (
              <a href={membersPath(workspace.accountId, { from: next })}>More members</a>
            )}
          </p>
        )}
        {hasPermission(workspace.role, "workspace.leave") ? (
          <LeaveWorkspaceCard {...props} />
        ) : (
          <p class="note">An owner leaves by handing the workspace over first.</p>
        )}
      </>
    ),
  });
}

interface MemberCardProps {
  readonly member: Member;
  readonly page: MembersPageProps;
}

function MemberCard({ member, page }: MemberCardProps): Child {
  const { user, workspace, listing, confirm } = page;
  const { personId, email } = member;
  const isOther = personId !== user.personId;
  const confirmHref = (ask: "hand_over" | "remove"): string =>
    membersPath(workspace.accountId, { from: listing.from, ask, person: personId });
  const isConfirming = confirm?.person === personId && confirm.ask !== "leave";
  return (
    <section class="card" aria-labelledby={personId}>
      <h2 id={personId}>{email}</h2>
      <p>
        {member.role === "owner" ? "Owner" : "Developer"} since {utcDay(member.addedAt)}
        {isOther ? "" : ", and you"}.
      </p>
      {!isOther || !hasPermission(workspace.role, "members.remove") ? null : isConfirming ? (
        <ConfirmMemberAction member={member} page={page} />
      ) : (
        <div class="actions">
          <ConfirmLink
            href={confirmHref("hand_over")}
            label="Hand the workspace over"
            subject={`to ${email}`}
            kind="secondary"
          />
          <ConfirmLink href={confirmHref("remove")} label="Remove" subject={email} />
        </div>
      )}
    </section>
  );
}

function ConfirmMemberAction({ member, page }: MemberCardProps): Child {
  const { user, workspace, listing, confirm } = page;
  const { personId, email } = member;
  const { from } = listing;
  const common = {
    user,
    action: workspacePath(workspace.accountId, "/members"),
    cancelHref: membersPath(workspace.accountId, { from }),
  };
  return confirm?.ask === "hand_over" ? (
    <Confirm
      {...common}
      fields={{ do: "hand_over", person: personId }}
      confirmLabel="Hand it over"
      cancelLabel="Keep the workspace"
    >
      Hand the workspace over to {email}? You become a developer in it, and only they can hand it
      back. A saved payment method is removed, and auto top-up is turned off.
    </Confirm>
  ) : (
    <Confirm
      {...common}
      fields={{ do: "remove", person: personId, ...(from === undefined ? {} : { from }) }}
      confirmLabel="Remove the member"
      cancelLabel="Keep them"
    >
      Remove {email} from this workspace? They see none of its pages from that moment on, and come
      back by an invitation alone. Keys that they have made go on working: revoke those that should
      not.
    </Confirm>
  );
}

function LeaveWorkspaceCard({ user, workspace, listing, confirm }: MembersPageProps): Child {
  const { from } = listing;
  return (
    <section class="card" aria-labelledby="leave">
      <h2 id="leave">Leave this workspace</h2>
      {confirm?.ask === "leave" ? (
        <Confirm
          user={user}
          action={workspacePath(workspace.accountId, "/members")}
          fields={{ do: "leave" }}
          confirmLabel="Leave it"
          cancelLabel="Stay"
          cancelHref={membersPath(workspace.accountId, { from })}
        >
          Leave this workspace for good? You see none of its pages from that moment on, and come
          back by the owner's invitation alone.
        </Confirm>
      ) : (
        <div class="actions">
          <ConfirmLink
            href={membersPath(workspace.accountId, { from, ask: "leave" })}
            label="Leave"
            subject="this workspace"
          />
        </div>
      )}
    </section>
  );
}

function InviteForm({ user, workspace, listing, formValues }: MembersPageProps): Child {
  const action = workspacePath(workspace.accountId, "/members");
  return (
    <section class="card" aria-labelledby="invite">
      <h2 id="invite">Invite a developer</h2>
      <p>
        Nothing is mailed: tell them to sign in at /console with this address, and the invitation is
        there.
      </p>
      <form method="post" action={action}>
        <HiddenFields user={user} fields={{ do: "invite" }} />
        <label for="invite-email">Email address</label>
        <input id="invite-email" name="email" type="email" required value={formValues} />
        <div class="actions">
          <button type="submit">Invite</button>
        </div>
      </form>
      {listing.invitations.map((invitation) => (
        <InvitationRow invitation={invitation} action={action} user={user} />
      ))}
    </section>
  );
}

interface InvitationRowProps {
  readonly invitation: Invitation;
  readonly action: string;
  readonly user: SessionUser;
}

function InvitationRow({ invitation, action, user }: InvitationRowProps): Child {
  return (
    <form method="post" action={action}>
      <HiddenFields user={user} fields={{ do: "withdraw", invitation: invitation.id }} />
      <p>
        {invitation.email}, invited until {utcDay(invitation.expiresAt)}{" "}
        <button type="submit" class="secondary">
          Withdraw <span class="visually-hidden">the invitation of {invitation.email}</span>
        </button>
      </p>
    </form>
  );
}
