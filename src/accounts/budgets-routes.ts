// Routes of /v1/account/budgets.

import { z } from "zod";
import { keyAct } from "../activity/audit.ts";
import { keyRoute, keyWriteRoute, oneResponse, type Route } from "../http/route.ts";
import { UsdAmount } from "../http/schemas.ts";
import type { BudgetLimits } from "../ledger/budget-rules.ts";
import { getBudgets } from "../ledger/wallet-budgets.ts";
import type { Db } from "../store/db.ts";
import { BUDGETS_EXAMPLE, BudgetsRecord, toBudgetsRecord } from "./budget-record.ts";
import { BUDGET_FIELDS, parseBudget, changeBudgets } from "./budgets.ts";

const DOC = { tag: "Accounts", path: "/v1/account/budgets", dialect: "openai" } as const;

const Amount = UsdAmount.nullable().optional();

const BudgetSettings = z
  .strictObject({
    daily_usd: Amount.meta({
      description: "Limit per UTC day in US dollars; null for no budget, 0 to block paid calls.",
    }),
    monthly_usd: Amount.meta({ description: "Limit per UTC calendar month." }),
  })
  .meta({ id: "BudgetSettings" });

const RESPONSES = oneResponse("The budgets and their use.", BudgetsRecord, BUDGETS_EXAMPLE);

export function budgetRoutes({ db }: { readonly db: Db }): readonly Route[] {
  return [readRoute(db), changeRoute()];
}

function readRoute(db: Db): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    id: "getBudgets",
    scope: "billing:read",
    summary: "Get the daily and monthly budgets",
    responses: RESPONSES,
    faults: [],
    run: async ({ caller, now }) => ({
      status: 200,
      body: toBudgetsRecord(await getBudgets(db, caller.accountId, now)),
    }),
  });
}

function changeRoute(): Route {
  return keyWriteRoute({
    ...DOC,
    method: "PATCH",
    id: "changeBudgets",
    scope: "billing:write",
    summary: "Set the daily and monthly budgets",
    description:
      "A budget limits the spend of all keys together, including what was already spent in the current day or month. Only the fields in the request are changed; null removes a budget. In a claimed account, only people can change budgets, on the Budgets page of the console.",
    body: BudgetSettings,
    requestExample: { daily_usd: 5, monthly_usd: 100 },
    responses: RESPONSES,
    faults: ["forbidden"],
    run: async (tx, { caller, body, clientIp, now }) => {
      const act = keyAct(caller, { clientIp, now });
      const after = await changeBudgets(tx, act, parseLimits(body));
      return { status: 200, body: toBudgetsRecord(after) };
    },
  });
}

function parseLimits(body: z.infer<typeof BudgetSettings>): Partial<BudgetLimits> {
  const day = parseBudget(BUDGET_FIELDS.day, body.daily_usd);
  const month = parseBudget(BUDGET_FIELDS.month, body.monthly_usd);
  return { ...(day === undefined ? {} : { day }), ...(month === undefined ? {} : { month }) };
}
