// The routes of the budgets page. All members see the budgets; only the owner changes them.

import { z } from "zod";
import { BUDGET_FIELDS, parseBudget, changeBudgets } from "../../accounts/budgets.ts";
import type { Permission } from "../../accounts/members.ts";
import { personAct } from "../../activity/audit.ts";
import type { Nano } from "../../base/money/money.ts";
import { formErrorOf, pageResponse, redirect } from "../../http/pages/page-response.ts";
import { sessionRoute, type Route } from "../../http/route.ts";
import { getBudgets } from "../../ledger/wallet-budgets.ts";
import type { Db } from "../../store/db.ts";
import { workspacePath } from "../console-layout.tsx";
import { DoneQuery, donePath } from "../done-notice.tsx";
import { AccountPath, PAGE_DEFAULTS } from "../page-defaults.ts";
import { type ConsoleReadDeps, requireAccess } from "../require-access.ts";
import { budgetsPage } from "./budgets-page.tsx";

export interface BudgetPageDeps extends ConsoleReadDeps {
  readonly db: Db;
}

const PATH = "/console/{account}/budgets";
const CHANGE_PERMISSION: Permission = "budgets.change";

export function budgetPageRoutes(deps: BudgetPageDeps): readonly Route[] {
  return [showRoute(deps), changeRoute(deps)];
}

function showRoute(deps: BudgetPageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "GET",
    path: PATH,
    id: "showWorkspaceBudgets",
    summary: "Show the budgets of a workspace",
    params: AccountPath,
    query: z.object(DoneQuery),
    run: async ({ caller, params, query: { done }, now }) => {
      const workspace = await requireAccess(deps, params.account, caller.personId, "budgets.read");
      const budgets = await getBudgets(deps.db, params.account, now);
      return pageResponse(budgetsPage({ user: caller, workspace, budgets, done }));
    },
  });
}

const BudgetForm = z.object({
  [BUDGET_FIELDS.day]: z.string(),
  [BUDGET_FIELDS.month]: z.string(),
});

function changeRoute(deps: BudgetPageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "POST",
    path: PATH,
    id: "changeWorkspaceBudgets",
    summary: "Set the budgets of a workspace",
    params: AccountPath,
    body: BudgetForm,
    requestExample: { daily_usd: "5", monthly_usd: "100" },
    run: async ({ caller, params, body, clientIp, now }) => {
      const { account } = params;
      const workspace = await requireAccess(deps, account, caller.personId, CHANGE_PERMISSION);
      try {
        const limits = {
          day: parseBudgetInput(BUDGET_FIELDS.day, body.daily_usd),
          month: parseBudgetInput(BUDGET_FIELDS.month, body.monthly_usd),
        };
        const act = personAct(account, caller.personId, { clientIp, now });
        await deps.db.write((tx) => changeBudgets(tx, act, limits));
      } catch (error) {
        const formError = formErrorOf(error);
        const budgets = await getBudgets(deps.db, account, now);
        const formValues = { day: body.daily_usd, month: body.monthly_usd };
        return pageResponse(
          budgetsPage({ user: caller, workspace, budgets, formValues, error: formError }),
          { status: 400 },
        );
      }
      return redirect(donePath(workspacePath(account, "/budgets"), "saved"));
    },
  });
}

/** An empty field means no budget. */
function parseBudgetInput(field: Parameters<typeof parseBudget>[0], input: string): Nano | null {
  const text = input.trim();
  return text === "" ? null : (parseBudget(field, text) ?? null);
}
