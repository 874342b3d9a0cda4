// The routes of the billing page. All members see it; only the owner buys credits and changes auto top-up.

import { z } from "zod";
import { authorize } from "../../accounts/members.ts";
import { personAct } from "../../activity/audit.ts";
import { newId } from "../../base/id.ts";
import {
  requireLoopback,
  type BillingDeps,
  tryReconcileInvoice,
} from "../../billing/billing-deps.ts";
import { findInvoice, listInvoices, parseAmount } from "../../billing/invoices/invoices.ts";
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
import type { PagePolicy } from "../../http/pages/layout.tsx";
import { formErrorOf, pageResponse, redirect } from "../../http/pages/page-response.ts";
import { sessionRoute, type Route, type SessionUser } from "../../http/route.ts";
import { cursorSchema } from "../../http/schemas.ts";
import type { Idempotency } from "../../idempotency/idempotency.ts";
import { getLowBalanceThreshold } from "../../ledger/balance-thresholds.ts";
import { getWallet } from "../../ledger/ledger.ts";
import type { Db } from "../../store/db.ts";
import { workspacePath } from "../console-layout.tsx";
import { DoneQuery } from "../done-notice.tsx";
import { AccountPath, PAGE_DEFAULTS } from "../page-defaults.ts";
import { type ConsoleReadDeps, requireAccess, type WorkspaceContext } from "../require-access.ts";
import { BILLING_PERMISSIONS, BillingForm, handleBillingForm } from "./billing-forms.ts";
import { type BillingDone, billingPage, type BillingPageProps } from "./billing-page.tsx";
import { buyPage, type BuyPageProps } from "./buy-page.tsx";
import { developmentCardPage } from "./development-card-page.tsx";

export interface BillingPageDeps extends ConsoleReadDeps {
  readonly db: Db;
  readonly billing: BillingDeps;
  readonly idempotency: Idempotency;
}

const PATH = "/console/{account}/billing";
const INVOICES_PER_PAGE = 50;
const REFRESH_TIMEOUT_MS = 4_000;

export function billingPageRoutes(deps: BillingPageDeps): readonly Route[] {
  const isDevelopment = deps.billing.processor.kind === "development";
  return [
    showRoute(deps),
    buyRoute(deps),
    changeRoute(deps),
    ...(isDevelopment ? [showDevelopmentCardRoute(deps), saveDevelopmentCardRoute(deps)] : []),
  ];
}

function showRoute(deps: BillingPageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "GET",
    path: PATH,
    id: "showWorkspaceBilling",
    summary: "Show the billing of a workspace",
    params: AccountPath,
    query: z.object({
      cursor: cursorSchema("inv"),
      saved: z.string().optional(),
      invoice: z.string().optional(),
      ...DoneQuery,
    }),
    run: async ({ caller, params: { account }, query, now }) => {
      const workspace = await requireAccess(deps, account, caller.personId, "billing.read");
      await refreshWithinTimeout(deps.billing, account, now);
      const { cursor, saved, invoice, done } = query;
      const returned = await readReturned(deps, account, { invoiceId: invoice, now });
      const page = await readBilling(deps, { user: caller, workspace, now, cursor });
      const isMethodSaved = page.topUp.method !== null;
      const savedDone: BillingDone = isMethodSaved ? "method_saved" : "method_pending";
      return billingPageResponse(deps, {
        ...page,
        returned,
        done: saved === undefined ? done : savedDone,
      });
    },
  });
}

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
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "GET",
    path: `${PATH}/buy`,
    id: "showCreditPurchase",
    summary: "Show the price of credits",
    params: AccountPath,
    query: z.object({
      amount_usd: z.string().max(20).optional(),
      step: z.literal("amount").optional(),
    }),
    run: async ({ caller: user, params, query, now }) => {
      const { amount_usd: amountText, step } = query;
      const workspace = await requireAccess(deps, params.account, user.personId, "billing.buy");
      const page = { user, workspace, amountText };
      if (amountText === undefined || step !== undefined) return buyPageResponse(deps, page);
      try {
        const amountCents = parseAmount(amountText.trim(), deps.billing.limits);
        const purchase = { amountCents, idempotencyKey: newId("req", now) };
        return buyPageResponse(deps, { ...page, purchase });
      } catch (error) {
        return buyPageResponse(deps, { ...page, error: formErrorOf(error) }, 400);
      }
    },
  });
}

