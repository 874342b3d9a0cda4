// Payments by x402: an agent with a wallet signs a transfer, the facilitator settles it, and the one door for payments
// turns it into credits. What is about to be settled is written down before; whoever finds it unfinished goes on with it.

import { Fault } from "../base/fault.ts";
import { type Invoice, lockInvoice } from "./billing.ts";
import { feeOf, moneyOfCents } from "./cents.ts";
import { enter, hasOpenPage } from "./checkouts.ts";
import { closePages, type Till } from "./till.ts";
import type { Chain, Found } from "./x402-chain.ts";
import type { Facilitator, Settlement } from "./x402-facilitator.ts";
import {
  claimX402,
  dueX402,
  findX402,
  insertX402,
  liveX402Of,
  lockX402,
  markX402,
  type InvoiceToMake,
  type X402Payment,
} from "./x402-rows.ts";
import {
  challengeOf,
  idOf,
  misfitOf,
  readPayment,
  type Receipt,
  requirementOf,
  type SignedPayment,
  type Terms,
} from "./x402-terms.ts";

const PROCESSOR = "x402";
/** Where an invoice is paid. */
export const X402_PATH = "/v1/billing/invoice/{id}/x402";
/** How long one process may be at a payment before another goes on with it; longer than a settlement takes. */
const LEASE_MS = 60_000;
const AGAIN_MS = 5_000;
const LATER_MS = 600_000;
/** How long after its signature has expired a payment may still turn up. */
const GRACE_MS = 120_000;
const FOLLOW_EACH_MS = 200;
const FOLLOW_LOOKS_MAX = 50;
/** How often a page that somebody opens meanwhile is closed again. */
const CLOSINGS_MAX = 3;
const DUE_AT_ONCE = 50;
const FAILURES_MAX = 5;

/** Takes payments where the operator has switched them on. */
export interface Counter {
  readonly till: Till;
  readonly terms: Terms;
  readonly topUpCents: number;
  readonly baseUrl: string;
  readonly facilitator: Facilitator;
  readonly chain: Chain | undefined;
  readonly now: () => number;
  /** How often a payment that another is at is looked for; fewer for tests. */
  readonly looksMax?: number;
}

/** What somebody may pay: an invoice that is there, or one that is made once the payment is good. */
export interface Bill {
  readonly accountId: string;
  readonly invoice: Invoice | InvoiceToMake;
}

export type Taken =
  | { readonly kind: "paid"; readonly receipt: Receipt }
  /** Nothing was taken. `receipt` says so where it was tried. */
  | { readonly kind: "refused"; readonly reason: string; readonly receipt?: Receipt };

export function totalOf({ invoice }: Bill): number {
  return "id" in invoice
    ? invoice.amountCents + invoice.feeCents
    : invoice.amountCents + feeOf(invoice.amountCents);
}

/** How an open invoice is paid, for the header `PAYMENT-REQUIRED`. */
export function challengeOfInvoice(counter: Counter, invoice: Invoice, error: string): string {
  const total = totalOf({ accountId: invoice.accountId, invoice });
  return challengeOf(
    requirementOf(counter.terms, total),
    {
      url: counter.baseUrl + X402_PATH.replace("{id}", invoice.id),
      description: `${moneyOfCents(invoice.amountCents)} of credits for ${moneyOfCents(total)}, fee included.`,
    },
    error,
  );
}

/** Takes a payment once, however often and wherever it is presented. Throws while its outcome is not known. */
export async function takePayment(counter: Counter, bill: Bill, header: string): Promise<Taken> {
  const signed = readPayment(header);
  const known = await findX402(counter.till.db, idOf(signed));
  if (known !== undefined) return await follow(counter, bill, known);
  const requirement = requirementOf(counter.terms, totalOf(bill));
  const reason =
    misfitOf(signed, requirement, counter.now()) ??
    (await counter.facilitator.refusal(signed, requirement));
  if (reason !== undefined) return { kind: "refused", reason };
  const made = await writeDown(counter, bill, signed);
  if (made === undefined) return await followId(counter, bill, idOf(signed));
  const settlement = await counter.facilitator.settle(signed, requirement);
  await conclude(counter, made, settlement, settlement.kind === "refused");
  return await followId(counter, bill, made.id);
}

