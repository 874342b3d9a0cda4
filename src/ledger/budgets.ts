// A workspace's budgets as they stand, and their change. The limits and what was spent of them are in the wallet's row,
// which every batch locks and reads anyway: a workspace without a budget costs no statement more. What was spent is
// counted only while there is a limit; a first limit begins with what the workspace's keys have spent, which is the same sum.

import { MAX_NANO, type Nano, toNano } from "../base/money.ts";
import { dayStart, monthStart } from "../base/spend-window.ts";
import { type Reader, type Row, type Tx, integer, integerOrNull } from "../store/db.ts";
import {
  BUDGET_WINDOWS,
  type Budget,
  type BudgetLimits,
  type BudgetThresholdCrossing,
  type BudgetSpendTotals,
  type BudgetState,
  type BudgetWindow,
  rollBudgetWindows,
  crossedBudgetThresholds,
  budgetStateOf,
} from "./budget-rules.ts";
import { toBudget, toWallet } from "./rows.ts";

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
  /** What was spent already may have reached a part of the new limits. */
  readonly crossings: readonly BudgetThresholdCrossing[];
}

/** Sets the limits that are named; null takes one away. */
export async function setBudgets(
  tx: Tx,
  accountId: string,
  limits: Partial<BudgetLimits>,
  now: number,
): Promise<BudgetsChangeResult> {
  for (const limit of Object.values(limits))
    if (limit !== null && (limit < 0n || limit > MAX_NANO))
      throw new Error(`a budget of ${limit} is no amount`);
  // Every charge of the workspace waits for this lock, so its keys' sums stand still.
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
  return {
    before: before?.limits ?? NO_LIMITS,
    after: budgetStatesOf(budget, row, now),
    crossings: crossedBudgetThresholds(before, budget, { accountId, now }),
  };
}

const NO_LIMITS: BudgetLimits = { day: null, month: null };

function budgetStatesOf(budget: Budget, row: Row, now: number): BudgetStates {
  const { held } = toWallet(row);
  const [day, month] = BUDGET_WINDOWS.map((window) =>
    budgetStateOf(budget, window, { held, at: now }),
  );
  if (day === undefined || month === undefined) throw new Error("a budget has two windows");
  return { day, month };
}

// A day that was begun under a former budget is not left again.
function latestDayStart(row: Row, now: number): number {
  return Math.max(now, integerOrNull(row, "day_start") ?? 0);
}

async function spentByKeys(
  reader: Reader,
  accountId: string,
  at: number,
): Promise<BudgetSpendTotals> {
  const rows = await reader.all(
    `select spender.day_start, spender.month_start, cast(sum(spender.day_spent) as text) as day_spent,
       cast(sum(spender.month_spent) as text) as month_spent
     from api_key join spender on spender.key_id = api_key.id
     where api_key.account_id = ? group by spender.day_start, spender.month_start`,
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
