// Pages at a processor where an invoice can be paid. An invoice has one such page at a time, so that it cannot be paid
// twice; every page is asked after until it is certain that nothing more comes of it, so that a lost webhook loses nothing.

import type { Log } from "../../base/log.ts";
import { DAY_MS, MINUTE_MS } from "../../base/time.ts";
import {
  type Db,
  enumValue,
  type Reader,
  type Row,
  text,
  type Tx,
  integer,
} from "../../store/db.ts";
import { findInvoice, type Invoice, lockInvoice } from "../invoices/invoices.ts";
import { type AppliedFact, applyFact, type PaymentCallbacks } from "./payment-facts.ts";
import type {
  HostedProcessor,
  CheckoutRequest,
  PaymentFact,
  PageState,
} from "./payment-processor.ts";
import { inFlightPaymentOf } from "./in-flight-payment.ts";

const POLL_BATCH_MAX = 50;
/** A processor that fails so often in one go is left alone until the next. */
const POLL_FAILURES_MAX = 5;
const POLL_LEASE_MS = 2 * MINUTE_MS;
/** After so long no refund and no dispute comes any more. */
const TRACKING_MAX_MS = 400 * DAY_MS;
const PAID_POLL_MIN_MS = 10 * MINUTE_MS;
const PAID_POLL_AGE_DIVISOR = 4;
/** How often readers of an invoice may make its page be asked after. */
const RECENT_CHECK_MS = 2_000;

const CHECKOUT_STATES = ["open", "done", "expired"] as const;

interface Checkout {
  readonly id: string;
  readonly invoiceId: string;
  readonly ref: string;
  readonly attempt: number;
  readonly state: (typeof CHECKOUT_STATES)[number];
  readonly createdAt: number;
  readonly lookedAt: number;
  readonly dueAt: number | null;
}

export interface PaymentDeps extends PaymentCallbacks {
  readonly db: Db;
  readonly log: Log;
  /** Told in the same transaction of what became of a fact, such as by an operator who entered it. */
  readonly onApplied?: (tx: Tx, applied: readonly AppliedFact[]) => Promise<void>;
}

/** What somebody who wants to pay is sent to, or told. */
export type PaymentStart =
  | { readonly kind: "page"; readonly url: string }
  | { readonly kind: "processing" }
  | { readonly kind: "settled" };

/** The page where an open invoice can be paid: the one that there is, or a new one. */
export async function beginCheckout(
  deps: PaymentDeps,
  processor: HostedProcessor,
  request: CheckoutRequest,
  now: number,
): Promise<PaymentStart> {
  // What is charged by itself, or paid by an agent, must not be paid by hand as well.
  if ((await inFlightPaymentOf(deps.db, request.invoiceId)) !== undefined)
    return { kind: "processing" };
  const latest = await latestCheckout(deps.db, processor.id, request.invoiceId);
  if (latest !== undefined && latest.state !== "expired") {
    const { state, url } = await reconcileCheckout(deps, processor, latest, now);
    if (state === "processing") return { kind: "processing" };
    if (state === "done") return { kind: "settled" };
    if (state === "open" && url !== undefined) return { kind: "page", url };
  }
  const attempt = (latest?.attempt ?? 0) + 1;
  const { ref, url } = await processor.createPage(request, attempt);
  const recorded = await deps.db.write((tx) =>
    recordCheckout(tx, processor.id, { ...request, attempt, ref, now }),
  );
  if (recorded === "kept") return { kind: "page", url };
  await processor.cancelPage(ref);
  return { kind: recorded };
}

/** Makes sure that an invoice cannot be paid any more at the processor, and applies what was paid meanwhile. */
export async function cancelCheckout(
  deps: PaymentDeps,
  processor: HostedProcessor,
  invoiceId: string,
  now: number,
): Promise<PageState["state"]> {
  const latest = await latestCheckout(deps.db, processor.id, invoiceId);
  if (latest === undefined || latest.state === "expired") return "expired";
  await processor.cancelPage(latest.ref);
  return (await reconcileCheckout(deps, processor, latest, now)).state;
}

/** Asks from now on after a payment that had no page: a saved method was charged. */
export async function trackPayment(
  { db }: PaymentDeps,
  { id: processor }: HostedProcessor,
  { invoiceId, ref, now }: { readonly invoiceId: string; readonly ref: string; now: number },
): Promise<void> {
  await db.write(async (tx) => {
    const known = await tx.get("select id from checkout where processor = ? and ref = ?", [
      processor,
      ref,
    ]);
    if (known !== undefined) return;
    const attempt = ((await latestCheckout(tx, processor, invoiceId))?.attempt ?? 0) + 1;
    await insertCheckout(tx, processor, { invoiceId, attempt, ref, now });
  });
}

