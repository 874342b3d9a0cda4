// How automatic top-up stands, as its owner and the account's keys see it.

import { monthStart } from "../../base/spend-window.ts";
import type { Reader } from "../../store/db.ts";
import { findMethod } from "./payment-method-rows.ts";
import { type AutoTopUp, findAutoTopUp, listTopUps, sumTopUps, type TopUp } from "./top-up-rows.ts";

export interface AutoTopUpSummary {
  /** Undefined where it was never turned on. */
  readonly settings: AutoTopUp | undefined;
  /** "Visa ending in 4242"; null where nothing is saved. */
  readonly method: string | null;
  /** In this calendar month, with what is being bought. */
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
