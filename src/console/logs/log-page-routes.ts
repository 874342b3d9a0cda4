// The routes of the log pages: the list, one call, and the export.

import { z } from "zod";
import type { Route } from "../../http/route.ts";
import { toCsv } from "../../usage/csv.ts";
import type { UsageListFilter } from "../../usage/usage-filter.ts";
import { listUsage } from "../../usage/usage-list.ts";
import { readUsage } from "../../usage/usage-stats.ts";
import { getUsage } from "../../usage/usage.ts";
import { readFilterOptions, readKeyNames } from "../usage/read-usage.ts";
import { csvDownload, type UsagePageDeps } from "../usage/usage-page-routes.ts";
import { LogQuery, type Period, inTimeZoneOf, periodOf, filterOf } from "../usage/usage-query.ts";
import { AccountPath, workspacePage } from "../workspace-routes.ts";
import { callPage } from "./call-page.tsx";
import { logsPage } from "./logs-page.tsx";

const CALLS_PER_PAGE = 50;
const EXPORTED_CALLS_MAX = 10_000;
const REQUEST_ID = /^req_[0-9a-z]{26}$/;

export function logPageRoutes(deps: UsagePageDeps): readonly Route[] {
  return [listRoute(deps), callRoute(deps), exportRoute(deps)];
}

function listRoute(deps: UsagePageDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/logs",
    id: "showWorkspaceLogs",
    summary: "Show the calls of a workspace",
    params: AccountPath,
    query: LogQuery,
    permission: "usage.read",
    run: async ({ view, account, query: sent, now }) => {
      const query = inTimeZoneOf(sent, view.user);
      const period = periodOf(query, now);
      const data = await readUsage(deps.db, async (reader) => {
        const page = { limit: CALLS_PER_PAGE, cursor: cursorOf(query) };
        const calls = await listUsage(reader, account, logFilter(query, period), page);
        const options = await readFilterOptions(reader, account, { query, period });
        const keyIds = [...options.keys, ...calls.data.map(({ keyId }) => keyId)];
        return { calls, options, keyNames: await readKeyNames(reader, account, keyIds) };
      });
      const { snippets } = deps;
      return logsPage({ ...view, query, period, snippets, ...data });
    },
  });
}

function callRoute(deps: UsagePageDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/logs/{id}",
    id: "showWorkspaceCall",
    summary: "Show one call of a workspace",
    params: AccountPath.extend({ id: z.string() }),
    permission: "usage.read",
    run: async ({ view, account, params: { id } }) => {
      const call = await getUsage(deps.db, account, id);
      const keyNames = await readKeyNames(deps.db, account, [call.keyId]);
      const keyName = keyNames.get(call.keyId) ?? call.keyId;
      return callPage({ ...view, call, keyName });
    },
  });
}

function exportRoute(deps: UsagePageDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/logs.csv",
    id: "exportWorkspaceLogs",
    summary: "Export the calls of a workspace as CSV",
    params: AccountPath,
    query: LogQuery,
    responses: { 200: { description: "The calls of the page.", contentType: "text/csv" } },
    permission: "usage.read",
    run: async ({ caller, account, query: sent, now }) => {
      const query = inTimeZoneOf(sent, caller);
      const page = { limit: EXPORTED_CALLS_MAX, cursor: cursorOf(query) };
      const filter = logFilter(query, periodOf(query, now));
      const calls = await readUsage(deps.db, (reader) => listUsage(reader, account, filter, page));
      return csvDownload(await toCsv(calls.data), "calls.csv");
    },
  });
}

function logFilter(query: LogQuery, period: Period): UsageListFilter {
  const { outcome, status, request } = query;
  return { ...filterOf(query, period), outcome, status, id: request?.trim() };
}

/** A cursor that is not an id starts from the newest call. */
function cursorOf({ cursor }: LogQuery): string | undefined {
  return cursor !== undefined && REQUEST_ID.test(cursor) ? cursor : undefined;
}
