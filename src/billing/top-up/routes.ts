// /v1/billing/auto-top-up: what a key sees of it and may do, which is never to spend more than the owner allowed.

import { z } from "zod";
import { record } from "../../audit/audit.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import {
  type RouteInput,
  keyRoute,
  keyWriteRoute,
  type Caller,
  type Route,
} from "../../http/route.ts";
import type { Tx } from "../../store/db.ts";
import { lowerRules, disableAutoTopUp, toRulesInput } from "./auto-top-up.ts";
import { AUTO_TOP_UP_EXAMPLE, AutoTopUpRecord, toAutoTopUpRecord } from "./auto-top-up-record.ts";
import type { BillingDeps } from "../billing-deps.ts";
import { readAutoTopUpSummary } from "./auto-top-up-summary.ts";

const AMOUNT_TEXT_MAX = 20;

const DOC = { tag: "Billing", path: "/v1/billing/auto-top-up", dialect: "openai" } as const;
const ANSWERS = {
  200: {
    description: "Auto top-up as it is now.",
    schema: AutoTopUpRecord,
    example: AUTO_TOP_UP_EXAMPLE,
  },
};

const Amount = z
  .union([z.number(), z.string().max(AMOUNT_TEXT_MAX)], {
    error: 'must be a US dollar amount, such as 10 or "12.50"',
  })
  .optional();

const AutoTopUpChangeBody = z
  .strictObject({
    threshold_usd: Amount.meta({ description: "Buy when the balance is below this." }),
    amount_usd: Amount.meta({ description: "Buy credits for so much." }),
    monthly_ceiling_usd: Amount.meta({
      description: "Buy for no more than this in a UTC calendar month.",
    }),
  })
  .meta({ id: "AutoTopUpChange" });

export function autoTopUpRoutes(billing: BillingDeps): readonly Route[] {
  return [readRoute(billing), lowerRoute(billing), turnOffRoute(billing)];
}

function readRoute(billing: BillingDeps): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    id: "readAutoTopUp",
    summary: "Read whether credits are bought by themselves",
    description:
      "The owner of the account may allow that credits are bought by themselves, from a saved payment method, whenever the balance falls below a threshold. A human turns it on, at `manage_url`.",
    responses: ANSWERS,
    faults: [],
    run: async ({ caller, now }) => ({
      status: 200,
      body: await autoTopUpBody(billing, billing.db, caller.accountId, now),
    }),
  });
}

function lowerRoute(billing: BillingDeps): Route {
  return keyWriteRoute({
    ...DOC,
    method: "PATCH",
    id: "lowerAutoTopUp",
    summary: "Lower what may be bought by itself",
    description:
      "A key may lower each amount, and never raise it or turn it on: that is the owner's, in the console. Fields that are left out stay as they are.",
    body: AutoTopUpChangeBody,
    requestExample: { monthly_ceiling_usd: 100 },
    responses: ANSWERS,
    faults: ["forbidden"],
    run: async (tx, input) => {
      const { accountId } = input.caller;
      const { threshold_usd, amount_usd, monthly_ceiling_usd } = input.body;
      const rules = await lowerRules(tx, accountId, {
        input: {
          ...(threshold_usd === undefined ? {} : { threshold_usd }),
          ...(amount_usd === undefined ? {} : { amount_usd }),
          ...(monthly_ceiling_usd === undefined ? {} : { monthly_ceiling_usd }),
        },
        limits: billing.limits,
        consoleUrl: billing.billingPageUrl(accountId),
      });
      await auditChange(tx, "auto_top_up.changed", input, toRulesInput(rules));
      return { status: 200, body: await autoTopUpBody(billing, tx, accountId, input.now) };
    },
  });
}

function turnOffRoute(billing: BillingDeps): Route {
  return keyWriteRoute({
    ...DOC,
    method: "DELETE",
    id: "turnOffAutoTopUp",
    summary: "Turn off that credits are bought by themselves",
    description:
      "Only the owner turns it on again. A purchase that is under way goes on. Repeating the call gives the same answer.",
    responses: ANSWERS,
    faults: [],
    run: async (tx, input) => {
      const { accountId } = input.caller;
      if (await disableAutoTopUp(tx, accountId))
        await auditChange(tx, "auto_top_up.turned_off", input, {});
      return { status: 200, body: await autoTopUpBody(billing, tx, accountId, input.now) };
    },
  });
}

async function autoTopUpBody(
  billing: BillingDeps,
  reader: BillingDeps["db"] | Tx,
  accountId: string,
  now: number,
) {
  const state = await readAutoTopUpSummary(reader, accountId, now);
  return toAutoTopUpRecord(state, { manageUrl: billing.billingPageUrl(accountId), now });
}

async function auditChange(
  tx: Tx,
  action: "auto_top_up.changed" | "auto_top_up.turned_off",
  {
    caller,
    clientIp,
    now,
  }: Pick<RouteInput<unknown, unknown, unknown, Caller>, "caller" | "clientIp" | "now">,
  detail: Readonly<Record<string, number>>,
): Promise<void> {
  await record(tx, {
    accountId: caller.accountId,
    actor: { type: "key", id: caller.keyId },
    action,
    target: null,
    detail,
    network: networksOf(clientIp)[1],
    now,
  });
}
