// The public record of a workspace's budgets.

import { z } from "zod";
import { usdNumber } from "../base/money/money.ts";
import { timestamp } from "../http/schemas.ts";
import type { BudgetState } from "../ledger/budget-rules.ts";
import type { BudgetStates } from "../ledger/wallet-budgets.ts";

const BudgetRecord = z
  .object({
    limit_usd: z
      .number()
      .nullable()
      .meta({ description: "Limit for all keys together; null for no budget." }),
    used_usd: z.number().meta({ description: "Spent since the window started." }),
    held_usd: z.number().meta({ description: "Held by running calls." }),
    remaining_usd: z
      .number()
      .nullable()
      .meta({ description: "What new calls can hold; null for no budget." }),
    resets_at: z.string().meta({ description: "When the budget resets, in UTC." }),
  })
  .meta({ id: "Budget" });

export const BudgetsRecord = z
  .object({
    object: z.literal("budgets"),
    daily: BudgetRecord.meta({ description: "Budget for the UTC day." }),
    monthly: BudgetRecord.meta({ description: "Budget for the UTC calendar month." }),
  })
  .meta({ id: "Budgets" });

export const BUDGETS_EXAMPLE = {
  object: "budgets",
  daily: {
    limit_usd: 5,
    used_usd: 1.25,
    held_usd: 0.02,
    remaining_usd: 3.73,
    resets_at: "2026-11-22T00:00:00.000Z",
  },
  monthly: {
    limit_usd: null,
    used_usd: 18.4,
    held_usd: 0.02,
    remaining_usd: null,
    resets_at: "2026-12-01T00:00:00.000Z",
  },
};

export function toBudgetsRecord({ day, month }: BudgetStates): z.infer<typeof BudgetsRecord> {
  return { object: "budgets", daily: toBudgetRecord(day), monthly: toBudgetRecord(month) };
}

function toBudgetRecord({
  limit,
  used,
  held,
  remaining,
  endsAt,
}: BudgetState): z.infer<typeof BudgetRecord> {
  return {
    limit_usd: limit === null ? null : usdNumber(limit),
    used_usd: usdNumber(used),
    held_usd: usdNumber(held),
    remaining_usd: remaining === null ? null : usdNumber(remaining),
    resets_at: timestamp(endsAt),
  };
}
