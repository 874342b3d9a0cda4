// Finds a payment of an invoice that is in flight, so that the invoice is not paid twice.

import type { Reader } from "../../store/db.ts";
import { findTopUpByInvoice } from "../top-up/top-up-rows.ts";
import { findActiveAgentPayment } from "./agent-payment-rows.ts";

/**
 * `method`: a saved payment method is being charged. `wallet`: an agent's payment was sent and its outcome is not known yet.
 * `unclear`: the outcome of an agent's payment could not be found out, and the operator was notified.
 */
export type InFlightPayment = "method" | "wallet" | "unclear";

export async function inFlightPaymentOf(
  reader: Reader,
  invoiceId: string,
): Promise<InFlightPayment | undefined> {
  if (await isMethodBeingCharged(reader, invoiceId)) return "method";
  const payment = await findActiveAgentPayment(reader, invoiceId);
  if (payment === undefined) return undefined;
  return payment.state === "unclear" ? "unclear" : "wallet";
}

export async function isMethodBeingCharged(reader: Reader, invoiceId: string): Promise<boolean> {
  return (await findTopUpByInvoice(reader, invoiceId))?.isOpen === true;
}