/** Goes on with every payment whose time has come: after a crash, or while an outcome is not known. */
export async function pollX402(counter: Counter): Promise<void> {
  const { db, log } = counter.till;
  let failures = 0;
  for (const payment of await dueX402(db, counter.now(), DUE_AT_ONCE)) {
    if (failures >= FAILURES_MAX) return;
    if (!(await claimX402(db, payment, counter.now() + LEASE_MS))) continue;
    try {
      await goOn(counter, payment);
    } catch (cause) {
      failures += 1;
      log.warn("an x402 payment could not be followed", { payment: payment.id, cause });
    }
  }
}

async function writeDown(
  counter: Counter,
  bill: Bill,
  signed: SignedPayment,
): Promise<X402Payment | undefined> {
  const { accountId, invoice } = bill;
  const { till, now } = counter;
  for (let closings = 0; closings < CLOSINGS_MAX; closings++) {
    // Nobody must pay the same at a page meanwhile.
    if ("id" in invoice) await closePages(till, { id: invoice.id, accountId, now: now() });
    const written = await till.db.write(async (tx) => {
      if ("id" in invoice) {
        const locked = await lockInvoice(tx, invoice.id);
        if (locked?.status !== "open") throw notPayable(locked?.status ?? "gone");
        const other = await liveX402Of(tx, invoice.id);
        if (other !== undefined && other.id !== idOf(signed)) throw notPayable("being paid");
        const { processor } = till;
        if (processor.kind === "hosted" && (await hasOpenPage(tx, processor, invoice.id)))
          return "page";
      }
      const made = { accountId, invoice, signed, totalCents: totalOf(bill), now: now() };
      return await insertX402(tx, { ...made, dueAt: now() + LEASE_MS });
    });
    if (written !== "page") return written;
  }
  throw notPayable("being paid at its page");
}

async function conclude(
  counter: Counter,
  payment: X402Payment,
  settlement: Settlement,
  isRefusalBelieved: boolean,
): Promise<void> {
  const { till, chain } = counter;
  const now = counter.now();
  if (settlement.kind === "paid") return await creditPayment(counter, payment, settlement);
  const { reason } = settlement;
  if (isRefusalBelieved) {
    // Where the chain can be asked, it has the last word on that.
    const dueAt = chain === undefined ? null : payment.expiresAt + GRACE_MS;
    await till.db.write(async (tx) => {
      // Whoever stood still for so long that another went on with it was not the first to settle it.
      const kept = await lockX402(tx, payment.id);
      if (kept?.dueAt === payment.dueAt)
        await markX402(tx, payment, { state: "refused", reason, dueAt, now });
    });
    return;
  }
  till.log.warn("what became of an x402 payment is not known", { payment: payment.id, reason });
  await till.db.write((tx) =>
    markX402(tx, payment, { state: "open", reason, dueAt: now + AGAIN_MS, now }),
  );
}

async function creditPayment(
  { till, now }: Counter,
  payment: X402Payment,
  { transaction }: { readonly transaction: string | null },
): Promise<void> {
  const at = now();
  const state = "paid";
  await till.db.write((tx) =>
    markX402(tx, payment, { state, transaction, dueAt: at + AGAIN_MS, now: at }),
  );
  const { id, invoiceId, totalCents } = payment;
  await enter(
    till,
    [
      {
        processor: PROCESSOR,
        ref: id,
        kind: "paid",
        payment: id,
        invoiceId,
        amountCents: totalCents,
        taxCents: 0,
        currency: "usd",
        at,
      },
    ],
    at,
  );
  await till.db.write((tx) => markX402(tx, payment, { state, dueAt: null, now: at }));
}

/** Finishes what was begun. A settlement that was asked for before is believed only where it succeeds. */
async function goOn(counter: Counter, payment: X402Payment): Promise<void> {
  const { till, facilitator } = counter;
  const { state, signed, reason, expiresAt } = payment;
  if (state === "paid") return await creditPayment(counter, payment, payment);
  const found = await askChain(counter, payment);
  if (found.kind === "paid") return await creditPayment(counter, payment, found);
  const now = counter.now();
  if (state === "open" && now <= expiresAt + GRACE_MS) {
    const settlement = await facilitator.settle(signed, signed.accepted);
    return await conclude(counter, payment, settlement, false);
  }
  const isDead = found.kind === "absent" && found.at > expiresAt;
  const isOver = isDead || found.kind === "unasked";
  const after = isDead ? "refused" : isOver && state === "open" ? "unclear" : state;
  const dueAt = isOver ? null : now + LATER_MS;
  if (after === "unclear") tellOperator(counter, payment);
  await till.db.write((tx) => markX402(tx, payment, { state: after, reason, dueAt, now }));
}

