/** @jsxImportSource hono/jsx */
// The workspaces of a person, their pending invitations, and the form that creates a workspace.

import type { Child } from "hono/jsx";
import type { Invitation } from "../../accounts/invitations.ts";
import type { Membership } from "../../accounts/members.ts";
import { utcDay } from "../../base/time.ts";
import type { ClaimAttempt } from "../../claims/claim-attempt.ts";
import { CLAIM_CODE_PATH } from "../../claims/claim-link.ts";
import { Notice } from "../../http/pages/components/content.tsx";
import { Field, PostForm } from "../../http/pages/components/form.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { SessionUser } from "../../http/route.ts";
import { withQuery } from "../confirm.tsx";
import { workspacePath, SignedInFooter } from "../console-layout.tsx";
import { ROLE_LABELS } from "../members/member-texts.ts";
import { WaitingClaimNotices } from "../overview/attention.tsx";

export interface WorkspacesPageProps {
  readonly user: SessionUser;
  readonly workspaces: readonly Membership[];
  readonly invitations: readonly Invitation[];
  readonly waitingClaims: readonly ClaimAttempt[];
  readonly form: WorkspaceForm;
  /** The id in the link of an invitation that is not for this person, or not any more. */
  readonly missingInvitation?: string | undefined;
  readonly now: number;
}

/** The form that creates a workspace. */
export interface WorkspaceForm {
  /** Makes a double click one workspace. */
  readonly token: string;
  readonly name?: string;
  readonly nameError?: string;
}

function switchAccountUrl(invitation: string): string {
  const returnTo = withQuery("/console", { invitation });
  return withQuery("/signin", { switch: "1", return_to: returnTo });
}

export function workspacesPage(props: WorkspacesPageProps): PageLayout {
  return {
    title: "Your workspaces – Postern",
    isPrivate: true,
    main: (
      <>
        <h1>Your workspaces</h1>
        <WaitingClaimNotices claims={props.waitingClaims} now={props.now} />
        {props.missingInvitation === undefined ? null : (
          <Notice
            tone="warn"
            link={{ href: switchAccountUrl(props.missingInvitation), label: "Use another account" }}
          >
            The invitation of this link is not for {props.user.email}, or it was accepted, withdrawn
            or has expired. Sign in with the invited address, or ask for another invitation.
          </Notice>
        )}
        {props.invitations.map((invitation) => (
          <InvitationCard invitation={invitation} user={props.user} />
        ))}
        {props.workspaces.length === 0 ? null : <WorkspaceList workspaces={props.workspaces} />}
        <CreateForm user={props.user} form={props.form} isFirst={props.workspaces.length === 0} />
      </>
    ),
    footer: <SignedInFooter user={props.user} />,
  };
}

function CreateForm({
  user,
  form: { token, name, nameError },
  isFirst,
}: {
  readonly user: SessionUser;
  readonly form: WorkspaceForm;
  readonly isFirst: boolean;
}): Child {
  return (
    <section class="card" aria-labelledby="create">
      <h2 id="create">{isFirst ? "Create your workspace" : "Create another workspace"}</h2>
      <p>
        A workspace has its own keys, balance and members. You get its first key on the next page.
      </p>
      <PostForm
        user={user}
        action="/console/workspaces"
        fields={{ once: token }}
        submit="Create workspace"
      >
        <Field
          id="name"
          name="name"
          label="Name (optional)"
          value={name}
          error={nameError}
          maxLength={80}
          autoComplete="organization"
        />
      </PostForm>
      {isFirst ? (
        <p class="note">
          If an agent created an account for you, open the claim link that it sent you, or{" "}
          <a href={CLAIM_CODE_PATH}>enter its code</a>. To let an agent open one, give it the
          address of <a href="/auth.md">auth.md</a>.
        </p>
      ) : null}
    </section>
  );
}

function WorkspaceList({ workspaces }: { readonly workspaces: readonly Membership[] }): Child {
  return (
    <div class="card">
      <Table
        label="Workspaces"
        isStacked
        columns={[{ name: "Workspace" }, { name: "Role" }, { name: "Member since", isDate: true }]}
        rows={workspaces.map(({ accountId, name, role, addedAt }) => [
          <>
            <a class="line" href={workspacePath(accountId, "")} title={accountId}>
              <bdi>{name ?? "Unnamed workspace"}</bdi>
            </a>
            <span class="type">{accountId}</span>
          </>,
          ROLE_LABELS[role],
          utcDay(addedAt),
        ])}
      />
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
        You are invited to join the workspace{" "}
        {invitation.workspaceName === null ? (
          <code>{invitation.accountId}</code>
        ) : (
          <b title={invitation.accountId}>
            <bdi>{invitation.workspaceName}</bdi>
          </b>
        )}{" "}
        with the role {invitation.role}. The invitation expires on {utcDay(invitation.expiresAt)}.
      </p>
      <PostForm user={user} action="/console/invitations" fields={{ invitation: invitation.id }}>
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
      </PostForm>
    </section>
  );
}
