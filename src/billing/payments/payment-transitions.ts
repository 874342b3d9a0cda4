// What each payment fact does, by the state of its payment: a table of pure functions. A fact that needs another one first
// waits for it, and amounts depend only on the sums of what was returned, so any order of the same facts ends in the same ledger.

import type { PaymentAmounts, PaymentMovement } from "../../ledger/payments/payments.ts";
import type { Reversal } from "../../ledger/payments/reversals.ts";
import { amountsDelta, nanoOfCredits, remainingAmounts } from "../invoices/cents.ts";
import type { Invoice } from "../invoices/invoices.ts";
import type { FactKind, PaymentFact } from "./payment-processor.ts";
import { type FactState, type Payment, type PaymentState, paymentIdOf } from "./payment-rows.ts";

const CURRENCY = "usd";
const CENTS_MAX = 900_000_000;

/** What is known when a fact is applied, read under the lock of the invoice. */
export interface PaymentSnapshot {
  readonly invoice: Invoice;
  /** The payment that the fact is about. */
  readonly payment: Payment | undefined;
  /** The payment that paid the invoice. */
  readonly creditedBy: string | undefined;
  /** Whether the balance may grow by the credits of the invoice. */
  readonly fitsBalance: boolean;
  /** The refund that failed, or the dispute that was closed. */
  readonly cause: (PaymentFact & { readonly state: FactState }) | undefined;
  /** The refunds and disputes applied so far, including those reversed since. */
  readonly returns: readonly PaymentFact[];
}

export type Movement = Pick<PaymentMovement, "id" | "kind" | "amounts" | "reverses">;

export interface Transition {
  readonly state: FactState;
  /** Why the operator must act. */
  readonly reason: string | null;
  /** The payment afterwards; undefined if the fact changes nothing. */
  readonly payment?: Payment;
  /** Undefined if no money moves in the ledger. */
  readonly movement?: Movement | undefined;
}

type Rule = (fact: PaymentFact, snapshot: PaymentSnapshot) => Transition;

const WAIT: Transition = { state: "waiting", reason: null };
const wait: Rule = () => WAIT;
const known: Rule = () => setAside("the payment is recorded already");

/** Suspense: money that bought nothing. Foreign: another currency, which is not in the ledger. */
const TRANSITIONS: Readonly<Record<FactKind, Readonly<Record<PaymentState | "none", Rule>>>> = {
  paid: { none: receive, credited: known, suspense: known, foreign: known },
  refunded: { none: wait, credited: giveBack, suspense: giveBack, foreign: giveBack },
  disputed: { none: wait, credited: giveBack, suspense: giveBack, foreign: giveBack },
  refund_failed: { none: wait, credited: takeBack, suspense: takeBack, foreign: takeBack },
  dispute_closed: { none: wait, credited: takeBack, suspense: takeBack, foreign: takeBack },
};

const MOVEMENT_KINDS = {
  paid: "purchase",
  refunded: "refund",
  disputed: "dispute",
  refund_failed: "refund_failed",
  dispute_closed: "dispute_closed",
} as const;

/** The facts that reverse another one, and what each of the others is called. */
export const CAUSES: Readonly<Partial<Record<FactKind, "refunded" | "disputed">>> = {
  refund_failed: "refunded",
  dispute_closed: "disputed",
};
const NAMES = { refunded: "refund", disputed: "dispute" } as const;

export function transitionOf(fact: PaymentFact, snapshot: PaymentSnapshot): Transition {
  const { payment } = snapshot;
  if (payment !== undefined && payment.invoiceId !== fact.invoiceId)
    return setAside("the payment belongs to another invoice");
  if (payment !== undefined && fact.currency.toLowerCase() !== payment.currency.toLowerCase())
    return setAside(`the currency is ${fact.currency}, but the payment was in ${payment.currency}`);
  return TRANSITIONS[fact.kind][payment?.state ?? "none"](fact, snapshot);
}

export function isValidFact({ amountCents, taxCents }: PaymentFact): boolean {
  return [amountCents, taxCents].every(
    (cents) => Number.isSafeInteger(cents) && cents >= 0 && cents <= CENTS_MAX,
  );
}

export function setAside(reason: string): Transition {
  return { state: "aside", reason };
}

/** A payment that does not match its invoice is not credited: its amount goes to suspense. */
function receive(fact: PaymentFact, snapshot: PaymentSnapshot): Transition {
  if (fact.amountCents === 0) return setAside("the amount is zero");
  const { invoice } = snapshot;
  const [state, reason] = matchToInvoice(fact, snapshot);
  const isCredited = state === "credited";
  const payment: Payment = {
    id: paymentIdOf(fact),
    invoiceId: invoice.id,
    accountId: invoice.accountId,
    processor: fact.processor,
    state,
    reason,
    currency: fact.currency,
    amountCents: fact.amountCents,
    credits: isCredited ? invoice.credits : 0,
    taxCents: isCredited ? fact.taxCents : 0,
    refundedCents: 0,
    disputedCents: 0,
    paidAt: fact.at,
  };
  return {
    state: "applied",
    reason,
    payment,
    movement: movementOf(fact, payment, remainingAmounts(payment, 0)),
  };
}

