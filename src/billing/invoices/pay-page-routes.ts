// The invoice page /pay/{token}, open to anyone with its link. A GET changes nothing but reconciles with the processor.

import { z } from "zod";
import { getAccount } from "../../accounts/accounts.ts";
import { roleOf } from "../../accounts/members.ts";
import { Fault } from "../../base/fault.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { pageResponse, redirect } from "../../http/pages/page-response.ts";
import { openFormRoute, openPageRoute } from "../../http/pages/page-routes.ts";
import type { Route, SessionUser } from "../../http/route.ts";
import {
  requireLoopback,
  beginPayment,
  simulatePayment,
  type BillingDeps,
  tryReconcileInvoice,
} from "../billing-deps.ts";
import { listAgentPaymentMethods } from "../payments/agent-payment-rows.ts";
import { inFlightPaymentOf } from "../payments/checkouts.ts";
import { paymentsOfInvoice } from "../payments/payment-rows.ts";
import { invoicePdf, type InvoicePdfProps } from "./invoice-pdf.ts";
import { buyerOf, findInvoice, type Invoice, invoiceNumber } from "./invoices.ts";
import { payPage, type PayPageProps } from "./pay-page.tsx";
import { receiptPage } from "./receipt-page.tsx";

export interface PayPageDeps {
  readonly billing: BillingDeps;
}

const PAGE_DOC = { tag: "Billing", faults: ["not_found"] } as const;
const TOKEN_PATH = z.object({ token: z.string() });

export function payPageRoutes({ billing }: PayPageDeps): readonly Route[] {
  return [
    invoicePageRoute(billing),
    payRoute(billing),
    receiptRoute(billing),
    invoicePdfRoute(billing),
  ];
}

function invoicePageRoute(billing: BillingDeps): Route {
  return openPageRoute({
    ...PAGE_DOC,
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
      if (query.done !== undefined && (await isMember(billing, invoice, caller)))
        return redirect(billingPageOf(billing, invoice));
      const notice =
        query.failed !== undefined ? "failed" : query.done !== undefined ? "confirming" : undefined;
      return withProcessorForms(
        billing,
        payPage(await payPageProps(billing, invoice, params.token, { notice, caller })),
      );
    },
  });
}

function payRoute(billing: BillingDeps): Route {
  return openFormRoute({
    ...PAGE_DOC,
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
        if (body.decision === "fail") return redirect(`${pageUrl}?failed=1`);
        const isUnpaid = (await inFlightPaymentOf(billing.db, invoice.id)) === undefined;
        if (invoice.status === "open" && isUnpaid) await simulatePayment(billing, invoice, now);
        return redirect(
          (await isMember(billing, invoice, caller)) ? billingPageOf(billing, invoice) : pageUrl,
        );
      }
      return await redirectToProcessor(billing, invoice, { token: params.token, caller, now });
    },
  });
}

/** Members return to the console after a payment. */
async function isMember(
  { db }: BillingDeps,
  { accountId }: Invoice,
  caller: SessionUser | undefined,
): Promise<boolean> {
  return caller !== undefined && (await roleOf(db, accountId, caller.personId)) !== undefined;
}

function billingPageOf({ billingPageUrl }: BillingDeps, { id, accountId }: Invoice): string {
  return `${billingPageUrl(accountId)}?invoice=${id}`;
}

async function redirectToProcessor(
  billing: BillingDeps,
  invoice: Invoice,
  visit: { readonly token: string; readonly caller: SessionUser | undefined; readonly now: number },
): Promise<Response> {
  const { token, caller, now } = visit;
  try {
    const start = await beginPayment(billing, invoice.id, now);
    if (start.kind === "page") return redirect(start.url);
    return redirect(`/pay/${token}${start.kind === "processing" ? "?done=1" : ""}`);
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== "overloaded") throw error;
    billing.log.error("failed to begin a payment", { invoice: invoice.id, cause: error });
    const props = await payPageProps(billing, invoice, token, { notice: "unreachable", caller });
    return pageResponse(withProcessorForms(billing, payPage(props)), { status: 503 });
  }
}

function receiptRoute(billing: BillingDeps): Route {
  return openPageRoute({
    ...PAGE_DOC,
    path: "/pay/{token}/receipt",
    id: "showReceipt",
    summary: "Show the receipt of a paid invoice",
    params: TOKEN_PATH,
    run: async ({ caller, params: { token } }) => {
      const purchase = await requirePaid(billing, token);
      const pdfUrl = `/pay/${token}/invoice.pdf`;
      const view = await memberView(billing, purchase.invoice, caller);
      return receiptPage({ ...purchase, pdfUrl, ...view });
    },
  });
}

function invoicePdfRoute(billing: BillingDeps): Route {
  return openPageRoute({
    ...PAGE_DOC,
    path: "/pay/{token}/invoice.pdf",
    id: "downloadInvoice",
    summary: "Download a paid invoice as PDF",
    params: TOKEN_PATH,
    responses: { 200: { description: "The invoice.", contentType: "application/pdf" } },
    run: async ({ params: { token } }) => {
      const purchase = await requirePaid(billing, token);
      return new Response(await invoicePdf(purchase), {
        headers: {
          "content-type": "application/pdf",
          "content-disposition": `inline; filename="${invoiceNumber(purchase.invoice)}.pdf"`,
          "cache-control": "no-store",
        },
      });
    },
  });
}

async function requirePaid(billing: BillingDeps, token: string): Promise<InvoicePdfProps> {
  const { db, operator } = billing;
  const invoice = await requireInvoiceByToken(billing, token);
  const payments = await paymentsOfInvoice(db, invoice.id);
  const payment = payments.find(({ state }) => state === "credited");
  if (payment === undefined)
    throw new Fault("not_found", "invoice is not paid", {
      message: "This invoice has no receipt yet, because it is not paid.",
    });
  return { invoice, payment, operator, buyer: await buyerOf(db, invoice) };
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
  billing: BillingDeps,
  invoice: Invoice,
  token: string,
  { notice, caller }: { notice: PayPageProps["notice"]; caller: SessionUser | undefined },
): Promise<PayPageProps> {
  const { db, processor, operator } = billing;
  const inFlight = invoice.status === "open" ? await inFlightPaymentOf(db, invoice.id) : undefined;
  const { name: workspaceName } = await getAccount(db, invoice.accountId);
  const methods = await listAgentPaymentMethods(db, invoice.accountId, [invoice.id, invoice.id]);
  const agentMethod = methods.get(invoice.id);
  const shown = {
    invoice,
    workspaceName,
    token,
    processor,
    operator,
    notice,
    inFlight,
    agentMethod,
  };
  return { ...shown, ...(await memberView(billing, invoice, caller)), csrf: caller?.csrf };
}

async function memberView(
  billing: BillingDeps,
  invoice: Invoice,
  caller: SessionUser | undefined,
): Promise<{ readonly billingPageUrl?: string }> {
  return (await isMember(billing, invoice, caller))
    ? { billingPageUrl: billing.billingPageUrl(invoice.accountId) }
    : {};
}

/** Lets the forms lead to the page of the processor. */
function withProcessorForms({ processor }: BillingDeps, page: PageLayout): PageLayout {
  return processor.kind === "hosted" ? { ...page, formTargets: processor.formTargets } : page;
}
