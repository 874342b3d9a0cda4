/** @jsxImportSource hono/jsx */
// Which responses of the Responses API a workspace stores, how much that is, and the form to change it.

import type { Child } from "hono/jsx";
import { type StoreMode, STORE_MODES } from "../../base/response-storage.ts";
import { pluralize } from "../../base/text/format.ts";
import { Card } from "../../http/pages/components/content.tsx";
import { ErrorMessage, Field, PostForm } from "../../http/pages/components/form.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { FormError } from "../../http/pages/page-response.ts";
import type { StorageState } from "../../responses/storage/response-storage-settings.ts";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { DoneNotice } from "../done-notice.tsx";
import type { WorkspaceView } from "../require-access.ts";

export interface ResponsesPageProps extends WorkspaceView {
  readonly state: StorageState;
  readonly done?: string | undefined;
  /** A rejected form. */
  readonly rejected?: {
    readonly store: string;
    readonly retentionDays: string;
    readonly error: FormError;
  };
}

const MODE_LABELS: Readonly<Record<StoreMode, string>> = {
  by_default: "All, except requests with store: false",
  on_request: "Only requests with store: true",
  never: "None",
};

const STORAGE_DONE_TEXTS = { saved: "Saved. New responses are stored as set." } as const;

const MIB = 1_048_576;

export function responsesPage(props: ResponsesPageProps): PageLayout {
  const { user, workspace, state, done } = props;
  const { responses, bytes } = state;
  return consolePage({
    title: "Stored responses",
    workspace,
    user,
    page: "/responses",
    main: (
      <>
        <DoneNotice texts={STORAGE_DONE_TEXTS} done={done} />
        <p>
          Calls of <code>/v1/responses</code> can be continued by their id while they are stored.
          They are encrypted, and visible only to this workspace's API keys.
        </p>
        <p>
          Stored now: {pluralize(responses, "response")}, {(bytes / MIB).toFixed(1)} MiB.
        </p>
        <StorageForm {...props} />
      </>
    ),
  });
}

function StorageForm({ user, workspace, state, rejected }: ResponsesPageProps): Child {
  const { storage, operator } = state;
  const allowed = STORE_MODES.slice(STORE_MODES.indexOf(operator.mode));
  const selected = rejected?.store ?? storage.mode;
  const isDaysError = rejected?.error.field === "retention_days";
  return (
    <Card id="set" title="Set what is stored">
      <ErrorMessage message={isDaysError ? undefined : rejected?.error.message} />
      <PostForm user={user} action={workspacePath(workspace.accountId, "/responses")} submit="Save">
        <label for="store">Store</label>
        <select id="store" name="store">
          {allowed.map((mode) => (
            <option value={mode} selected={mode === selected}>
              {MODE_LABELS[mode]}
            </option>
          ))}
        </select>
        <Field
          id="retention-days"
          name="retention_days"
          label="Delete after (days)"
          inputMode="numeric"
          value={rejected?.retentionDays ?? String(storage.retentionDays)}
          error={isDaysError ? rejected?.error.message : undefined}
          hint={`Applies to stored responses too: choose None to delete all of them. Deleted responses cannot be continued. This gateway keeps responses for at most ${pluralize(operator.retentionDays, "day")}.`}
          isRequired
        />
      </PostForm>
    </Card>
  );
}
