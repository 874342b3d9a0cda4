// Applies payment facts, each exactly once, in whatever order they arrive: reads what is known, looks the transition up in the
// table of payment-transitions.ts, and writes it. No other file changes a payment.

import { emitEvent } from "../../activity/events.ts";
import type { Log } from "../../base/log.ts";
import { getWallet } from "../../ledger/ledger.ts";
import { fitsBalanceLimit, postPayment, postReturn } from "../../ledger/payments/payments.ts";
import { recallLeases } from "../../ledger/recall-leases.ts";
import type { Db, Tx } from "../../store/db.ts";
import { nanoOfCredits, usdOfCredits } from "../invoices/cents.ts";
import { findInvoice, lockInvoice, setPaid, setRefunded } from "../invoices/invoices.ts";
import { stopAfterReturn } from "../top-up/auto-top-up.ts";
import { completeTopUp } from "../top-up/top-up-outcome.ts";
import type { PaymentFact } from "./payment-processor.ts";
import {
  type FactState,
  findFact,
  findPayment,
  insertFact,
  insertPayment,
  setFactState,
  type Payment,
  paymentIdOf,
  paymentsOfInvoice,
  listAppliedReturns,
  updateReturned,
  listWaitingFacts,
} from "./payment-rows.ts";
import {
  CAUSES,
  isValidFact,
  type Movement,
  type PaymentSnapshot,
  setAside,
  type Transition,
  transitionOf,
} from "./payment-transitions.ts";

export interface AppliedFact {
  readonly fact: PaymentFact;
  /** `known`: the fact was recorded before, and nothing was changed. */
  readonly state: FactState | "known";
  /** Set if the operator must act. */
  readonly reason: string | null;
}

export interface PaymentDeps {
  readonly db: Db;
  readonly log: Log;
}

/** Applies facts in order, each in its own transaction, and logs those that need the operator. */
export async function ingestFacts(
  { db, log }: PaymentDeps,
  facts: readonly PaymentFact[],
  now: number,
): Promise<void> {
  for (const fact of facts) {
    if ((await findFact(db, fact)) !== undefined) continue;
    await freeLeasedCredits(db, fact);
    const applied = await db.write((tx) => applyFact(tx, fact, now));
    for (const outcome of applied) logOutcome(log, outcome);
  }
}

/** What is reserved for the next calls must not be missing when a refund or a dispute takes credits. */
export async function freeLeasedCredits(db: Db, { kind, invoiceId }: PaymentFact): Promise<void> {
  if (kind !== "refunded" && kind !== "disputed") return;
  const invoice = await findInvoice(db, invoiceId);
  if (invoice !== undefined) await db.write((tx) => recallLeases(tx, invoice.accountId));
}

export function logOutcome(log: Log, { fact, state, reason }: AppliedFact): void {
  const fields = {
    processor: fact.processor,
    ref: fact.ref,
    kind: fact.kind,
    invoice: fact.invoiceId,
    amount_cents: fact.amountCents,
    currency: fact.currency,
  };
  if (reason !== null) log.error("payment needs operator action", { ...fields, state, reason });
  else if (state !== "known") log.info("payment event processed", { ...fields, state });
}

/** Returns the outcome of the fact, and of facts that waited for it. */
export async function applyFact(
  tx: Tx,
  fact: PaymentFact,
  now: number,
): Promise<readonly AppliedFact[]> {
  if (!isValidFact(fact)) return [{ fact, state: "aside", reason: "the amount is out of range" }];
  if (!(await insertFact(tx, fact, now))) return [await duplicateFact(tx, fact)];
  const applied = [await makeTransition(tx, fact, now)];
  // A refund that arrived before its payment, or a dispute's closure before the dispute, can be applied now.
  for (let hasProgressed = applied[0]?.state === "applied"; hasProgressed;) {
    hasProgressed = false;
    for (const waiting of await listWaitingFacts(tx, paymentIdOf(fact))) {
      const next = await makeTransition(tx, waiting, now);
      if (next.state === "waiting") continue;
      applied.push(next);
      hasProgressed = true;
    }
  }
  return applied;
}

