/** @jsxImportSource hono/jsx */
// The members of a workspace and their invitations.

import { utcDay } from "../../base/time.ts";
import type { Child } from "hono/jsx";
import type { Invitation } from "../../accounts/invitations.ts";
import {
  type Member,
  type MemberRole,
  hasPermission,
  MEMBER_ROLES,
  type Role,
} from "../../accounts/members.ts";
import { formatUsd } from "../../base/format.ts";
import { usdText } from "../../base/money.ts";
import { LIMIT_WINDOWS } from "../../base/spend-window.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { SessionUser } from "../../http/route.ts";
import { Field } from "../../http/pages/components/form.tsx";
import { ConfirmLink, Confirm, withQuery } from "../confirm.tsx";
import { consolePage, HiddenFields, workspacePath } from "../console-layout.tsx";
import type { WorkspaceContext } from "../authorize.ts";
import type { MemberListing } from "./read-members.ts";

/** The actions that need confirmation. */
export const CONFIRMATIONS = ["change", "hand_over", "remove", "leave"] as const;

interface ConfirmQuery {
  readonly ask?: (typeof CONFIRMATIONS)[number] | undefined;
  /** The member that the action applies to. */
  readonly person?: string | undefined;
}

export interface MembersPageProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly listing: MemberListing;
  readonly confirm?: ConfirmQuery;
  readonly errorMessage?: string;
  /** A rejected invitation. */
  readonly inviteForm?: InviteFormValues | undefined;
}

export interface InviteFormValues {
  readonly email: string;
  readonly role: MemberRole;
  readonly error: string;
}

