// Ends an unclear x402 payment that an operator did not find on the chain. It credits nothing, and is rejected if the
// chain shows the payment or if it was credited.

import { type Actor, recordAuditEntry } from "../../activity/audit.ts";
import { conflict, Fault } from "../../base/fault.ts";
import { usdText } from "../../base/money/money.ts";
import { nanoOfCents } from "../../billing/invoices/cents.ts";
import { lockInvoice } from "../../billing/invoices/invoices.ts";
import {
  type AgentPayment,
  lockAgentPayment,
  updateAgentPayment,
} from "../../billing/payments/agent-payment-rows.ts";
import { paymentsOfInvoice } from "../../billing/payments/payment-rows.ts";
import type { ChainClient, ChainLookup } from "../../billing/x402/chain-client.ts";
import { findX402Payment, type X402Payment } from "../../billing/x402/x402-payment-rows.ts";
import type { Db, Reader, Tx } from "../../store/db.ts";

/** The reason that a client gets when it presents the payment again. */
const REFUSED_REASON = "an operator found that it is not on the chain";

export interface NotOnChainRequest {
  /** The payment's id. */
  readonly id: string;
  readonly by: Actor;
  readonly reason: string;
  readonly network: string | null;
  readonly now: number;
  readonly chainResult: ChainLookupResult;
}

/** The result of the lookup that the gateway itself does. */
export type ChainLookupResult = "absent" | "no answer" | "not asked";

/** Looks the payment up, if a node is configured. An unreachable node does not block the operator. */
export async function lookUpOnChain(
  db: Db,
  chain: Pick<ChainClient, "findPayment"> | undefined,
  id: string,
): Promise<ChainLookupResult> {
  const { state, proof, createdAt, expiresAt } = await requireX402Payment(db, id);
  if (chain === undefined || state !== "unclear") return "not asked";
  let found: ChainLookup;
  try {
    found = await chain.findPayment(proof, createdAt);
  } catch {
    return "no answer";
  }
  if (found.kind === "paid")
    throw conflict(
      `The payment is on the chain, in transaction ${found.transaction}. Mark its invoice as paid with this transaction as the reference.`,
    );
  if (found.at <= expiresAt)
    throw conflict("The payment's signature has not expired yet. Try again later.");
  return "absent";
}

/** Returns false if it was done before. */
export async function markNotOnChain(tx: Tx, request: NotOnChainRequest): Promise<boolean> {
  const { id, now } = request;
  const { invoiceId } = await requireX402Payment(tx, id);
  await lockInvoice(tx, invoiceId);
  const payment = await lockAgentPayment(tx, id);
  if (payment?.state === "refused") return false;
  if (payment?.state === "open")
    throw conflict("This payment is still being processed. Nothing was changed.");
  if (payment?.state !== "unclear")
    throw conflict("This payment was credited. Nothing was changed.");
  const manualPayment = (await paymentsOfInvoice(tx, invoiceId)).find(
    ({ processor, state }) => processor === "manual" && state === "credited",
  );
  if (manualPayment !== undefined)
    throw conflict(
      `The invoice of this payment was marked as paid by ${manualPayment.id}. Nothing was changed.`,
    );
  await updateAgentPayment(tx, payment, {
    state: "refused",
    reason: REFUSED_REASON,
    dueAt: null,
    now,
  });
  await recordAudit(tx, request, payment);
  return true;
}

async function recordAudit(
  tx: Tx,
  { by, reason, network, now, chainResult }: NotOnChainRequest,
  { id, accountId, invoiceId, totalCents, payer, reason: previousReason }: AgentPayment,
): Promise<void> {
  await recordAuditEntry(tx, {
    accountId,
    actor: by,
    action: "payment.marked_absent",
    target: id,
    detail: {
      usd: usdText(nanoOfCents(totalCents)),
      reason,
      invoice: invoiceId,
      payer,
      chain: chainResult,
      ...(previousReason === null ? {} : { previous_reason: previousReason }),
    },
    network,
    now,
  });
}

async function requireX402Payment(reader: Reader, id: string): Promise<X402Payment> {
  const payment = await findX402Payment(reader, id);
  if (payment !== undefined) return payment;
  throw new Fault("not_found", "no x402 payment has that id", {
    message:
      "There is no x402 payment with that id. `postern admin payments --unclear` lists the unclear payments.",
  });
}
