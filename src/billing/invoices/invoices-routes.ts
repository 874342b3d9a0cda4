// Endpoints of /v1/billing for invoices, and the endpoint for the payment processor's webhooks.

import { z } from "zod";
import { keyAct } from "../../activity/audit.ts";
import { CLAIM_STEP, Fault } from "../../base/fault.ts";
import { canBuy } from "../../base/purchase-steps.ts";
import {
  keyRoute,
  keyWriteRoute,
  oneResponse,
  publicRoute,
  type ResponseDoc,
  type Route,
} from "../../http/route.ts";
import { cursorSchema, listResponse, PageQuery } from "../../http/schemas.ts";
import {
  cancelOpenCheckout,
  handleWebhook,
  type BillingDeps,
  tryReconcileInvoice,
} from "../billing-deps.ts";
import type { PaymentProtocol } from "../payments/payment-protocol.ts";
import { autoTopUpRoutes } from "../top-up/top-up-routes.ts";
import { paymentRequiredForInvoice, type X402Deps } from "../x402/x402-payments.ts";
import { creditsOfCents } from "./cents.ts";
import {
  CLOSED_INVOICE_EXAMPLE,
  INVOICE_EXAMPLE,
  InvoiceRecord,
  toInvoiceRecord,
  InvoicePath,
} from "./invoice-record.ts";
import {
  createInvoice,
  getInvoice,
  type Invoice,
  INVOICE_STATUSES,
  listInvoices,
  parseAmount,
  voidInvoice,
} from "./invoices.ts";

const WEBHOOK_BYTES_MAX = 1_048_576;
const AMOUNT_TEXT_MAX = 20;

export interface BillingRouteDeps {
  readonly billing: BillingDeps;
  readonly x402?: X402Deps | undefined;
  readonly mpp?: PaymentProtocol | undefined;
}

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
        error: 'must be a US dollar amount, such as 10 or "12.50"',
      })
      .meta({
        description: "The price of the credits in US dollars, with whole cents.",
        example: 10,
      }),
    currency: z
      .string()
      .refine((currency) => currency.toLowerCase() === "usd", 'must be "usd"')
      .optional(),
  })
  .meta({ id: "NewInvoiceRequest" });

function createRoute(billing: BillingDeps, x402: X402Deps | undefined): Route {
  return keyWriteRoute({
    ...DOC,
    method: "POST",
    path: "/v1/billing/invoice",
    id: "createInvoice",
    scope: "billing:write",
    summary: "Create an invoice to buy credits",
    description:
      "One US dollar buys 1,000,000 credits. A platform fee of 5% is added, and the total is rounded half up to whole cents; where it applies, tax is added. This call charges nothing: `payment_methods` lists how it can be paid on this gateway, and the credits are added when the invoice is `paid`. On a gateway without a payment method no invoice is created: the `409` says what is possible instead. Send an `Idempotency-Key`, so that a retry does not create a second invoice.",
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
      if (!canBuy(billing.paymentOptions)) throw noPaymentMethod(billing);
      const credits = creditsOfCents(parseAmount(body.amount_usd, billing.limits));
      const invoice = await createInvoice(tx, keyAct(caller, { clientIp, now }), credits);
      const headers = x402Headers(x402, invoice);
      return { status: 201, body: toInvoiceRecord(invoice, billing), headers };
    },
  });
}

/** An invoice without a way to pay it is not created. */
function noPaymentMethod({ isSignInDisabled, operator }: BillingDeps): Fault {
  const contact = operator.contact === undefined ? "" : ` (${operator.contact})`;
  return new Fault("conflict", "this gateway has no payment method", {
    message: `This gateway has no payment method, so no invoice was created. Its operator${contact} can give you credit, and you can use your own provider key.`,
    next: [
      ...(isSignInDisabled ? [] : [CLAIM_STEP]),
      {
        method: "GET",
        url: "/v1/provider-keys",
        why: "List your own provider keys: calls with them cost no credits.",
      },
      { method: "GET", url: "/v1/account", why: "Read the balance that is left." },
    ],
  });
}

