// The routes of the usage page and its export.

import { csvDownload } from "../../http/csv-download.ts";
import type { Route } from "../../http/route.ts";
import { sumsToCsv } from "../../usage/csv.ts";
import { readUsage, sumUsage } from "../../usage/usage-stats.ts";
import type { ConsoleReadDeps } from "../require-access.ts";
import { workspacePage } from "../workspace-routes.ts";
import type { SnippetSettings } from "./call-snippets.tsx";
import { readKeyNames, readUsageView } from "./read-usage.ts";
import { usagePage } from "./usage-page.tsx";
import { dimensionOf, filterOf, inTimeZoneOf, periodOf, UsageQuery } from "./usage-query.ts";

export interface UsagePageDeps extends ConsoleReadDeps {
  readonly snippets: SnippetSettings;
}

export function usagePageRoutes(deps: UsagePageDeps): readonly Route[] {
  return [showRoute(deps), exportRoute(deps)];
}

function showRoute(deps: UsagePageDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/usage",
    id: "showWorkspaceUsage",
    summary: "Show the usage of a workspace",
    query: UsageQuery,
    permission: "usage.read",
    run: async ({ view: page, account, query: sent, now }) => {
      const query = inTimeZoneOf(sent, page.user);
      const period = periodOf(query, now);
      const view = await readUsageView(deps, account, { query, period, now });
      return usagePage({ ...page, query, period, view, snippets: deps.snippets, now });
    },
  });
}

function exportRoute(deps: UsagePageDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/usage.csv",
    id: "exportWorkspaceUsage",
    summary: "Export the usage of a workspace as CSV",
    query: UsageQuery,
    responses: { 200: { description: "The groups of the page.", contentType: "text/csv" } },
    permission: "usage.read",
    run: async ({ caller, account, query: sent, now }) => {
      const query = inTimeZoneOf(sent, caller);
      const period = periodOf(query, now);
      const dimension = dimensionOf(query);
      const sums = await readUsage(deps.db, (reader) =>
        sumUsage(reader, account, filterOf(query, period), dimension),
      );
      const groups = dimension === "key" ? sums.map(({ group }) => group) : [];
      const keyNames = await readKeyNames(deps.db, account, groups);
      const day = (at: number): string => new Date(at).toISOString().slice(0, 10);
      return csvDownload(
        await sumsToCsv(sums, dimension, keyNames),
        `usage-by-${dimension}-${day(period.from)}-${day((period.to ?? now) - 1)}.csv`,
      );
    },
  });
}
