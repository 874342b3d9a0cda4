// The one door by which money comes in and goes back. A payment fact is applied to the ledger once, whatever arrives, in
// whatever order, however often: it is unique, it waits for what it rests on, and what does not fit is kept aside.

import { getWallet } from "../ledger/ledger.ts";
import type { TellFalls } from "../ledger/marks.ts";
import { bringIn, hasRoom, type Movement, sendBack } from "../ledger/purchases.ts";
import type { Undone } from "../ledger/undone.ts";
import type { Tx } from "../store/db.ts";
import { stopAfterReturn, type TellTopUp } from "./auto-top-up.ts";
import {
  findInvoice,
  type Invoice,
  lockInvoice,
  setPaid,
  setRefunded,
  setVoid,
} from "./billing.ts";
import { NO_PARTS, nanoOfCents, partsBetween, partsLeft, type Received } from "./cents.ts";
import {
  type FactState,
  findFact,
  findPayment,
  insertFact,
  insertPayment,
  markFact,
  type Payment,
  paymentIdOf,
  paymentsOf,
  type PaymentState,
  returnsOf,
  updateReturned,
  waitingFacts,
} from "./payment-rows.ts";
import type { PaymentFact } from "./processor.ts";
import { endPaid } from "./top-up-end.ts";

const CURRENCY = "usd";
const CENTS_MAX = 900_000_000;

export interface Applied {
  readonly fact: PaymentFact;
  /** `known`: it was heard before, and nothing was done. */
  readonly state: FactState | "known";
  /** What an operator should look at. */
  readonly reason: string | null;
}

export interface PaidInvoice {
  readonly invoice: Invoice;
  readonly paidWith: string;
  readonly now: number;
}

export interface DoorParts {
  /** Told, in the same transaction, of an invoice that became paid. */
  readonly onPaid?: ((tx: Tx, paid: PaidInvoice) => Promise<void>) | undefined;
  /** Told of balances that a refund or a dispute took below a mark. */
  readonly onFalls?: TellFalls | undefined;
  readonly onTopUp?: TellTopUp | undefined;
}

/** Answers what became of the fact, and of others that had waited for it. */
export async function applyPayment(
  tx: Tx,
  fact: PaymentFact,
  now: number,
  parts: DoorParts = {},
): Promise<readonly Applied[]> {
  if (!isAmount(fact.amountCents) || !isAmount(fact.taxCents))
    return [{ fact, state: "aside", reason: "the amount is no amount" }];
  if (!(await insertFact(tx, fact, now))) return [await knownFact(tx, fact)];
  const invoice = await lockInvoice(tx, fact.invoiceId);
  const first = await settle(tx, fact, invoice, { now, parts });
  const applied = [first];
  // A refund that came before its payment, and a closed dispute before its dispute, can go on now.
  for (let moved = first.state === "applied"; moved;) {
    moved = false;
    for (const waiting of await waitingFacts(tx, paymentIdOf(fact))) {
      const next = await settle(tx, waiting, invoice, { now, parts });
      if (next.state === "waiting") continue;
      applied.push(next);
      moved = true;
    }
  }
  return applied;
}

async function knownFact(tx: Tx, fact: PaymentFact): Promise<Applied> {
  const known = await findFact(tx, fact);
  const same =
    known?.amountCents === fact.amountCents &&
    known.currency === fact.currency &&
    known.invoiceId === fact.invoiceId;
  return { fact, state: "known", reason: same ? null : "it was told differently before" };
}

interface Context {
  readonly now: number;
  readonly parts: DoorParts;
}

type Verdict = readonly [state: FactState, reason: string | null];

const DONE: Verdict = ["applied", null];
const WAIT: Verdict = ["waiting", null];

async function settle(
  tx: Tx,
  fact: PaymentFact,
  invoice: Invoice | undefined,
  context: Context,
): Promise<Applied> {
  const [state, reason] = await decide(tx, fact, invoice, context);
  await markFact(tx, fact, state, reason);
  return { fact, state, reason };
}

