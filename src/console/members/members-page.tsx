/** @jsxImportSource hono/jsx */
// The members of a workspace and their invitations.

import type { Child } from "hono/jsx";
import { type Member, hasPermission } from "../../accounts/members.ts";
import { utcDay } from "../../base/time.ts";
import { Card, Notice, Tag } from "../../http/pages/components/content.tsx";
import { ErrorMessage, PostForm } from "../../http/pages/components/form.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { ConfirmLink, Confirm, CONFIRM_ID, withQuery } from "../confirm.tsx";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { DoneNotice } from "../done-notice.tsx";
import type { WorkspaceView } from "../require-access.ts";
import {
  ChangeMemberCard,
  InviteForm,
  type RejectedMemberForm,
  RemoveConfirmation,
  TransferConfirmation,
} from "./member-forms.tsx";
import {
  allowanceText,
  canRemove,
  memberName,
  ROLE_LABELS,
  withoutAllowance,
} from "./member-texts.ts";
import type { MemberListing } from "./read-members.ts";

/** The actions that need confirmation or a form. */
export const CONFIRMATIONS = ["change", "hand_over", "remove", "leave"] as const;

interface ConfirmQuery {
  readonly ask?: (typeof CONFIRMATIONS)[number] | undefined;
  /** The member that the action applies to. */
  readonly person?: string | undefined;
}

export interface MembersPageProps extends WorkspaceView {
  readonly listing: MemberListing;
  readonly confirm?: ConfirmQuery;
  readonly done?: string | undefined;
  readonly rejected?: RejectedMemberForm;
  /** The URL of the gateway, for the links of invitations. */
  readonly baseUrl: string;
}

const MEMBER_DONE_TEXTS = {
  invite: "The invitation is created. Send the person its link, which is in the list below.",
  resend: "The invitation is sent again, and its link works for another 14 days.",
  withdraw: "The invitation is withdrawn.",
  remove: "The member is removed, and the keys that they created are revoked.",
  change: "The role and the allowance are saved.",
  hand_over: "The ownership is transferred.",
} as const;

/** The path of the page that begins with the given member and asks for the given confirmation. */
export function membersPath(
  accountId: string,
  {
    from,
    ask,
    person,
    done,
  }: ConfirmQuery & { readonly from?: string | undefined; readonly done?: string },
): string {
  return withQuery(workspacePath(accountId, "/members"), { from, ask, person, done });
}

const SHORT_LIST_MAX = 8;

export function membersPage(props: MembersPageProps): PageLayout {
  const { user, workspace, listing, rejected } = props;
  const { accountId, role } = workspace;
  const canInvite = hasPermission(role, "members.invite");
  const isOwnError = rejected?.values.do === "invite" || rejected?.values.do === "change";
  return consolePage({
    title: "Members",
    workspace,
    user,
    page: "/members",
    // The form is in sight below a short list.
    actions:
      canInvite && listing.members.length > SHORT_LIST_MAX ? (
        <a class="button secondary" href="#invite">
          Invite
        </a>
      ) : undefined,
    main: (
      <>
        <ErrorMessage message={isOwnError ? undefined : rejected?.error.message} />
        <DoneNotice texts={MEMBER_DONE_TEXTS} done={props.done} />
        {listing.newMembers
          .filter((member) => member.personId !== user.personId && canRemove(role, member.role))
          .map((member) => (
            <NewMemberNotice {...props} member={member} />
          ))}
        {hasPermission(role, "members.change")
          ? listing.allowanceRequests.map((member) => (
              <Notice
                tone="warn"
                link={{
                  href: `${membersPath(accountId, { ask: "change", person: member.personId })}#${CONFIRM_ID}`,
                  label: "Set allowance",
                }}
              >
                <b>{member.email}</b> asks for an allowance, to create keys.
              </Notice>
            ))
          : null}
        <ActionCard {...props} />
        <div class="card">
          <Table
            label="Members"
            isStacked
            columns={[
              { name: "Member" },
              { name: "Role" },
              { name: "Joined", isDate: true },
              { name: "Allowance", isNumber: true },
              { name: "Actions", isNumber: true },
            ]}
            rows={listing.members.map((member) => memberCells(member, props))}
          />
          <PageLinks accountId={accountId} listing={listing} />
        </div>
        {canInvite && listing.invitations.length > 0 ? <Invitations {...props} /> : null}
        {canInvite && props.confirm?.ask !== "change" ? <InviteForm {...props} /> : null}
        <LeaveWorkspaceCard {...props} />
      </>
    ),
  });
}

/** Removes the person with one click: one who joined by mistake or with a stolen key must not stay for long. */
function NewMemberNotice({
  user,
  workspace,
  member,
}: MembersPageProps & { readonly member: Member }): Child {
  const { personId, email, role, addedAt, viaKeyId } = member;
  return (
    <PostForm
      class="notice row"
      user={user}
      action={workspacePath(workspace.accountId, "/members")}
      fields={{ do: "remove", person: personId }}
    >
      <span>
        <b>{email}</b> joined on <span class="date">{utcDay(addedAt)}</span> as {ROLE_LABELS[role]}
        {viaKeyId !== null ? ", by a claim that an agent started" : ""}.
      </span>
      <button type="submit" class="danger small">
        Remove <span class="visually-hidden">{email} now</span>
      </button>
    </PostForm>
  );
}

