// The settings page of a workspace: its name.

import { z } from "zod";
import type { AccountDataDeps } from "../../account-data/account-data-routes.ts";
import { closeAccount, findClosing, reopenAccount } from "../../account-data/closing.ts";
import { renameAccount } from "../../accounts/accounts.ts";
import { personAct } from "../../activity/audit.ts";
import { pageResponse, redirect, userErrorMessage } from "../../http/pages/page-response.ts";
import { sessionRoute, type Route } from "../../http/route.ts";
import { setTimeZone } from "../../people/people.ts";
import { isTimeZone } from "../../usage/time-buckets.ts";
import { workspacePath } from "../console-layout.tsx";
import { AccountPath, PAGE_DEFAULTS } from "../page-defaults.ts";
import { type ConsoleReadDeps, requireAccess } from "../require-access.ts";
import { confirmationName } from "./close-card.tsx";
import { settingsPage } from "./settings-page.tsx";

export interface SettingsPageDeps extends ConsoleReadDeps {
  readonly accountData: AccountDataDeps;
}

export function settingsPageRoutes(deps: SettingsPageDeps): readonly Route[] {
  return [
    showRoute(deps),
    changeRoute(deps),
    timeZoneRoute(deps),
    exportRoute(deps),
    closingRoute(deps),
  ];
}

function showRoute(deps: SettingsPageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "GET",
    path: "/console/{account}/settings",
    id: "showWorkspaceSettings",
    summary: "Show the settings of a workspace",
    params: AccountPath,
    query: z.object({ saved: z.literal("true").optional() }),
    run: async ({ caller, params, query }) => {
      const workspace = await requireAccess(
        deps,
        params.account,
        caller.personId,
        "workspace.read",
      );
      const isSaved = query.saved !== undefined;
      const closing = await findClosing(deps.db, params.account);
      return pageResponse(settingsPage({ user: caller, workspace, isSaved, closing }));
    },
  });
}

function changeRoute(deps: SettingsPageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "POST",
    path: "/console/{account}/settings",
    id: "renameWorkspace",
    summary: "Rename a workspace",
    params: AccountPath,
    body: z.object({ name: z.string() }),
    requestExample: { name: "Acme production" },
    run: async ({ caller, params, body, clientIp, now }) => {
      const { account: accountId } = params;
      const { personId } = caller;
      const workspace = await requireAccess(deps, accountId, personId, "workspace.rename");
      try {
        const act = personAct(accountId, personId, { clientIp, now });
        await deps.db.write((tx) => renameAccount(tx, act, body.name));
      } catch (error) {
        const form = { name: body.name, nameError: userErrorMessage(error) };
        const closing = await findClosing(deps.db, accountId);
        const page = { user: caller, workspace, closing, form };
        return pageResponse(settingsPage(page), { status: 400 });
      }
      return redirect(`${workspacePath(accountId, "/settings")}?saved=true`);
    },
  });
}

/** A setting of the person, for all their workspaces. */
function timeZoneRoute(deps: SettingsPageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "POST",
    path: "/console/{account}/time-zone",
    id: "changeTimeZone",
    summary: "Set the time zone of a person",
    params: AccountPath,
    body: z.object({ time_zone: z.string().max(64) }),
    requestExample: { time_zone: "Europe/Berlin" },
    run: async ({ caller, params, body }) => {
      const { account: accountId } = params;
      const { personId } = caller;
      const workspace = await requireAccess(deps, accountId, personId, "workspace.read");
      const { time_zone: timeZone } = body;
      if (!isTimeZone(timeZone)) {
        const timeZoneError = "Choose a time zone from the list.";
        const closing = await findClosing(deps.db, accountId);
        const page = { user: caller, workspace, closing, timeZoneError };
        return pageResponse(settingsPage(page), { status: 400 });
      }
      const stored = timeZone === "UTC" ? null : timeZone;
      await deps.db.write((tx) => setTimeZone(tx, personId, stored));
      return redirect(`${workspacePath(accountId, "/settings")}?saved=true`);
    },
  });
}

function exportRoute(deps: SettingsPageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "GET",
    path: "/console/{account}/export",
    id: "downloadWorkspaceExport",
    summary: "Download all data of a workspace",
    params: AccountPath,
    isLongRunning: true,
    responses: { 200: { description: "The records.", contentType: "application/x-ndjson" } },
    run: async ({ caller, params, now }) => {
      const { account: accountId } = params;
      await requireAccess(deps, accountId, caller.personId, "workspace.export");
      const { db, startExport, billing } = deps.accountData;
      return startExport({ db, accountId, now, billing });
    },
  });
}

function closingRoute(deps: SettingsPageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "POST",
    path: "/console/{account}/closing",
    id: "closeWorkspace",
    summary: "Close or reopen a workspace",
    params: AccountPath,
    body: z.object({ do: z.enum(["close", "reopen"]), confirm: z.string().optional() }),
    requestExample: { do: "close", confirm: "Acme production" },
    run: async ({ caller, params, body, clientIp, now }) => {
      const { account: accountId } = params;
      const { personId } = caller;
      const workspace = await requireAccess(deps, accountId, personId, "workspace.close");
      const name = confirmationName(workspace);
      if (body.do === "close" && body.confirm?.trim() !== name) {
        const closing = await findClosing(deps.db, accountId);
        const rejectedClose = {
          confirm: body.confirm ?? "",
          error: `Type ${name} exactly. Nothing was closed.`,
        };
        const page = { user: caller, workspace, closing, rejectedClose };
        return pageResponse(settingsPage(page), { status: 400 });
      }
      const act = personAct(accountId, personId, { clientIp, now });
      if (body.do === "close") await deps.db.write((tx) => closeAccount(tx, act));
      else await deps.db.write((tx) => reopenAccount(tx, act));
      return redirect(workspacePath(accountId, "/settings"));
    },
  });
}
