// POST /v1/billing/invoice/{id}/<protocol>: pays an invoice with one of the protocols of agent payments.

import { Fault } from "../../base/fault.ts";
import { keyRoute, type Route } from "../../http/route.ts";
import { type BillingDeps, tryReconcileInvoice } from "../billing-deps.ts";
import { formatCents, formatCredits } from "../invoices/cents.ts";
import {
  CLOSED_INVOICE_EXAMPLE,
  InvoiceRecord,
  toInvoiceRecord,
  InvoicePath,
} from "../invoices/invoice-record.ts";
import { getInvoice, type Invoice } from "../invoices/invoices.ts";
import {
  type PaymentProtocol,
  type PaymentResource,
  type ProtocolResult,
  type ResponseHeaders,
  totalCentsOf,
} from "./payment-protocol.ts";

export interface PayInvoiceRouteSpec {
  readonly path: string;
  readonly id: string;
  readonly summary: string;
  readonly description: string;
  readonly responseHeaders: Readonly<Record<string, string>>;
  /** The request header that contains the payment. */
  readonly header: string;
}

export function payInvoiceRoute(
  billing: BillingDeps,
  protocol: PaymentProtocol,
  { path, id, summary, description, responseHeaders, header }: PayInvoiceRouteSpec,
): Route {
  return keyRoute({
    tag: "Billing",
    dialect: "openai",
    method: "POST",
    path,
    id,
    scope: "billing:write",
    summary,
    description,
    params: InvoicePath,
    responses: {
      200: {
        description: "The paid invoice. Its credits are in the balance.",
        schema: InvoiceRecord,
        example: { ...CLOSED_INVOICE_EXAMPLE, status: "paid", paid_at: "2026-11-21T09:34:10.000Z" },
        headers: responseHeaders,
      },
    },
    faults: ["payment_required", "not_found", "conflict", "overloaded"],
    run: async ({ caller, params, headers, now }) => {
      const stored = await getInvoice(billing.db, params.id, caller.accountId);
      const payment = protocol.paymentIn(headers);
      const invoice = await tryReconcileInvoice(billing, stored, now);
      if (payment === undefined && invoice.status === "paid")
        return invoiceResponse(billing, invoice);
      const resource = {
        path: path.replace("{id}", invoice.id),
        description: describePurchase(invoice),
      };
      const challenge = { protocol, invoice, resource, header };
      if (payment === undefined) throw paymentRequired(challenge);
      const result = await protocol.accept({ accountId: caller.accountId, invoice }, payment);
      if (result.kind === "refused") throw paymentRequired({ ...challenge, refused: result });
      const paid = await getInvoice(billing.db, invoice.id, caller.accountId);
      return invoiceResponse(billing, paid, { ...result.headers, ...result.successHeaders });
    },
  });
}

/** What the payment of an invoice buys, as text for the next step. */
function describePurchase(invoice: Invoice): string {
  const { accountId, credits } = invoice;
  const total = formatCents(totalCentsOf({ accountId, invoice }));
  return `${formatCredits(credits)} of credits for ${total} including the fee.`;
}

function invoiceResponse(billing: BillingDeps, invoice: Invoice, headers: ResponseHeaders = {}) {
  return { status: 200, body: toInvoiceRecord(invoice, billing), headers };
}

interface InvoiceChallenge {
  readonly protocol: PaymentProtocol;
  readonly invoice: Invoice;
  readonly resource: PaymentResource;
  readonly header: string;
  readonly refused?: ProtocolResult & { readonly kind: "refused" };
}

function paymentRequired({
  protocol,
  invoice,
  resource,
  header,
  refused,
}: InvoiceChallenge): Fault {
  if (invoice.status !== "open")
    return new Fault("conflict", `invoice is ${invoice.status}`, {
      message: `This invoice is ${invoice.status} and cannot be paid. Create another one with POST /v1/billing/invoice.`,
    });
  const { accountId } = invoice;
  const headers = protocol.challenge({ accountId, invoice }, resource, refused?.reason);
  if (headers === undefined)
    return new Fault("conflict", "no method takes this amount", {
      message:
        "This invoice is too small for the payment methods of this request. Create an invoice of at least $0.50, or open its `pay_url`.",
    });
  return new Fault("payment_required", "invoice is open", {
    ...(refused === undefined
      ? {}
      : {
          message: `The payment was rejected: ${refused.reason}. Pay as the ${header} header of this response says.`,
          fields: { payment_error: refused.reason },
        }),
    headers: { ...headers, ...refused?.headers },
  });
}
