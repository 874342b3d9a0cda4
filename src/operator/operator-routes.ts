// The routes of the operator pages. Empty if no operator is configured.

import { z } from "zod";
import { AUDIT_ACTIONS, type AuditAction, listAllAuditEntries } from "../activity/audit.ts";
import { DAY_MS } from "../base/time.ts";
import { csvDownload } from "../http/csv-download.ts";
import { pageResponse, userErrorMessage } from "../http/pages/page-response.ts";
import { operatorPageRoute } from "../http/pages/page-routes.ts";
import type { Route } from "../http/route.ts";
import { cursorSchema, emptyAsUndefined } from "../http/schemas.ts";
import { readEntryNames } from "../keys/actor-names.ts";
import { readDailyFigures } from "../verification/daily-figures.ts";
import { parsePeriod } from "../verification/report-period.ts";
import { readReport } from "../verification/report.ts";
import { readTransferSums } from "../verification/transfer-sums.ts";
import { ACCOUNT_STATES, listAccounts } from "./accounts/account-list.ts";
import { readAccountNames } from "./accounts/account-names.ts";
import { accountDetailsRoutes } from "./accounts/account-page-routes.ts";
import { accountsPage } from "./accounts/accounts-page.tsx";
import { auditPage } from "./audit/operator-audit-page.tsx";
import { incidentRoutes } from "./incidents/incidents-page.tsx";
import type { OperatorContext } from "./page-context.ts";
import { paymentRoutes } from "./payments/payment-page-routes.ts";
import { dailyCsv } from "./report/report-output.ts";
import { reportPage } from "./report/report-page.tsx";
import { serviceLevelPageRoutes } from "./service-levels/service-levels-operator-page.tsx";
import { OPERATOR_PATH } from "./sign-in/operator-sessions.ts";
import { signInRoutes } from "./sign-in/sign-in-page.tsx";
import { controlsRoutes } from "./system/controls-page.tsx";
import { readGrantFigures, readNetworkUse, readVerifiedAgentUse } from "./system/grant-figures.ts";
import { GRANTS_PATH, GRANT_PERIODS, grantsPage } from "./system/grants-page.tsx";
import { readProviderHealth } from "./system/provider-health.ts";
import { PROVIDERS_PATH, providersPage } from "./system/providers-page.tsx";
import { readQueues } from "./system/queues.ts";
import { SYSTEM_PATH, systemPage } from "./system/system-page.tsx";

const ROWS_PER_PAGE = 50;
const SEARCH_MAX = 320;

export interface OperatorRouteDeps {
  readonly operatorContext?: OperatorContext | undefined;
}

export function operatorRoutes({ operatorContext }: OperatorRouteDeps): readonly Route[] {
  if (operatorContext === undefined) return [];
  return [
    ...signInRoutes(operatorContext),
    accountsRoute(operatorContext),
    ...accountDetailsRoutes(operatorContext),
    reportRoute(operatorContext),
    reportCsvRoute(operatorContext),
    ...paymentRoutes(operatorContext),
    ...systemRoutes(operatorContext),
    ...incidentRoutes(operatorContext),
    ...controlsRoutes(operatorContext),
    ...serviceLevelPageRoutes(operatorContext),
    auditRoute(operatorContext),
  ];
}

function accountsRoute(context: OperatorContext): Route {
  return operatorPageRoute({
    path: OPERATOR_PATH,
    id: "showAccounts",
    summary: "List or search accounts",
    query: z.object({
      search: z.string().max(SEARCH_MAX).optional(),
      state: emptyAsUndefined(z.enum(ACCOUNT_STATES)),
      cursor: cursorSchema("acct"),
    }),
    run: async ({ query, now, caller: operator }) => {
      const page = { limit: ROWS_PER_PAGE, cursor: query.cursor };
      const accounts = await listAccounts(context.db, query, page, now);
      return accountsPage(operator, { ...query, accounts });
    },
  });
}

