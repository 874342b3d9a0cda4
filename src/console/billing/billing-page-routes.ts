// The routes of the billing page. All members see it; only the owner buys credits and changes auto top-up.

import { z } from "zod";
import { readBillingDetails } from "../../accounts/billing-details.ts";
import { authorize } from "../../accounts/members.ts";
import { newId } from "../../base/id.ts";
import { plainAmount } from "../../base/money/amount-text.ts";
import { usdText } from "../../base/money/money.ts";
import { type CsvColumn, writeCsv } from "../../base/text/csv-writer.ts";
import {
  requireLoopback,
  type BillingDeps,
  tryReconcileInvoice,
} from "../../billing/billing-deps.ts";
import { feeOf, nanoOfCredits, usdOfCents } from "../../billing/invoices/cents.ts";
import {
  findInvoice,
  type Invoice,
  invoiceNumber,
  listInvoices,
  parseAmount,
} from "../../billing/invoices/invoices.ts";
import { listAgentPaymentMethods } from "../../billing/payments/agent-payment-rows.ts";
import {
  DEVELOPMENT_CARDS,
  type DevelopmentCard,
} from "../../billing/payments/development-cards.ts";
import { paymentMethodsOf } from "../../billing/payments/payment-processor.ts";
import { readAutoTopUpSummary } from "../../billing/top-up/auto-top-up.ts";
import { findOrInsertSavingMethod } from "../../billing/top-up/payment-method-rows.ts";
import { saveConfirmedMethod, reconcileMethods } from "../../billing/top-up/payment-methods.ts";
import { listTopUpsByInvoiceRange } from "../../billing/top-up/top-up-rows.ts";
import { csvDownload, EXPORTED_MAX, jsonDownload } from "../../http/csv-download.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { formErrorOf, pageResponse } from "../../http/pages/page-response.ts";
import { formRoute, submitForm } from "../../http/pages/page-routes.ts";
import type { Route } from "../../http/route.ts";
import { cursorSchema } from "../../http/schemas.ts";
import type { Idempotency } from "../../idempotency/idempotency.ts";
import { ENTRIES_MAX, findProof, type ProofDeps } from "../../ledger-proofs/find-proof.ts";
import { getLowBalanceThreshold } from "../../ledger/balance-thresholds.ts";
import { getWallet } from "../../ledger/ledger.ts";
import { listServiceCredits } from "../../service-levels/service-credits.ts";
import type { Db } from "../../store/db.ts";
import { workspacePath } from "../console-layout.tsx";
import { DoneQuery } from "../done-notice.tsx";
import { type ConsoleReadDeps, requireAccess, type WorkspaceView } from "../require-access.ts";
import { AccountPath, CONSOLE_PAGE, workspaceForm, workspacePage } from "../workspace-routes.ts";
import { BILLING_PERMISSIONS, BillingForm, handleBillingForm } from "./billing-forms.ts";
import { type BillingDone, type BillingPageProps, billingPage } from "./billing-page.tsx";
import { type BuyPageProps, buyPage } from "./buy-page.tsx";
import { developmentCardPage } from "./development-card-page.tsx";

export interface BillingPageDeps extends ConsoleReadDeps {
  readonly db: Db;
  readonly billing: BillingDeps;
  readonly idempotency: Idempotency;
  readonly ledgerProofs: ProofDeps;
}

const PATH = "/console/{account}/billing";
const INVOICES_PER_PAGE = 50;
const SERVICE_CREDITS_SHOWN = 10;
const REFRESH_TIMEOUT_MS = 4_000;

export function billingPageRoutes(deps: BillingPageDeps): readonly Route[] {
  const isDevelopment = deps.billing.processor.kind === "development";
  return [
    showRoute(deps),
    exportRoute(deps),
    proofRoute(deps),
    buyRoute(deps),
    changeRoute(deps),
    ...(isDevelopment ? [showDevelopmentCardRoute(deps), saveDevelopmentCardRoute(deps)] : []),
  ];
}

function showRoute(deps: BillingPageDeps): Route {
  return workspacePage(deps, {
    path: PATH,
    id: "showWorkspaceBilling",
    summary: "Show the billing of a workspace",
    query: z.object({
      cursor: cursorSchema("inv"),
      saved: z.string().optional(),
      invoice: z.string().optional(),
      ...DoneQuery,
    }),
    permission: "billing.read",
    run: async ({ view, account, query, now }) => {
      await refreshWithinTimeout(deps.billing, account, now);
      const { cursor, saved, invoice, done } = query;
      const returned = await readReturned(deps, account, { invoiceId: invoice, now });
      const page = await readBilling(deps, { ...view, now, cursor });
      const isMethodSaved = page.topUp.method !== null;
      const savedDone: BillingDone = isMethodSaved ? "method_saved" : "method_pending";
      return billingPageOf(deps, {
        ...page,
        returned,
        done: saved === undefined ? done : savedDone,
      });
    },
  });
}

