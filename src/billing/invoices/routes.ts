// /v1/billing: the HTTP face of invoices, and the address that a processor's webhooks come to.

import { z } from "zod";
import type { AuditSource } from "../../audit/audit.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import { cursorSchema, listSchema, PageQuery } from "../../http/schemas.ts";
import {
  type ResponseDoc,
  type Caller,
  keyRoute,
  keyWriteRoute,
  publicRoute,
  type Route,
} from "../../http/route.ts";
import {
  createInvoice,
  getInvoice,
  type Invoice,
  INVOICE_STATUSES,
  listInvoices,
  parseAmount,
  voidInvoice,
} from "./invoices.ts";
import { INVOICE_EXAMPLE, InvoiceRecord, toInvoiceRecord } from "./invoice-record.ts";
import { autoTopUpRoutes } from "../top-up/routes.ts";
import {
  cancelOpenCheckout,
  handleWebhook,
  type BillingDeps,
  tryReconcileInvoice,
} from "../billing-deps.ts";
import { paymentRequiredForInvoice, type X402Deps } from "../x402/x402-payments.ts";

const WEBHOOK_BYTES_MAX = 1_048_576;
const AMOUNT_TEXT_MAX = 20;

export interface BillingRouteDeps {
  readonly billing: BillingDeps;
  readonly x402?: X402Deps | undefined;
}

const INVOICE_PATH = z.object({
  id: z.string().meta({ description: "The invoice's id.", example: INVOICE_EXAMPLE.id }),
});
const DOC = { tag: "Billing", dialect: "openai" } as const;

export function billingRoutes({ billing, x402 }: BillingRouteDeps): readonly Route[] {
  const hasWebhooks =
    billing.processor.kind === "hosted" && billing.processor.parseWebhook !== undefined;
  return [
    createRoute(billing, x402),
    listRoute(billing),
    readRoute(billing, x402),
    voidRoute(billing),
    ...autoTopUpRoutes(billing),
    ...(hasWebhooks ? [webhookRoute(billing)] : []),
  ];
}

const NewInvoiceBody = z
  .strictObject({
    amount_usd: z
      .union([z.number(), z.string().max(AMOUNT_TEXT_MAX)], {
        error: 'must be an amount of US dollars, such as 10 or "12.50"',
      })
      .meta({ description: "What the credits cost, in dollars and whole cents.", example: 10 }),
    currency: z
      .string()
      .refine((currency) => currency.toLowerCase() === "usd", "must be usd: nothing else is taken")
      .optional(),
  })
  .meta({ id: "NewInvoiceRequest" });

function createRoute({ links, limits }: BillingDeps, x402: X402Deps | undefined): Route {
  return keyWriteRoute({
    ...DOC,
    method: "POST",
    path: "/v1/billing/invoice",
    id: "createInvoice",
    summary: "Buy credits: get an invoice that a human can pay",
    description:
      "One US dollar buys 1,000,000 credits; a platform fee of 5 % and, where it applies, tax come on top. Nothing is charged by this call: a human pays at `pay_url`, and the credits are there as soon as the invoice is `paid`. Send an `Idempotency-Key`, so that a repetition does not make a second invoice.",
    body: NewInvoiceBody,
    requestExample: { amount_usd: 10 },
    responses: {
      201: {
        description: "The open invoice.",
        schema: InvoiceRecord,
        example: INVOICE_EXAMPLE,
        ...x402HeadersDoc(x402),
      },
    },
    faults: ["conflict"],
    run: async (tx, { caller, body, clientIp, now }) => {
      const amountCents = parseAmount(body.amount_usd, limits);
      const by = authorOf(caller, clientIp);
      const { accountId } = caller;
      const invoice = await createInvoice(tx, { accountId, amountCents, by, now });
      const headers = x402Headers(x402, invoice);
      return { status: 201, body: toInvoiceRecord(invoice, links.urlFor(invoice.id)), headers };
    },
  });
}

