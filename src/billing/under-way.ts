// Whether somebody else is paying an invoice just now, so that nobody pays it as well.

import type { Reader } from "../store/db.ts";
import { topUpOfInvoice } from "./top-up-rows.ts";
import { liveX402Of } from "./x402-rows.ts";

/**
 * `method`: a saved method is being charged. `wallet`: an agent's payment by x402 was sent, and what became of it is not
 * known yet. `unclear`: nobody can say what became of it, and an operator was told.
 */
export type UnderWay = "method" | "wallet" | "unclear";

export async function underWayOf(reader: Reader, invoiceId: string): Promise<UnderWay | undefined> {
  if (await isBeingCharged(reader, invoiceId)) return "method";
  const payment = await liveX402Of(reader, invoiceId);
  if (payment === undefined) return undefined;
  return payment.state === "unclear" ? "unclear" : "wallet";
}

/** Whether a saved method is being charged for an invoice. */
export async function isBeingCharged(reader: Reader, invoiceId: string): Promise<boolean> {
  return (await topUpOfInvoice(reader, invoiceId))?.isOpen === true;
}
