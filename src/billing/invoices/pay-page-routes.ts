// The invoice page /pay/{token}, open to anyone with its link. A GET changes nothing but reconciles with the processor.

import { z } from "zod";
import { Fault } from "../../base/fault.ts";
import { pageHeaders, type PageLayout, renderPage } from "../../http/pages/layout.tsx";
import { type Route, type SessionUser, optionalSessionRoute } from "../../http/route.ts";
import { findInvoice, type Invoice } from "./invoices.ts";
import { payPage, type PayPageProps } from "./pay-page.tsx";
import { paymentsOfInvoice } from "../payments/payment-rows.ts";
import { receiptPage } from "./receipt-page.tsx";
import {
  requireLoopback,
  beginPayment,
  simulatePayment,
  type BillingDeps,
  tryReconcileInvoice,
} from "../billing-deps.ts";
import { inFlightPaymentOf } from "../payments/in-flight-payment.ts";

export interface PayPageDeps {
  readonly billing: BillingDeps;
}

const PAGE_DOC = {
  tag: "Billing",
  dialect: "page",
  hidden: true,
  faults: ["not_found"],
  responses: { 200: { description: "A page.", contentType: "text/html" } },
} as const;
const TOKEN_PATH = z.object({ token: z.string() });

export function payPageRoutes({ billing }: PayPageDeps): readonly Route[] {
  return [invoicePageRoute(billing), payRoute(billing), receiptRoute(billing)];
}

function invoicePageRoute(billing: BillingDeps): Route {
  return optionalSessionRoute({
    ...PAGE_DOC,
    method: "GET",
    path: "/pay/{token}",
    id: "showInvoicePage",
    summary: "Show an invoice page",
    params: TOKEN_PATH,
    query: z.object({ done: z.string().optional(), failed: z.string().optional() }),
    run: async ({ caller, params, query, now }) => {
      const invoice = await tryReconcileInvoice(
        billing,
        await requireInvoiceByToken(billing, params.token),
        now,
      );
      const notice =
        query.failed !== undefined ? "failed" : query.done !== undefined ? "confirming" : undefined;
      return pageResponse(
        billing,
        200,
        payPage(await payPageProps(billing, invoice, params.token, { notice, caller })),
      );
    },
  });
}

function payRoute(billing: BillingDeps): Route {
  return optionalSessionRoute({
    ...PAGE_DOC,
    method: "POST",
    path: "/pay/{token}",
    id: "payInvoice",
    summary: "Pay an invoice on its page",
    params: TOKEN_PATH,
    body: z.object({ decision: z.enum(["pay", "fail"]).optional() }),
    requestExample: { decision: "pay" },
    run: async ({ caller, params, body, now, clientIp }) => {
      const invoice = await requireInvoiceByToken(billing, params.token);
      const pageUrl = `/pay/${params.token}`;
      if (billing.processor.kind === "development") {
        requireLoopback(clientIp);
        if (body.decision === "fail") return seeOther(`${pageUrl}?failed=1`);
        const isUnpaid = (await inFlightPaymentOf(billing.db, invoice.id)) === undefined;
        if (invoice.status === "open" && isUnpaid) await simulatePayment(billing, invoice, now);
        return seeOther(pageUrl);
      }
      return await redirectToProcessor(billing, invoice, { token: params.token, caller, now });
    },
  });
}

async function redirectToProcessor(
  billing: BillingDeps,
  invoice: Invoice,
  visit: { readonly token: string; readonly caller: SessionUser | undefined; readonly now: number },
): Promise<Response> {
  const { token, caller, now } = visit;
  try {
    const start = await beginPayment(billing, invoice.id, now);
    if (start.kind === "page") return seeOther(start.url);
    return seeOther(`/pay/${token}${start.kind === "processing" ? "?done=1" : ""}`);
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== "overloaded") throw error;
    billing.log.error("failed to begin a payment", { invoice: invoice.id, cause: error });
    return pageResponse(
      billing,
      503,
      payPage(await payPageProps(billing, invoice, token, { notice: "unreachable", caller })),
    );
  }
}

function receiptRoute(billing: BillingDeps): Route {
  return optionalSessionRoute({
    ...PAGE_DOC,
    method: "GET",
    path: "/pay/{token}/receipt",
    id: "showReceipt",
    summary: "Show the receipt of a paid invoice",
    params: TOKEN_PATH,
    run: async ({ params }) => {
      const invoice = await requireInvoiceByToken(billing, params.token);
      const payments = await paymentsOfInvoice(billing.db, invoice.id);
      const payment = payments.find(({ state }) => state === "credited");
      if (payment === undefined)
        throw new Fault("not_found", "invoice is not paid", {
          message: "This invoice has no receipt yet, because it is not paid.",
        });
      return pageResponse(
        billing,
        200,
        receiptPage({ invoice, payment, operator: billing.operator }),
      );
    },
  });
}

async function requireInvoiceByToken({ db, links }: BillingDeps, token: string): Promise<Invoice> {
  const id = links.verifyToken(token);
  const invoice = id === undefined ? undefined : await findInvoice(db, id);
  if (invoice === undefined)
    throw new Fault("not_found", "no invoice has this link", {
      message: "No invoice has this link. Ask the sender for the complete link.",
    });
  return invoice;
}

async function payPageProps(
  { db, processor, operator }: BillingDeps,
  invoice: Invoice,
  token: string,
  { notice, caller }: { notice: PayPageProps["notice"]; caller: SessionUser | undefined },
): Promise<PayPageProps> {
  const inFlight = invoice.status === "open" ? await inFlightPaymentOf(db, invoice.id) : undefined;
  return { invoice, token, processor, operator, notice, inFlight, csrf: caller?.csrf };
}

function pageResponse({ processor }: BillingDeps, status: number, page: PageLayout): Response {
  const policy = processor.kind === "hosted" ? { formTargets: processor.formTargets } : {};
  return new Response(renderPage(page), {
    status,
    headers: { ...pageHeaders(policy), "cache-control": "no-store" },
  });
}

function seeOther(location: string): Response {
  return new Response(null, {
    status: 303,
    headers: { location, "cache-control": "no-store", "referrer-policy": "no-referrer" },
  });
}