async function decide(
  tx: Tx,
  fact: PaymentFact,
  invoice: Invoice | undefined,
  context: Context,
): Promise<Verdict> {
  if (invoice === undefined) return aside("no invoice has that id");
  switch (fact.kind) {
    case "paid":
      return await receive(tx, fact, invoice, context);
    case "voided":
      if (invoice.status !== "open") return aside(`the invoice is ${invoice.status}`);
      await setVoid(tx, invoice, { now: fact.at });
      return DONE;
    case "refunded":
    case "refund_failed":
    case "disputed":
    case "dispute_closed":
      return await takeBack(tx, fact, context);
  }
}

async function receive(
  tx: Tx,
  fact: PaymentFact,
  invoice: Invoice,
  { now, parts }: Context,
): Promise<Verdict> {
  if (fact.amountCents === 0) return aside("nothing was paid");
  const [state, reason] = await fitOf(tx, fact, invoice);
  const bought =
    state === "credited"
      ? {
          creditCents: invoice.amountCents,
          feeCents: invoice.feeCents,
          taxCents: fact.taxCents,
        }
      : { creditCents: 0, feeCents: 0, taxCents: 0 };
  const payment: Payment = {
    id: paymentIdOf(fact),
    invoiceId: invoice.id,
    accountId: invoice.accountId,
    processor: fact.processor,
    state,
    reason,
    currency: fact.currency,
    amountCents: fact.amountCents,
    ...bought,
    refundedCents: 0,
    disputedCents: 0,
    paidAt: fact.at,
  };
  await insertPayment(tx, payment);
  if (state !== "foreign")
    await bringIn(tx, {
      ...movementOf(fact, payment, now),
      parts: partsLeft(payment, 0),
      kind: "purchase",
    });
  if (state !== "credited") return ["applied", reason];
  await setPaid(tx, invoice.id, { taxCents: fact.taxCents, at: fact.at });
  await endPaid(tx, invoice.id, now);
  const paid = await findInvoice(tx, invoice.id);
  if (paid !== undefined) await parts.onPaid?.(tx, { invoice: paid, paidWith: payment.id, now });
  return DONE;
}

/** Whether a payment is what the invoice asks for; if not, its money is kept aside and buys nothing. */
async function fitOf(
  tx: Tx,
  fact: PaymentFact,
  invoice: Invoice,
): Promise<readonly [PaymentState, string | null]> {
  if (fact.currency.toLowerCase() !== CURRENCY)
    return ["foreign", `it is in ${fact.currency} and not in US dollars`];
  const earlier = await paymentsOf(tx, invoice.id);
  const credited = earlier.find(({ state }) => state === "credited");
  if (credited !== undefined) return ["suspense", `the invoice was paid before, by ${credited.id}`];
  const wanted = invoice.amountCents + invoice.feeCents + fact.taxCents;
  if (fact.amountCents !== wanted)
    return ["suspense", `${fact.amountCents} cents were paid where ${wanted} are due`];
  if (!(await hasRoom(tx, invoice.accountId, nanoOfCents(invoice.amountCents))))
    return ["suspense", "the balance would pass its limit"];
  return ["credited", null];
}