function buyPageResponse(
  { billing }: BillingPageDeps,
  page: Omit<BuyPageProps, "limits" | "processor">,
  status = 200,
): Response {
  const { limits, processor } = billing;
  const policy = processorPolicy(billing);
  return pageResponse(buyPage({ ...page, limits, processor }), { status, policy });
}

function changeRoute(deps: BillingPageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "POST",
    path: PATH,
    id: "changeWorkspaceBilling",
    summary: "Buy credits, void an invoice, or change auto top-up",
    params: AccountPath,
    body: BillingForm,
    requestExample: { do: "turn_off" },
    run: async ({ caller, params, body, clientIp, now }) => {
      const { account } = params;
      const workspace = await requireAccess(
        deps,
        account,
        caller.personId,
        BILLING_PERMISSIONS[body.do],
      );
      try {
        const form = { accountId: account, user: caller, body, clientIp, now };
        return redirect(await handleBillingForm(deps, form));
      } catch (error) {
        const formError = formErrorOf(error);
        if (body.do === "buy") {
          const { amount_usd: amountText } = body;
          return buyPageResponse(
            deps,
            { user: caller, workspace, amountText, error: formError },
            400,
          );
        }
        const page = await readBilling(deps, { user: caller, workspace, now });
        const form = body.do === "allow" || body.do === "alert" ? body.do : undefined;
        const rejected = { form, values: body, error: formError };
        return billingPageResponse(deps, { ...page, rejected }, 400);
      }
    },
  });
}

function showDevelopmentCardRoute(deps: BillingPageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "GET",
    path: `${PATH}/card`,
    id: "showDevelopmentCards",
    summary: "List the development cards",
    params: AccountPath,
    run: async ({ caller, params }) =>
      pageResponse(
        developmentCardPage(
          caller,
          await requireAccess(deps, params.account, caller.personId, "billing.auto_top_up"),
        ),
      ),
  });
}

function saveDevelopmentCardRoute(deps: BillingPageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "POST",
    path: `${PATH}/card`,
    id: "saveDevelopmentCard",
    summary: "Save a development card",
    params: AccountPath,
    body: z.object({ card: z.string().refine(isDevelopmentCard, "must be one of the cards") }),
    requestExample: { card: "works" },
    run: async ({ caller, params, body, clientIp, now }) => {
      const { account: accountId } = params;
      const { personId: savedBy } = caller;
      await requireAccess(deps, accountId, savedBy, "billing.auto_top_up");
      requireLoopback(clientIp);
      const { card: ref } = body;
      await deps.db.write(async (tx) => {
        await authorize(
          tx,
          personAct(accountId, savedBy, { clientIp, now }),
          "billing.auto_top_up",
        );
        const { id: processor } = deps.billing.processor;
        const method = await findOrInsertSavingMethod(tx, { accountId, processor, savedBy, now });
        const label = isDevelopmentCard(ref) ? DEVELOPMENT_CARDS[ref] : ref;
        await saveConfirmedMethod(tx, method, { ref, label, now });
      });
      return redirect(`${workspacePath(accountId, "/billing")}?saved=1`);
    },
  });
}

function isDevelopmentCard(name: string): name is DevelopmentCard {
  return Object.hasOwn(DEVELOPMENT_CARDS, name);
}

interface BillingPageRequest {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly now: number;
  readonly cursor?: string | undefined;
}

async function readBilling(
  { db, billing }: BillingPageDeps,
  { user, workspace, now, cursor }: BillingPageRequest,
): Promise<BillingPageProps> {
  const { accountId } = workspace;
  const [balance, lowThreshold, topUp, invoices] = await Promise.all([
    getWallet(db, accountId),
    getLowBalanceThreshold(db, accountId),
    readAutoTopUpSummary(db, accountId, now),
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

function billingPageResponse(
  { billing }: BillingPageDeps,
  props: BillingPageProps,
  status = 200,
): Response {
  return pageResponse(billingPage(props), { status, policy: processorPolicy(billing) });
}

/** Lets the forms lead to the page of the processor. */
function processorPolicy({ processor }: BillingDeps): PagePolicy {
  return processor.kind === "hosted" ? { formTargets: processor.formTargets } : {};
}