function listRoute(billing: BillingDeps): Route {
  const { db } = billing;
  return keyRoute({
    ...DOC,
    method: "GET",
    path: "/v1/billing/invoices",
    id: "listInvoices",
    scope: "billing:read",
    summary: "List invoices",
    description: "Newest first.",
    query: z.strictObject({
      ...PageQuery,
      cursor: cursorSchema("inv"),
      status: z
        .enum(INVOICE_STATUSES)
        .optional()
        .meta({ description: "Only invoices with this status." }),
    }),
    responses: listResponse("A page of invoices.", InvoiceRecord, "InvoiceList", INVOICE_EXAMPLE),
    faults: [],
    run: async ({ caller, query }) => {
      const page = await listInvoices(db, caller.accountId, query, query.status);
      const data = page.data.map((invoice) => toInvoiceRecord(invoice, billing));
      return { status: 200, body: { ...page, data } };
    },
  });
}

function readRoute(billing: BillingDeps, x402: X402Deps | undefined): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    path: "/v1/billing/invoice/{id}",
    id: "getInvoice",
    scope: "billing:read",
    summary: "Get an invoice",
    description:
      "An open invoice is first reconciled with the payment processor, so the status is current.",
    params: InvoicePath,
    responses: {
      200: {
        description: "The invoice.",
        schema: InvoiceRecord,
        example: { ...CLOSED_INVOICE_EXAMPLE, status: "paid", paid_at: "2026-11-21T09:34:10.000Z" },
        ...x402HeadersDoc(x402),
      },
    },
    faults: ["not_found"],
    run: async ({ caller, params, now }) => {
      const stored = await getInvoice(billing.db, params.id, caller.accountId);
      const invoice = await tryReconcileInvoice(billing, stored, now);
      const headers = x402Headers(x402, invoice);
      return {
        status: 200,
        body: toInvoiceRecord(invoice, billing),
        headers,
      };
    },
  });
}

/** Tells agents with a wallet how to pay an open invoice. */
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
    "For an open invoice: how and at which URL to pay it with x402. Base64-encoded JSON, as x402 specifies.";
  return { headers: { "payment-required": description } };
}

function voidRoute(billing: BillingDeps): Route {
  return keyWriteRoute({
    ...DOC,
    method: "POST",
    path: "/v1/billing/invoice/{id}/void",
    id: "voidInvoice",
    scope: "billing:write",
    summary: "Void an open invoice",
    description:
      "The invoice can no longer be paid on its page. Repeating the call returns the same response. Returns 409 if the invoice is paid or a payment is processing. A payment that arrives later, such as a bank transfer, is still credited: the invoice is then `paid`.",
    params: InvoicePath,
    responses: oneResponse("The void invoice.", InvoiceRecord, {
      ...CLOSED_INVOICE_EXAMPLE,
      status: "void",
    }),
    faults: ["not_found", "conflict", "overloaded"],
    before: ({ caller, params, now }) =>
      cancelOpenCheckout(billing, { id: params.id, accountId: caller.accountId, now }),
    run: async (tx, { caller, params, clientIp, now }) => {
      const invoice = await voidInvoice(tx, keyAct(caller, { clientIp, now }), params.id);
      return { status: 200, body: toInvoiceRecord(invoice, billing) };
    },
  });
}

function webhookRoute(billing: BillingDeps): Route {
  return publicRoute({
    ...DOC,
    method: "POST",
    path: `/webhooks/${billing.processor.id}`,
    id: "receivePaymentWebhook",
    summary: "Receive a payment processor's webhook",
    hidden: true,
    bodyType: "raw",
    bodyLimitBytes: WEBHOOK_BYTES_MAX,
    responses: {
      200: { description: "Received.", schema: z.object({ received: z.literal(true) }) },
    },
    faults: ["invalid_request"],
    run: async ({ bodyText, headers, now }) => {
      const signature = headers.get("stripe-signature") ?? "";
      await handleWebhook(billing, { bodyText, signature, now });
      return { status: 200, body: { received: true } };
    },
  });
}