function tellOperator({ till }: Counter, payment: X402Payment): void {
  const { id, invoiceId, totalCents, reason } = payment;
  till.log.error("a payment needs an operator", {
    processor: PROCESSOR,
    ref: id,
    invoice: invoiceId,
    amount_cents: totalCents,
    reason: `the facilitator cannot say whether it was settled: ${reason ?? "no answer"}`,
  });
}

async function askChain(
  { chain, till }: Counter,
  { id, signed, createdAt }: X402Payment,
): Promise<Found | { readonly kind: "unasked" | "silent" }> {
  if (chain === undefined) return { kind: "unasked" };
  try {
    return await chain.find(signed, createdAt);
  } catch (cause) {
    till.log.warn("the chain could not be asked after an x402 payment", { payment: id, cause });
    return { kind: "silent" };
  }
}

async function followId(counter: Counter, bill: Bill, id: string): Promise<Taken> {
  const payment = await findX402(counter.till.db, id);
  if (payment === undefined) throw new Error(`the payment ${id} is gone`);
  return await follow(counter, bill, payment);
}

/** What became of a payment that is known, waiting for whoever is at it. */
async function follow(counter: Counter, bill: Bill, known: X402Payment): Promise<Taken> {
  const { accountId, invoice } = bill;
  if (known.accountId !== accountId || ("id" in invoice && known.invoiceId !== invoice.id))
    return { kind: "refused", reason: "already used for something else" };
  const { looksMax = FOLLOW_LOOKS_MAX } = counter;
  let payment: X402Payment | undefined = known;
  for (let looks = 0; payment?.state === "open" && looks < looksMax; looks++) {
    const isDue = payment.dueAt !== null && payment.dueAt <= counter.now();
    if (isDue && (await claimX402(counter.till.db, payment, counter.now() + LEASE_MS)))
      await goOn(counter, payment);
    else if (payment.reason !== null) break;
    else await new Promise((resolve) => setTimeout(resolve, FOLLOW_EACH_MS));
    payment = await findX402(counter.till.db, known.id);
  }
  if (payment === undefined) throw new Error(`the payment ${known.id} is gone`);
  return takenOf(counter, payment);
}

async function takenOf(counter: Counter, payment: X402Payment): Promise<Taken> {
  const { signed, state, reason } = payment;
  switch (state) {
    case "paid":
      if (payment.dueAt !== null) await creditPayment(counter, payment, payment);
      return { kind: "paid", receipt: receiptOf(payment) };
    case "refused":
      return { kind: "refused", reason: reason ?? "refused", receipt: receiptOf(payment) };
    case "open":
      throw notKnown();
    case "unclear":
      throw new Fault("conflict", `outcome of ${idOf(signed)} is unclear`, {
        message:
          "Nobody can say whether this payment moved money; the operator has been told. If it did, its credits are added. Do not send it again.",
        param: "payment-signature",
      });
  }
}

function receiptOf({ signed, state, payer, transaction, reason }: X402Payment): Receipt {
  const { network, amount } = signed.accepted;
  return state === "paid"
    ? { success: true, transaction: transaction ?? "", network, payer, amount }
    : { success: false, transaction: "", network, payer, errorReason: reason ?? "refused" };
}

function notKnown(): Fault {
  return new Fault("overloaded", "outcome of a settlement not known", {
    message:
      "The payment was handed to the x402 facilitator, and whether it was settled is not known yet. Nothing is lost: send the same request with the same PAYMENT-SIGNATURE again, and do not sign another one.",
    param: "payment-signature",
    retryAfterSeconds: AGAIN_MS / 1_000,
  });
}

function notPayable(how: string): Fault {
  return new Fault("conflict", `invoice is ${how}`, {
    message: `This invoice is ${how}. Read it with GET /v1/billing/invoice/{id}; nothing was taken now.`,
  });
}