/** The form or the confirmation that the query asks for. */
function ActionCard(props: MembersPageProps): Child {
  const { user, workspace, listing, confirm, rejected } = props;
  const member = listing.members.find(({ personId }) => personId === confirm?.person);
  if (member === undefined || member.personId === user.personId) return null;
  if (!canRemove(workspace.role, member.role)) return null;
  const { from } = listing;
  const cancelHref = membersPath(workspace.accountId, { from });
  const form = { user, workspace, member, from, cancelHref };
  switch (confirm?.ask) {
    case "change":
      return <ChangeMemberCard {...form} rejected={rejected} />;
    case "hand_over":
      return <TransferConfirmation {...form} />;
    case "remove":
      return <RemoveConfirmation {...form} />;
    case "leave":
    case undefined:
      return null;
  }
}

function memberCells(member: Member, props: MembersPageProps): readonly Child[] {
  const { user } = props;
  const { personId, email, name, role, addedAt } = member;
  return [
    <span class="line" id={personId} title={personId}>
      <bdi>{memberName(member)}</bdi>
      {personId === user.personId ? " (you)" : ""}
      {name === null ? null : <span class="type">{email}</span>}
    </span>,
    <Tag tone={role === "owner" ? "good" : undefined}>{ROLE_LABELS[role]}</Tag>,
    utcDay(addedAt),
    <span
      title={
        role === "developer" && member.allowance === undefined
          ? withoutAllowance(member)
          : undefined
      }
    >
      {allowanceText(member)}
    </span>,
    <MemberActions {...props} member={member} />,
  ];
}

function MemberActions({
  user,
  workspace: { accountId, role },
  listing: { from },
  member: { personId, email, role: memberRole },
}: MembersPageProps & { readonly member: Member }): Child {
  if (personId === user.personId || !canRemove(role, memberRole)) return null;
  const actions = [
    ["change", "members.change", "Change", email],
    ["hand_over", "workspace.transfer", "Make owner", email],
    ["remove", "members.remove", "Remove", email],
  ] as const;
  return (
    <div class="row-actions">
      {actions
        .filter(([, permission]) => hasPermission(role, permission))
        .map(([ask, , label, subject]) => (
          <a href={`${membersPath(accountId, { from, ask, person: personId })}#${CONFIRM_ID}`}>
            {label} <span class="visually-hidden">{subject}</span>
          </a>
        ))}
    </div>
  );
}

function PageLinks({
  accountId,
  listing: { from, next },
}: {
  readonly accountId: string;
  readonly listing: MemberListing;
}): Child {
  if (next === undefined && from === undefined) return null;
  return (
    <p>
      {next === undefined ? (
        <a href={membersPath(accountId, {})}>First members</a>
      ) : (
        <a href={membersPath(accountId, { from: next })}>More members</a>
      )}
    </p>
  );
}

/** Works for the invited person only, after sign-in. */
function invitationPath({ id }: { readonly id: string }): string {
  return withQuery("/console", { invitation: id });
}

function InvitationLink({ url }: { readonly url: string }): Child {
  return (
    <span data-copy={url}>
      <a href={url}>Link</a>{" "}
    </span>
  );
}

function Invitations({ user, workspace, listing, baseUrl }: MembersPageProps): Child {
  return (
    <Card id="invitations" title="Invitations">
      <Table
        label="Invitations"
        isStacked
        columns={[
          { name: "Email" },
          { name: "Role" },
          { name: "Allowance", isNumber: true },
          { name: "Link" },
          { name: "Invited by" },
          { name: "Expires", isDate: true },
          { name: "Actions", isNumber: true },
        ]}
        rows={listing.invitations.map((invitation) => [
          <span class="line">{invitation.email}</span>,
          <Tag>{ROLE_LABELS[invitation.role]}</Tag>,
          allowanceText({ ...invitation, viaKeyId: null }),
          <InvitationLink url={`${baseUrl}${invitationPath(invitation)}`} />,
          invitation.invitedBy,
          utcDay(invitation.expiresAt),
          <PostForm
            class="row-actions"
            user={user}
            action={workspacePath(workspace.accountId, "/members")}
            fields={{ invitation: invitation.id }}
          >
            <button type="submit" name="do" value="resend" class="plain">
              Send again <span class="visually-hidden">to {invitation.email}</span>
            </button>
            <button type="submit" name="do" value="withdraw" class="plain">
              Withdraw <span class="visually-hidden">the invitation of {invitation.email}</span>
            </button>
          </PostForm>,
        ])}
      />
    </Card>
  );
}

function LeaveWorkspaceCard({ user, workspace, listing, confirm }: MembersPageProps): Child {
  const { from } = listing;
  const { accountId, role } = workspace;
  if (!hasPermission(role, "workspace.leave"))
    return <p class="note">To leave this workspace, first transfer ownership.</p>;
  return (
    <Card id="leave" title="Leave workspace">
      {confirm?.ask === "leave" ? (
        <Confirm
          user={user}
          action={workspacePath(accountId, "/members")}
          fields={{ do: "leave" }}
          confirmLabel="Leave workspace"
          cancelHref={membersPath(accountId, { from })}
        >
          Leave this workspace? You lose access immediately and need an invitation from the owner to
          come back.
        </Confirm>
      ) : (
        <div class="actions">
          <ConfirmLink
            href={membersPath(accountId, { from, ask: "leave" })}
            label="Leave"
            subject="this workspace"
          />
        </div>
      )}
    </Card>
  );
}
