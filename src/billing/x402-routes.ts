// An invoice as something that an agent pays by itself, with x402: the address that a client with a wallet is pointed at.

import { z } from "zod";
import { Fault } from "../base/fault.ts";
import { keyRoute, type Route } from "../http/route.ts";
import { getInvoice, type Invoice } from "./billing.ts";
import { INVOICE_EXAMPLE, InvoiceRecord, showInvoice } from "./record.ts";
import { upToDate } from "./till.ts";
import { challengeOfInvoice, type Counter, type Taken, takePayment, X402_PATH } from "./x402.ts";
import { receiptHeader } from "./x402-terms.ts";

export interface X402RouteParts {
  /** Absent where the operator has not switched x402 on. */
  readonly counter?: Counter | undefined;
}

const INVOICE_PATH = z.object({
  id: z.string().meta({ description: "The invoice's id.", example: INVOICE_EXAMPLE.id }),
});

export function x402Routes({ counter }: X402RouteParts): readonly Route[] {
  return counter === undefined ? [] : [payInvoiceRoute(counter)];
}

function payInvoiceRoute(counter: Counter): Route {
  return keyRoute({
    tag: "Billing",
    dialect: "openai",
    method: "POST",
    path: X402_PATH,
    id: "payInvoiceWithX402",
    summary: "Pay an invoice with x402, from a wallet of your own",
    description:
      "The first call is answered `402` with the header `PAYMENT-REQUIRED` (x402, version 2); the same call with the header `PAYMENT-SIGNATURE` pays. A client that speaks x402 does both by itself. The same payment is taken once, however often it is sent. On `503` whether it was taken is not known yet: send the same header again.",
    params: INVOICE_PATH,
    answers: {
      200: {
        description: "The paid invoice; its credits are in the balance.",
        schema: InvoiceRecord,
        example: { ...INVOICE_EXAMPLE, status: "paid", paid_at: "2026-11-21T09:34:10.000Z" },
        headers: { "payment-response": "What was settled: base64 of JSON, as x402 says it." },
      },
    },
    faults: ["payment_required", "not_found", "conflict", "overloaded"],
    run: async ({ caller, params, headers, now }) => {
      const { till } = counter;
      const known = await getInvoice(till.db, params.id, caller.accountId);
      const header = headers.get("payment-signature");
      const invoice = await upToDate(till, known, now);
      if (header === null && invoice.status === "paid") return shown(counter, invoice);
      if (header === null) throw unpaid(counter, invoice);
      const bill = { accountId: caller.accountId, invoice };
      const taken = await takePayment(counter, bill, header);
      if (taken.kind === "refused") throw unpaid(counter, invoice, taken);
      const paid = await getInvoice(till.db, invoice.id, caller.accountId);
      return shown(counter, paid, { "payment-response": receiptHeader(taken.receipt) });
    },
  });
}

function shown(
  { till }: Counter,
  invoice: Invoice,
  headers: Readonly<Record<string, string>> = {},
) {
  return { status: 200, body: showInvoice(invoice, till.links.urlOf(invoice.id)), headers };
}

function unpaid(counter: Counter, invoice: Invoice, taken?: Taken & { kind: "refused" }): Fault {
  if (invoice.status !== "open")
    return new Fault("conflict", `invoice is ${invoice.status}`, {
      message: `This invoice is ${invoice.status} and cannot be paid. Make another one with POST /v1/billing/invoice.`,
    });
  const error = taken?.reason ?? "PAYMENT-SIGNATURE header is required";
  return new Fault("payment_required", "invoice is open", {
    ...(taken === undefined
      ? {}
      : {
          message: `The payment was not taken: ${taken.reason}. The PAYMENT-REQUIRED header says what is asked for.`,
          fields: { payment_error: taken.reason },
        }),
    headers: {
      "payment-required": challengeOfInvoice(counter, invoice, error),
      ...(taken?.receipt === undefined ? {} : { "payment-response": receiptHeader(taken.receipt) }),
    },
  });
}
