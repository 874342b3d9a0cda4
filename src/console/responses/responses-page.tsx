/** @jsxImportSource hono/jsx */
// Which responses of the Responses API a workspace stores, how much that is, and the form to change it. Owners and
// admins see and change it.

import type { Child } from "hono/jsx";
import { z } from "zod";
import { invalid } from "../../base/fault.ts";
import { type ResponseStorage, STORE_MODES, type StoreMode } from "../../base/response-storage.ts";
import { pluralize } from "../../base/text/format.ts";
import { Card } from "../../http/pages/components/content.tsx";
import { ErrorMessage, Field, PostForm } from "../../http/pages/components/form.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { FormError } from "../../http/pages/page-response.ts";
import type { Route } from "../../http/route.ts";
import {
  changeStorage,
  readStorage,
  type StorageState,
} from "../../responses/storage/response-storage-settings.ts";
import type { Db } from "../../store/db.ts";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { DoneNotice, donePath, DoneQuery } from "../done-notice.tsx";
import type { ConsoleReadDeps, WorkspaceView } from "../require-access.ts";
import { workspaceForm, workspacePage } from "../workspace-routes.ts";

interface ResponsesPageProps extends WorkspaceView {
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

function sizeText(bytes: number): string {
  return bytes < MIB ? "less than 1 MiB" : `${(bytes / MIB).toFixed(1)} MiB`;
}

function responsesPage(props: ResponsesPageProps): PageLayout {
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
          Stored now: {pluralize(responses, "response")}
          {responses === 0 ? "" : `, ${sizeText(bytes)}`}.
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

export interface ResponsePageDeps extends ConsoleReadDeps {
  readonly db: Db;
  /** The operator's setting. */
  readonly storage: ResponseStorage;
  readonly forgetLookUps: () => void;
}

const PATH = "/console/{account}/responses";

export function responsePageRoutes(deps: ResponsePageDeps): readonly Route[] {
  return [showRoute(deps), changeRoute(deps)];
}

function showRoute(deps: ResponsePageDeps): Route {
  return workspacePage(deps, {
    path: PATH,
    id: "showStoredResponses",
    summary: "Show which responses a workspace stores",
    query: z.object(DoneQuery),
    permission: "responses.read",
    run: async ({ view, account, query: { done } }) => {
      const state = await readStorage(deps.db, deps.storage, account);
      return responsesPage({ ...view, state, done });
    },
  });
}

const StorageBody = z.object({ store: z.string(), retention_days: z.string() });

/** Throws the fault of a field. */
function parseStorage(
  { store, retention_days: days }: z.infer<typeof StorageBody>,
  { retentionDays: daysMax }: ResponseStorage,
): ResponseStorage {
  const mode = STORE_MODES.find((each) => each === store);
  if (mode === undefined) throw invalid("store", "Choose what is stored.");
  const retentionDays = /^\d{1,4}$/.test(days.trim()) ? Number(days) : 0;
  if (retentionDays < 1 || retentionDays > daysMax)
    throw invalid("retention_days", `The days must be a whole number from 1 to ${daysMax}.`);
  return { mode, retentionDays };
}

function changeRoute(deps: ResponsePageDeps): Route {
  return workspaceForm(deps, {
    path: PATH,
    id: "changeStoredResponses",
    summary: "Set which responses a workspace stores",
    body: StorageBody,
    requestExample: { store: "on_request", retention_days: "7" },
    permission: "responses.change",
    write: (tx, { act, body }) =>
      changeStorage(tx, act, deps.storage, parseStorage(body, deps.storage)),
    done: ({ account }) => {
      deps.forgetLookUps();
      return donePath(workspacePath(account, "/responses"), "saved");
    },
    rejected: async ({ view, account, body }, error) => {
      const state = await readStorage(deps.db, deps.storage, account);
      const rejected = { store: body.store, retentionDays: body.retention_days, error };
      return responsesPage({ ...view, state, rejected });
    },
  });
}
