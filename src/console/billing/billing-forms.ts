// The forms of the billing page. Each returns the path or URL to redirect to.

import { z } from "zod";
import { changeBalanceAlert } from "../../accounts/balance-alert-routes.ts";
import { changeBillingDetails } from "../../accounts/billing-details.ts";
import { authorize, type Permission } from "../../accounts/members.ts";
import { type Act, personAct } from "../../activity/audit.ts";
import { Fault } from "../../base/fault.ts";
import { plainAmount } from "../../base/money/amount-text.ts";
import { beginPayment, cancelOpenCheckout, type BillingDeps } from "../../billing/billing-deps.ts";
import { creditsOfCents } from "../../billing/invoices/cents.ts";
import { createInvoice, parseAmount, voidInvoice } from "../../billing/invoices/invoices.ts";
import {
  removePaymentMethod,
  parseRules,
  disableAutoTopUp,
  enableAutoTopUp,
} from "../../billing/top-up/auto-top-up.ts";
import { beginMethodSetup } from "../../billing/top-up/payment-methods.ts";
import type { SessionUser } from "../../http/route.ts";
import type { Idempotency } from "../../idempotency/idempotency.ts";
import type { Db, Tx } from "../../store/db.ts";
import { withQuery } from "../confirm.tsx";
import { workspacePath } from "../console-layout.tsx";
import { donePath } from "../done-notice.tsx";
import type { BillingDone } from "./billing-page.tsx";

const AMOUNT_TEXT_MAX = 20;
const IDEMPOTENCY_KEY_MAX = 60;

const Amount = z.string().max(AMOUNT_TEXT_MAX).transform(plainAmount);

export const BillingForm = z.discriminatedUnion("do", [
  z.object({
    do: z.literal("buy"),
    amount_usd: Amount,
    once: z.string().min(1).max(IDEMPOTENCY_KEY_MAX),
  }),
  z.object({ do: z.literal("void"), invoice: z.string() }),
  z.object({ do: z.literal("save_method") }),
  z.object({ do: z.literal("remove_method") }),
  z.object({
    do: z.literal("allow"),
    threshold_usd: Amount,
    amount_usd: Amount,
    monthly_ceiling_usd: Amount,
  }),
  z.object({ do: z.literal("turn_off") }),
  z.object({ do: z.literal("alert"), low_usd: Amount }),
  z.object({
    do: z.literal("details"),
    name: z.string(),
    address: z.string(),
    tax_id: z.string(),
    po_number: z.string(),
    contacts: z.string(),
  }),
]);
export type BillingForm = z.infer<typeof BillingForm>;

export const BILLING_PERMISSIONS: Readonly<Record<BillingForm["do"], Permission>> = {
  buy: "billing.buy",
  void: "billing.buy",
  save_method: "billing.auto_top_up",
  remove_method: "billing.auto_top_up",
  allow: "billing.auto_top_up",
  turn_off: "billing.auto_top_up",
  alert: "billing.buy",
  details: "billing.buy",
};

export interface BillingFormDeps {
  readonly db: Db;
  readonly billing: BillingDeps;
  readonly idempotency: Idempotency;
}

interface BillingFormContext {
  readonly accountId: string;
  readonly user: SessionUser;
  readonly clientIp: string;
  readonly now: number;
}

export async function handleBillingForm(
  deps: BillingFormDeps,
  { body, ...context }: BillingFormContext & { readonly body: BillingForm },
): Promise<string> {
  const { accountId, user, now } = context;
  const { db, billing } = deps;
  const done = (name: BillingDone): string => donePath(workspacePath(accountId, "/billing"), name);
  const act = personAct(accountId, user.personId, context);
  switch (body.do) {
    case "buy":
      return await payPurchase(
        deps,
        await db.write((tx) => createPurchase(tx, deps, act, body)),
        context,
      );
    case "void":
      await cancelOpenCheckout(billing, { id: body.invoice, accountId, now });
      await db.write((tx) => voidInvoice(tx, act, body.invoice));
      return done("invoice_voided");
    case "save_method": {
      const setup = {
        accountId,
        personId: user.personId,
        returnUrl: billing.billingPageUrl(accountId),
      };
      const saved = `${workspacePath(accountId, "/billing")}?saved=1`;
      return (await beginMethodSetup(billing, setup, now)) ?? saved;
    }
    case "remove_method":
      await db.write((tx) => removePaymentMethod(tx, act));
      return done("method_removed");
    case "allow":
      await db.write((tx) => enableAutoTopUp(tx, act, parseRules(body, billing.limits)));
      return done("top_up_on");
    case "turn_off":
      await db.write((tx) => disableAutoTopUp(tx, act));
      return done("top_up_off");
    case "alert":
      await db.write((tx) => changeBalanceAlert(tx, act, body.low_usd));
      return done("alert_saved");
    case "details": {
      const contacts = body.contacts.split(/[\s,;]+/).filter((contact) => contact !== "");
      await db.write((tx) => changeBillingDetails(tx, act, { ...body, contacts }));
      return done("details_saved");
    }
  }
}

/** Returns the page where the invoice is paid: that of the processor, if it has one. */
async function payPurchase(
  { billing }: BillingFormDeps,
  invoiceId: string,
  { accountId, now }: BillingFormContext,
): Promise<string> {
  const payUrl = billing.links.urlFor(invoiceId);
  if (billing.processor.kind !== "hosted") return payUrl;
  const billingPath = workspacePath(accountId, "/billing");
  try {
    const start = await beginPayment(billing, invoiceId, now);
    return start.kind === "page" ? start.url : withQuery(billingPath, { invoice: invoiceId });
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== "overloaded") throw error;
    billing.log.error("failed to begin a payment", { invoice: invoiceId, cause: error });
    return donePath(billingPath, "payment_unavailable" satisfies BillingDone);
  }
}

/** Returns the id of the invoice. Sending the form twice creates one invoice. */
async function createPurchase(
  tx: Tx,
  { billing, idempotency }: BillingFormDeps,
  act: Act,
  { amount_usd, once }: { readonly amount_usd: string; readonly once: string },
): Promise<string> {
  const { accountId, now } = act;
  await authorize(tx, act, "billing.buy");
  const amountCents = parseAmount(amount_usd, billing.limits);
  const call = { accountId, scope: "console.buy", key: once, body: String(amountCents), now };
  const previous = await idempotency.begin(tx, call);
  if (previous !== undefined) return previous.body;
  const invoice = await createInvoice(tx, act, creditsOfCents(amountCents));
  await idempotency.finish(tx, call, { status: 303, body: invoice.id });
  return invoice.id;
}