/** Whether there is a page at which an invoice may still be paid. Who locks the invoice and asks can rely on it. */
export async function hasOpenCheckout(
  reader: Reader,
  { id: processor }: HostedProcessor,
  invoiceId: string,
): Promise<boolean> {
  return (await latestCheckout(reader, processor, invoiceId))?.state === "open";
}

/** Brings an open invoice up to date for whoever reads it, where that was not done just now. */
export async function reconcileInvoice(
  deps: PaymentDeps,
  processor: HostedProcessor,
  invoice: Invoice,
  now: number,
): Promise<void> {
  if (invoice.status !== "open") return;
  const latest = await latestCheckout(deps.db, processor.id, invoice.id);
  if (latest === undefined || latest.state !== "open" || isRecentlyChecked(latest, now)) return;
  await reconcileCheckout(deps, processor, latest, now);
}

/** What was looked at by a clock that was set back since was not looked at just now. */
export function isRecentlyChecked({ lookedAt }: Pick<Checkout, "lookedAt">, now: number): boolean {
  return Math.abs(now - lookedAt) < RECENT_CHECK_MS;
}

/** Asks after every page whose time has come. */
export async function pollCheckouts(
  deps: PaymentDeps,
  processor: HostedProcessor,
  now: number,
): Promise<void> {
  const rows = await deps.db.all(
    "select * from checkout where due_at <= ? and processor = ? order by due_at limit ?",
    [now, processor.id, POLL_BATCH_MAX],
  );
  let failures = 0;
  for (const checkout of rows.map(toCheckout)) {
    if (failures >= POLL_FAILURES_MAX || !(await claimCheckout(deps.db, checkout, now))) continue;
    try {
      const { state } = await reconcileCheckout(deps, processor, checkout, now);
      if (state === "open") await cancelOrphanPage(deps.db, processor, checkout);
    } catch (cause) {
      failures += 1;
      deps.log.warn("a page could not be asked after", { invoice: checkout.invoiceId, cause });
    }
  }
}

/** Another process may be at it: who moves the time on does the work. */
async function claimCheckout(db: Db, { id, dueAt }: Checkout, now: number): Promise<boolean> {
  const moved = await db.write((tx) =>
    tx.run("update checkout set due_at = ? where id = ? and due_at = ?", [
      now + POLL_LEASE_MS,
      id,
      dueAt,
    ]),
  );
  return moved === 1;
}

/** An invoice that was paid in another way must not be paid at its page as well. */
async function cancelOrphanPage(
  db: Db,
  processor: HostedProcessor,
  { invoiceId, ref }: Checkout,
): Promise<void> {
  const invoice = await findInvoice(db, invoiceId);
  if (invoice?.status !== "open") await processor.cancelPage(ref);
}

/** Looks at the page that a webhook is about. What the webhook itself says is not believed. */
export async function handleCheckoutWebhook(
  deps: PaymentDeps,
  processor: HostedProcessor,
  ref: string,
  now: number,
): Promise<void> {
  const row = await deps.db.get("select * from checkout where processor = ? and ref = ?", [
    processor.id,
    ref,
  ]);
  if (row !== undefined) {
    await reconcileCheckout(deps, processor, toCheckout(row), now);
    return;
  }
  const { facts } = await processor.fetchPage(ref);
  await ingestFacts(deps, facts, now);
  // Whoever was to write it down has died, or is not that far: what goes back later must be found without a webhook, too.
  const invoiceId = facts[0]?.invoiceId;
  if (invoiceId !== undefined && (await findInvoice(deps.db, invoiceId)) !== undefined)
    await trackPayment(deps, processor, { invoiceId, ref, now });
}

async function reconcileCheckout(
  deps: PaymentDeps,
  processor: HostedProcessor,
  checkout: Checkout,
  now: number,
): Promise<PageState> {
  const page = await processor.fetchPage(checkout.ref);
  await ingestFacts(deps, page.facts, now);
  await deps.db.write(async (tx) => {
    // What was paid stays paid, also where the processor has forgotten the page, or where this look was slower than another.
    const [row] = await tx.lockMany("checkout", "id", [checkout.id]);
    const wasPaid = row !== undefined && toCheckout(row).state === "done";
    const state = wasPaid ? "done" : page.state;
    await tx.run("update checkout set state = ?, looked_at = ?, due_at = ? where id = ?", [
      state === "processing" ? "open" : state,
      now,
      nextPollAt(checkout, state, now),
      checkout.id,
    ]);
  });
  return page;
}

