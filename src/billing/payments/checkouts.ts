// Checkout pages of a hosted processor. An invoice has one open page at a time, so that it cannot be paid twice. Every
// page is polled until its outcome is final, so a lost webhook loses no payment.

import { DAY_MS, MINUTE_MS } from "../../base/time.ts";
import {
  type Db,
  type Reader,
  type Row,
  type Tx,
  enumValue,
  integer,
  text,
} from "../../store/db.ts";
import { type Invoice, findInvoice, lockInvoice } from "../invoices/invoices.ts";
import { findTopUpByInvoice } from "../top-up/top-up-rows.ts";
import { findActiveAgentPayment } from "./agent-payment-rows.ts";
import { type PaymentDeps, ingestFacts } from "./payment-facts.ts";
import type { CheckoutRequest, HostedProcessor, PageState } from "./payment-processor.ts";

const POLL_BATCH_MAX = 50;
/** After this many failures in a batch, the processor is not called again until the next poll. */
const POLL_FAILURES_MAX = 5;
const POLL_LEASE_MS = 2 * MINUTE_MS;
/** Refunds and disputes are possible for this long after the checkout. */
const TRACKING_MAX_MS = 400 * DAY_MS;
const PAID_POLL_MIN_MS = 10 * MINUTE_MS;
const PAID_POLL_AGE_DIVISOR = 4;
/** Readers of an invoice cause at most one request to the processor in this time. */
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

/** Where to send a payer, or why there is nothing to pay. */
export type PaymentStart =
  | { readonly kind: "page"; readonly url: string }
  | { readonly kind: "processing" }
  | { readonly kind: "settled" };

/** Returns the open checkout page of an invoice, or creates one. */
export async function beginCheckout(
  deps: PaymentDeps,
  processor: HostedProcessor,
  request: CheckoutRequest,
  now: number,
): Promise<PaymentStart> {
  // An automatic top-up or an agent's payment of the same invoice may be in flight.
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

/** Closes the invoice's page at the processor, and applies a payment that was made meanwhile. */
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

/** Polls a payment that has no page from now on: a saved method was charged. */
export async function trackPayment(
  { db }: PaymentDeps,
  { id: processor }: HostedProcessor,
  { invoiceId, ref, now }: { readonly invoiceId: string; readonly ref: string; now: number },
): Promise<void> {
  await db.write(async (tx) => {
    // Else another payment or page of the invoice could have the same attempt number, and would not be stored.
    await lockInvoice(tx, invoiceId);
    const existing = await tx.get("select id from checkout where processor = ? and ref = ?", [
      processor,
      ref,
    ]);
    if (existing !== undefined) return;
    const attempt = ((await latestCheckout(tx, processor, invoiceId))?.attempt ?? 0) + 1;
    await insertCheckout(tx, processor, { invoiceId, attempt, ref, now });
  });
}

/** Whether the invoice has a page where it can still be paid. Reliable if the caller has locked the invoice. */
export async function hasOpenCheckout(
  reader: Reader,
  { id: processor }: HostedProcessor,
  invoiceId: string,
): Promise<boolean> {
  return (await latestCheckout(reader, processor, invoiceId))?.state === "open";
}

/** Reconciles an open invoice before it is read, unless that was done a moment ago. */
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

/** A `lookedAt` far in the future (the clock stepped back) does not count as recent. */
export function isRecentlyChecked({ lookedAt }: Pick<Checkout, "lookedAt">, now: number): boolean {
  return Math.abs(now - lookedAt) < RECENT_CHECK_MS;
}

/** Reconciles every page that is due. */
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
      deps.log.warn("failed to reconcile a checkout", { invoice: checkout.invoiceId, cause });
    }
  }
}

/** Leases the page: of several processes, the one that moves `due_at` reconciles it. */
async function claimCheckout(db: Db, { id, dueAt }: Checkout, now: number): Promise<boolean> {
  const updated = await db.write((tx) =>
    tx.run("update checkout set due_at = ? where id = ? and due_at = ?", [
      now + POLL_LEASE_MS,
      id,
      dueAt,
    ]),
  );
  return updated === 1;
}

/** Closes the page of an invoice that was paid in another way. */
async function cancelOrphanPage(
  db: Db,
  processor: HostedProcessor,
  { invoiceId, ref }: Checkout,
): Promise<void> {
  const invoice = await findInvoice(db, invoiceId);
  if (invoice?.status !== "open") await processor.cancelPage(ref);
}

/** Reconciles the page that a webhook names. The webhook's own content is not trusted. */
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
  // The process that created the page has not recorded it yet, or crashed. Track it, so that refunds are found by polling.
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
    // `done` is final, even if the processor no longer knows the page or a newer reconciliation was faster.
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

async function recordCheckout(
  tx: Tx,
  processor: string,
  { invoiceId, attempt, ref, now }: CheckoutRequest & { attempt: number; ref: string; now: number },
): Promise<"kept" | "settled" | "processing"> {
  const invoice = await lockInvoice(tx, invoiceId);
  if (invoice?.status !== "open") return "settled";
  // Inserted even if the page is closed at once, so that the next page gets another attempt number.
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

/** Undefined if the invoice is not open. */
export async function checkoutRequestFor(
  reader: Reader,
  invoiceId: string,
  payUrl: string,
): Promise<CheckoutRequest | undefined> {
  const invoice = await findInvoice(reader, invoiceId);
  if (invoice?.status !== "open") return undefined;
  const { accountId, credits, totalCents } = invoice;
  return { invoiceId, accountId, credits, totalCents, payUrl };
}

/**
 * `method`: a saved payment method is being charged. `wallet`: an agent's payment was sent and its outcome is not known yet.
 * `unclear`: the outcome of an agent's payment could not be found out, and the operator was notified.
 */
export type InFlightPayment = "method" | "wallet" | "unclear";

export async function inFlightPaymentOf(
  reader: Reader,
  invoiceId: string,
): Promise<InFlightPayment | undefined> {
  if (await isMethodBeingCharged(reader, invoiceId)) return "method";
  const payment = await findActiveAgentPayment(reader, invoiceId);
  if (payment === undefined) return undefined;
  return payment.state === "unclear" ? "unclear" : "wallet";
}

export async function isMethodBeingCharged(reader: Reader, invoiceId: string): Promise<boolean> {
  return (await findTopUpByInvoice(reader, invoiceId))?.isOpen === true;
}
