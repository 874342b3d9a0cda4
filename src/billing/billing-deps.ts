// What the routes of this room ask for: an invoice as its processor knows it, a way to pay, a way to withdraw.

import { Fault } from "../base/fault.ts";
import { getInvoice, type AmountLimits, findInvoice, type Invoice } from "./invoices/invoices.ts";
import {
  type PaymentStart,
  beginCheckout,
  cancelCheckout,
  ingestFacts,
  handleCheckoutWebhook,
  checkoutRequestFor,
  reconcileInvoice,
  type PaymentDeps,
} from "./payments/checkouts.ts";
import { handleMethodWebhook } from "./top-up/payment-methods.ts";
import type { PayLinks } from "./invoices/pay-link.ts";
import type { PaymentProcessor } from "./payments/payment-processor.ts";
import { isMethodBeingCharged } from "./payments/in-flight-payment.ts";

const REFRESH_TIMEOUT_MS = 4_000;
const LOOPBACK = /^(127(\.\d+){3}|::1|::ffff:127(\.\d+){3}|localhost)$/;

/** Who sells the credits, as a receipt names them. */
export interface OperatorDetails {
  readonly name: string;
  /** Lines of a postal address. */
  readonly address: readonly string[];
  readonly taxId: string | undefined;
  readonly contact: string | undefined;
}

export interface BillingDeps extends PaymentDeps {
  readonly processor: PaymentProcessor;
  readonly links: PayLinks;
  readonly limits: AmountLimits;
  readonly operator: OperatorDetails;
  /** The billing page of a workspace in the console. */
  readonly billingPageUrl: (accountId: string) => string;
}

/** An open invoice may have been paid without our knowing. Where nobody can say, what is known is shown. */
export async function tryReconcileInvoice(
  billing: BillingDeps,
  invoice: Invoice,
  now: number,
): Promise<Invoice> {
  const { processor } = billing;
  if (invoice.status !== "open" || processor.kind !== "hosted") return invoice;
  const reconciled = reconcileInvoice(billing, processor, invoice, now).catch((error: unknown) =>
    billing.log.warn("an invoice could not be asked after", { invoice: invoice.id, cause: error }),
  );
  await Promise.race([
    reconciled,
    new Promise((resolve) => setTimeout(resolve, REFRESH_TIMEOUT_MS)),
  ]);
  return (await findInvoice(billing.db, invoice.id)) ?? invoice;
}

/** A page to pay at; only for processors that have one. */
export async function beginPayment(
  billing: BillingDeps,
  invoiceId: string,
  now: number,
): Promise<PaymentStart> {
  const { processor, links } = billing;
  if (processor.kind !== "hosted")
    throw new Fault("conflict", "no hosted page", {
      message: "This gateway has no page to pay at. The invoice says how it is paid.",
    });
  const order = await checkoutRequestFor(billing.db, invoiceId, links.urlFor(invoiceId));
  return order === undefined
    ? { kind: "settled" }
    : await beginCheckout(billing, processor, order, now);
}

/** Closes what is open at the processor, before an invoice is voided here. */
export async function cancelOpenCheckout(
  billing: BillingDeps,
  { id, accountId, now }: { readonly id: string; readonly accountId: string; readonly now: number },
): Promise<void> {
  const invoice = await getInvoice(billing.db, id, accountId);
  if (invoice.status !== "open") return;
  const state = (await isMethodBeingCharged(billing.db, id))
    ? "processing"
    : billing.processor.kind === "hosted"
      ? await cancelCheckout(billing, billing.processor, id, now)
      : "open";
  if (state === "processing")
    throw new Fault("conflict", "a payment is under way", {
      message:
        "A payment of this invoice is under way and may take days to arrive. It can be voided if the payment fails.",
    });
}

/** The buttons of development: a payment that is nothing but a fact. */
export async function simulatePayment(
  billing: BillingDeps,
  invoice: Invoice,
  now: number,
): Promise<void> {
  const { id, amountCents, feeCents } = invoice;
  await ingestFacts(
    billing,
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
export function requireLoopback(address: string): void {
  if (!LOOPBACK.test(address))
    throw new Fault("forbidden", "development payment from afar", {
      message:
        "Payments of development work from the machine that Postern runs on, and only there.",
    });
}

/** A webhook is only a hint of what to ask after. */
export async function handleWebhook(
  billing: BillingDeps,
  webhook: { readonly bodyText: string; readonly signature: string; readonly now: number },
): Promise<void> {
  const { processor } = billing;
  if (processor.kind !== "hosted" || processor.parseWebhook === undefined)
    throw new Fault("not_found", "no webhooks");
  const ref = await processor.parseWebhook(webhook.bodyText, webhook.signature, webhook.now);
  if (ref === undefined) return;
  const isMethodSetup = await handleMethodWebhook(billing, ref, webhook.now);
  if (!isMethodSetup) await handleCheckoutWebhook(billing, processor, ref, webhook.now);
}
