// Whether somebody else is paying an invoice just now, so that nobody pays it as well.

import type { Reader } from "../../store/db.ts";
import { findTopUpByInvoice } from "../top-up/top-up-rows.ts";
import { findActiveX402Payment } from "../x402/x402-payment-rows.ts";

/**
 * `method`: a saved method is being charged. `wallet`: an agent's payment by x402 was sent, and what became of it is not
 * known yet. `unclear`: nobody can say what became of it, and an operator was told.
 */
export type InFlightPayment = "method" | "wallet" | "unclear";

export async function inFlightPaymentOf(
  reader: Reader,
  invoiceId: string,
): Promise<InFlightPayment | undefined> {
  if (await isMethodBeingCharged(reader, invoiceId)) return "method";
  const payment = await findActiveX402Payment(reader, invoiceId);
  if (payment === undefined) return undefined;
  return payment.state === "unclear" ? "unclear" : "wallet";
}

/** Whether a saved method is being charged for an invoice. */
export async function isMethodBeingCharged(reader: Reader, invoiceId: string): Promise<boolean> {
  return (await findTopUpByInvoice(reader, invoiceId))?.isOpen === true;
}
