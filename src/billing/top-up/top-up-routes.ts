// Endpoints of /v1/billing/auto-top-up. A key can read, lower and disable auto top-up, but never enable or raise it.

import { z } from "zod";
import { recordAuditEntry } from "../../audit/audit.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import {
  type RouteInput,
  keyRoute,
  keyWriteRoute,
  type Caller,
  type Route,
} from "../../http/route.ts";
import type { Tx } from "../../store/db.ts";
import type { BillingDeps } from "../billing-deps.ts";
import { AUTO_TOP_UP_EXAMPLE, AutoTopUpRecord, toAutoTopUpRecord } from "./auto-top-up-record.ts";
import { readAutoTopUpSummary } from "./auto-top-up-summary.ts";
import { lowerRules, disableAutoTopUp, toRulesInput } from "./auto-top-up.ts";

const AMOUNT_TEXT_MAX = 20;

const DOC = { tag: "Billing", path: "/v1/billing/auto-top-up", dialect: "openai" } as const;
const RESPONSES = {
  200: {
    description: "The current auto top-up settings.",
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
    threshold_usd: Amount.meta({ description: "Buy when the balance is below this amount." }),
    amount_usd: Amount.meta({ description: "The price of the credits of one purchase." }),
    monthly_ceiling_usd: Amount.meta({
      description: "The limit of all purchases in a UTC calendar month.",
    }),
  })
  .meta({ id: "AutoTopUpChange" });

export function autoTopUpRoutes(billing: BillingDeps): readonly Route[] {
  return [getRoute(billing), lowerRoute(billing), disableRoute(billing)];
}

function getRoute(billing: BillingDeps): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    id: "readAutoTopUp",
    scope: "billing:read",
    summary: "Get the auto top-up settings",
    description:
      "Auto top-up buys credits with a saved payment method when the balance falls below a threshold. The account's owner enables it at `manage_url`.",
    responses: RESPONSES,
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
    scope: "billing:write",
    summary: "Lower the auto top-up limits",
    description:
      "A key can lower each amount. Only the owner can raise an amount or enable auto top-up, in the console. Omitted fields stay unchanged.",
    body: AutoTopUpChangeBody,
    requestExample: { monthly_ceiling_usd: 100 },
    responses: RESPONSES,
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

function disableRoute(billing: BillingDeps): Route {
  return keyWriteRoute({
    ...DOC,
    method: "DELETE",
    id: "turnOffAutoTopUp",
    scope: "billing:write",
    summary: "Disable auto top-up",
    description:
      "Only the owner can enable it again, in the console. A purchase in flight is completed. Repeating the call returns the same response.",
    responses: RESPONSES,
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
  await recordAuditEntry(tx, {
    accountId: caller.accountId,
    actor: { type: "key", id: caller.keyId },
    action,
    target: null,
    detail,
    network: networksOf(clientIp)[1],
    now,
  });
}
