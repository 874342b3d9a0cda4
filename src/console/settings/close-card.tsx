/** @jsxImportSource hono/jsx */
// The owner's form that closes the workspace after its name was typed, or reopens it.

import type { Child } from "hono/jsx";
import { type Closing, GRACE_DAYS } from "../../account-data/closing.ts";
import { Card, Notice } from "../../http/pages/components/content.tsx";
import { Field, PostForm } from "../../http/pages/components/form.tsx";
import { DateTime } from "../../http/pages/components/local-time.tsx";
import type { WorkspaceContext, WorkspaceView } from "../require-access.ts";

export interface CloseCardProps extends WorkspaceView {
  readonly closing?: Closing | undefined;
  /** A rejected confirmation. */
  readonly rejectedClose?: { readonly confirm: string; readonly error: string } | undefined;
}

/** What the owner types to confirm. */
export function confirmationName({ name, accountId }: WorkspaceContext): string {
  return name ?? accountId;
}

export function CloseCard({ user, workspace, closing, rejectedClose }: CloseCardProps): Child {
  const action = `/console/${workspace.accountId}/closing`;
  if (closing !== undefined)
    return (
      <Card id="closing" title="This workspace is closing">
        <Notice tone="danger">
          Calls and purchases are rejected. Personal data is erased from{" "}
          <DateTime at={closing.erasedFrom} /> on.
        </Notice>
        <PostForm user={user} action={action} fields={{ do: "reopen" }} submit="Reopen workspace" />
      </Card>
    );
  const name = confirmationName(workspace);
  return (
    <Card id="closing" title="Close workspace">
      <p>
        Calls and purchases stop at once. For {GRACE_DAYS} days you can export the data and reopen
        the workspace. Then emails, names, webhooks, stored responses and provider keys are erased.
        Ask for a refund of purchased credits before you close it, see{" "}
        <a href="/docs/billing">Billing</a>.
      </p>
      <PostForm user={user} action={action} fields={{ do: "close" }}>
        <Field
          id="confirm-name"
          name="confirm"
          label={`Type ${name} to confirm`}
          value={rejectedClose?.confirm}
          error={rejectedClose?.error}
          autoComplete="off"
          isRequired
        />
        <div class="actions">
          <button type="submit" class="danger">
            Close workspace
          </button>
        </div>
      </PostForm>
    </Card>
  );
}
