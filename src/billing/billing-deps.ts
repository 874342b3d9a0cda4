// The dependencies of billing, and what its routes share: reconcile an invoice, begin a payment, cancel a checkout.

import { Fault } from "../base/fault.ts";
import type { PaymentOptions } from "../base/purchase-steps.ts";
import type { OperatorLinks } from "../http/pages/operator-links.ts";
import { getInvoice, type AmountLimits, findInvoice, type Invoice } from "./invoices/invoices.ts";
import type { PayLinks } from "./invoices/pay-link.ts";
import {
  type PaymentStart,
  beginCheckout,
  cancelCheckout,
  checkoutRequestFor,
  handleCheckoutWebhook,
  isMethodBeingCharged,
  reconcileInvoice,
} from "./payments/checkouts.ts";
import { ingestFacts, type PaymentDeps } from "./payments/payment-facts.ts";
import type { PaymentProcessor } from "./payments/payment-processor.ts";
import { handleMethodWebhook } from "./top-up/payment-methods.ts";

const REFRESH_TIMEOUT_MS = 4_000;
const LOOPBACK = /^(127(\.\d+){3}|::1|::ffff:127(\.\d+){3}|localhost)$/;

/** The seller, as receipts name it. */
export interface OperatorDetails extends OperatorLinks {
  readonly name: string;
  /** Lines of a postal address. */
  readonly address: readonly string[];
  readonly taxId: string | undefined;
}

export interface BillingDeps extends PaymentDeps {
  readonly processor: PaymentProcessor;
  readonly links: PayLinks;
  readonly limits: AmountLimits;
  readonly baseUrl: string;
  readonly paymentOptions: PaymentOptions;
  readonly isSignInDisabled: boolean;
  readonly operator: OperatorDetails;
  /** The billing page of a workspace in the console. */
  readonly billingPageUrl: (accountId: string) => string;
}

/** Reconciles an open invoice with the processor. On failure or timeout it returns the stored state. */
export async function tryReconcileInvoice(
  billing: BillingDeps,
  invoice: Invoice,
  now: number,
): Promise<Invoice> {
  const { processor } = billing;
  if (invoice.status !== "open" || processor.kind !== "hosted") return invoice;
  const reconciled = reconcileInvoice(billing, processor, invoice, now).catch((error: unknown) =>
    billing.log.warn("failed to reconcile an invoice", { invoice: invoice.id, cause: error }),
  );
  await Promise.race([
    reconciled,
    new Promise((resolve) => setTimeout(resolve, REFRESH_TIMEOUT_MS)),
  ]);
  return (await findInvoice(billing.db, invoice.id)) ?? invoice;
}

/** Returns a checkout page. Throws if the processor has none. */
export async function beginPayment(
  billing: BillingDeps,
  invoiceId: string,
  now: number,
): Promise<PaymentStart> {
  const { processor, links } = billing;
  if (processor.kind !== "hosted")
    throw new Fault("conflict", "no hosted page", {
      message: "This gateway has no checkout page. The invoice page says how to pay.",
    });
  const request = await checkoutRequestFor(billing.db, invoiceId, links.urlFor(invoiceId));
  return request === undefined
    ? { kind: "settled" }
    : await beginCheckout(billing, processor, request, now);
}

/** Closes the processor's page before an invoice is voided. Throws if a payment is processing. */
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
    throw new Fault("conflict", "a payment is processing", {
      message:
        "A payment of this invoice is processing, which can take days. You can void the invoice if the payment fails.",
    });
}

/** Development only: marks the invoice as paid without moving money. */
export async function simulatePayment(
  billing: BillingDeps,
  invoice: Invoice,
  now: number,
): Promise<void> {
  const { id, totalCents } = invoice;
  await ingestFacts(
    billing,
    [
      {
        processor: "development",
        ref: id,
        kind: "paid",
        payment: id,
        invoiceId: id,
        amountCents: totalCents,
        taxCents: 0,
        currency: "usd",
        at: now,
      },
    ],
    now,
  );
}

/** Simulated payments create credits without money, so remote clients must not make them. */
export function requireLoopback(clientIp: string): void {
  if (!LOOPBACK.test(clientIp))
    throw new Fault("forbidden", "simulated payment from another machine", {
      message: "Simulated payments work only from the machine that Postern runs on.",
    });
}

/** A webhook only triggers reconciliation: its content is not trusted. */
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
