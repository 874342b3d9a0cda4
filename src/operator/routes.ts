// The operator's pages: the HTTP face of the operator room. There are none where the settings name no operator.

import { z } from "zod";
import { type AuditAction, AUDIT_ACTIONS, listHouseEntries } from "../audit/audit.ts";
import { cursorOf } from "../http/record.ts";
import type { Route } from "../http/route.ts";
import { ACCOUNT_STATES, listAccounts } from "./accounts.ts";
import { accountsPage } from "./accounts-page.tsx";
import { auditPage } from "./audit-page.tsx";
import { mendable, type Office, orNothing, pageRoute, show } from "./office.ts";
import { readPeriod } from "./period.ts";
import { readReport } from "./report.ts";
import { reportPage } from "./report-page.tsx";
import { accountFileRoutes } from "./routes-account.ts";
import { paymentRoutes } from "./routes-payments.ts";
import { signInRoutes } from "./routes-sign-in.ts";
import { OPERATOR_PATH } from "./sessions.ts";

const SHOWN = 50;
const SEARCH_MAX = 320;

export interface OperatorRouteParts {
  readonly office?: Office | undefined;
}

export function operatorRoutes({ office }: OperatorRouteParts): readonly Route[] {
  if (office === undefined) return [];
  return [
    ...signInRoutes(office),
    accountsRoute(office),
    ...accountFileRoutes(office),
    reportRoute(office),
    ...paymentRoutes(office),
    auditRoute(office),
  ];
}

function accountsRoute(office: Office): Route {
  return pageRoute(office, {
    path: OPERATOR_PATH,
    id: "showAccounts",
    summary: "All accounts, or those that are searched for",
    query: z.object({
      search: z.string().max(SEARCH_MAX).optional(),
      state: orNothing(z.enum(ACCOUNT_STATES)),
      cursor: cursorOf("acct"),
    }),
    run: async ({ query, now }, operator) => {
      const page = { limit: SHOWN, cursor: query.cursor };
      const accounts = await listAccounts(office.db, query, page, now);
      return show(accountsPage(operator, { ...query, accounts }));
    },
  });
}

function reportRoute({ db, ...office }: Office): Route {
  return pageRoute(
    { db, ...office },
    {
      path: `${OPERATOR_PATH}/report`,
      id: "showReport",
      summary: "Income, costs and liabilities of a period",
      query: z.object({ from: z.string().optional(), to: z.string().optional() }),
      run: async ({ query, now }, operator) => {
        const asked = { from: query.from ?? "", to: query.to ?? "" };
        try {
          const period = readPeriod(query, now);
          const report = await db.snapshot((reader) => readReport(reader, period));
          return show(reportPage(operator, { asked, report }));
        } catch (error) {
          return show(reportPage(operator, { asked, wrong: mendable(error) }), { status: 400 });
        }
      },
    },
  );
}

const ActionName = z.custom<AuditAction>(
  (name) => typeof name === "string" && Object.hasOwn(AUDIT_ACTIONS, name),
  "is no action of the audit log",
);

function auditRoute(office: Office): Route {
  return pageRoute(office, {
    path: `${OPERATOR_PATH}/audit`,
    id: "showHouseAudit",
    summary: "Who did what, in all accounts",
    query: z.object({
      account: orNothing(z.string().max(SEARCH_MAX)),
      actor: orNothing(z.string().max(SEARCH_MAX)),
      action: orNothing(ActionName),
      cursor: cursorOf("aud"),
    }),
    run: async ({ query }, operator) => {
      const { account: accountId, actor, action, cursor } = query;
      const filter = { accountId, actor, action };
      const entries = await listHouseEntries(office.db, { limit: SHOWN, cursor }, filter);
      return show(auditPage(operator, { filter, entries }));
    },
  });
}
