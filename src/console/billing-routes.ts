// The billing page of a workspace: everybody sees it, the owner buys, and allows what is bought by itself.

import { z } from "zod";
import { listInvoices, readAmount } from "../billing/billing.ts";
import { DEVELOPMENT_CARDS, type DevelopmentCard } from "../billing/development-card.ts";
import { openMethod } from "../billing/method-rows.ts";
import { keepSaved, refreshMethods } from "../billing/methods.ts";
import { vaultOf } from "../billing/processor.ts";
import { demandLoopback, type Till } from "../billing/till.ts";
import { topUpsBetween } from "../billing/top-up-rows.ts";
import { readTopUpState } from "../billing/top-up-state.ts";
import { newId } from "../base/id.ts";
import { cursorOf } from "../http/record.ts";
import { personRoute, type Route, type Visitor } from "../http/route.ts";
import type { Idempotency } from "../idempotency/idempotency.ts";
import { getWallet } from "../ledger/ledger.ts";
import type { Db } from "../store/db.ts";
import { AccountPath, correctable, PAGE, redirect, show } from "./answers.ts";
import { BILLING_ACTIONS, BillingForm, carryOut } from "./billing-forms.ts";
import { billingPage, type BillingState } from "./billing-page.tsx";
import { cardPage } from "./card-page.tsx";
import { pathOf } from "./frame.tsx";
import { type ConsoleStore, enter, enterToChange, type Place } from "./workspace.ts";

export interface BillingPageParts extends ConsoleStore {
  readonly db: Db;
  readonly till: Till;
  readonly idempotency: Idempotency;
}

const PATH = "/console/{account}/billing";
const SHOWN = 50;
const REFRESH_MS = 4_000;

export function billingPageRoutes(parts: BillingPageParts): readonly Route[] {
  const cards = parts.till.processor.kind === "development";
  return [
    showRoute(parts),
    changeRoute(parts),
    ...(cards ? [showCardRoute(parts), saveCardRoute(parts)] : []),
  ];
}

function showRoute(parts: BillingPageParts): Route {
  return personRoute({
    ...PAGE,
    method: "GET",
    path: PATH,
    id: "showWorkspaceBilling",
    summary: "The billing of a workspace",
    params: AccountPath,
    query: z.object({
      amount_usd: z.string().max(20).optional(),
      cursor: cursorOf("inv"),
      saved: z.string().optional(),
    }),
    run: async ({ caller, params, query, now }) => {
      const place = await enter(parts, params.account, caller.personId, "billing.read");
      await upToDate(parts.till, params.account, now);
      const { amount_usd: typed, cursor, saved } = query;
      const about = { visitor: caller, place, now, cursor };
      const shown = await readBilling(parts, about);
      const told = saved === undefined ? {} : { notice: savedWords(shown.topUp.method !== null) };
      if (typed === undefined) return page(parts, { ...shown, ...told });
      try {
        const amountCents = readAmount(typed.trim(), parts.till.limits);
        return page(parts, { ...shown, quote: { amountCents, once: newId("req", now) } });
      } catch (error) {
        const again = { form: "buy", amount_usd: typed } as const;
        return page(parts, { ...shown, wrong: correctable(error), typed: again }, 400);
      }
    },
  });
}

function changeRoute(parts: BillingPageParts): Route {
  return personRoute({
    ...PAGE,
    method: "POST",
    path: PATH,
    id: "changeWorkspaceBilling",
    summary: "Buy credits, withdraw an invoice, or change auto top-up",
    params: AccountPath,
    body: BillingForm,
    example: { do: "turn_off" },
    run: async ({ caller, params, body, address, now }) => {
      const { account } = params;
      const place = await enter(parts, account, caller.personId, BILLING_ACTIONS[body.do]);
      try {
        const form = { accountId: account, visitor: caller, body, address, now };
        return redirect(await carryOut(parts, form));
      } catch (error) {
        const wrong = correctable(error);
        const shown = await readBilling(parts, { visitor: caller, place, now });
        const typed = "amount_usd" in body ? { typed: { form: body.do, ...body } } : {};
        return page(parts, { ...shown, wrong, ...typed }, 400);
      }
    },
  });
}

