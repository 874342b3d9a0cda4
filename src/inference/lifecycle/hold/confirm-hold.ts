// Whether a call's credits are still held. A process that was suspended has lost its lease, and with it perhaps its holds.

import { Fault } from "../../../base/fault.ts";
import type { HoldState, Lease } from "../../../ledger/lease.ts";
import type { HeldCall } from "../call.ts";

/** Known at once for most calls: the store is asked only after an interruption of the lease. */
export function confirmHold(
  lease: Pick<Lease, "term" | "confirmHold">,
  { input, hold }: HeldCall,
): "held" | Promise<HoldState> {
  // A hold of zero reserves nothing that others could spend, and the hold of a batch belongs to no process, so no sweep releases it.
  if (hold.amount === 0n || input.batchItem?.hasNoCall === true) return "held";
  // A term of 0 means an expired lease, also one under which the hold was taken, so it proves nothing.
  if (hold.leaseTerm !== 0 && hold.leaseTerm === lease.term()) return "held";
  const { requestId: id, caller } = input;
  return lease.confirmHold({ id: hold.rowId ?? id, accountId: caller.accountId }).then((state) => {
    hold.leaseTerm = state === "held" ? lease.term() : 0;
    return state === "held" && hold.leaseTerm === 0 ? "lost" : state;
  });
}

/** For a call that ends because its hold is lost, or because the store cannot raise it. */
export function lostHoldFault(reason: "hold_lost" | "store_unavailable"): Fault {
  return reason === "hold_lost" ? suspendedFault() : storeUnavailableFault();
}

export function suspendedFault(): Fault {
  return new Fault("overloaded", "the gateway was suspended and lost the call's hold", {
    message:
      "The gateway was suspended during the call, and its credits are no longer held. Send the request again.",
    retryAfterSeconds: 1,
  });
}

export function storeUnavailableFault(): Fault {
  return new Fault("overloaded", "the store was unavailable at the end of the call", {
    message:
      "The gateway's database was unavailable during the call. Output that you received is charged. Send the request again.",
    retryAfterSeconds: 1,
  });
}
