// Endpoints of /v1/account/balance-alert: the threshold of the event `balance.low`.

import { z } from "zod";
import { type Act, keyAct, recordAuditEntry } from "../activity/audit.ts";
import { invalid } from "../base/fault.ts";
import { MAX_NANO, type Nano, nanoFromUsd, usdNumber, usdText } from "../base/money/money.ts";
import { keyRoute, keyWriteRoute, oneResponse, type Route } from "../http/route.ts";
import { UsdAmount } from "../http/schemas.ts";
import { getLowBalanceThreshold, setLowBalanceThreshold } from "../ledger/balance-thresholds.ts";
import type { Db, Tx } from "../store/db.ts";
import { authorize, byActor } from "./members.ts";

const BalanceAlertRecord = z
  .object({
    object: z.literal("balance_alert"),
    low_usd: z.number().meta({
      description:
        "`balance.low` is sent when the balance falls below this amount; 0 if it is disabled.",
    }),
  })
  .meta({ id: "BalanceAlert" });

const DOC = { tag: "Webhooks", path: "/v1/account/balance-alert", dialect: "openai" } as const;
const RESPONSES = oneResponse("The current threshold.", BalanceAlertRecord, {
  object: "balance_alert",
  low_usd: 1,
});

export function balanceAlertRoutes({ db }: { readonly db: Db }): readonly Route[] {
  return [getRoute(db), setRoute()];
}

function getRoute(db: Db): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    id: "getBalanceAlert",
    scope: "billing:read",
    summary: "Get the low-balance alert threshold",
    responses: RESPONSES,
    faults: [],
    run: async ({ caller }) => ({
      status: 200,
      body: toBalanceAlertRecord(await getLowBalanceThreshold(db, caller.accountId)),
    }),
  });
}

function setRoute(): Route {
  return keyWriteRoute({
    ...DOC,
    method: "PATCH",
    id: "changeBalanceAlert",
    scope: "billing:write",
    summary: "Set the low-balance alert threshold",
    description:
      "`balance.low` is sent when a charge takes the balance below this threshold; the default is $1.00. A balance that is already below the threshold sends no event. `balance.empty` works in the same way with a fixed threshold of $0.0001.",
    body: z
      .strictObject({
        low_usd: UsdAmount.meta({ description: "A US dollar amount; 0 to disable the alert." }),
      })
      .meta({ id: "BalanceAlertSettings" }),
    requestExample: { low_usd: 5 },
    responses: RESPONSES,
    faults: [],
    run: async (tx, { caller, body, clientIp, now }) => {
      const act = keyAct(caller, { clientIp, now });
      return {
        status: 200,
        body: toBalanceAlertRecord(await changeBalanceAlert(tx, act, body.low_usd)),
      };
    },
  });
}

function parseLowBalance(usd: string | number): Nano {
  const threshold = nanoFromUsd(usd);
  if (threshold === undefined || threshold < 0n || threshold > MAX_NANO)
    throw invalid(
      "low_usd",
      "`low_usd` must be a US dollar amount from 0 to 9,000,000, with at most nine decimals.",
    );
  return threshold;
}

/** Zero disables the alert. Returns the threshold. */
export async function changeBalanceAlert(tx: Tx, act: Act, lowUsd: string | number): Promise<Nano> {
  const threshold = parseLowBalance(lowUsd);
  await authorize(tx, act, "billing.buy");
  await setLowBalanceThreshold(tx, act.accountId, threshold);
  const detail = { low_usd: usdText(threshold), ...(await byActor(tx, act)) };
  await recordAuditEntry(tx, { ...act, action: "balance_alert.changed", target: null, detail });
  return threshold;
}

function toBalanceAlertRecord(threshold: bigint): z.infer<typeof BalanceAlertRecord> {
  return { object: "balance_alert", low_usd: usdNumber(threshold) };
}
