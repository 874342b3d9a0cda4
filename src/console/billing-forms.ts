// What the forms of the billing page do. Each answers where the person goes on to.

import { z } from "zod";
import type { Action } from "../accounts/members.ts";
import { type AuditAction, type Author, record } from "../audit/audit.ts";
import { endCharging, readRules, turnOff, turnOn, typedOf } from "../billing/auto-top-up.ts";
import { createInvoice, readAmount, voidInvoice } from "../billing/billing.ts";
import { beginSaving } from "../billing/methods.ts";
import { closePages, type Till } from "../billing/till.ts";
import { networksOf } from "../http/address.ts";
import type { Visitor } from "../http/route.ts";
import type { Idempotency } from "../idempotency/idempotency.ts";
import type { Db, Tx } from "../store/db.ts";
import { pathOf } from "./frame.tsx";
import { enterToChange } from "./workspace.ts";

const AMOUNT_TEXT_MAX = 20;
const ONCE_TEXT_MAX = 60;

const Amount = z.string().trim().max(AMOUNT_TEXT_MAX);

export const BillingForm = z.discriminatedUnion("do", [
  z.object({
    do: z.literal("buy"),
    amount_usd: Amount,
    once: z.string().min(1).max(ONCE_TEXT_MAX),
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
]);
export type BillingForm = z.infer<typeof BillingForm>;

export const BILLING_ACTIONS: Readonly<Record<BillingForm["do"], Action>> = {
  buy: "billing.buy",
  void: "billing.buy",
  save_method: "billing.auto_top_up",
  remove_method: "billing.auto_top_up",
  allow: "billing.auto_top_up",
  turn_off: "billing.auto_top_up",
};

export interface FormParts {
  readonly db: Db;
  readonly till: Till;
  readonly idempotency: Idempotency;
}

interface Sent {
  readonly accountId: string;
  readonly visitor: Visitor;
  readonly address: string;
  readonly now: number;
}

export async function carryOut(
  parts: FormParts,
  { body, ...sent }: Sent & { readonly body: BillingForm },
): Promise<string> {
  const { accountId, visitor, now } = sent;
  const { db, till } = parts;
  const home = pathOf(accountId, "/billing");
  const write = async <T>(work: (tx: Tx) => Promise<T>): Promise<T> =>
    db.write(async (tx) => {
      await enterToChange(tx, accountId, visitor.personId, BILLING_ACTIONS[body.do]);
      return work(tx);
    });
  switch (body.do) {
    case "buy":
      return await write((tx) => buy(tx, parts, { ...sent, ...body }));
    case "void":
      await closePages(till, { id: body.invoice, accountId, now });
      await write((tx) =>
        voidInvoice(tx, { id: body.invoice, accountId, by: authorOf(sent), now }),
      );
      return home;
    case "save_method": {
      const about = {
        accountId,
        personId: visitor.personId,
        returnUrl: till.manageUrlOf(accountId),
      };
      return (await beginSaving(till, about, now)) ?? `${home}?saved=1`;
    }
    case "remove_method":
      await write(async (tx) => {
        for (const ended of await endCharging(tx, accountId, now)) await note(tx, ended, sent);
      });
      return home;
    case "allow":
      await write(async (tx) => {
        const rules = readRules(body, till.limits);
        await turnOn(tx, accountId, { rules, now });
        await note(tx, "auto_top_up.changed", sent, typedOf(rules));
      });
      return home;
    case "turn_off":
      await write(async (tx) => {
        if (await turnOff(tx, accountId)) await note(tx, "auto_top_up.turned_off", sent);
      });
      return home;
  }
}

/** Two clicks, or a form that is sent again, lead to one invoice. */
async function buy(
  tx: Tx,
  { till, idempotency }: FormParts,
  { amount_usd, once, ...sent }: Sent & { amount_usd: string; once: string },
): Promise<string> {
  const { accountId, now } = sent;
  const amountCents = readAmount(amount_usd, till.limits);
  const call = { scope: `${accountId} console.buy`, key: once, body: String(amountCents), now };
  const before = await idempotency.begin(tx, call);
  if (before !== undefined) return before.body;
  const invoice = await createInvoice(tx, { accountId, amountCents, by: authorOf(sent), now });
  const location = till.links.urlOf(invoice.id);
  await idempotency.finish(tx, call, { status: 303, body: location });
  return location;
}

async function note(
  tx: Tx,
  action: AuditAction,
  sent: Sent,
  detail: Readonly<Record<string, number>> = {},
): Promise<void> {
  const { accountId, now } = sent;
  const by = authorOf(sent);
  const about = { accountId, action, target: null, now };
  await record(tx, { ...by, ...about, detail: { ...detail, ...by.detail } });
}

function authorOf({ visitor, address }: Sent): Author {
  const { personId: id, email } = visitor;
  return { actor: { type: "person", id }, network: networksOf(address)[1], detail: { by: email } };
}
