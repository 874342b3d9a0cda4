// GET and POST /pay: the page of an invoice, for whoever has its link. A GET changes nothing here.

import { z } from "zod";
import { Fault } from "../base/fault.ts";
import { pageHeaders, type PageFrame, renderPage } from "../http/layout.tsx";
import { type Route, type Visitor, visitorRoute } from "../http/route.ts";
import { findInvoice, type Invoice } from "./billing.ts";
import { payPage, type PayState } from "./pay-page.tsx";
import { paymentsOf } from "./payment-rows.ts";
import { receiptPage } from "./receipt-page.tsx";
import { demandLoopback, payAt, payInDevelopment, type Till, upToDate } from "./till.ts";
import { underWayOf } from "./under-way.ts";

export interface PayPageParts {
  readonly till: Till;
}

const PAGE_DOC = {
  tag: "Billing",
  dialect: "page",
  hidden: true,
  faults: ["not_found"],
  answers: { 200: { description: "A page.", contentType: "text/html" } },
} as const;
const TOKEN_PATH = z.object({ token: z.string() });

export function payPageRoutes({ till }: PayPageParts): readonly Route[] {
  return [showRoute(till), payRoute(till), receiptRoute(till)];
}

function showRoute(till: Till): Route {
  return visitorRoute({
    ...PAGE_DOC,
    method: "GET",
    path: "/pay/{token}",
    id: "showInvoicePage",
    summary: "The page of an invoice",
    params: TOKEN_PATH,
    query: z.object({ done: z.string().optional(), failed: z.string().optional() }),
    run: async ({ caller, params, query, now }) => {
      const invoice = await upToDate(till, await invoiceOf(till, params.token), now);
      const notice =
        query.failed !== undefined ? "failed" : query.done !== undefined ? "confirming" : undefined;
      return show(
        till,
        200,
        payPage(await stateOf(till, invoice, params.token, { notice, caller })),
      );
    },
  });
}

function payRoute(till: Till): Route {
  return visitorRoute({
    ...PAGE_DOC,
    method: "POST",
    path: "/pay/{token}",
    id: "payInvoice",
    summary: "Go on to pay an invoice",
    params: TOKEN_PATH,
    body: z.object({ decision: z.enum(["pay", "fail"]).optional() }),
    example: { decision: "pay" },
    run: async ({ caller, params, body, now, address }) => {
      const invoice = await invoiceOf(till, params.token);
      const here = `/pay/${params.token}`;
      if (till.processor.kind === "development") {
        demandLoopback(address);
        if (body.decision === "fail") return toPage(`${here}?failed=1`);
        const isFree = (await underWayOf(till.db, invoice.id)) === undefined;
        if (invoice.status === "open" && isFree) await payInDevelopment(till, invoice, now);
        return toPage(here);
      }
      return await leadOn(till, invoice, { token: params.token, caller, now });
    },
  });
}

async function leadOn(
  till: Till,
  invoice: Invoice,
  about: { readonly token: string; readonly caller: Visitor | undefined; readonly now: number },
): Promise<Response> {
  const { token, caller, now } = about;
  try {
    const begun = await payAt(till, invoice.id, now);
    if (begun.kind === "page") return toPage(begun.url);
    return toPage(`/pay/${token}${begun.kind === "processing" ? "?done=1" : ""}`);
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== "overloaded") throw error;
    till.log.error("a payment could not be begun", { invoice: invoice.id, cause: error });
    return show(
      till,
      503,
      payPage(await stateOf(till, invoice, token, { notice: "unreachable", caller })),
    );
  }
}

function receiptRoute(till: Till): Route {
  return visitorRoute({
    ...PAGE_DOC,
    method: "GET",
    path: "/pay/{token}/receipt",
    id: "showReceipt",
    summary: "The receipt of a paid invoice",
    params: TOKEN_PATH,
    run: async ({ params }) => {
      const invoice = await invoiceOf(till, params.token);
      const payments = await paymentsOf(till.db, invoice.id);
      const payment = payments.find(({ state }) => state === "credited");
      if (payment === undefined)
        throw new Fault("not_found", "nothing was paid", {
          message: "There is no receipt yet: this invoice is not paid.",
        });
      return show(till, 200, receiptPage({ invoice, payment, operator: till.operator }));
    },
  });
}

async function invoiceOf({ db, links }: Till, token: string): Promise<Invoice> {
  const id = links.invoiceOf(token);
  const invoice = id === undefined ? undefined : await findInvoice(db, id);
  if (invoice === undefined)
    throw new Fault("not_found", "no invoice has that link", {
      message: "This link leads to no invoice. Ask whoever sent it for the whole link.",
    });
  return invoice;
}

async function stateOf(
  { db, processor, operator }: Till,
  invoice: Invoice,
  token: string,
  { notice, caller }: { notice: PayState["notice"]; caller: Visitor | undefined },
): Promise<PayState> {
  const underWay = invoice.status === "open" ? await underWayOf(db, invoice.id) : undefined;
  return { invoice, token, processor, operator, notice, underWay, csrf: caller?.csrf };
}

function show({ processor }: Till, status: number, frame: PageFrame): Response {
  const policy = processor.kind === "hosted" ? { formTargets: processor.formTargets } : {};
  return new Response(renderPage(frame), {
    status,
    headers: { ...pageHeaders(policy), "cache-control": "no-store" },
  });
}

function toPage(location: string): Response {
  return new Response(null, {
    status: 303,
    headers: { location, "cache-control": "no-store", "referrer-policy": "no-referrer" },
  });
}
