// POST /v1/billing/invoice/{id}/x402: pays an invoice from an agent's wallet.

import { z } from "zod";
import { Fault } from "../../base/fault.ts";
import { keyRoute, type Route } from "../../http/route.ts";
import { getInvoice, type Invoice } from "../invoices/invoices.ts";
import { INVOICE_EXAMPLE, InvoiceRecord, toInvoiceRecord } from "../invoices/invoice-record.ts";
import { tryReconcileInvoice } from "../billing-deps.ts";
import {
  paymentRequiredForInvoice,
  type X402Deps,
  type PaymentResult,
  acceptPayment,
  X402_PATH,
} from "./x402-payments.ts";
import { paymentResponseHeader } from "./protocol.ts";

export interface X402RouteDeps {
  /** Absent if x402 is not enabled. */
  readonly x402?: X402Deps | undefined;
}

const INVOICE_PATH = z.object({
  id: z.string().meta({ description: "The invoice's id.", example: INVOICE_EXAMPLE.id }),
});

export function x402Routes({ x402 }: X402RouteDeps): readonly Route[] {
  return x402 === undefined ? [] : [payInvoiceRoute(x402)];
}

function payInvoiceRoute(x402: X402Deps): Route {
  return keyRoute({
    tag: "Billing",
    dialect: "openai",
    method: "POST",
    path: X402_PATH,
    id: "payInvoiceWithX402",
    scope: "billing:write",
    summary: "Pay an invoice with x402",
    description:
      "The first call returns `402` with the header `PAYMENT-REQUIRED` (x402, version 2). The same call with the header `PAYMENT-SIGNATURE` pays from your wallet. An x402 client does both. A signed payment is settled once, however often you send it. After a `503` the outcome may be unknown: send the same header again.",
    params: INVOICE_PATH,
    responses: {
      200: {
        description: "The paid invoice. Its credits are in the balance.",
        schema: InvoiceRecord,
        example: { ...INVOICE_EXAMPLE, status: "paid", paid_at: "2026-11-21T09:34:10.000Z" },
        headers: {
          "payment-response": "The settlement: base64-encoded JSON, as x402 specifies.",
        },
      },
    },
    faults: ["payment_required", "not_found", "conflict", "overloaded"],
    run: async ({ caller, params, headers, now }) => {
      const { billing } = x402;
      const stored = await getInvoice(billing.db, params.id, caller.accountId);
      const header = headers.get("payment-signature");
      const invoice = await tryReconcileInvoice(billing, stored, now);
      if (header === null && invoice.status === "paid") return invoiceResponse(x402, invoice);
      if (header === null) throw paymentRequired(x402, invoice);
      const payable = { accountId: caller.accountId, invoice };
      const result = await acceptPayment(x402, payable, header);
      if (result.kind === "refused") throw paymentRequired(x402, invoice, result);
      const paid = await getInvoice(billing.db, invoice.id, caller.accountId);
      return invoiceResponse(x402, paid, {
        "payment-response": paymentResponseHeader(result.settleResponse),
      });
    },
  });
}

function invoiceResponse(
  { billing }: X402Deps,
  invoice: Invoice,
  headers: Readonly<Record<string, string>> = {},
) {
  return { status: 200, body: toInvoiceRecord(invoice, billing.links.urlFor(invoice.id)), headers };
}

function paymentRequired(
  x402: X402Deps,
  invoice: Invoice,
  refused?: PaymentResult & { kind: "refused" },
): Fault {
  if (invoice.status !== "open")
    return new Fault("conflict", `invoice is ${invoice.status}`, {
      message: `This invoice is ${invoice.status} and cannot be paid. Create another one with POST /v1/billing/invoice.`,
    });
  const error = refused?.reason ?? "PAYMENT-SIGNATURE header is required";
  return new Fault("payment_required", "invoice is open", {
    ...(refused === undefined
      ? {}
      : {
          message: `The payment was rejected: ${refused.reason}. Sign the payment in the PAYMENT-REQUIRED header.`,
          fields: { payment_error: refused.reason },
        }),
    headers: {
      "payment-required": paymentRequiredForInvoice(x402, invoice, error),
      ...(refused?.settleResponse === undefined
        ? {}
        : { "payment-response": paymentResponseHeader(refused.settleResponse) }),
    },
  });
}
