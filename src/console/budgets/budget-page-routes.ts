// The routes of the budgets page. All members see the budgets; only the owner changes them.

import { z } from "zod";
import { BUDGET_FIELDS, parseBudget, changeBudgets } from "../../accounts/budgets.ts";
import { plainAmount } from "../../base/money/amount-text.ts";
import type { Nano } from "../../base/money/money.ts";
import type { Route } from "../../http/route.ts";
import { getBudgets } from "../../ledger/wallet-budgets.ts";
import type { Db } from "../../store/db.ts";
import { workspacePath } from "../console-layout.tsx";
import { DoneQuery, donePath } from "../done-notice.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";
import { workspacePage, workspaceForm } from "../workspace-routes.ts";
import { budgetsPage } from "./budgets-page.tsx";

export interface BudgetPageDeps extends ConsoleReadDeps {
  readonly db: Db;
}

const PATH = "/console/{account}/budgets";

export function budgetPageRoutes(deps: BudgetPageDeps): readonly Route[] {
  return [showRoute(deps), changeRoute(deps)];
}

function showRoute(deps: BudgetPageDeps): Route {
  return workspacePage(deps, {
    path: PATH,
    id: "showWorkspaceBudgets",
    summary: "Show the budgets of a workspace",
    query: z.object(DoneQuery),
    permission: "budgets.read",
    run: async ({ view, account, query: { done }, now }) =>
      budgetsPage({ ...view, budgets: await getBudgets(deps.db, account, now), done }),
  });
}

const BudgetForm = z.object({
  [BUDGET_FIELDS.day]: z.string(),
  [BUDGET_FIELDS.month]: z.string(),
});

function changeRoute(deps: BudgetPageDeps): Route {
  return workspaceForm(deps, {
    path: PATH,
    id: "changeWorkspaceBudgets",
    summary: "Set the budgets of a workspace",
    body: BudgetForm,
    requestExample: { daily_usd: "5", monthly_usd: "100" },
    permission: "budgets.change",
    write: async (tx, { act, body }) => {
      const limits = {
        day: parseBudgetInput(BUDGET_FIELDS.day, body.daily_usd),
        month: parseBudgetInput(BUDGET_FIELDS.month, body.monthly_usd),
      };
      await changeBudgets(tx, act, limits);
    },
    done: ({ account }) => donePath(workspacePath(account, "/budgets"), "saved"),
    rejected: async ({ view, account, body, now }, error) => {
      const budgets = await getBudgets(deps.db, account, now);
      const formValues = { day: body.daily_usd, month: body.monthly_usd };
      return budgetsPage({ ...view, budgets, formValues, error });
    },
  });
}

/** An empty field means no budget. */
function parseBudgetInput(field: Parameters<typeof parseBudget>[0], input: string): Nano | null {
  const text = plainAmount(input);
  return text === "" ? null : (parseBudget(field, text) ?? null);
}