function nextPollAt(
  { createdAt }: Checkout,
  state: PageState["state"],
  now: number,
): number | null {
  if (state === "expired") return null;
  if (state !== "done") return now + MINUTE_MS;
  const age = now - createdAt;
  if (age > TRACKING_MAX_MS) return null;
  return (
    now + Math.min(DAY_MS, Math.max(PAID_POLL_MIN_MS, Math.floor(age / PAID_POLL_AGE_DIVISOR)))
  );
}

/**
 * Brings facts to the door, one after the other, and tells the operator of what did not fit. `demand` throws, in the same
 * transaction, what speaks against it.
 */
export async function ingestFacts(
  { db, log, onApplied, ...callbacks }: PaymentDeps,
  facts: readonly PaymentFact[],
  now: number,
  precondition?: (tx: Tx) => Promise<void>,
): Promise<readonly AppliedFact[]> {
  const results: AppliedFact[] = [];
  for (const fact of facts) {
    const known = await db.get(
      "select id from payment_fact where processor = ? and ref = ? and kind = ?",
      [fact.processor, fact.ref, fact.kind],
    );
    if (known !== undefined) continue;
    const applied = await db.write(async (tx) => {
      await precondition?.(tx);
      const appliedFacts = await applyFact(tx, fact, now, callbacks);
      await onApplied?.(tx, appliedFacts);
      return appliedFacts;
    });
    for (const { fact: ingested, state, reason } of applied) {
      const fields = {
        processor: ingested.processor,
        ref: ingested.ref,
        kind: ingested.kind,
        invoice: ingested.invoiceId,
        amount_cents: ingested.amountCents,
        currency: ingested.currency,
      };
      if (reason !== null) log.error("a payment needs an operator", { ...fields, state, reason });
      else if (state !== "known") log.info("a payment was heard of", { ...fields, state });
    }
    results.push(...applied);
  }
  return results;
}

async function recordCheckout(
  tx: Tx,
  processor: string,
  { invoiceId, attempt, ref, now }: CheckoutRequest & { attempt: number; ref: string; now: number },
): Promise<"kept" | "settled" | "processing"> {
  const invoice = await lockInvoice(tx, invoiceId);
  if (invoice?.status !== "open") return "settled";
  // Also where it is closed at once: the next page has a name of its own.
  await insertCheckout(tx, processor, { invoiceId, attempt, ref, now });
  return (await inFlightPaymentOf(tx, invoiceId)) === undefined ? "kept" : "processing";
}

async function insertCheckout(
  tx: Tx,
  processor: string,
  {
    invoiceId,
    attempt,
    ref,
    now,
  }: Pick<Checkout, "invoiceId" | "attempt" | "ref"> & { now: number },
): Promise<void> {
  await tx.run(
    `insert into checkout (id, invoice_id, processor, ref, state, created_at, looked_at, due_at)
     values (?, ?, ?, ?, 'open', ?, ?, ?) on conflict (id) do nothing`,
    [`${invoiceId}.${processor}.${attempt}`, invoiceId, processor, ref, now, now, now + MINUTE_MS],
  );
}

async function latestCheckout(
  reader: Reader,
  processor: string,
  invoiceId: string,
): Promise<Checkout | undefined> {
  const rows = await reader.all("select * from checkout where invoice_id = ? and processor = ?", [
    invoiceId,
    processor,
  ]);
  return rows
    .map(toCheckout)
    .reduce<Checkout | undefined>(
      (latest, checkout) =>
        latest === undefined || checkout.attempt > latest.attempt ? checkout : latest,
      undefined,
    );
}

function toCheckout(row: Row): Checkout {
  const id = text(row, "id");
  return {
    id,
    invoiceId: text(row, "invoice_id"),
    ref: text(row, "ref"),
    attempt: Number(id.slice(id.lastIndexOf(".") + 1)),
    state: enumValue(row, "state", CHECKOUT_STATES),
    createdAt: integer(row, "created_at"),
    lookedAt: integer(row, "looked_at"),
    dueAt: row["due_at"] === null ? null : integer(row, "due_at"),
  };
}

/** What the processor is told of an invoice. */
export async function checkoutRequestFor(
  reader: Reader,
  invoiceId: string,
  payUrl: string,
): Promise<CheckoutRequest | undefined> {
  const invoice = await findInvoice(reader, invoiceId);
  if (invoice?.status !== "open") return undefined;
  const { accountId, amountCents, feeCents } = invoice;
  return { invoiceId, accountId, amountCents, feeCents, payUrl };
}