function showCardRoute(parts: BillingPageParts): Route {
  return personRoute({
    ...PAGE,
    method: "GET",
    path: `${PATH}/card`,
    id: "showDevelopmentCards",
    summary: "The cards of development",
    params: AccountPath,
    run: async ({ caller, params }) =>
      show(
        cardPage(
          caller,
          await enter(parts, params.account, caller.personId, "billing.auto_top_up"),
        ),
      ),
  });
}

function saveCardRoute(parts: BillingPageParts): Route {
  return personRoute({
    ...PAGE,
    method: "POST",
    path: `${PATH}/card`,
    id: "saveDevelopmentCard",
    summary: "Save a card of development",
    params: AccountPath,
    body: z.object({ card: z.string().refine(isCard, "must be one of the cards") }),
    example: { card: "works" },
    run: async ({ caller, params, body, address, now }) => {
      const { account: accountId } = params;
      const { personId: savedBy } = caller;
      await enter(parts, accountId, savedBy, "billing.auto_top_up");
      demandLoopback(address);
      const { card: ref } = body;
      await parts.db.write(async (tx) => {
        await enterToChange(tx, accountId, savedBy, "billing.auto_top_up");
        const { id: processor } = parts.till.processor;
        const method = await openMethod(tx, { accountId, processor, savedBy, now });
        const label = isCard(ref) ? DEVELOPMENT_CARDS[ref] : ref;
        await keepSaved(tx, method, { ref, label, now });
      });
      return redirect(`${pathOf(accountId, "/billing")}?saved=1`);
    },
  });
}

function isCard(name: string): name is DevelopmentCard {
  return Object.hasOwn(DEVELOPMENT_CARDS, name);
}

interface Looked {
  readonly visitor: Visitor;
  readonly place: Place;
  readonly now: number;
  readonly cursor?: string | undefined;
}

async function readBilling(
  { db, till }: BillingPageParts,
  { visitor, place, now, cursor }: Looked,
): Promise<BillingState> {
  const { accountId } = place;
  const [balance, topUp, invoices] = await Promise.all([
    getWallet(db, accountId),
    readTopUpState(db, accountId, now),
    listInvoices(db, accountId, { limit: SHOWN, ...(cursor === undefined ? {} : { cursor }) }),
  ]);
  const [newest, oldest] = [invoices.data[0]?.id ?? "", invoices.data.at(-1)?.id ?? ""];
  const topUps = await topUpsBetween(db, accountId, [oldest, newest]);
  return {
    visitor,
    place,
    balance,
    topUp,
    limits: till.limits,
    taxLater: till.processor.kind === "hosted" && till.processor.taxLater,
    hasVault: vaultOf(till.processor) !== undefined,
    invoices: invoices.data.map((invoice) => {
      const automatic = topUps.find(({ invoiceId }) => invoiceId === invoice.id);
      return {
        invoice,
        payUrl: till.links.urlOf(invoice.id),
        isAutomatic: automatic !== undefined,
        isBeingPaid: automatic?.isOpen === true,
      };
    }),
    ...(invoices.next_cursor === null ? {} : { older: invoices.next_cursor }),
  };
}

/** Whoever comes back from the processor's page sees what was saved there; where nobody can say, what is known. */
async function upToDate(till: Till, accountId: string, now: number): Promise<void> {
  const asked = refreshMethods(till, accountId, now).catch((cause: unknown) =>
    till.log.warn("a payment method could not be asked after", { account: accountId, cause }),
  );
  await Promise.race([asked, new Promise((resolve) => setTimeout(resolve, REFRESH_MS))]);
}

function page({ till }: BillingPageParts, state: BillingState, status = 200): Response {
  const { processor } = till;
  const policy = processor.kind === "hosted" ? { formTargets: processor.formTargets } : {};
  return show(billingPage(state), status, policy);
}

function savedWords(isSaved: boolean): string {
  return isSaved
    ? "The payment method is saved. Set the amounts below to turn auto top-up on."
    : "The payment method is being confirmed. Load this page again in a moment.";
}
