// Applies payment facts to the ledger, each exactly once, in whatever order they arrive. A fact that depends on another
// one waits for it; a fact that does not match its invoice is set aside for the operator.

import type { OnBalanceThresholds } from "../../ledger/balance-thresholds.ts";
import { getWallet } from "../../ledger/ledger.ts";
import {
  postPayment,
  fitsBalanceLimit,
  type PaymentMovement,
  postReturn,
} from "../../ledger/payments/payments.ts";
import type { Reversal } from "../../ledger/payments/reversals.ts";
import type { Tx } from "../../store/db.ts";
import {
  ZERO_AMOUNTS,
  nanoOfCredits,
  amountsDelta,
  remainingAmounts,
  type ReceivedAmounts,
} from "../invoices/cents.ts";
import {
  findInvoice,
  type Invoice,
  lockInvoice,
  setPaid,
  setRefunded,
  setVoid,
} from "../invoices/invoices.ts";
import { stopAfterReturn, type OnTopUpEvent } from "../top-up/auto-top-up.ts";
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
  type PaymentState,
  listAppliedReturns,
  updateReturned,
  listWaitingFacts,
} from "./payment-rows.ts";

const CURRENCY = "usd";
const CENTS_MAX = 900_000_000;

export interface AppliedFact {
  readonly fact: PaymentFact;
  /** `known`: the fact was recorded before, and nothing was changed. */
  readonly state: FactState | "known";
  /** Set if the operator must act. */
  readonly reason: string | null;
}

export interface PaidInvoice {
  readonly invoice: Invoice;
  readonly paymentId: string;
  readonly now: number;
}

export interface PaymentCallbacks {
  /** All callbacks run in the transaction of the fact. */
  readonly onInvoicePaid?: ((tx: Tx, paid: PaidInvoice) => Promise<void>) | undefined;
  /** Called when a refund or a dispute takes a balance below a threshold. */
  readonly onBalanceThresholds?: OnBalanceThresholds | undefined;
  readonly onTopUpEvent?: OnTopUpEvent | undefined;
}