function matchToInvoice(
  fact: PaymentFact,
  { invoice, creditedBy, fitsBalance }: PaymentSnapshot,
): readonly [PaymentState, string | null] {
  if (fact.currency.toLowerCase() !== CURRENCY)
    return ["foreign", `the currency is ${fact.currency}, not usd`];
  if (creditedBy !== undefined)
    return ["suspense", `the invoice was already paid by ${creditedBy}`];
  const expectedCents = invoice.totalCents + fact.taxCents;
  if (fact.amountCents !== expectedCents)
    return ["suspense", `${fact.amountCents} cents were paid, but ${expectedCents} are due`];
  return fitsBalance ? ["credited", null] : ["suspense", "the balance would exceed its limit"];
}

/** A refund or a dispute. */
function giveBack(fact: PaymentFact, { payment }: PaymentSnapshot): Transition {
  if (payment === undefined) return WAIT;
  const isRefund = fact.kind === "refunded";
  const after: Payment = {
    ...payment,
    refundedCents: payment.refundedCents + (isRefund ? fact.amountCents : 0),
    disputedCents: payment.disputedCents + (isRefund ? 0 : fact.amountCents),
  };
  if (after.refundedCents + after.disputedCents > CENTS_MAX)
    return setAside("the sum is out of range");
  const returned = amountsDelta(remainingOf(payment), remainingOf(after));
  return returnedTransition(after, movementOf(fact, payment, returned));
}

/** A refund that failed, or the part of a dispute that came back. */
function takeBack(fact: PaymentFact, { payment, cause, returns }: PaymentSnapshot): Transition {
  const causeKind = CAUSES[fact.kind];
  if (payment === undefined || causeKind === undefined) return WAIT;
  if (cause === undefined || cause.state === "waiting") return WAIT;
  const name = NAMES[causeKind];
  if (cause.state === "aside") return setAside(`its ${name} was set aside`);
  if (fact.amountCents > cause.amountCents) return setAside(`more came back than the ${name} took`);
  const isRefund = causeKind === "refunded";
  const after: Payment = {
    ...payment,
    refundedCents: payment.refundedCents - (isRefund ? fact.amountCents : 0),
    disputedCents: payment.disputedCents - (isRefund ? 0 : fact.amountCents),
  };
  const back = amountsDelta(remainingOf(after), remainingOf(payment));
  const movement = movementOf(fact, payment, back);
  return returnedTransition(
    after,
    movement && { ...movement, reverses: reversalOf(fact, { after, returns, causeKind }) },
  );
}

function returnedTransition(after: Payment, movement: Movement | undefined): Transition {
  const isExcess = after.refundedCents + after.disputedCents > after.amountCents;
  const isInLedger = after.state !== "foreign";
  const reason =
    isExcess && isInLedger
      ? "more was returned than was paid; the operator bears the difference"
      : null;
  return { state: "applied", reason, payment: after, movement };
}

/** Says which return of the payment is reversed, for the ledger. */
function reversalOf(
  fact: PaymentFact,
  {
    after,
    returns,
    causeKind,
  }: {
    readonly after: Payment;
    readonly returns: readonly PaymentFact[];
    readonly causeKind: "refunded" | "disputed";
  },
): Reversal {
  return {
    id: movementIdOf({ ...fact, kind: causeKind }),
    returns: returns.map((returned) => {
      const isRefund = returned.kind === "refunded";
      return {
        id: movementIdOf(returned),
        reversedBy: movementIdOf({
          ...returned,
          kind: isRefund ? "refund_failed" : "dispute_closed",
        }),
        kind: isRefund ? "refund" : "dispute",
      };
    }),
    stillReturned: nanoOfCredits(after.credits) - remainingOf(after).credit,
  };
}

/** Undefined for a payment that is not in the ledger. */
function movementOf(
  fact: PaymentFact,
  { state }: Payment,
  amounts: PaymentAmounts,
): Movement | undefined {
  if (state === "foreign") return undefined;
  return { id: movementIdOf(fact), kind: MOVEMENT_KINDS[fact.kind], amounts };
}

function movementIdOf({ processor, ref, kind }: PaymentFact): string {
  return `${processor}:${ref}.${kind}`;
}

function remainingOf(payment: Payment): PaymentAmounts {
  return remainingAmounts(payment, payment.refundedCents + payment.disputedCents);
}
