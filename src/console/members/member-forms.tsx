/** @jsxImportSource hono/jsx */
// The forms of the members page: invite, change, and what needs confirmation.

import type { Child } from "hono/jsx";
import { type Member, MEMBER_ROLES } from "../../accounts/members.ts";
import { usdText } from "../../base/money/money.ts";
import { LIMIT_WINDOWS } from "../../base/money/spend-window.ts";
import { Card } from "../../http/pages/components/content.tsx";
import { ErrorMessage, Field, PostForm } from "../../http/pages/components/form.tsx";
import type { FormError } from "../../http/pages/page-response.ts";
import { Confirm, CONFIRM_ID } from "../confirm.tsx";
import { workspacePath } from "../console-layout.tsx";
import type { WorkspaceView } from "../require-access.ts";
import { ROLE_LABELS, ROLE_TEXTS } from "./member-texts.ts";

/** The values of a rejected form. */
interface MemberFormValues {
  readonly do: string;
  readonly email?: string;
  readonly role?: string;
  readonly allowance_usd?: string | undefined;
  readonly allowance_window?: string | undefined;
}

export interface RejectedMemberForm {
  readonly values: MemberFormValues;
  readonly error: FormError;
}

interface FormProps extends WorkspaceView {
  readonly rejected?: RejectedMemberForm | undefined;
}

export function InviteForm({ user, workspace, rejected }: FormProps): Child {
  const form = rejected?.values.do === "invite" ? rejected : undefined;
  const selected = form?.values.role ?? "developer";
  const isAllowanceError = form?.error.field === "limit_usd";
  return (
    <Card id="invite" title="Invite a person">
      <p>
        The person signs in with this address and accepts. Send them the link of the invitation,
        which is listed after you invite them.
      </p>
      <PostForm
        user={user}
        action={workspacePath(workspace.accountId, "/members")}
        fields={{ do: "invite" }}
        submit="Invite"
      >
        <div class="fields short">
          <div class="long">
            <Field
              id="invite-email"
              name="email"
              type="email"
              label="Email address"
              value={form?.values.email}
              error={isAllowanceError ? undefined : form?.error.message}
              isRequired
            />
          </div>
          <div class="field long">
            <label for="invite-role">Role</label>
            <select id="invite-role" name="role">
              {MEMBER_ROLES.filter((role) => role !== "admin" || workspace.role === "owner").map(
                (role) => (
                  <option value={role} selected={role === selected}>
                    {ROLE_LABELS[role]}: {ROLE_TEXTS[role]}
                  </option>
                ),
              )}
            </select>
          </div>
          <AllowanceFields
            id="invite"
            usd={form === undefined ? DEFAULT_ALLOWANCE_USD : form.values.allowance_usd}
            window={form === undefined ? DEFAULT_ALLOWANCE_WINDOW : form.values.allowance_window}
            error={isAllowanceError ? form?.error.message : undefined}
          />
        </div>
        <p class="hint">
          The allowance is what the keys of a developer may spend together. Without one, a developer
          cannot create keys. Other roles do not use it.
        </p>
      </PostForm>
    </Card>
  );
}

/** A developer without an allowance cannot work, so an invitation proposes one. */
const DEFAULT_ALLOWANCE_USD = "10";
const DEFAULT_ALLOWANCE_WINDOW = "month";

function AllowanceFields({
  id,
  usd,
  window,
  error,
}: {
  readonly id: string;
  readonly usd: string | undefined;
  readonly window: string | undefined;
  readonly error: string | undefined;
}): Child {
  return (
    <>
      <Field
        id={`${id}-allowance`}
        name="allowance_usd"
        label="Allowance (USD)"
        inputMode="decimal"
        value={usd}
        error={error}
      />
      <div class="field">
        <label for={`${id}-window`}>Resets</label>
        <select id={`${id}-window`} name="allowance_window">
          <option value="">never</option>
          {LIMIT_WINDOWS.map((option) => (
            <option value={option} selected={option === window}>
              every {option}
            </option>
          ))}
        </select>
      </div>
    </>
  );
}

interface MemberFormProps extends FormProps {
  readonly member: Member;
  /** The first member of the page, to return to it. */
  readonly from: string | undefined;
  readonly cancelHref: string;
}

export function ChangeMemberCard(props: MemberFormProps): Child {
  const { user, workspace, member, from, cancelHref, rejected } = props;
  const { personId, email } = member;
  const values = rejected?.values ?? {
    role: member.role,
    allowance_usd: member.allowance === undefined ? "" : usdText(member.allowance.limit),
    allowance_window: member.allowance?.window ?? "",
  };
  const isAllowanceError = rejected?.error.field === "limit_usd";
  const fields = { do: "change", person: personId, ...(from === undefined ? {} : { from }) };
  return (
    <Card id={CONFIRM_ID} title={<>Change {email}</>}>
      <ErrorMessage message={isAllowanceError ? undefined : rejected?.error.message} />
      <PostForm user={user} action={workspacePath(workspace.accountId, "/members")} fields={fields}>
        <div class="fields">
          <div class="field">
            <label for="change-role">Role</label>
            <select id="change-role" name="role">
              {MEMBER_ROLES.map((option) => (
                <option value={option} selected={option === values.role}>
                  {ROLE_LABELS[option]}: {ROLE_TEXTS[option]}
                </option>
              ))}
            </select>
          </div>
          <AllowanceFields
            id="change"
            usd={values.allowance_usd}
            window={values.allowance_window}
            error={isAllowanceError ? rejected?.error.message : undefined}
          />
        </div>
        <div class="actions">
          <button type="submit">
            Save <span class="visually-hidden">role and allowance of {email}</span>
          </button>
          <a class="button secondary" href={cancelHref}>
            Cancel
          </a>
        </div>
      </PostForm>
    </Card>
  );
}

export function TransferConfirmation({
  user,
  workspace,
  member: { personId, email },
  cancelHref,
}: MemberFormProps): Child {
  return (
    <Confirm
      user={user}
      action={workspacePath(workspace.accountId, "/members")}
      cancelHref={cancelHref}
      fields={{ do: "hand_over", person: personId }}
      confirmLabel="Transfer ownership"
    >
      Transfer ownership of this workspace to {email}? You become a developer, and only {email} can
      transfer it back. The saved payment method is removed, and auto top-up is turned off.
    </Confirm>
  );
}

export function RemoveConfirmation({
  user,
  workspace,
  member: { personId, email },
  from,
  cancelHref,
}: MemberFormProps): Child {
  return (
    <Confirm
      user={user}
      action={workspacePath(workspace.accountId, "/members")}
      cancelHref={cancelHref}
      fields={{ do: "remove", person: personId, ...(from === undefined ? {} : { from }) }}
      confirmLabel="Remove member and revoke keys"
    >
      Remove {email} from this workspace? They lose access immediately and need an invitation to
      come back. The keys that they created are revoked.
    </Confirm>
  );
}
