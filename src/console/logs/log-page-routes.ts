// The routes of the log pages: the list, one call, and the export.

import { z } from "zod";
import { hasPermission } from "../../accounts/members.ts";
import { personAct } from "../../activity/audit.ts";
import { plainAmount } from "../../base/money/amount-text.ts";
import { nanoFromUsd } from "../../base/money/money.ts";
import type { Page } from "../../base/pagination.ts";
import { csvDownload } from "../../http/csv-download.ts";
import type { Route } from "../../http/route.ts";
import { hasPrompt, type PromptLog } from "../../prompt-log/prompt-log.ts";
import type { Reader } from "../../store/db.ts";
import { toCsv } from "../../usage/csv.ts";
import { findRefusedCall, listRefusedCalls } from "../../usage/refused-calls.ts";
import type { UsageListFilter } from "../../usage/usage-filter.ts";
import { listUsage, rankUsage } from "../../usage/usage-list.ts";
import { readUsage } from "../../usage/usage-stats.ts";
import { getUsage, type UsageRecord } from "../../usage/usage.ts";
import { readFilterOptions, readKeyNames } from "../usage/read-usage.ts";
import type { UsagePageDeps } from "../usage/usage-page-routes.ts";
import { LogQuery, type Period, inTimeZoneOf, periodOf, filterOf } from "../usage/usage-query.ts";
import { AccountPath, workspacePage } from "../workspace-routes.ts";
import { callPage } from "./call-page.tsx";
import { callTextsPage } from "./call-texts-page.tsx";
import { logsPage } from "./logs-page.tsx";
import { refusedCallPage } from "./refused-call-pages.tsx";

const CALLS_PER_PAGE = 50;
const EXPORTED_CALLS_MAX = 10_000;
const REQUEST_ID = /^req_[0-9a-z]{26}$/;

export interface LogPageDeps extends UsagePageDeps {
  readonly promptLog: Pick<PromptLog, "view">;
}

export function logPageRoutes(deps: LogPageDeps): readonly Route[] {
  return [listRoute(deps), callRoute(deps), textsRoute(deps), exportRoute(deps)];
}

function listRoute(deps: UsagePageDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/logs",
    id: "showWorkspaceLogs",
    summary: "Show the calls of a workspace",
    query: LogQuery,
    permission: "usage.read",
    run: async ({ view, account, query: sent, now }) => {
      const query = inTimeZoneOf(sent, view.user);
      const period = periodOf(query, now);
      const { snippets } = deps;
      if (query.outcome === "refused") {
        const refused = await readRefused(deps, account, query, period);
        return logsPage({ ...view, query, period, snippets, isComplete: true, ...refused });
      }
      const data = await readUsage(deps.db, async (reader) => {
        const calls = await readCalls(reader, account, { query, period, limit: CALLS_PER_PAGE });
        const options = await readFilterOptions(reader, account, { query, period });
        const keyIds = [...options.keys, ...calls.data.map(({ keyId }) => keyId)];
        return { calls, options, keyNames: await readKeyNames(reader, account, keyIds) };
      });
      return logsPage({
        ...view,
        query,
        period,
        snippets,
        isComplete: data.calls.isComplete,
        ...data,
      });
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
    run: async ({ view, account, params: { id }, now }) => {
      const refused = await findRefusedCall(deps.db, account, id);
      if (refused !== undefined) {
        const names = await readKeyNames(deps.db, account, [refused.keyId]);
        const keyName = names.get(refused.keyId) ?? refused.keyId;
        return refusedCallPage({ ...view, call: refused, keyName });
      }
      const call = await getUsage(deps.db, account, id);
      const keyNames = await readKeyNames(deps.db, account, [call.keyId]);
      const keyName = keyNames.get(call.keyId) ?? call.keyId;
      const hasTexts =
        hasPermission(view.workspace.role, "prompts.read") &&
        (await hasPrompt(deps.db, account, id, now));
      return callPage({ ...view, call, keyName, hasTexts });
    },
  });
}

/** Not a part of the page of the call: who looks at the texts is recorded. */
function textsRoute(deps: LogPageDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/logs/{id}/texts",
    id: "showWorkspaceCallTexts",
    summary: "Show the logged request and reply of a call",
    params: AccountPath.extend({ id: z.string() }),
    permission: "prompts.read",
    run: async (input) => {
      const { view, account, params, caller } = input;
      const act = personAct(account, caller.personId, input);
      const prompt = await deps.db.write((tx) => deps.promptLog.view(tx, act, params.id));
      return callTextsPage({ ...view, id: params.id, prompt });
    },
  });
}

function exportRoute(deps: UsagePageDeps): Route {
  return workspacePage(deps, {
    path: "/console/{account}/logs.csv",
    id: "exportWorkspaceLogs",
    summary: "Export the calls of a workspace as CSV",
    query: LogQuery,
    responses: { 200: { description: "The calls of the page.", contentType: "text/csv" } },
    permission: "usage.read",
    run: async ({ caller, account, query: sent, now }) => {
      const query = inTimeZoneOf(sent, caller);
      const period = periodOf(query, now);
      const csv = await readUsage(deps.db, async (reader) => {
        const calls = await readCalls(reader, account, {
          query,
          period,
          limit: EXPORTED_CALLS_MAX,
        });
        const keyIds = calls.data.map(({ keyId }) => keyId);
        return await toCsv(calls.data, await readKeyNames(reader, account, keyIds));
      });
      return csvDownload(csv, "calls.csv");
    },
  });
}

async function readRefused(
  { db }: UsagePageDeps,
  account: string,
  query: LogQuery,
  { from, to, ...period }: Period,
) {
  const filter = { from, to, keyId: query.key, status: query.status };
  const page = { limit: CALLS_PER_PAGE, cursor: cursorOf(query) };
  const refused = await listRefusedCalls(db, account, filter, page);
  const options = await readFilterOptions(db, account, { query, period: { from, to, ...period } });
  const keyIds = [...options.keys, ...refused.data.map(({ keyId }) => keyId)];
  const calls: Page<UsageRecord> = { ...refused, data: [] };
  return { calls, refused, options, keyNames: await readKeyNames(db, account, keyIds) };
}

interface ShownCalls extends Page<UsageRecord> {
  /** False if a sorted list compares only the newest calls of the period. */
  readonly isComplete: boolean;
}

async function readCalls(
  reader: Reader,
  account: string,
  {
    query,
    period,
    limit,
  }: { readonly query: LogQuery; readonly period: Period; readonly limit: number },
): Promise<ShownCalls> {
  const filter = logFilter(query, period);
  const { sort } = query;
  if (sort === undefined) {
    const page = await listUsage(reader, account, filter, { limit, cursor: cursorOf(query) });
    return { ...page, isComplete: true };
  }
  const { records, isComplete } = await rankUsage(reader, account, filter, { sort, limit });
  return { object: "list", data: records, has_more: false, next_cursor: null, isComplete };
}

function logFilter(query: LogQuery, period: Period): UsageListFilter {
  const { status, min_cost: minCost = "" } = query;
  const request = query.request?.trim().toLowerCase();
  const isId = request !== undefined && REQUEST_ID.test(request);
  return {
    ...filterOf(query, period),
    outcome: query.outcome === "refused" ? undefined : query.outcome,
    status,
    ...(isId ? { id: request } : { idText: request }),
    minCost: nanoFromUsd(plainAmount(minCost)),
  };
}

/** A cursor that is not an id starts from the newest call. */
function cursorOf({ cursor }: LogQuery): string | undefined {
  return cursor !== undefined && REQUEST_ID.test(cursor) ? cursor : undefined;
}
