// x402's payments among the rows of agent_payment.

import type { Reader, Tx } from "../../store/db.ts";
import {
  type AgentPayment,
  findAgentPayment,
  insertAgentPayment,
  listUnclearAgentPayments,
  type NewAgentPayment,
} from "../payments/agent-payment-rows.ts";
import { expiresAtOf, type SignedPayment, transferIdOf } from "./x402-messages.ts";

export interface X402Payment extends AgentPayment {
  readonly proof: SignedPayment;
}

type NewX402Payment = Pick<
  NewAgentPayment,
  "accountId" | "totalCents" | "invoice" | "now" | "dueAt"
> & { readonly signed: SignedPayment };

/** The row of a signed payment. */
export function x402Row(signed: SignedPayment) {
  return {
    id: transferIdOf(signed),
    method: "x402",
    proof: signed,
    payer: signed.payload.authorization.from,
    expiresAt: expiresAtOf(signed),
  } as const;
}

export async function insertX402Payment(
  tx: Tx,
  { signed, ...payment }: NewX402Payment,
): Promise<X402Payment | undefined> {
  const inserted = await insertAgentPayment(tx, { ...payment, ...x402Row(signed) });
  return inserted && toX402Payment(inserted);
}

export async function findX402Payment(
  reader: Reader,
  id: string,
): Promise<X402Payment | undefined> {
  const payment = await findAgentPayment(reader, id);
  return payment?.method === "x402" ? toX402Payment(payment) : undefined;
}

/** Only x402 payments become unclear. */
export async function listUnclearX402Payments(
  reader: Reader,
  limit: number,
): Promise<readonly X402Payment[]> {
  return (await listUnclearAgentPayments(reader, limit)).map(toX402Payment);
}

export function toX402Payment(payment: AgentPayment): X402Payment {
  // Safe: `x402Row` wrote it from a value of this type.
  return { ...payment, proof: payment.proof as SignedPayment };
}
