// The routes of the page for stored responses. Owners and admins see and change what is stored.

import { z } from "zod";
import { type ResponseStorage, STORE_MODES } from "../../base/response-storage.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import { pageResponse, redirect } from "../../http/pages/page-response.ts";
import { sessionRoute, type Route } from "../../http/route.ts";
import { changeStorage, readStorage } from "../../responses/storage/settings.ts";
import type { Db } from "../../store/db.ts";
import { AccountPath, PAGE_DEFAULTS } from "../page-defaults.ts";
import { type ConsoleReadDeps, requireAccess, requireAccessForUpdate } from "../authorize.ts";
import { workspacePath } from "../console-layout.tsx";
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
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "GET",
    path: PATH,
    id: "showStoredResponses",
    summary: "Show which responses a workspace stores",
    params: AccountPath,
    run: async ({ caller, params: { account } }) => {
      const workspace = await requireAccess(deps, account, caller.personId, "responses.read");
      const state = await readStorage(deps.db, deps.storage, account);
      return pageResponse(responsesPage({ user: caller, workspace, state }));
    },
  });
}

const StorageForm = z.object({ store: z.string(), retention_days: z.string() });

const StorageValues = z.object({
  store: z.enum(STORE_MODES, { error: "Choose what is stored." }),
  retention_days: z.coerce
    .number({ error: "The number of days must be a whole number from 1 to 365." })
    .int()
    .min(1)
    .max(365),
});

function changeRoute(deps: ResponsePageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "POST",
    path: PATH,
    id: "changeStoredResponses",
    summary: "Set which responses a workspace stores",
    params: AccountPath,
    body: StorageForm,
    requestExample: { store: "on_request", retention_days: "7" },
    run: async ({ caller, params: { account }, body, clientIp, now }) => {
      const workspace = await requireAccess(deps, account, caller.personId, "responses.change");
      const values = StorageValues.safeParse(body);
      if (!values.success) {
        const state = await readStorage(deps.db, deps.storage, account);
        const errorMessage = values.error.issues[0]?.message;
        const page = responsesPage({ user: caller, workspace, state, errorMessage });
        return pageResponse(page, { status: 400 });
      }
      const { store, retention_days } = values.data;
      await deps.db.write(async (tx) => {
        await requireAccessForUpdate(tx, account, caller.personId, "responses.change");
        await changeStorage(tx, {
          accountId: account,
          operator: deps.storage,
          change: { mode: store, retentionDays: retention_days },
          actor: { type: "person", id: caller.personId },
          network: networksOf(clientIp)[1],
          now,
        });
      });
      return redirect(workspacePath(account, "/responses"));
    },
  });
}