function exportRoute(deps: BillingPageDeps): Route {
  return workspacePage(deps, {
    path: `${PATH}/invoices.csv`,
    id: "exportWorkspaceInvoices",
    summary: "Export the invoices of a workspace as CSV",
    responses: { 200: { description: "The invoices.", contentType: "text/csv" } },
    permission: "billing.read",
    run: async ({ account }) => {
      const { data } = await listInvoices(deps.db, account, { limit: EXPORTED_MAX });
      return csvDownload(await writeCsv(INVOICE_COLUMNS, data), "invoices.csv");
    },
  });
}

function proofRoute(deps: BillingPageDeps): Route {
  return workspacePage(deps, {
    path: `${PATH}/ledger-proof.json`,
    id: "exportLedgerProof",
    summary: "Export the newest proof of the balance of a workspace",
    responses: { 200: { description: "The proof.", contentType: "application/json" } },
    permission: "billing.read",
    run: async ({ account }) => {
      const page = { account, limit: ENTRIES_MAX, offset: 0 };
      return jsonDownload(await findProof(deps.ledgerProofs, page), "ledger-proof.json");
    },
  });
}

const day = (at: number | null): string => (at === null ? "" : new Date(at).toISOString());

const INVOICE_COLUMNS: readonly CsvColumn<Invoice>[] = [
  ["number", (invoice) => (invoice.number === null ? "" : invoiceNumber(invoice))],
  ["id", ({ id }) => id],
  ["status", ({ status }) => status],
  ["created_at", ({ createdAt }) => day(createdAt)],
  ["paid_at", ({ paidAt }) => day(paidAt)],
  ["credits", ({ credits }) => credits],
  ["credits_usd", ({ credits }) => usdText(nanoOfCredits(credits))],
  ["fee_usd", (invoice) => usdText(nanoOfCredits(feeOf(invoice)))],
  ["tax_usd", ({ taxCents }) => usdOfCents(taxCents).toFixed(2)],
  ["total_usd", ({ totalCents, taxCents }) => usdOfCents(totalCents + taxCents).toFixed(2)],
];

/** The invoice whose payment led back to the page; undefined if the workspace has no such invoice. */
async function readReturned(
  { db, billing }: BillingPageDeps,
  accountId: string,
  { invoiceId, now }: { readonly invoiceId: string | undefined; readonly now: number },
): Promise<BillingPageProps["returned"]> {
  const stored = invoiceId === undefined ? undefined : await findInvoice(db, invoiceId);
  if (stored?.accountId !== accountId) return undefined;
  const invoice = await tryReconcileInvoice(billing, stored, now);
  return { invoice, payUrl: billing.links.urlFor(invoice.id) };
}

function buyRoute(deps: BillingPageDeps): Route {
  return workspacePage(deps, {
    path: `${PATH}/buy`,
    id: "showCreditPurchase",
    summary: "Show the price of credits",
    query: z.object({
      amount_usd: z.string().max(20).optional(),
      step: z.literal("amount").optional(),
    }),
    permission: "billing.buy",
    run: ({ view, query: { amount_usd: amountText, step }, now }) => {
      const page = { ...view, amountText };
      if (amountText === undefined || step !== undefined) return buyPageOf(deps, page);
      try {
        const amountCents = parseAmount(plainAmount(amountText), deps.billing.limits);
        const purchase = { amountCents, idempotencyKey: newId("req", now) };
        return buyPageOf(deps, { ...page, purchase });
      } catch (error) {
        const rejected = buyPageOf(deps, { ...page, error: formErrorOf(error) });
        return pageResponse(rejected, { status: 400 });
      }
    },
  });
}

function buyPageOf(
  { billing: { limits, processor } }: BillingPageDeps,
  page: Omit<BuyPageProps, "limits" | "processor">,
): PageLayout {
  return { ...buyPage({ ...page, limits, processor }), ...processorForms(processor) };
}

function changeRoute(deps: BillingPageDeps): Route {
  return formRoute({
    ...CONSOLE_PAGE,
    path: PATH,
    id: "changeWorkspaceBilling",
    summary: "Buy credits, void an invoice, or change auto top-up",
    params: AccountPath,
    body: BillingForm,
    requestExample: { do: "turn_off" },
    run: async ({ caller: user, params, body, clientIp, now }) => {
      const { account: accountId } = params;
      const permission = BILLING_PERMISSIONS[body.do];
      const workspace = await requireAccess(deps, accountId, user.personId, permission);
      const form = { accountId, user, body, clientIp, now };
      return await submitForm(
        () => handleBillingForm(deps, form),
        async (error) => {
          if (body.do === "buy")
            return buyPageOf(deps, { user, workspace, amountText: body.amount_usd, error });
          const page = await readBilling(deps, { user, workspace, now });
          const rejectedForm =
            body.do === "allow" || body.do === "alert" || body.do === "details"
              ? body.do
              : undefined;
          const rejected = { form: rejectedForm, values: body, error };
          return billingPageOf(deps, { ...page, rejected });
        },
      );
    },
  });
}

