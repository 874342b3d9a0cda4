// A call is uncovered if its hold was swept before its settlement and other calls spent the credits. Its caller gets an
// error, so no reply is stored for a retry.

import type { ChargeSplit, SettleOutcome } from "../../ledger/decide.ts";
import type { UsageRecord } from "../../usage/usage.ts";
import { NO_CHARGE, tokenTotals } from "../metering/charge.ts";
import type { SettledCall } from "./call.ts";

export function isUncovered(settled: SettleOutcome): boolean {
  if (settled.status === "deferred") return false;
  // A settlement is repeated if the reply to its commit was lost. The store does not keep whether the charge was late.
  if (settled.status === "already") return settled.overrun !== undefined;
  return settled.late && settled.overrun > 0n;
}

/** The call as it is stored: without its reply if its charge is uncovered. */
export function withoutUncoveredReply(
  call: SettledCall,
  charge: ChargeSplit | undefined,
): SettledCall {
  if (charge?.isUncovered !== true) return call;
  const { usage, idempotent, prompt, isExported } = call;
  const isCharged = charge.promo + charge.paid + charge.overrun > 0n;
  return {
    usage: uncoveredUsage(usage, isCharged),
    idempotent: idempotent && { ...idempotent, reply: undefined },
    prompt: prompt && { ...prompt, reply: undefined },
    ...(isExported === true && { isExported }),
  };
}

/** The call as it is stored if its caller did not get the reply. */
export function unservedCall(call: SettledCall): SettledCall {
  const { usage, idempotent, prompt, isExported } = call;
  return {
    usage: uncoveredUsage(usage, false),
    idempotent: idempotent && { ...idempotent, reply: undefined },
    prompt: prompt && { ...prompt, reply: undefined },
    ...(isExported === true && { isExported }),
  };
}

/** A stream is charged for the part that was relayed before its last event; a whole reply is not charged. */
export function uncoveredUsage(usage: UsageRecord, isCharged: boolean): UsageRecord {
  if (!isCharged) return { ...usage, ...UNSERVED };
  return usage.outcome === "completed" ? { ...usage, outcome: "shut_down" } : usage;
}

const UNSERVED = {
  ...tokenTotals(NO_CHARGE.usage),
  price: NO_CHARGE.lines,
  exact: NO_CHARGE.exact,
  cost: NO_CHARGE.cost,
  outcome: "shut_down",
  status: 503,
} as const;
