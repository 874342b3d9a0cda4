// A payment by x402 of which nobody could say whether it moved money: an operator has looked, and it is not there. That
// ends it, and credits nothing. It is refused where the chain shows the payment, and where it was credited.

import { type Actor, record } from "../audit/audit.ts";
import { Fault } from "../base/fault.ts";
import { usdText } from "../base/money.ts";
import { lockInvoice } from "../billing/billing.ts";
import { nanoOfCents } from "../billing/cents.ts";
import { paymentsOf } from "../billing/payment-rows.ts";
import type { Chain, Found } from "../billing/x402-chain.ts";
import { findX402, lockX402, markX402, type X402Payment } from "../billing/x402-rows.ts";
import type { Db, Reader, Tx } from "../store/db.ts";

/** What those are told who present the payment again. */
const REASON = "an operator looked for it on the chain, and it is not there";

export interface Absence {
  /** The payment. */
  readonly id: string;
  readonly by: Actor;
  readonly reason: string;
  readonly network: string | null;
  readonly now: number;
  readonly chainSays: ChainSays;
}

/** What a node said beside the operator. */
export type ChainSays = "absent" | "no answer" | "not asked";

/** Asks the chain first, where it can be asked. A node that does not answer, or not so far back, stands in nobody's way. */
export async function askChainAfter(
  db: Db,
  chain: Chain | undefined,
  id: string,
): Promise<ChainSays> {
  const { state, signed, createdAt, expiresAt } = await demandPayment(db, id);
  if (chain === undefined || state !== "unclear") return "not asked";
  let found: Found;
  try {
    found = await chain.find(signed, createdAt);
  } catch {
    return "no answer";
  }
  if (found.kind === "paid")
    throw refused(
      `The chain shows this payment, in the transaction ${found.transaction}: mark its invoice as paid, with that as the reference.`,
    );
  if (found.at <= expiresAt)
    throw refused("By the chain's clock its signature can still be used. Try again later.");
  return "absent";
}

/** Ends it. Answers false where that was done before. */
export async function markAbsent(tx: Tx, absence: Absence): Promise<boolean> {
  const { id, now } = absence;
  const { invoiceId } = await demandPayment(tx, id);
  await lockInvoice(tx, invoiceId);
  const payment = await lockX402(tx, id);
  if (payment?.state === "refused") return false;
  if (payment?.state === "open")
    throw refused("What became of this payment is still being found out. Nothing was changed.");
  if (payment?.state !== "unclear")
    throw refused("This payment was credited. Nothing was changed.");
  const entered = (await paymentsOf(tx, invoiceId)).find(
    ({ processor, state }) => processor === "manual" && state === "credited",
  );
  if (entered !== undefined)
    throw refused(`Its invoice was marked as paid, by ${entered.id}. Nothing was changed.`);
  await markX402(tx, payment, { state: "refused", reason: REASON, dueAt: null, now });
  await note(tx, absence, payment);
  return true;
}

async function note(
  tx: Tx,
  { by, reason, network, now, chainSays }: Absence,
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
      chain: chainSays,
      ...(heard === null ? {} : { heard }),
    },
    network,
    now,
  });
}

async function demandPayment(reader: Reader, id: string): Promise<X402Payment> {
  const payment = await findX402(reader, id);
  if (payment !== undefined) return payment;
  throw new Fault("not_found", "no x402 payment has that id", {
    message: `There is no payment by x402 with that id. postern admin payments --unclear lists those that may be ended.`,
  });
}

function refused(message: string): Fault {
  return new Fault("conflict", message, { message });
}
