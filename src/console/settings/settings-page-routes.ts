// The settings page of a workspace: its name.

import { z } from "zod";
import type { AccountDataDeps } from "../../account-data/account-data-routes.ts";
import { closeAccount, findClosing, reopenAccount } from "../../account-data/closing.ts";
import { getAccount, renameAccount, setDataPolicy, setReceipts } from "../../accounts/accounts.ts";
import { invalid } from "../../base/fault.ts";
import type { Route } from "../../http/route.ts";
import { setTimeZone } from "../../people/people.ts";
import { changePromptRetention } from "../../prompt-log/prompt-log.ts";
import { isTimeZone } from "../../usage/time-buckets.ts";
import { workspacePath } from "../console-layout.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";
import { workspacePage, workspaceForm } from "../workspace-routes.ts";
import { confirmationName } from "./close-card.tsx";
import { settingsPage } from "./settings-page.tsx";

export interface SettingsPageDeps extends ConsoleReadDeps {
  readonly accountData: AccountDataDeps;
  readonly forgetLookUps: () => void;
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
  return workspacePage(deps, {
    path: "/console/{account}/settings",
    id: "showWorkspaceSettings",
    summary: "Show the settings of a workspace",
    query: z.object({ saved: z.literal("true").optional() }),
    permission: "workspace.read",
    run: async ({ view, account, query: { saved } }) =>
      settingsPage({
        ...view,
        ...(await readSettings(deps, account)),
        isSaved: saved !== undefined,
      }),
  });
}

async function readSettings({ db }: SettingsPageDeps, account: string) {
  const [closing, { signsReceipts, promptRetentionDays, dataPolicy }] = await Promise.all([
    findClosing(db, account),
    getAccount(db, account),
  ]);
  return { closing, signsReceipts, promptRetentionDays, dataPolicy };
}

const savedPath = (account: string): string => `${workspacePath(account, "/settings")}?saved=true`;

function changeRoute(deps: SettingsPageDeps): Route {
  return workspaceForm(deps, {
    path: "/console/{account}/settings",
    id: "renameWorkspace",
    summary: "Rename a workspace, and set its data policy, receipts and the retention of prompts",
    body: z.object({
      name: z.string(),
      receipts: z.enum(["asked", "all"]).optional(),
      prompt_retention_days: z.string().max(10).optional(),
      data_policy: z.string().max(100).optional(),
    }),
    requestExample: { name: "Acme production" },
    permission: "workspace.rename",
    write: async (tx, { act, body }) => {
      const { name, receipts, prompt_retention_days: days, data_policy: policy } = body;
      await renameAccount(tx, act, name);
      if (receipts !== undefined) await setReceipts(tx, act, receipts === "all");
      if (days !== undefined) await changePromptRetention(tx, act, daysOf(days.trim()));
      if (policy !== undefined) await setDataPolicy(tx, act, policy);
    },
    done: ({ account }) => {
      deps.forgetLookUps();
      return savedPath(account);
    },
    rejected: async ({ view, account, body }, { field, message: error }) => {
      const { name, prompt_retention_days: promptDays, data_policy: dataPolicy } = body;
      const form = { name, promptDays, dataPolicy, field, error };
      return settingsPage({ ...view, ...(await readSettings(deps, account)), form });
    },
  });
}

function daysOf(typed: string): number | null {
  return typed === "" ? null : /^\d+$/.test(typed) ? Number(typed) : NaN;
}

/** A setting of the person, for all their workspaces. */
function timeZoneRoute(deps: SettingsPageDeps): Route {
  return workspaceForm(deps, {
    path: "/console/{account}/time-zone",
    id: "changeTimeZone",
    summary: "Set the time zone of a person",
    body: z.object({ time_zone: z.string().max(64) }),
    requestExample: { time_zone: "Europe/Berlin" },
    permission: "workspace.read",
    write: async (tx, { caller, body: { time_zone: timeZone } }) => {
      if (!isTimeZone(timeZone)) throw invalid("time_zone", "Choose a time zone from the list.");
      await setTimeZone(tx, caller.personId, timeZone);
    },
    done: ({ account }) => savedPath(account),
    rejected: async ({ view, account }, { message: timeZoneError }) =>
      settingsPage({ ...view, ...(await readSettings(deps, account)), timeZoneError }),
  });
}

function exportRoute(deps: SettingsPageDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/export",
    id: "downloadWorkspaceExport",
    summary: "Download all data of a workspace",
    isLongRunning: true,
    responses: { 200: { description: "The records.", contentType: "application/x-ndjson" } },
    permission: "workspace.export",
    run: ({ account: accountId, now }) => {
      const { db, startExport, billing } = deps.accountData;
      return startExport({ db, accountId, now, billing });
    },
  });
}

function closingRoute(deps: SettingsPageDeps): Route {
  return workspaceForm(deps, {
    path: "/console/{account}/closing",
    id: "closeWorkspace",
    summary: "Close or reopen a workspace",
    body: z.object({ do: z.enum(["close", "reopen"]), confirm: z.string().optional() }),
    requestExample: { do: "close", confirm: "Acme production" },
    permission: "workspace.close",
    prepare: ({ view: { workspace }, body }) => {
      const name = confirmationName(workspace);
      if (body.do === "close" && body.confirm?.trim() !== name)
        throw invalid("confirm", "Type the name exactly. Nothing was closed.");
    },
    write: async (tx, { act, body }) => {
      await (body.do === "close" ? closeAccount(tx, act) : reopenAccount(tx, act));
    },
    done: ({ account }) => workspacePath(account, "/settings"),
    rejected: async ({ view, account, body: { confirm = "" } }, { message: error }) =>
      settingsPage({
        ...view,
        ...(await readSettings(deps, account)),
        rejectedClose: { confirm, error },
      }),
  });
}