/** Returns the outcome of the fact, and of facts that waited for it. */
export async function applyFact(
  tx: Tx,
  fact: PaymentFact,
  now: number,
  callbacks: PaymentCallbacks = {},
): Promise<readonly AppliedFact[]> {
  if (!isValidAmount(fact.amountCents) || !isValidAmount(fact.taxCents))
    return [{ fact, state: "aside", reason: "the amount is out of range" }];
  if (!(await insertFact(tx, fact, now))) return [await duplicateFact(tx, fact)];
  const invoice = await lockInvoice(tx, fact.invoiceId);
  const first = await processFact(tx, fact, invoice, { now, callbacks });
  const applied = [first];
  // A refund that arrived before its payment, or a dispute's closure before the dispute, can be applied now.
  for (let hasProgressed = first.state === "applied"; hasProgressed;) {
    hasProgressed = false;
    for (const waiting of await listWaitingFacts(tx, paymentIdOf(fact))) {
      const next = await processFact(tx, waiting, invoice, { now, callbacks });
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

interface FactContext {
  readonly now: number;
  readonly callbacks: PaymentCallbacks;
}

type FactVerdict = readonly [state: FactState, reason: string | null];

const APPLIED: FactVerdict = ["applied", null];
const WAITING: FactVerdict = ["waiting", null];

async function processFact(
  tx: Tx,
  fact: PaymentFact,
  invoice: Invoice | undefined,
  context: FactContext,
): Promise<AppliedFact> {
  const [state, reason] = await decide(tx, fact, invoice, context);
  await setFactState(tx, fact, state, reason);
  return { fact, state, reason };
}

async function decide(
  tx: Tx,
  fact: PaymentFact,
  invoice: Invoice | undefined,
  context: FactContext,
): Promise<FactVerdict> {
  if (invoice === undefined) return setAside("no invoice has this id");
  switch (fact.kind) {
    case "paid":
      return await applyPaid(tx, fact, invoice, context);
    case "voided":
      if (invoice.status !== "open") return setAside(`the invoice is ${invoice.status}`);
      await setVoid(tx, invoice, { now: fact.at });
      return APPLIED;
    case "refunded":
    case "refund_failed":
    case "disputed":
    case "dispute_closed":
      return await applyReturn(tx, fact, context);
  }
}

async function applyPaid(
  tx: Tx,
  fact: PaymentFact,
  invoice: Invoice,
  { now, callbacks }: FactContext,
): Promise<FactVerdict> {
  if (fact.amountCents === 0) return setAside("the amount is zero");
  const [state, reason] = await matchToInvoice(tx, fact, invoice);
  const purchase =
    state === "credited"
      ? { credits: invoice.credits, taxCents: fact.taxCents }
      : { credits: 0, taxCents: 0 };
  const payment: Payment = {
    id: paymentIdOf(fact),
    invoiceId: invoice.id,
    accountId: invoice.accountId,
    processor: fact.processor,
    state,
    reason,
    currency: fact.currency,
    amountCents: fact.amountCents,
    ...purchase,
    refundedCents: 0,
    disputedCents: 0,
    paidAt: fact.at,
  };
  await insertPayment(tx, payment);
  if (state !== "foreign")
    await postPayment(tx, {
      ...movementOf(fact, payment, now),
      amounts: remainingAmounts(payment, 0),
      kind: "purchase",
    });
  if (state !== "credited") return ["applied", reason];
  await setPaid(tx, invoice.id, { taxCents: fact.taxCents, at: fact.at });
  await completeTopUp(tx, invoice.id, now);
  const paid = await findInvoice(tx, invoice.id);
  if (paid !== undefined)
    await callbacks.onInvoicePaid?.(tx, { invoice: paid, paymentId: payment.id, now });
  return APPLIED;
}

/** A payment that does not match its invoice is not credited: its amount goes to suspense. */
async function matchToInvoice(
  tx: Tx,
  fact: PaymentFact,
  invoice: Invoice,
): Promise<readonly [PaymentState, string | null]> {
  if (fact.currency.toLowerCase() !== CURRENCY)
    return ["foreign", `the currency is ${fact.currency}, not usd`];
  const earlier = await paymentsOfInvoice(tx, invoice.id);
  const credited = earlier.find(({ state }) => state === "credited");
  if (credited !== undefined) return ["suspense", `the invoice was already paid by ${credited.id}`];
  const expectedCents = invoice.totalCents + fact.taxCents;
  if (fact.amountCents !== expectedCents)
    return ["suspense", `${fact.amountCents} cents were paid, but ${expectedCents} are due`];
  if (!(await fitsBalanceLimit(tx, invoice.accountId, nanoOfCredits(invoice.credits))))
    return ["suspense", "the balance would exceed its limit"];
  return ["credited", null];
}

async function applyReturn(
  tx: Tx,
  fact: PaymentFact,
  { now, callbacks }: FactContext,
): Promise<FactVerdict> {
  const payment = await findPayment(tx, paymentIdOf(fact));
  if (payment === undefined) return WAITING;
  if (payment.invoiceId !== fact.invoiceId)
    return setAside("the payment belongs to another invoice");
  if (fact.currency.toLowerCase() !== payment.currency.toLowerCase())
    return setAside(`the currency is ${fact.currency}, but the payment was in ${payment.currency}`);
  const change = await returnDelta(tx, fact);
  if (!("refunded" in change)) return change;
  const after: Payment = {
    ...payment,
    refundedCents: payment.refundedCents + change.refunded,
    disputedCents: payment.disputedCents + change.disputed,
  };
  if (after.refundedCents + after.disputedCents > CENTS_MAX)
    return setAside("the sum is out of range");
  await updateReturned(tx, after);
  if (payment.state === "foreign") return APPLIED;
  const before = remainingOf(payment);
  const returned = amountsDelta(before, remainingOf(after));
  const movement = movementOf(fact, payment, now);
  if (change.refunded + change.disputed > 0) {
    const kind = fact.kind === "refunded" ? "refund" : "dispute";
    const crossings = await postReturn(tx, { ...movement, amounts: returned, kind });
    await notifyReturn(tx, payment, { kind, crossings, now, callbacks });
  } else
    await postPayment(tx, {
      ...movement,
      amounts: amountsDelta(ZERO_AMOUNTS, returned),
      kind: fact.kind === "refund_failed" ? "refund_failed" : "dispute_closed",
      reverses: await reversalFor(tx, fact, after),
    });
  if (payment.state === "credited")
    await setRefunded(tx, payment.invoiceId, after.refundedCents >= payment.amountCents);
  return after.refundedCents + after.disputedCents > payment.amountCents
    ? ["applied", "more was returned than was paid; the operator bears the difference"]
    : APPLIED;
}

/** Describes which return of the payment is reversed, for the ledger. */
async function reversalFor(tx: Tx, fact: PaymentFact, after: Payment): Promise<Reversal> {
  const returns = await listAppliedReturns(tx, after.id);
  return {
    id: movementIdOf({ ...fact, kind: fact.kind === "refund_failed" ? "refunded" : "disputed" }),
    returns: returns.map((returned) =>
      returned.kind === "refunded"
        ? {
            id: movementIdOf(returned),
            reversedBy: movementIdOf({ ...returned, kind: "refund_failed" }),
            kind: "refund",
          }
        : {
            id: movementIdOf(returned),
            reversedBy: movementIdOf({ ...returned, kind: "dispute_closed" }),
            kind: "dispute",
          },
    ),
    stillReturned: nanoOfCredits(after.credits) - remainingOf(after).credit,
  };
}

interface ReturnDelta {
  readonly refunded: number;
  readonly disputed: number;
}

async function returnDelta(tx: Tx, fact: PaymentFact): Promise<ReturnDelta | FactVerdict> {
  if (fact.kind === "refunded") return { refunded: fact.amountCents, disputed: 0 };
  if (fact.kind === "disputed") return { refunded: 0, disputed: fact.amountCents };
  const isRefund = fact.kind === "refund_failed";
  const cause = await findFact(tx, { ...fact, kind: isRefund ? "refunded" : "disputed" });
  if (cause === undefined || cause.state === "waiting") return WAITING;
  const label = isRefund ? "refund" : "dispute";
  if (cause.state === "aside") return setAside(`its ${label} was set aside`);
  if (fact.amountCents > cause.amountCents)
    return setAside(`more came back than the ${label} took`);
  return isRefund
    ? { refunded: -fact.amountCents, disputed: 0 }
    : { refunded: 0, disputed: -fact.amountCents };
}

async function notifyReturn(
  tx: Tx,
  { accountId }: Payment,
  change: Pick<FactContext, "now" | "callbacks"> & {
    readonly kind: "refund" | "dispute";
    readonly crossings: Parameters<OnBalanceThresholds>[1];
  },
): Promise<void> {
  const { kind, crossings, now, callbacks } = change;
  // A refund or a dispute must not trigger an automatic top-up.
  const reported = crossings.filter(({ kind }) => kind !== "top_up");
  if (reported.length > 0) await callbacks.onBalanceThresholds?.(tx, reported);
  const { promo, paid } = await getWallet(tx, accountId);
  await stopAfterReturn(tx, accountId, {
    kind,
    balance: promo + paid,
    now,
    onTopUpEvent: callbacks.onTopUpEvent,
  });
}

function remainingOf(payment: ReceivedAmounts & Pick<Payment, "refundedCents" | "disputedCents">) {
  return remainingAmounts(payment, payment.refundedCents + payment.disputedCents);
}

function movementOf(
  fact: PaymentFact,
  payment: Payment,
  now: number,
): Pick<PaymentMovement, "id" | "accountId" | "processor" | "ref" | "now"> {
  return {
    id: movementIdOf(fact),
    accountId: payment.accountId,
    processor: payment.processor,
    ref: payment.id,
    now,
  };
}

function movementIdOf({ processor, ref, kind }: PaymentFact): string {
  return `${processor}:${ref}.${kind}`;
}

function isValidAmount(cents: number): boolean {
  return Number.isSafeInteger(cents) && cents >= 0 && cents <= CENTS_MAX;
}

function setAside(reason: string): FactVerdict {
  return ["aside", reason];
}
