/** @jsxImportSource hono/jsx */
// Which responses of the Responses API a workspace stores, how much that is, and the form to change it.

import { type StoreMode, STORE_MODES } from "../../base/response-storage.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { SessionUser } from "../../http/route.ts";
import type { StorageState } from "../../responses/storage/settings.ts";
import type { WorkspaceContext } from "../authorize.ts";
import { consolePage, HiddenFields, workspacePath } from "../console-layout.tsx";

export interface ResponsesPageProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly state: StorageState;
  readonly errorMessage?: string | undefined;
}

const MODE_LABELS: Readonly<Record<StoreMode, string>> = {
  by_default: "All, except requests with store: false",
  on_request: "Only requests with store: true",
  never: "None",
};

const MIB = 1_048_576;

export function responsesPage({
  user,
  workspace,
  state,
  errorMessage,
}: ResponsesPageProps): PageLayout {
  const { storage, operator, responses, bytes } = state;
  const allowed = STORE_MODES.slice(STORE_MODES.indexOf(operator.mode));
  return consolePage({
    title: "Stored responses",
    workspace,
    user,
    page: "/responses",
    main: (
      <>
        {errorMessage === undefined ? null : (
          <p id="wrong" class="error" role="alert">
            {errorMessage}
          </p>
        )}
        <p>
          Calls of <code>/v1/responses</code> can be continued by their id while they are stored.
          They are encrypted, and visible only to this workspace's API keys.
        </p>
        <p>
          Stored now: {responses} {responses === 1 ? "response" : "responses"},{" "}
          {(bytes / MIB).toFixed(1)} MiB.
        </p>
        <section class="card" aria-labelledby="set">
          <h2 id="set">Set what is stored</h2>
          <form method="post" action={workspacePath(workspace.accountId, "/responses")}>
            <HiddenFields user={user} fields={{}} />
            <label for="store">Store</label>
            <select id="store" name="store">
              {allowed.map((mode) => (
                <option value={mode} selected={mode === storage.mode}>
                  {MODE_LABELS[mode]}
                </option>
              ))}
            </select>
            <label for="retention-days">Delete after (days)</label>
            <input
              id="retention-days"
              name="retention_days"
              type="number"
              min="1"
              max={String(operator.retentionDays)}
              required
              value={String(storage.retentionDays)}
              aria-describedby="storage-hint"
            />
            <p id="storage-hint" class="hint">
              Applies to stored responses too: choose None to delete all of them. Deleted responses
              cannot be continued. This gateway keeps responses for at most {operator.retentionDays}{" "}
              days.
            </p>
            <div class="actions">
              <button type="submit">Save</button>
            </div>
          </form>
        </section>
      </>
    ),
  });
}