async function takeBack(tx: Tx, fact: PaymentFact, { now, parts }: Context): Promise<Verdict> {
  const payment = await findPayment(tx, paymentIdOf(fact));
  if (payment === undefined) return WAIT;
  if (payment.invoiceId !== fact.invoiceId) return aside("the payment is of another invoice");
  if (fact.currency.toLowerCase() !== payment.currency.toLowerCase())
    return aside(`it is in ${fact.currency}, and the payment was in ${payment.currency}`);
  const change = await changeOf(tx, fact);
  if (!("refunded" in change)) return change;
  const after: Payment = {
    ...payment,
    refundedCents: payment.refundedCents + change.refunded,
    disputedCents: payment.disputedCents + change.disputed,
  };
  if (after.refundedCents + after.disputedCents > CENTS_MAX) return aside("the sum is no amount");
  await updateReturned(tx, after);
  if (payment.state === "foreign") return DONE;
  const before = leftOf(payment);
  const going = partsBetween(before, leftOf(after));
  const movement = movementOf(fact, payment, now);
  if (change.refunded + change.disputed > 0) {
    const kind = fact.kind === "refunded" ? "refund" : "dispute";
    const falls = await sendBack(tx, { ...movement, parts: going, kind });
    await tellOfReturn(tx, payment, { kind, falls, now, parts });
  } else
    await bringIn(tx, {
      ...movement,
      parts: partsBetween(NO_PARTS, going),
      kind: fact.kind === "refund_failed" ? "refund_failed" : "dispute_closed",
      undoes: await undoneBy(tx, fact, after),
    });
  if (payment.state === "credited")
    await setRefunded(tx, payment.invoiceId, after.refundedCents >= payment.amountCents);
  return after.refundedCents + after.disputedCents > payment.amountCents
    ? ["applied", "more went back than was paid; the house bears it"]
    : DONE;
}

/** What is undone, among all that went back of the payment. */
async function undoneBy(tx: Tx, fact: PaymentFact, after: Payment): Promise<Undone> {
  const returns = await returnsOf(tx, after.id);
  return {
    id: movementIdOf({ ...fact, kind: fact.kind === "refund_failed" ? "refunded" : "disputed" }),
    returns: returns.map((one) =>
      one.kind === "refunded"
        ? {
            id: movementIdOf(one),
            undoneBy: movementIdOf({ ...one, kind: "refund_failed" }),
            kind: "refund",
          }
        : {
            id: movementIdOf(one),
            undoneBy: movementIdOf({ ...one, kind: "dispute_closed" }),
            kind: "dispute",
          },
    ),
    goneAfter: nanoOfCents(after.creditCents) - leftOf(after).credit,
  };
}

interface Change {
  readonly refunded: number;
  readonly disputed: number;
}

async function changeOf(tx: Tx, fact: PaymentFact): Promise<Change | Verdict> {
  if (fact.kind === "refunded") return { refunded: fact.amountCents, disputed: 0 };
  if (fact.kind === "disputed") return { refunded: 0, disputed: fact.amountCents };
  const isRefund = fact.kind === "refund_failed";
  const cause = await findFact(tx, { ...fact, kind: isRefund ? "refunded" : "disputed" });
  if (cause === undefined || cause.state === "waiting") return WAIT;
  const called = isRefund ? "refund" : "dispute";
  if (cause.state === "aside") return aside(`its ${called} was kept aside`);
  if (fact.amountCents > cause.amountCents)
    return aside(`more came back than was ${isRefund ? "refunded" : "disputed"}`);
  return isRefund
    ? { refunded: -fact.amountCents, disputed: 0 }
    : { refunded: 0, disputed: -fact.amountCents };
}

async function tellOfReturn(
  tx: Tx,
  { accountId }: Payment,
  about: Pick<Context, "now" | "parts"> & {
    readonly kind: "refund" | "dispute";
    readonly falls: Parameters<TellFalls>[1];
  },
): Promise<void> {
  const { kind, falls, now, parts } = about;
  // What went back is not bought again by itself.
  const told = falls.filter(({ mark }) => mark !== "top_up");
  if (told.length > 0) await parts.onFalls?.(tx, told);
  const { promo, paid } = await getWallet(tx, accountId);
  await stopAfterReturn(tx, accountId, { kind, balance: promo + paid, now, tell: parts.onTopUp });
}

function leftOf(payment: Received & Pick<Payment, "refundedCents" | "disputedCents">) {
  return partsLeft(payment, payment.refundedCents + payment.disputedCents);
}

function movementOf(
  fact: PaymentFact,
  payment: Payment,
  now: number,
): Pick<Movement, "id" | "accountId" | "processor" | "ref" | "now"> {
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

function isAmount(cents: number): boolean {
  return Number.isSafeInteger(cents) && cents >= 0 && cents <= CENTS_MAX;
}

function aside(reason: string): Verdict {
  return ["aside", reason];
}
