// The page of a workspace's budgets: everybody sees them, the owner sets them.

import { z } from "zod";
import type { Action } from "../accounts/members.ts";
import type { Nano } from "../base/money.ts";
import { BUDGET_FIELDS, budgetIn, changeBudgets } from "../budgets/budgets.ts";
import { networksOf } from "../http/address.ts";
import { personRoute, type Route } from "../http/route.ts";
import { getBudgets } from "../ledger/budgets.ts";
import type { Db } from "../store/db.ts";
import { AccountPath, correctable, PAGE, redirect, show } from "./answers.ts";
import { budgetsPage } from "./budgets-page.tsx";
import { pathOf } from "./frame.tsx";
import { type ConsoleStore, enter, enterToChange } from "./workspace.ts";

export interface BudgetPageParts extends ConsoleStore {
  readonly db: Db;
}

const PATH = "/console/{account}/budgets";
const CHANGE: Action = "budgets.change";

export function budgetPageRoutes(parts: BudgetPageParts): readonly Route[] {
  return [showRoute(parts), changeRoute(parts)];
}

function showRoute(parts: BudgetPageParts): Route {
  return personRoute({
    ...PAGE,
    method: "GET",
    path: PATH,
    id: "showWorkspaceBudgets",
    summary: "The budgets of a workspace",
    params: AccountPath,
    run: async ({ caller, params, now }) => {
      const place = await enter(parts, params.account, caller.personId, "budgets.read");
      const budgets = await getBudgets(parts.db, params.account, now);
      return show(budgetsPage({ visitor: caller, place, budgets }));
    },
  });
}

const BudgetForm = z.object({
  [BUDGET_FIELDS.day]: z.string().max(40),
  [BUDGET_FIELDS.month]: z.string().max(40),
});

function changeRoute(parts: BudgetPageParts): Route {
  return personRoute({
    ...PAGE,
    method: "POST",
    path: PATH,
    id: "changeWorkspaceBudgets",
    summary: "Set the budgets of a workspace",
    params: AccountPath,
    body: BudgetForm,
    example: { daily_usd: "5", monthly_usd: "100" },
    run: async ({ caller, params, body, address, now }) => {
      const { account } = params;
      const place = await enter(parts, account, caller.personId, CHANGE);
      try {
        const limits = {
          day: typedBudget(BUDGET_FIELDS.day, body.daily_usd),
          month: typedBudget(BUDGET_FIELDS.month, body.monthly_usd),
        };
        await parts.db.write(async (tx) => {
          await enterToChange(tx, account, caller.personId, CHANGE);
          await changeBudgets(tx, {
            accountId: account,
            limits,
            by: { type: "person", id: caller.personId },
            network: networksOf(address)[1],
            now,
          });
        });
      } catch (error) {
        const wrong = correctable(error);
        const budgets = await getBudgets(parts.db, account, now);
        const typed = { day: body.daily_usd, month: body.monthly_usd };
        return show(budgetsPage({ visitor: caller, place, budgets, typed, wrong }), 400);
      }
      return redirect(pathOf(account, "/budgets"));
    },
  });
}

/** An empty field is no budget. */
function typedBudget(field: Parameters<typeof budgetIn>[0], typed: string): Nano | null {
  const text = typed.trim();
  return text === "" ? null : (budgetIn(field, text) ?? null);
}