function listRoute({ db, links }: BillingDeps): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    path: "/v1/billing/invoices",
    id: "listInvoices",
    summary: "List invoices",
    description: "Newest first.",
    query: z.strictObject({
      ...PageQuery,
      cursor: cursorSchema("inv"),
      status: z.enum(INVOICE_STATUSES).optional(),
    }),
    responses: {
      200: {
        description: "A page of invoices.",
        schema: listSchema(InvoiceRecord, "InvoiceList"),
        example: { object: "list", data: [INVOICE_EXAMPLE], has_more: false, next_cursor: null },
      },
    },
    faults: [],
    run: async ({ caller, query }) => {
      const page = await listInvoices(db, caller.accountId, query, query.status);
      const data = page.data.map((invoice) => toInvoiceRecord(invoice, links.urlFor(invoice.id)));
      return { status: 200, body: { ...page, data } };
    },
  });
}

function readRoute(billing: BillingDeps, x402: X402Deps | undefined): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    path: "/v1/billing/invoice/{id}",
    id: "readInvoice",
    summary: "Read an invoice, and learn whether it is paid",
    description:
      "The payment processor is asked as well where the invoice is open, so there is no need to wait for anything but the human.",
    params: INVOICE_PATH,
    responses: {
      200: {
        description: "The invoice.",
        schema: InvoiceRecord,
        example: { ...INVOICE_EXAMPLE, status: "paid", paid_at: "2026-11-21T09:34:10.000Z" },
        ...x402HeadersDoc(x402),
      },
    },
    faults: ["not_found"],
    run: async ({ caller, params, now }) => {
      const known = await getInvoice(billing.db, params.id, caller.accountId);
      const invoice = await tryReconcileInvoice(billing, known, now);
      const headers = x402Headers(x402, invoice);
      return {
        status: 200,
        body: toInvoiceRecord(invoice, billing.links.urlFor(invoice.id)),
        headers,
      };
    },
  });
}

/** An open invoice says how an agent pays it by itself, where it can. */
function x402Headers(
  x402: X402Deps | undefined,
  invoice: Invoice,
): Readonly<Record<string, string>> {
  if (x402 === undefined || invoice.status !== "open") return {};
  return { "payment-required": paymentRequiredForInvoice(x402, invoice, "the invoice is open") };
}

function x402HeadersDoc(x402: X402Deps | undefined): Pick<ResponseDoc, "headers"> {
  if (x402 === undefined) return {};
  const description =
    "Of an open invoice: how to pay it with x402, and at which address. Base64 of JSON, as x402 says it.";
  return { headers: { "payment-required": description } };
}

function voidRoute(billing: BillingDeps): Route {
  return keyWriteRoute({
    ...DOC,
    method: "POST",
    path: "/v1/billing/invoice/{id}/void",
    id: "voidInvoice",
    summary: "Withdraw an invoice that is not paid",
    description:
      "Its page can no longer be paid at. Repeating the call gives the same answer. An invoice that is paid, or whose payment is under way, is a conflict. Money that arrives all the same, such as a bank transfer, still buys its credits: the invoice is `paid` then.",
    params: INVOICE_PATH,
    responses: {
      200: {
        description: "The void invoice.",
        schema: InvoiceRecord,
        example: { ...INVOICE_EXAMPLE, status: "void" },
      },
    },
    faults: ["not_found", "conflict", "overloaded"],
    before: ({ caller, params, now }) =>
      cancelOpenCheckout(billing, { id: params.id, accountId: caller.accountId, now }),
    run: async (tx, { caller, params, clientIp, now }) => {
      const by = authorOf(caller, clientIp);
      const { accountId } = caller;
      const invoice = await voidInvoice(tx, { id: params.id, accountId, by, now });
      return { status: 200, body: toInvoiceRecord(invoice, billing.links.urlFor(invoice.id)) };
    },
  });
}

function authorOf({ keyId }: Caller, address: string): AuditSource {
  return { actor: { type: "key", id: keyId }, network: networksOf(address)[1] };
}

function webhookRoute(billing: BillingDeps): Route {
  return publicRoute({
    ...DOC,
    method: "POST",
    path: `/webhooks/${billing.processor.id}`,
    id: "hearOfPayment",
    summary: "Hear of a payment",
    hidden: true,
    rawBody: true,
    bodyLimitBytes: WEBHOOK_BYTES_MAX,
    responses: {
      200: { description: "It was heard.", schema: z.object({ received: z.literal(true) }) },
    },
    faults: ["invalid_request"],
    run: async ({ bodyText, headers, now }) => {
      const signature = headers.get("stripe-signature") ?? "";
      await handleWebhook(billing, { bodyText, signature, now });
      return { status: 200, body: { received: true } };
    },
  });
}