function reportRoute(context: OperatorContext): Route {
  return operatorPageRoute({
    path: `${OPERATOR_PATH}/report`,
    id: "showReport",
    summary: "Show the report of a period",
    query: z.object({ from: z.string().optional(), to: z.string().optional() }),
    run: async ({ query, now, caller: operator }) => {
      const periodQuery = { from: query.from ?? "", to: query.to ?? "" };
      try {
        const period = parsePeriod(query, now);
        const page = await context.db.snapshot(async (reader) => {
          const sums = await readTransferSums(reader);
          return {
            report: await readReport(reader, period, sums),
            figures: await readDailyFigures(reader, period, sums),
          };
        });
        return reportPage(operator, { periodQuery, ...page });
      } catch (error) {
        return pageResponse(
          reportPage(operator, { periodQuery, errorMessage: userErrorMessage(error) }),
          { status: 400 },
        );
      }
    },
  });
}

function reportCsvRoute(context: OperatorContext): Route {
  return operatorPageRoute({
    path: `${OPERATOR_PATH}/report.csv`,
    id: "exportReport",
    summary: "Export the days of a report as CSV",
    query: z.object({ from: z.string().optional(), to: z.string().optional() }),
    responses: { 200: { description: "The days.", contentType: "text/csv" } },
    faults: ["invalid_request"],
    run: async ({ query: { from = "", to = "" }, now }) => {
      const period = parsePeriod({ from, to }, now);
      const figures = await context.db.snapshot(async (reader) =>
        readDailyFigures(reader, period, await readTransferSums(reader)),
      );
      return csvDownload(await dailyCsv(figures), "report.csv");
    },
  });
}

const AuditActionName = z.custom<AuditAction>(
  (name) => typeof name === "string" && Object.hasOwn(AUDIT_ACTIONS, name),
  "must be an action of the audit log",
);

function auditRoute(context: OperatorContext): Route {
  return operatorPageRoute({
    path: `${OPERATOR_PATH}/audit`,
    id: "showAllAudit",
    summary: "Show the audit log of all accounts",
    query: z.object({
      account: emptyAsUndefined(z.string().max(SEARCH_MAX)),
      actor: emptyAsUndefined(z.string().max(SEARCH_MAX)),
      action: emptyAsUndefined(AuditActionName),
      cursor: cursorSchema("aud"),
    }),
    run: async ({ query, caller: operator }) => {
      const { account: accountId, actor, action, cursor } = query;
      const filter = { accountId, actor, action };
      const entries = await listAllAuditEntries(
        context.db,
        { limit: ROWS_PER_PAGE, cursor },
        filter,
      );
      const accountIds = entries.data.map((entry) => entry.accountId);
      const accountNames = await readAccountNames(context.db, accountIds);
      const names = await readEntryNames(context.db, entries.data);
      return auditPage(operator, { filter, entries, accountNames, names });
    },
  });
}

// The routes of the pages of the system, of providers, and of grants and abuse.
function systemRoutes(context: OperatorContext): readonly Route[] {
  const { db, system, publishedLog } = context;
  return [
    operatorPageRoute({
      path: SYSTEM_PATH,
      id: "showSystem",
      summary: "Show jobs, queues and settings",
      run: async ({ caller: operator }) => {
        const published = await publishedLog.read();
        return systemPage(operator, { system, queues: await readQueues(db), published });
      },
    }),
    operatorPageRoute({
      path: PROVIDERS_PATH,
      id: "showProviders",
      summary: "Show the health, error rates and cost of providers",
      run: async ({ now, caller: operator }) =>
        providersPage(operator, await readProviderHealth(db, system, now)),
    }),
    operatorPageRoute({
      path: GRANTS_PATH,
      id: "showGrants",
      summary: "Show starting credit and the networks that created accounts",
      query: z.object({ days: emptyAsUndefined(z.enum(GRANT_PERIODS)) }),
      run: async ({ query, now, caller: operator }) => {
        const days = query.days ?? "7";
        const { grantPerDay, verifiedAgents } = system;
        const listed = verifiedAgents.map(({ url }) => url);
        const page = await db.snapshot(async (reader) => ({
          figures: await readGrantFigures(reader, now),
          agents: await readVerifiedAgentUse(reader, listed, now),
          networks: await readNetworkUse(reader, now - Number(days) * DAY_MS),
        }));
        return grantsPage(operator, { days, grantPerDay, verifiedAgents, ...page });
      },
    }),
  ];
}
