// What the routes of this room ask for: an invoice as its processor knows it, a way to pay, a way to withdraw.

import { Fault } from "../base/fault.ts";
import { getInvoice, type AmountLimits, findInvoice, type Invoice } from "./billing.ts";
import {
  type Begun,
  beginCheckout,
  endCheckout,
  enter,
  hearOf,
  orderOf,
  refreshInvoice,
  type TillParts,
} from "./checkouts.ts";
import { hearOfMethod } from "./methods.ts";
import type { PayLinks } from "./pay-link.ts";
import type { Processor } from "./processor.ts";
import { isBeingCharged } from "./under-way.ts";

const REFRESH_MS = 4_000;
const LOOPBACK = /^(127(\.\d+){3}|::1|::ffff:127(\.\d+){3}|localhost)$/;

/** Who sells the credits, as a receipt names them. */
export interface Operator {
  readonly name: string;
  /** Lines of a postal address. */
  readonly address: readonly string[];
  readonly taxId: string | undefined;
  readonly contact: string | undefined;
}

export interface Till extends TillParts {
  readonly processor: Processor;
  readonly links: PayLinks;
  readonly limits: AmountLimits;
  readonly operator: Operator;
  /** The billing page of a workspace in the console. */
  readonly manageUrlOf: (accountId: string) => string;
}

/** An open invoice may have been paid without our knowing. Where nobody can say, what is known is shown. */
export async function upToDate(till: Till, invoice: Invoice, now: number): Promise<Invoice> {
  const { processor } = till;
  if (invoice.status !== "open" || processor.kind !== "hosted") return invoice;
  const asked = refreshInvoice(till, processor, invoice, now).catch((error: unknown) =>
    till.log.warn("an invoice could not be asked after", { invoice: invoice.id, cause: error }),
  );
  await Promise.race([asked, new Promise((resolve) => setTimeout(resolve, REFRESH_MS))]);
  return (await findInvoice(till.db, invoice.id)) ?? invoice;
}

/** A page to pay at; only for processors that have one. */
export async function payAt(till: Till, invoiceId: string, now: number): Promise<Begun> {
  const { processor, links } = till;
  if (processor.kind !== "hosted")
    throw new Fault("conflict", "no hosted page", {
      message: "This gateway has no page to pay at. The invoice says how it is paid.",
    });
  const order = await orderOf(till.db, invoiceId, links.urlOf(invoiceId));
  return order === undefined
    ? { kind: "settled" }
    : await beginCheckout(till, processor, order, now);
}

/** Closes what is open at the processor, before an invoice is voided here. */
export async function closePages(
  till: Till,
  { id, accountId, now }: { readonly id: string; readonly accountId: string; readonly now: number },
): Promise<void> {
  const invoice = await getInvoice(till.db, id, accountId);
  if (invoice.status !== "open") return;
  const state = (await isBeingCharged(till.db, id))
    ? "processing"
    : till.processor.kind === "hosted"
      ? await endCheckout(till, till.processor, id, now)
      : "open";
  if (state === "processing")
    throw new Fault("conflict", "a payment is under way", {
      message:
        "A payment of this invoice is under way and may take days to arrive. It can be voided if the payment fails.",
    });
}

/** The buttons of development: a payment that is nothing but a fact. */
export async function payInDevelopment(till: Till, invoice: Invoice, now: number): Promise<void> {
  const { id, amountCents, feeCents } = invoice;
  await enter(
    till,
    [
      {
        processor: "development",
        ref: id,
        kind: "paid",
        payment: id,
        invoiceId: id,
        amountCents: amountCents + feeCents,
        taxCents: 0,
        currency: "usd",
        at: now,
      },
    ],
    now,
  );
}

/** Money that is not there must not come from afar. */
export function demandLoopback(address: string): void {
  if (!LOOPBACK.test(address))
    throw new Fault("forbidden", "development payment from afar", {
      message:
        "Payments of development work from the machine that Postern runs on, and only there.",
    });
}

/** A webhook is only a hint of what to ask after. */
export async function takeWebhook(
  till: Till,
  hook: { readonly bodyText: string; readonly signature: string; readonly now: number },
): Promise<void> {
  const { processor } = till;
  if (processor.kind !== "hosted" || processor.hear === undefined)
    throw new Fault("not_found", "no webhooks");
  const ref = await processor.hear(hook.bodyText, hook.signature, hook.now);
  if (ref === undefined) return;
  const isOfMethod = await hearOfMethod(till, ref, hook.now);
  if (!isOfMethod) await hearOf(till, processor, ref, hook.now);
}
