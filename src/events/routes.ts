// GET /v1/events, for whoever has no address to be called at, and the mark below which a balance counts as low.

import { z } from "zod";
import { record } from "../audit/audit.ts";
import { invalid } from "../base/fault.ts";
import { MAX_NANO, nanoFromUsd, usdText } from "../base/money.ts";
import { networksOf } from "../http/request/client-ip.ts";
import { cursorSchema, listSchema, PageQuery, UsdAmount } from "../http/schemas.ts";
import { keyRoute, keyWriteRoute, type Route } from "../http/route.ts";
import { getLowBalanceThreshold, setLowBalanceThreshold } from "../ledger/balance-thresholds.ts";
import type { Db } from "../store/db.ts";
import { EVENT_TYPES, listEvents } from "./events.ts";
import {
  BALANCE_ALERT_EXAMPLE,
  BalanceAlertRecord,
  EVENT_EXAMPLE,
  EventRecord,
  showEvent,
} from "../webhooks/record.ts";

const ALERT_PATH = "/v1/account/balance-alert";
const EVENT_DOC = { tag: "Webhooks", dialect: "openai" } as const;
const ALERT_RESPONSES = {
  200: {
    description: "The mark as it is now.",
    schema: BalanceAlertRecord,
    example: BALANCE_ALERT_EXAMPLE,
  },
};

export function eventRoutes({ db }: { readonly db: Db }): readonly Route[] {
  return [listRoute(db), readAlertRoute(db), changeAlertRoute()];
}

function listRoute(db: Db): Route {
  return keyRoute({
    ...EVENT_DOC,
    method: "GET",
    path: "/v1/events",
    id: "listEvents",
    summary: "List what has happened in the account",
    description:
      "The events that webhooks are sent, newest first, also where there is no webhook: poll this if you have no address to be called at. Kept for 30 days.",
    query: z.strictObject({
      ...PageQuery,
      cursor: cursorSchema("evt"),
      type: z.enum(EVENT_TYPES).optional().meta({ description: "Only events of this type." }),
    }),
    responses: {
      200: {
        description: "A page of events.",
        schema: listSchema(EventRecord, "EventList"),
        example: { object: "list", data: [EVENT_EXAMPLE], has_more: false, next_cursor: null },
      },
    },
    faults: [],
    run: async ({ caller, query }) => {
      const page = await listEvents(db, caller.accountId, query, query.type);
      return { status: 200, body: { ...page, data: page.data.map(showEvent) } };
    },
  });
}

function readAlertRoute(db: Db): Route {
  return keyRoute({
    ...EVENT_DOC,
    method: "GET",
    path: ALERT_PATH,
    id: "readBalanceAlert",
    summary: "Read when the balance counts as low",
    responses: ALERT_RESPONSES,
    faults: [],
    run: async ({ caller }) => ({
      status: 200,
      body: showAlert(await getLowBalanceThreshold(db, caller.accountId)),
    }),
  });
}

function changeAlertRoute(): Route {
  return keyWriteRoute({
    ...EVENT_DOC,
    method: "PATCH",
    path: ALERT_PATH,
    id: "changeBalanceAlert",
    summary: "Set when the balance counts as low",
    description:
      "`balance.low` is raised by the charge that takes the balance from this mark or above to below it; 1 USD unless set. A balance that is below it already raises nothing. `balance.empty` is raised in the same way below 0.0001 USD.",
    body: z
      .strictObject({
        low_usd: UsdAmount.meta({ description: "An amount of US dollars; 0 for never." }),
      })
      .meta({ id: "BalanceAlertSettings" }),
    requestExample: { low_usd: 5 },
    responses: ALERT_RESPONSES,
    faults: [],
    run: async (tx, { caller, body, clientIp, now }) => {
      const threshold = nanoFromUsd(body.low_usd);
      if (threshold === undefined || threshold < 0n || threshold > MAX_NANO)
        throw invalid("low_usd", "low_usd must be an amount of US dollars from 0 to 9000000.");
      await setLowBalanceThreshold(tx, caller.accountId, threshold);
      await record(tx, {
        accountId: caller.accountId,
        actor: { type: "key", id: caller.keyId },
        action: "balance_alert.changed",
        target: null,
        detail: { low_usd: usdText(threshold) },
        network: networksOf(clientIp)[1],
        now,
      });
      return { status: 200, body: showAlert(threshold) };
    },
  });
}

function showAlert(threshold: bigint): z.infer<typeof BalanceAlertRecord> {
  return { object: "balance_alert", low_usd: Number(usdText(threshold)) };
}
