// Reads the state of auto top-up, for the API and the console.

import { monthStart } from "../../base/money/spend-window.ts";
import type { Reader } from "../../store/db.ts";
import { findMethod } from "./payment-method-rows.ts";
import { type AutoTopUp, findAutoTopUp, listTopUps, sumTopUps, type TopUp } from "./top-up-rows.ts";

export interface AutoTopUpSummary {
  /** Undefined if it was never enabled. */
  readonly settings: AutoTopUp | undefined;
  /** `Visa ending in 4242`; null without a saved method. */
  readonly method: string | null;
  /** In this UTC calendar month, including purchases in flight. */
  readonly boughtCents: number;
  readonly lastTopUp: TopUp | undefined;
}

export async function readAutoTopUpSummary(
  reader: Reader,
  accountId: string,
  now: number,
): Promise<AutoTopUpSummary> {
  const settings = await findAutoTopUp(reader, accountId);
  const method = await findMethod(reader, accountId);
  const boughtCents = await sumTopUps(reader, accountId, monthStart(now));
  const [lastTopUp] = await listTopUps(reader, accountId, 1);
  return { settings, method: method?.label ?? null, boughtCents, lastTopUp };
}
