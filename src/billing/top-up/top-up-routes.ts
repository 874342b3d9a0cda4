// Endpoints of /v1/billing/auto-top-up. A key can read, lower and disable auto top-up, but never enable or raise it.

import { z } from "zod";
import { keyAct } from "../../activity/audit.ts";
import { keyRoute, keyWriteRoute, oneResponse, type Route } from "../../http/route.ts";
import { timestamp, timestampOrNull } from "../../http/schemas.ts";
import type { Tx } from "../../store/db.ts";
import type { BillingDeps } from "../billing-deps.ts";
import { usdOfCents } from "../invoices/cents.ts";
import {
  type AutoTopUpSummary,
  STOP_REASONS,
  disableAutoTopUp,
  lowerRules,
  readAutoTopUpSummary,
} from "./auto-top-up.ts";
import { AUTO_TOP_UP_STATUSES, TOP_UP_STATES } from "./top-up-rows.ts";

const Usd = z.number().nullable();

const AutoTopUpRecord = z
  .object({
    object: z.literal("auto_top_up"),
    status: z.enum(AUTO_TOP_UP_STATUSES).meta({
      description:
        "`on`: credits are bought when the balance falls below the threshold. `stopped`: stopped after a failure until the owner enables it again. `off`: disabled.",
    }),
    threshold_usd: Usd.meta({
      description: "Credits are bought below this balance; null if auto top-up was never enabled.",
    }),
    amount_usd: Usd.meta({
      description: "The price of the credits of one purchase, without fee and tax.",
    }),
    monthly_ceiling_usd: Usd.meta({
      description:
        "The limit of purchases in a UTC calendar month, including those in flight, without fee and tax.",
    }),
    bought_this_month_usd: z.number(),
    payment_method: z
      .string()
      .nullable()
      .meta({ description: "The saved method that is charged." }),
    failures_in_a_row: z.int().meta({ description: "Auto top-up stops after two." }),
    stopped_reason: z.enum(STOP_REASONS).nullable(),
    stopped_at: z.string().nullable(),
    next_try_at: z.string().nullable().meta({
      description: "The time of the next attempt after a failure or a reached monthly ceiling.",
    }),
    last_attempt: z
      .object({
        invoice_id: z.string(),
        state: z.enum(TOP_UP_STATES),
        reason: z.string().nullable(),
        amount_usd: z.number(),
        created_at: z.string(),
        ended_at: z.string().nullable(),
      })
      .nullable(),
    manage_url: z.string().meta({ description: "The console page where the owner changes it." }),
  })
  .meta({ id: "AutoTopUp" });

const AUTO_TOP_UP_EXAMPLE = {
  object: "auto_top_up",
  status: "on",
  threshold_usd: 5,
  amount_usd: 20,
  monthly_ceiling_usd: 200,
  bought_this_month_usd: 40,
  payment_method: "Visa ending in 4242",
  failures_in_a_row: 0,
  stopped_reason: null,
  stopped_at: null,
  next_try_at: null,
  last_attempt: {
    invoice_id: "inv_01kah5t3mq7d2c9w4e6r8t0yax",
    state: "paid",
    reason: null,
    amount_usd: 20,
    created_at: "2026-11-21T09:30:00.000Z",
    ended_at: "2026-11-21T09:30:02.000Z",
  },
  manage_url: "https://gateway.example/console/acct_01kah5t3mq7d2c9w4e6r8t0yax/billing",
};

function toAutoTopUpRecord(
  { settings, method, boughtCents, lastTopUp }: AutoTopUpSummary,
  { manageUrl, now }: { readonly manageUrl: string; readonly now: number },
): z.infer<typeof AutoTopUpRecord> {
  const usdOrNull = (cents: number | undefined) => (cents === undefined ? null : usdOfCents(cents));
  const { dueAt = null } = settings ?? {};
  return {
    object: "auto_top_up",
    status: settings?.status ?? "off",
    threshold_usd: usdOrNull(settings?.thresholdCents),
    amount_usd: usdOrNull(settings?.amountCents),
    monthly_ceiling_usd: usdOrNull(settings?.ceilingCents),
    bought_this_month_usd: usdOfCents(boughtCents),
    payment_method: method,
    failures_in_a_row: settings?.failures ?? 0,
    stopped_reason: STOP_REASONS.find((one) => one === settings?.stoppedReason) ?? null,
    stopped_at: timestampOrNull(settings?.stoppedAt ?? null),
    next_try_at: dueAt !== null && dueAt > now ? timestamp(dueAt) : null,
    last_attempt:
      lastTopUp === undefined
        ? null
        : {
            invoice_id: lastTopUp.invoiceId,
            state: lastTopUp.state,
            reason: lastTopUp.reason,
            amount_usd: usdOfCents(lastTopUp.amountCents),
            created_at: timestamp(lastTopUp.createdAt),
            ended_at: timestampOrNull(lastTopUp.endedAt),
          },
    manage_url: manageUrl,
  };
}

const AMOUNT_TEXT_MAX = 20;

const DOC = { tag: "Billing", path: "/v1/billing/auto-top-up", dialect: "openai" } as const;
const RESPONSES = oneResponse(
  "The current auto top-up settings.",
  AutoTopUpRecord,
  AUTO_TOP_UP_EXAMPLE,
);

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
    id: "getAutoTopUp",
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
    id: "changeAutoTopUp",
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
      await lowerRules(tx, keyAct(input.caller, input), {
        input: {
          ...(threshold_usd === undefined ? {} : { threshold_usd }),
          ...(amount_usd === undefined ? {} : { amount_usd }),
          ...(monthly_ceiling_usd === undefined ? {} : { monthly_ceiling_usd }),
        },
        limits: billing.limits,
        consoleUrl: billing.billingPageUrl(accountId),
      });
      return { status: 200, body: await autoTopUpBody(billing, tx, accountId, input.now) };
    },
  });
}

function disableRoute(billing: BillingDeps): Route {
  return keyWriteRoute({
    ...DOC,
    method: "DELETE",
    id: "disableAutoTopUp",
    scope: "billing:write",
    summary: "Disable auto top-up",
    description:
      "Only the owner can enable it again, in the console. A purchase in flight is completed. Repeating the call returns the same response.",
    responses: RESPONSES,
    faults: [],
    run: async (tx, input) => {
      const { accountId } = input.caller;
      await disableAutoTopUp(tx, keyAct(input.caller, input));
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
