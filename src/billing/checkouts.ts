// Pages at a processor where an invoice can be paid. An invoice has one such page at a time, so that it cannot be paid
// twice; every page is asked after until it is certain that nothing more comes of it, so that a lost webhook loses nothing.

import type { Log } from "../base/log.ts";
import { type Db, oneOf, type Reader, type Row, text, type Tx, whole } from "../store/db.ts";
import { findInvoice, type Invoice, lockInvoice } from "./billing.ts";
import { type Applied, applyPayment, type DoorParts } from "./payments.ts";
import type { HostedProcessor, Order, PaymentFact, Seen } from "./processor.ts";
import { underWayOf } from "./under-way.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const LOOKS_AT_ONCE = 50;
/** A processor that fails so often in one go is left alone until the next. */
const FAILURES_MAX = 5;
const AGAIN_MS = 2 * MINUTE_MS;
/** After so long no refund and no dispute comes any more. */
const WATCHED_MS = 400 * DAY_MS;
const PAID_WAIT_MIN_MS = 10 * MINUTE_MS;
const PAID_WAIT_SHARE = 4;
/** How often readers of an invoice may make its page be asked after. */
const FRESH_MS = 2_000;

const STATES = ["open", "done", "expired"] as const;

interface Checkout {
  readonly id: string;
  readonly invoiceId: string;
  readonly ref: string;
  readonly attempt: number;
  readonly state: (typeof STATES)[number];
  readonly createdAt: number;
  readonly lookedAt: number;
  readonly dueAt: number | null;
}

export interface TillParts extends DoorParts {
  readonly db: Db;
  readonly log: Log;
  /** Told in the same transaction of what became of a fact, such as by an operator who entered it. */
  readonly onApplied?: (tx: Tx, applied: readonly Applied[]) => Promise<void>;
}

/** What somebody who wants to pay is sent to, or told. */
export type Begun =
  | { readonly kind: "page"; readonly url: string }
  | { readonly kind: "processing" }
  | { readonly kind: "settled" };

/** The page where an open invoice can be paid: the one that there is, or a new one. */
export async function beginCheckout(
  parts: TillParts,
  processor: HostedProcessor,
  order: Order,
  now: number,
): Promise<Begun> {
  // What is charged by itself, or paid by an agent, must not be paid by hand as well.
  if ((await underWayOf(parts.db, order.invoiceId)) !== undefined) return { kind: "processing" };
  const last = await lastCheckout(parts.db, processor.id, order.invoiceId);
  if (last !== undefined && last.state !== "expired") {
    const { state, url } = await lookAt(parts, processor, last, now);
    if (state === "processing") return { kind: "processing" };
    if (state === "done") return { kind: "settled" };
    if (state === "open" && url !== undefined) return { kind: "page", url };
  }
  const attempt = (last?.attempt ?? 0) + 1;
  const { ref, url } = await processor.begin(order, attempt);
  const kept = await parts.db.write((tx) =>
    keepCheckout(tx, processor.id, { ...order, attempt, ref, now }),
  );
  if (kept === "kept") return { kind: "page", url };
  await processor.cancel(ref);
  return { kind: kept };
}

/** Makes sure that an invoice cannot be paid any more at the processor, and applies what was paid meanwhile. */
export async function endCheckout(
  parts: TillParts,
  processor: HostedProcessor,
  invoiceId: string,
  now: number,
): Promise<Seen["state"]> {
  const last = await lastCheckout(parts.db, processor.id, invoiceId);
  if (last === undefined || last.state === "expired") return "expired";
  await processor.cancel(last.ref);
  return (await lookAt(parts, processor, last, now)).state;
}

/** Asks from now on after a payment that had no page: a saved method was charged. */
export async function watchPayment(
  { db }: TillParts,
  { id: processor }: HostedProcessor,
  { invoiceId, ref, now }: { readonly invoiceId: string; readonly ref: string; now: number },
): Promise<void> {
  await db.write(async (tx) => {
    const known = await tx.get("select id from checkout where processor = ? and ref = ?", [
      processor,
      ref,
    ]);
    if (known !== undefined) return;
    const attempt = ((await lastCheckout(tx, processor, invoiceId))?.attempt ?? 0) + 1;
    await insertCheckout(tx, processor, { invoiceId, attempt, ref, now });
  });
}

/** Whether there is a page at which an invoice may still be paid. Who locks the invoice and asks can rely on it. */
export async function hasOpenPage(
  reader: Reader,
  { id: processor }: HostedProcessor,
  invoiceId: string,
): Promise<boolean> {
  return (await lastCheckout(reader, processor, invoiceId))?.state === "open";
}

/** Brings an open invoice up to date for whoever reads it, where that was not done just now. */
export async function refreshInvoice(
  parts: TillParts,
  processor: HostedProcessor,
  invoice: Invoice,
  now: number,
): Promise<void> {
  if (invoice.status !== "open") return;
  const last = await lastCheckout(parts.db, processor.id, invoice.id);
  if (last === undefined || last.state !== "open" || isFresh(last, now)) return;
  await lookAt(parts, processor, last, now);
}

/** What was looked at by a clock that was set back since was not looked at just now. */
export function isFresh({ lookedAt }: Pick<Checkout, "lookedAt">, now: number): boolean {
  return Math.abs(now - lookedAt) < FRESH_MS;
}

/** Asks after every page whose time has come. */
export async function pollCheckouts(
  parts: TillParts,
  processor: HostedProcessor,
  now: number,
): Promise<void> {
  const rows = await parts.db.all(
    "select * from checkout where due_at <= ? and processor = ? order by due_at limit ?",
    [now, processor.id, LOOKS_AT_ONCE],
  );
  let failures = 0;
  for (const checkout of rows.map(toCheckout)) {
    if (failures >= FAILURES_MAX || !(await isMine(parts.db, checkout, now))) continue;
    try {
      const { state } = await lookAt(parts, processor, checkout, now);
      if (state === "open") await closeStray(parts.db, processor, checkout);
    } catch (cause) {
      failures += 1;
      parts.log.warn("a page could not be asked after", { invoice: checkout.invoiceId, cause });
    }
  }
}

