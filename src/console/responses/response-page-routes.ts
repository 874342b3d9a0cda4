// The routes of the page for stored responses. Owners and admins see and change what is stored.

import { z } from "zod";
import { invalid } from "../../base/fault.ts";
import { type ResponseStorage, STORE_MODES } from "../../base/response-storage.ts";
import type { Route } from "../../http/route.ts";
import { changeStorage, readStorage } from "../../responses/storage/response-storage-settings.ts";
import type { Db } from "../../store/db.ts";
import { workspacePath } from "../console-layout.tsx";
import { DoneQuery, donePath } from "../done-notice.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";
import { workspacePage, workspaceForm } from "../workspace-routes.ts";
import { responsesPage } from "./responses-page.tsx";

export interface ResponsePageDeps extends ConsoleReadDeps {
  readonly db: Db;
  /** The operator's setting. */
  readonly storage: ResponseStorage;
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

const StorageForm = z.object({ store: z.string(), retention_days: z.string() });

/** Throws the fault of a field. */
function parseStorage(
  { store, retention_days: days }: z.infer<typeof StorageForm>,
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
    body: StorageForm,
    requestExample: { store: "on_request", retention_days: "7" },
    permission: "responses.change",
    write: (tx, { act, body }) =>
      changeStorage(tx, act, deps.storage, parseStorage(body, deps.storage)),
    done: ({ account }) => donePath(workspacePath(account, "/responses"), "saved"),
    rejected: async ({ view, account, body }, error) => {
      const state = await readStorage(deps.db, deps.storage, account);
      const rejected = { store: body.store, retentionDays: body.retention_days, error };
      return responsesPage({ ...view, state, rejected });
    },
  });
}