function showDevelopmentCardRoute(deps: BillingPageDeps): Route {
  return workspacePage(deps, {
    path: `${PATH}/card`,
    id: "showDevelopmentCards",
    summary: "List the development cards",
    permission: "billing.auto_top_up",
    run: ({ view: { user, workspace } }) => developmentCardPage(user, workspace),
  });
}

function saveDevelopmentCardRoute(deps: BillingPageDeps): Route {
  return workspaceForm(deps, {
    path: `${PATH}/card`,
    id: "saveDevelopmentCard",
    summary: "Save a development card",
    body: z.object({ card: z.string().refine(isDevelopmentCard, "must be one of the cards") }),
    requestExample: { card: "works" },
    permission: "billing.auto_top_up",
    prepare: ({ clientIp }) => requireLoopback(clientIp),
    write: async (tx, { act, caller, body: { card: ref } }) => {
      await authorize(tx, act, "billing.auto_top_up");
      const { accountId, now } = act;
      const { id: processor } = deps.billing.processor;
      const saving = { accountId, processor, savedBy: caller.personId, now };
      const method = await findOrInsertSavingMethod(tx, saving);
      const label = isDevelopmentCard(ref) ? DEVELOPMENT_CARDS[ref] : ref;
      await saveConfirmedMethod(tx, method, { ref, label, now });
    },
    done: ({ account }) => `${workspacePath(account, "/billing")}?saved=1`,
  });
}

function isDevelopmentCard(name: string): name is DevelopmentCard {
  return Object.hasOwn(DEVELOPMENT_CARDS, name);
}

interface BillingPageRequest extends WorkspaceView {
  readonly now: number;
  readonly cursor?: string | undefined;
}

async function readBilling(
  { db, billing, ledgerProofs }: BillingPageDeps,
  { user, workspace, now, cursor }: BillingPageRequest,
): Promise<BillingPageProps> {
  const { accountId } = workspace;
  const [balance, lowThreshold, topUp, details, serviceCredits, published, invoices] =
    await Promise.all([
      getWallet(db, accountId),
      getLowBalanceThreshold(db, accountId),
      readAutoTopUpSummary(db, accountId, now),
      readBillingDetails(db, accountId),
      listServiceCredits(db, accountId, { limit: SERVICE_CREDITS_SHOWN }),
      ledgerProofs.log.read(),
      listInvoices(db, accountId, {
        limit: INVOICES_PER_PAGE,
        ...(cursor === undefined ? {} : { cursor }),
      }),
    ]);
  const [newest, oldest] = [invoices.data[0]?.id ?? "", invoices.data.at(-1)?.id ?? ""];
  const topUps = await listTopUpsByInvoiceRange(db, accountId, [oldest, newest]);
  const agentMethods = await listAgentPaymentMethods(db, accountId, [oldest, newest]);
  return {
    user,
    workspace,
    balance,
    lowThreshold,
    topUp,
    details,
    serviceCredits: serviceCredits.data,
    provenDay: published.at(-1)?.day,
    canSaveMethods: paymentMethodsOf(billing.processor) !== undefined,
    invoices: invoices.data.map((invoice) => {
      const automatic = topUps.find(({ invoiceId }) => invoiceId === invoice.id);
      return {
        invoice,
        payUrl: billing.links.urlFor(invoice.id),
        isAutoTopUp: automatic !== undefined,
        agentMethod: agentMethods.get(invoice.id),
        isPaymentInFlight: automatic?.isOpen === true,
      };
    }),
    ...(invoices.next_cursor === null ? {} : { olderCursor: invoices.next_cursor }),
  };
}

/** Shows what was just saved on the processor's page. If the processor does not respond in time, shows stored data. */
async function refreshWithinTimeout(
  billing: BillingDeps,
  accountId: string,
  now: number,
): Promise<void> {
  const refresh = reconcileMethods(billing, accountId, now).catch((cause: unknown) =>
    billing.log.warn("could not refresh payment methods", { account: accountId, cause }),
  );
  await Promise.race([refresh, new Promise((resolve) => setTimeout(resolve, REFRESH_TIMEOUT_MS))]);
}

/** Lets the forms lead to the page of the processor. */
function processorForms(processor: BillingDeps["processor"]): Pick<PageLayout, "formTargets"> {
  return processor.kind === "hosted" ? { formTargets: processor.formTargets } : {};
}

function billingPageOf(
  { billing: { processor } }: BillingPageDeps,
  page: BillingPageProps,
): PageLayout {
  return { ...billingPage(page), ...processorForms(processor) };
}
