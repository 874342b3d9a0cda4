// A payment by x402 of which nobody could say whether it moved money: an operator has looked, and it is not there. That
// ends it, and credits nothing. It is refused where the chain shows the payment, and where it was credited.

import { type Actor, record } from "../../audit/audit.ts";
import { Fault } from "../../base/fault.ts";
import { usdText } from "../../base/money.ts";
import { lockInvoice } from "../../billing/invoices/invoices.ts";
import { nanoOfCents } from "../../billing/invoices/cents.ts";
import { paymentsOfInvoice } from "../../billing/payments/payment-rows.ts";
import type { ChainClient, ChainLookup } from "../../billing/x402/chain-client.ts";
import {
  findX402Payment,
  lockX402Payment,
  updateX402Payment,
  type X402Payment,
} from "../../billing/x402/x402-payment-rows.ts";
import type { Db, Reader, Tx } from "../../store/db.ts";

/** What those are told who present the payment again. */
const REFUSED_REASON = "an operator looked for it on the chain, and it is not there";

export interface NotOnChainRequest {
  /** The payment. */
  readonly id: string;
  readonly by: Actor;
  readonly reason: string;
  readonly network: string | null;
  readonly now: number;
  readonly chainResult: ChainLookupResult;
}

/** What a node said beside the operator. */
export type ChainLookupResult = "absent" | "no answer" | "not asked";

/** Asks the chain first, where it can be asked. A node that does not answer, or not so far back, stands in nobody's way. */
export async function lookUpOnChain(
  db: Db,
  chain: ChainClient | undefined,
  id: string,
): Promise<ChainLookupResult> {
  const { state, signed, createdAt, expiresAt } = await requireX402Payment(db, id);
  if (chain === undefined || state !== "unclear") return "not asked";
  let found: ChainLookup;
  try {
    found = await chain.findPayment(signed, createdAt);
  } catch {
    return "no answer";
  }
  if (found.kind === "paid")
    throw conflictFault(
      `The chain shows this payment, in the transaction ${found.transaction}: mark its invoice as paid, with that as the reference.`,
    );
  if (found.at <= expiresAt)
    throw conflictFault("By the chain's clock its signature can still be used. Try again later.");
  return "absent";
}

/** Ends it. Answers false where that was done before. */
export async function markNotOnChain(tx: Tx, request: NotOnChainRequest): Promise<boolean> {
  const { id, now } = request;
  const { invoiceId } = await requireX402Payment(tx, id);
  await lockInvoice(tx, invoiceId);
  const payment = await lockX402Payment(tx, id);
  if (payment?.state === "refused") return false;
  if (payment?.state === "open")
    throw conflictFault(
      "What became of this payment is still being found out. Nothing was changed.",
    );
  if (payment?.state !== "unclear")
    throw conflictFault("This payment was credited. Nothing was changed.");
  const manualPayment = (await paymentsOfInvoice(tx, invoiceId)).find(
    ({ processor, state }) => processor === "manual" && state === "credited",
  );
  if (manualPayment !== undefined)
    throw conflictFault(
      `Its invoice was marked as paid, by ${manualPayment.id}. Nothing was changed.`,
    );
  await updateX402Payment(tx, payment, {
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
  { id, accountId, invoiceId, totalCents, payer, reason: heard }: X402Payment,
): Promise<void> {
  await record(tx, {
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
      ...(heard === null ? {} : { heard }),
    },
    network,
    now,
  });
}

async function requireX402Payment(reader: Reader, id: string): Promise<X402Payment> {
  const payment = await findX402Payment(reader, id);
  if (payment !== undefined) return payment;
  throw new Fault("not_found", "no x402 payment has that id", {
    message: `There is no payment by x402 with that id. postern admin payments --unclear lists those that may be ended.`,
  });
}

function conflictFault(message: string): Fault {
  return new Fault("conflict", message, { message });
}
