// Daily and monthly budgets of a workspace. The ledger stores and enforces them; this module checks who may change
// them, and records the change. A budget limits what keys can spend, so in a claimed account keys cannot change it.

import { type Act, recordAuditEntry } from "../activity/audit.ts";
import { Fault, invalid } from "../base/fault.ts";
import { MAX_NANO, type Nano, nanoFromUsd, usdText } from "../base/money/money.ts";
import { BUDGET_WINDOWS, type BudgetLimits } from "../ledger/budget-rules.ts";
import { type BudgetStates, setBudgets } from "../ledger/wallet-budgets.ts";
import type { Tx } from "../store/db.ts";
import { authorize, lockWorkspace } from "./members.ts";

/** Field names in the API and in forms. */
export const BUDGET_FIELDS = { day: "daily_usd", month: "monthly_usd" } as const;
type BudgetField = (typeof BUDGET_FIELDS)[keyof typeof BUDGET_FIELDS];

/** Only the given limits are changed; null removes a budget. */
export async function changeBudgets(
  tx: Tx,
  act: Act,
  limits: Partial<BudgetLimits>,
): Promise<BudgetStates> {
  const { accountId, actor, now } = act;
  const { isClaimed } = await lockWorkspace(tx, accountId);
  await authorize(tx, act, "budgets.change");
  if (isClaimed && actor.type === "key") throw peopleOnlyFault();
  const { before, after } = await setBudgets(tx, accountId, limits, now);
  const changed = BUDGET_WINDOWS.filter((window) => after[window].limit !== before[window]);
  if (changed.length === 0) return after;
  const detail = Object.fromEntries(
    changed.map((window) => [BUDGET_FIELDS[window], limitText(after[window].limit)]),
  );
  await recordAuditEntry(tx, { ...act, action: "budget.changed", target: null, detail });
  return after;
}

/** Parses a field of a request or form: undefined if absent, null for no budget. */
export function parseBudget(
  field: BudgetField,
  usd: string | number | null | undefined,
): Nano | null | undefined {
  if (usd === undefined || usd === null) return usd;
  const limit = nanoFromUsd(usd);
  if (limit === undefined || limit < 0n || limit > MAX_NANO)
    throw invalid(
      field,
      `The ${field === BUDGET_FIELDS.day ? "daily" : "monthly"} budget must be an amount of US dollars from 0 to 9,000,000, with at most nine decimals.`,
    );
  return limit;
}

function peopleOnlyFault(): Fault {
  return new Fault("forbidden", "a key cannot set a workspace's budget", {
    message:
      "The account is claimed: its owner, admins and billing members change budgets, on the Budgets page of the console. Keys can read them.",
    next: [
      {
        method: "GET",
        url: "/v1/account/budgets",
        why: "Get the budgets and when they reset.",
      },
    ],
  });
}

function limitText(limit: Nano | null): string | null {
  return limit === null ? null : usdText(limit);
}