/** The path of the page that begins with the given member and asks for the given confirmation. */
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
              <a href={membersPath(workspace.accountId, {})}>First members</a>
            ) : (
              <a href={membersPath(workspace.accountId, { from: next })}>More members</a>
            )}
          </p>
        )}
        {hasPermission(workspace.role, "workspace.leave") ? (
          <LeaveWorkspaceCard {...props} />
        ) : (
          <p class="note">To leave this workspace, first transfer ownership.</p>
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
  const confirmHref = (ask: "change" | "hand_over" | "remove"): string =>
    membersPath(workspace.accountId, { from: listing.from, ask, person: personId });
  const isConfirming = confirm?.person === personId && confirm.ask !== "leave";
  return (
    <section class="card" aria-labelledby={personId}>
      <h2 id={personId}>{email}</h2>
      <p>
        {ROLE_LABELS[member.role]} since {utcDay(member.addedAt)}
        {isOther ? "" : " (you)"}
      </p>
      {member.role === "developer" ? <p>{allowanceText(member)}</p> : null}
      {!isOther || !canRemove(workspace.role, member.role) ? null : isConfirming ? (
        <ConfirmMemberAction member={member} page={page} />
      ) : (
        <div class="actions">
          {hasPermission(workspace.role, "members.change") ? (
            <ConfirmLink
              href={confirmHref("change")}
              label="Change role"
              subject={`of ${email}`}
              kind="secondary"
            />
          ) : null}
          {hasPermission(workspace.role, "workspace.transfer") ? (
            <ConfirmLink
              href={confirmHref("hand_over")}
              label="Transfer ownership"
              subject={`to ${email}`}
              kind="secondary"
            />
          ) : null}
          <ConfirmLink href={confirmHref("remove")} label="Remove" subject={email} />
        </div>
      )}
    </section>
  );
}

const ROLE_LABELS: Readonly<Record<Role, string>> = {
  owner: "Owner",
  admin: "Admin",
  developer: "Developer",
  billing: "Billing",
  viewer: "Viewer",
};

const ROLE_TEXTS: Readonly<Record<MemberRole, string>> = {
  admin: "manages keys, members, budgets and webhooks",
  developer: "creates keys within an allowance",
  billing: "buys credits and sets budgets",
  viewer: "sees everything, changes nothing",
};

function canRemove(role: Role, removed: Role): boolean {
  return role === "owner" || (hasPermission(role, "members.remove") && MANAGED.has(removed));
}

/** The roles that an admin can remove. */
const MANAGED: ReadonlySet<Role> = new Set(["developer", "billing", "viewer"]);

function allowanceText({ allowance, via }: Member): string {
  if (allowance !== undefined)
    return `Allowance for keys: ${formatUsd(allowance.limit)}${allowance.window === null ? "" : ` per ${allowance.window}`}`;
  return via.startsWith("claim_")
    ? "No allowance: creates keys only from the limit of the key that invited this person, if it has one."
    : "No allowance: cannot create keys.";
}

function ChangeMemberForm({ member, page }: MemberCardProps): Child {
  const { user, workspace, listing } = page;
  const { personId, role, allowance } = member;
  const { from } = listing;
  const fields = { do: "change", person: personId, ...(from === undefined ? {} : { from }) };
  return (
    <form method="post" action={workspacePath(workspace.accountId, "/members")}>
      <HiddenFields user={user} fields={fields} />
      <label for={`${personId}-role`}>Role</label>
      <select id={`${personId}-role`} name="role">
        {MEMBER_ROLES.map((option) => (
          <option value={option} selected={option === role}>
            {ROLE_LABELS[option]}
          </option>
        ))}
      </select>
      <label for={`${personId}-allowance`}>Allowance of a developer (USD, optional)</label>
      <input
        id={`${personId}-allowance`}
        name="allowance_usd"
        inputmode="decimal"
        pattern="[0-9]{1,7}([.][0-9]{1,9})?"
        value={allowance === undefined ? undefined : usdText(allowance.limit)}
      />
      <label for={`${personId}-window`}>Resets</label>
      <select id={`${personId}-window`} name="allowance_window">
        <option value="">never</option>
        {LIMIT_WINDOWS.map((option) => (
          <option value={option} selected={option === allowance?.window}>
            every {option}
          </option>
        ))}
      </select>
      <div class="actions">
        <button type="submit" class="secondary">
          Save <span class="visually-hidden">role and allowance of {member.email}</span>
        </button>
      </div>
    </form>
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
  if (confirm?.ask === "change") return <ChangeMemberForm member={member} page={page} />;
  return confirm?.ask === "hand_over" ? (
    <Confirm
      {...common}
      fields={{ do: "hand_over", person: personId }}
      confirmLabel="Transfer ownership"
    >
      Transfer ownership of this workspace to {email}? You become a developer, and only {email} can
      transfer it back. The saved payment method is removed, and auto top-up is turned off.
    </Confirm>
  ) : (
    <Confirm
      {...common}
      fields={{ do: "remove", person: personId, ...(from === undefined ? {} : { from }) }}
      confirmLabel="Remove member and revoke keys"
    >
      Remove {email} from this workspace? They lose access immediately and need an invitation to
      come back. The keys that they created are revoked.
    </Confirm>
  );
}

function LeaveWorkspaceCard({ user, workspace, listing, confirm }: MembersPageProps): Child {
  const { from } = listing;
  return (
    <section class="card" aria-labelledby="leave">
      <h2 id="leave">Leave workspace</h2>
      {confirm?.ask === "leave" ? (
        <Confirm
          user={user}
          action={workspacePath(workspace.accountId, "/members")}
          fields={{ do: "leave" }}
          confirmLabel="Leave workspace"
          cancelHref={membersPath(workspace.accountId, { from })}
        >
          Leave this workspace? You lose access immediately and need an invitation from the owner to
          come back.
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

function InviteForm({ user, workspace, listing, inviteForm }: MembersPageProps): Child {
  const action = workspacePath(workspace.accountId, "/members");
  return (
    <section class="card" aria-labelledby="invite">
      <h2 id="invite">Invite a person</h2>
      <p>
        The person signs in at <code>/console</code> with this address and finds the invitation
        there. They also get an email, if this gateway sends emails.
      </p>
      <form method="post" action={action}>
        <HiddenFields user={user} fields={{ do: "invite" }} />
        <Field
          id="invite-email"
          name="email"
          type="email"
          label="Email address"
          value={inviteForm?.email}
          error={inviteForm?.error}
          isRequired
        />
        <label for="invite-role">Role</label>
        <select id="invite-role" name="role">
          {MEMBER_ROLES.filter((role) => role !== "admin" || workspace.role === "owner").map(
            (role) => (
              <option value={role} selected={role === (inviteForm?.role ?? "developer")}>
                {ROLE_LABELS[role]}: {ROLE_TEXTS[role]}
              </option>
            ),
          )}
        </select>
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
        {invitation.email} · {ROLE_LABELS[invitation.role]} · Expires {utcDay(invitation.expiresAt)}{" "}
        <button type="submit" class="secondary">
          Withdraw <span class="visually-hidden">the invitation of {invitation.email}</span>
        </button>
      </p>
    </form>
  );
}