/** Another process may be at it: who moves the time on does the work. */
async function isMine(db: Db, { id, dueAt }: Checkout, now: number): Promise<boolean> {
  const moved = await db.write((tx) =>
    tx.run("update checkout set due_at = ? where id = ? and due_at = ?", [
      now + AGAIN_MS,
      id,
      dueAt,
    ]),
  );
  return moved === 1;
}

/** An invoice that was paid in another way must not be paid at its page as well. */
async function closeStray(
  db: Db,
  processor: HostedProcessor,
  { invoiceId, ref }: Checkout,
): Promise<void> {
  const invoice = await findInvoice(db, invoiceId);
  if (invoice?.status !== "open") await processor.cancel(ref);
}

/** Looks at the page that a webhook is about. What the webhook itself says is not believed. */
export async function hearOf(
  parts: TillParts,
  processor: HostedProcessor,
  ref: string,
  now: number,
): Promise<void> {
  const row = await parts.db.get("select * from checkout where processor = ? and ref = ?", [
    processor.id,
    ref,
  ]);
  if (row !== undefined) {
    await lookAt(parts, processor, toCheckout(row), now);
    return;
  }
  const { facts } = await processor.look(ref);
  await enter(parts, facts, now);
  // Whoever was to write it down has died, or is not that far: what goes back later must be found without a webhook, too.
  const invoiceId = facts[0]?.invoiceId;
  if (invoiceId !== undefined && (await findInvoice(parts.db, invoiceId)) !== undefined)
    await watchPayment(parts, processor, { invoiceId, ref, now });
}

async function lookAt(
  parts: TillParts,
  processor: HostedProcessor,
  checkout: Checkout,
  now: number,
): Promise<Seen> {
  const seen = await processor.look(checkout.ref);
  await enter(parts, seen.facts, now);
  await parts.db.write(async (tx) => {
    // What was paid stays paid, also where the processor has forgotten the page, or where this look was slower than another.
    const [row] = await tx.lockMany("checkout", "id", [checkout.id]);
    const wasPaid = row !== undefined && toCheckout(row).state === "done";
    const state = wasPaid ? "done" : seen.state;
    await tx.run("update checkout set state = ?, looked_at = ?, due_at = ? where id = ?", [
      state === "processing" ? "open" : state,
      now,
      nextLook(checkout, state, now),
      checkout.id,
    ]);
  });
  return seen;
}

function nextLook({ createdAt }: Checkout, state: Seen["state"], now: number): number | null {
  if (state === "expired") return null;
  if (state !== "done") return now + MINUTE_MS;
  const age = now - createdAt;
  if (age > WATCHED_MS) return null;
  return now + Math.min(DAY_MS, Math.max(PAID_WAIT_MIN_MS, Math.floor(age / PAID_WAIT_SHARE)));
}

/**
 * Brings facts to the door, one after the other, and tells the operator of what did not fit. `demand` throws, in the same
 * transaction, what speaks against it.
 */
export async function enter(
  { db, log, onApplied, ...parts }: TillParts,
  facts: readonly PaymentFact[],
  now: number,
  demand?: (tx: Tx) => Promise<void>,
): Promise<readonly Applied[]> {
  const all: Applied[] = [];
  for (const fact of facts) {
    const known = await db.get(
      "select id from payment_fact where processor = ? and ref = ? and kind = ?",
      [fact.processor, fact.ref, fact.kind],
    );
    if (known !== undefined) continue;
    const applied = await db.write(async (tx) => {
      await demand?.(tx);
      const done = await applyPayment(tx, fact, now, parts);
      await onApplied?.(tx, done);
      return done;
    });
    for (const { fact: one, state, reason } of applied) {
      const told = {
        processor: one.processor,
        ref: one.ref,
        kind: one.kind,
        invoice: one.invoiceId,
        amount_cents: one.amountCents,
        currency: one.currency,
      };
      if (reason !== null) log.error("a payment needs an operator", { ...told, state, reason });
      else if (state !== "known") log.info("a payment was heard of", { ...told, state });
    }
    all.push(...applied);
  }
  return all;
}

async function keepCheckout(
  tx: Tx,
  processor: string,
  { invoiceId, attempt, ref, now }: Order & { attempt: number; ref: string; now: number },
): Promise<"kept" | "settled" | "processing"> {
  const invoice = await lockInvoice(tx, invoiceId);
  if (invoice?.status !== "open") return "settled";
  // Also where it is closed at once: the next page has a name of its own.
  await insertCheckout(tx, processor, { invoiceId, attempt, ref, now });
  return (await underWayOf(tx, invoiceId)) === undefined ? "kept" : "processing";
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

async function lastCheckout(
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
      (last, one) => (last === undefined || one.attempt > last.attempt ? one : last),
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
    state: oneOf(row, "state", STATES),
    createdAt: whole(row, "created_at"),
    lookedAt: whole(row, "looked_at"),
    dueAt: row["due_at"] === null ? null : whole(row, "due_at"),
  };
}

/** What the processor is told of an invoice. */
export async function orderOf(
  reader: Reader,
  invoiceId: string,
  payUrl: string,
): Promise<Order | undefined> {
  const invoice = await findInvoice(reader, invoiceId);
  if (invoice?.status !== "open") return undefined;
  const { accountId, amountCents, feeCents } = invoice;
  return { invoiceId, accountId, amountCents, feeCents, payUrl };
}
