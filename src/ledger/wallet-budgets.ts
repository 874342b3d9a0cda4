// Reads and sets the budgets of a workspace. Limits and spend are columns of the wallet, which every batch reads
// anyway, so budgets need no extra statement. Spend is only counted while there is a limit; a first limit starts with
// the sum of the keys' spend, which is the same amount.

import { MAX_NANO, type Nano, toNano } from "../base/money/money.ts";
import { dayStart, monthStart } from "../base/money/spend-window.ts";
import { type Reader, type Row, type Tx, integer, integerOrNull } from "../store/db.ts";
import {
  BUDGET_WINDOWS,
  type Budget,
  type BudgetLimits,
  type BudgetSpendTotals,
  type BudgetState,
  type BudgetWindow,
  rollBudgetWindows,
  crossedBudgetThresholds,
  budgetStateOf,
} from "./budget-rules.ts";
import { toBudget, toWallet } from "./ledger-rows.ts";
import { recallLeases } from "./recall-leases.ts";
import { emitBudgetEvents } from "./threshold-events.ts";

export type BudgetStates = Readonly<Record<BudgetWindow, BudgetState>>;

export async function getBudgets(
  reader: Reader,
  accountId: string,
  now: number,
): Promise<BudgetStates> {
  const row = await reader.get("select * from wallet where account_id = ?", [accountId]);
  if (row === undefined) throw new Error(`account ${accountId} has no wallet`);
  const budget = toBudget(row) ?? {
    limits: { day: null, month: null },
    spent: await spentByKeys(reader, accountId, now),
  };
  return budgetStatesOf(budget, row, now);
}

export interface BudgetsChangeResult {
  readonly before: BudgetLimits;
  readonly after: BudgetStates;
}

/** Sets the given limits; null removes a limit. Emits the thresholds of the new limits that the spend has reached already. */
export async function setBudgets(
  tx: Tx,
  accountId: string,
  limits: Partial<BudgetLimits>,
  now: number,
): Promise<BudgetsChangeResult> {
  for (const limit of Object.values(limits))
    if (limit !== null && (limit < 0n || limit > MAX_NANO))
      throw new Error(`invalid budget limit: ${limit}`);
  await recallLeases(tx, accountId);
  // Every charge of the workspace takes this lock, so the sums of its keys cannot change.
  const [row] = await tx.lockMany("wallet", "account_id", [accountId]);
  if (row === undefined) throw new Error(`account ${accountId} has no wallet`);
  const before = toBudget(row);
  const budget: Budget = {
    limits: { ...NO_LIMITS, ...before?.limits, ...limits },
    spent:
      before === undefined
        ? await spentByKeys(tx, accountId, latestDayStart(row, now))
        : rollBudgetWindows(before.spent, now),
  };
  const { spent } = budget;
  await tx.run(
    `update wallet set day_budget = ?, month_budget = ?, day_start = ?, day_spent = ?, month_start = ?, month_spent = ?
     where account_id = ?`,
    [
      budget.limits.day,
      budget.limits.month,
      spent.dayStart,
      spent.day,
      spent.monthStart,
      spent.month,
      accountId,
    ],
  );
  await emitBudgetEvents(tx, crossedBudgetThresholds(before, budget, { accountId, now }));
  return { before: before?.limits ?? NO_LIMITS, after: budgetStatesOf(budget, row, now) };
}

const NO_LIMITS: BudgetLimits = { day: null, month: null };

function budgetStatesOf(budget: Budget, row: Row, now: number): BudgetStates {
  const { held } = toWallet(row);
  const [day, month] = BUDGET_WINDOWS.map((window) =>
    budgetStateOf(budget, window, { held, at: now }),
  );
  if (day === undefined || month === undefined) throw new Error("a budget must have two windows");
  return { day, month };
}

// If a former budget has counted a later day, because of a clock that ran ahead, the windows start on that day.
function latestDayStart(row: Row, now: number): number {
  return Math.max(now, integerOrNull(row, "day_start") ?? 0);
}

async function spentByKeys(
  reader: Reader,
  accountId: string,
  at: number,
): Promise<BudgetSpendTotals> {
  const rows = await reader.all(
    `select day_start, month_start, cast(sum(day_spent) as text) as day_spent, cast(sum(month_spent) as text) as month_spent
     from spender where account_id = ? group by day_start, month_start`,
    [accountId],
  );
  const day = Math.max(dayStart(at), ...rows.map((row) => integer(row, "day_start")));
  const month = monthStart(day);
  const sum = (window: BudgetWindow, start: number): Nano =>
    rows
      .filter((row) => integer(row, `${window}_start`) === start)
      .reduce((total, row) => total + toNano(row[`${window}_spent`]), 0n);
  return { dayStart: day, day: sum("day", day), monthStart: month, month: sum("month", month) };
}