async function duplicateFact(tx: Tx, fact: PaymentFact): Promise<AppliedFact> {
  const recorded = await findFact(tx, fact);
  const isSame =
    recorded?.amountCents === fact.amountCents &&
    recorded.currency === fact.currency &&
    recorded.invoiceId === fact.invoiceId;
  return { fact, state: "known", reason: isSame ? null : "it differs from the recorded fact" };
}

async function makeTransition(tx: Tx, fact: PaymentFact, now: number): Promise<AppliedFact> {
  const snapshot = await readSnapshot(tx, fact);
  const transition =
    snapshot === undefined ? setAside("no invoice has this id") : transitionOf(fact, snapshot);
  const { state, reason } = transition;
  await setFactState(tx, fact, state, reason);
  if (snapshot !== undefined) await writeTransition(tx, transition, { fact, snapshot, now });
  return { fact, state, reason };
}

/** Locks the invoice. Undefined if it does not exist. */
async function readSnapshot(tx: Tx, fact: PaymentFact): Promise<PaymentSnapshot | undefined> {
  const invoice = await lockInvoice(tx, fact.invoiceId);
  if (invoice === undefined) return undefined;
  const payment = await findPayment(tx, paymentIdOf(fact));
  const isPaid = fact.kind === "paid";
  const causeKind = CAUSES[fact.kind];
  const isReversal = causeKind !== undefined;
  const earlier = isPaid ? await paymentsOfInvoice(tx, invoice.id) : [];
  return {
    invoice,
    payment,
    creditedBy: earlier.find(({ state }) => state === "credited")?.id,
    fitsBalance:
      !isPaid || (await fitsBalanceLimit(tx, invoice.accountId, nanoOfCredits(invoice.credits))),
    cause: isReversal ? await findFact(tx, { ...fact, kind: causeKind }) : undefined,
    returns: isReversal ? await listAppliedReturns(tx, paymentIdOf(fact)) : [],
  };
}

interface WriteContext {
  readonly now: number;
  readonly fact: PaymentFact;
  readonly snapshot: PaymentSnapshot;
}

async function writeTransition(
  tx: Tx,
  { payment, movement }: Transition,
  context: WriteContext,
): Promise<void> {
  if (payment === undefined) return;
  const isNew = context.snapshot.payment === undefined;
  if (isNew) await insertPayment(tx, payment);
  else await updateReturned(tx, payment);
  if (movement !== undefined) await postMovement(tx, movement, payment, context);
  if (payment.state !== "credited") return;
  if (isNew) await payInvoice(tx, payment, context);
  else await setRefunded(tx, payment.invoiceId, payment.refundedCents >= payment.amountCents);
}

async function postMovement(
  tx: Tx,
  movement: Movement,
  { id: ref, accountId, processor }: Payment,
  { now }: WriteContext,
): Promise<void> {
  const { kind } = movement;
  const posted = { ...movement, accountId, processor, ref, now };
  if (kind !== "refund" && kind !== "dispute") return await postPayment(tx, posted);
  await postReturn(tx, posted);
  const { promo, paid } = await getWallet(tx, accountId);
  await stopAfterReturn(tx, accountId, { kind, balance: promo + paid, now });
}

async function payInvoice(
  tx: Tx,
  { accountId, invoiceId, taxCents }: Payment,
  { fact, snapshot, now }: WriteContext,
): Promise<void> {
  await setPaid(tx, invoiceId, { taxCents, at: fact.at });
  await completeTopUp(tx, invoiceId, now);
  const { credits } = snapshot.invoice;
  const data = { invoice_id: invoiceId, amount_usd: usdOfCredits(credits), credits };
  await emitEvent(tx, { type: "invoice.paid", accountId, data, now });
}
