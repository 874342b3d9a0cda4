// What calls were charged by hour, over all accounts. Written with the usage records of a batch, for the operator's report.

import type { Nano } from "../base/money/money.ts";
import { HOUR_MS } from "../base/time.ts";
import { SYSTEM_ACCOUNTS, type Transfer } from "./rows.ts";

export interface HourCharges {
  /** The start of the hour. */
  readonly at: number;
  promo: Nano;
  paid: Nano;
  overrun: Nano;
}

/** Sums the usage among these transfers. */
export function hourCharges(
  transfers: readonly Pick<Transfer, "from" | "kind" | "amount" | "at">[],
): readonly HourCharges[] {
  const hours: HourCharges[] = [];
  let hour: HourCharges | undefined;
  for (const { from, kind, amount, at: time } of transfers) {
    if (kind !== "usage") continue;
    const at = time - (time % HOUR_MS);
    // A batch is in one hour, except at its end.
    if (hour?.at !== at) hour = hours.find((one) => one.at === at);
    if (hour === undefined) hours.push((hour = { at, promo: 0n, paid: 0n, overrun: 0n }));
    if (from === SYSTEM_ACCOUNTS.overrunExpense) hour.overrun += amount;
    else if (from.endsWith(":promo")) hour.promo += amount;
    else hour.paid += amount;
  }
  return hours;
}
