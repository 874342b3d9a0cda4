// The checks of the operator's alerts, and the channels that the settings name.

import { statfsSync } from "node:fs";
import { signatureHeaders } from "../activity/webhook-signature.ts";
import { newId } from "../base/id.ts";
import type { Log } from "../base/log.ts";
import { usdText } from "../base/money/money.ts";
import { MINUTE_MS } from "../base/time.ts";
import type { Config } from "../config/config.ts";
import { createSmtpSender } from "../email/smtp.ts";
import { timestamp } from "../http/schemas.ts";
import { priceAge, STALE_PRICE_DAYS } from "../models/catalog.ts";
import type { LiveCatalog } from "../models/live-catalog.ts";
import {
  type AlertChannel,
  type AlertCheck,
  type AlertMessage,
  createAlerts,
} from "../operations/alerts.ts";

const SEND_TIMEOUT_MS = 10_000;
const PROVIDER_DOWN_AFTER_MS = 5 * MINUTE_MS;
const CIRCUITS_SHOWN = 20;
const FREE_SPACE_MIN_BYTES = 1_073_741_824;

type ChannelSettings = Pick<Config, "alerts" | "email" | "baseUrl">;

/** No channel if the settings name none. */
export function createAlertChannels(config: ChannelSettings): readonly AlertChannel[] {
  const { alerts, email, baseUrl } = config;
  const channels: AlertChannel[] = [];
  if (alerts.webhook !== undefined) channels.push(webhookChannel(alerts.webhook, baseUrl));
  if (alerts.email !== undefined && email !== undefined)
    channels.push(emailChannel(alerts.email, email, baseUrl));
  return channels;
}

/** Signed as a Standard Webhook. */
function webhookChannel(
  { url, secret }: NonNullable<Config["alerts"]["webhook"]>,
  baseUrl: string,
): AlertChannel {
  return async (message) => {
    const id = newId("evt", message.at);
    const data = {
      ...message,
      since: timestamp(message.since),
      at: timestamp(message.at),
      gateway: baseUrl,
    };
    const body = JSON.stringify({ type: `operator.${message.alert}`, timestamp: data.at, data });
    const response = await fetch(url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...signatureHeaders({ id, at: message.at, body }, [secret]),
      },
      body,
      redirect: "manual",
      signal: AbortSignal.timeout(SEND_TIMEOUT_MS),
    });
    await response.body?.cancel();
    if (!response.ok) throw new Error(`the alert webhook responded with ${response.status}`);
  };
}

function emailChannel(
  to: string,
  settings: NonNullable<Config["email"]>,
  baseUrl: string,
): AlertChannel {
  const send = createSmtpSender(settings, baseUrl);
  return async (message) => {
    const result = await send({
      id: newId("evt", message.at),
      to,
      subject: `[Postern] ${message.alert} ${message.status}`,
      text: alertText(message, baseUrl),
    });
    if (!result.isSent) throw new Error(result.error);
  };
}

function alertText({ status, message, since, at }: AlertMessage, baseUrl: string): string {
  const state = status === "problem" ? "Since" : `Resolved ${timestamp(at)}. It began`;
  return `${message}\n\n${state} ${timestamp(since)}.\n${baseUrl}\n`;
}

const EXHAUSTED_TEXTS: Readonly<Record<"create" | "refuse", string>> = {
  create: "start with a balance of 0 until 00:00 UTC",
  refuse: "are refused until 00:00 UTC",
};

export interface OperatorAlerts {
  /** Undefined where the settings name no channel. */
  readonly run: (() => Promise<void>) | undefined;
  /** Logs that a percentage of the day's budget for starting credit is granted. At 100 it is an alert. */
  readonly onGrantBudgetReached: (percent: number) => void;
}

export interface OperatorAlertDeps {
  readonly openCircuits: () => readonly string[];
  readonly catalog: LiveCatalog;
  readonly ledgerProblem: () => string | undefined;
  readonly findRefusedPayments: (now: number) => Promise<string | undefined>;
  /** As the store has it: also for a process that was restarted since. */
  readonly isGrantBudgetUsedUp: (now: number) => Promise<boolean>;
  readonly log: Log;
  readonly now: () => number;
}

export function createOperatorAlerts(config: Config, deps: OperatorAlertDeps): OperatorAlerts {
  const { log, now } = deps;
  const { limits } = config;
  const channels = createAlertChannels(config);
  const checks = createAlertChecks(config, deps);
  return {
    run: channels.length === 0 ? undefined : createAlerts({ checks, channels, log, now }),
    onGrantBudgetReached: (percent) => {
      log.warn("used up a part of the day's starting credit", {
        percent,
        budget_usd: usdText(limits.grantPerDay),
        setting: "POSTERN_GRANT_USD_PER_DAY",
        ...(percent < 100 ? {} : { new_accounts: EXHAUSTED_TEXTS[limits.whenGrantsExhausted] }),
      });
    },
  };
}

function createAlertChecks(
  config: Config,
  deps: Pick<
    OperatorAlertDeps,
    "openCircuits" | "catalog" | "ledgerProblem" | "findRefusedPayments" | "isGrantBudgetUsedUp"
  >,
): readonly AlertCheck[] {
  const { databaseUrl, dataDir } = config.store;
  return [
    {
      alert: "provider_down",
      lastsMs: PROVIDER_DOWN_AFTER_MS,
      findProblem: async () => {
        const open = [...new Set(deps.openCircuits())];
        const shown = open.slice(0, CIRCUITS_SHOWN).join("; ");
        return open.length === 0
          ? undefined
          : `Circuit breakers are open on ${config.processName}, so calls skip these models at their providers: ${shown}${open.length > CIRCUITS_SHOWN ? " and others" : ""}.`;
      },
    },
    { alert: "ledger_problem", lastsMs: 0, findProblem: async () => deps.ledgerProblem() },
    { alert: "payments_refused", lastsMs: 0, findProblem: deps.findRefusedPayments },
    {
      alert: "disk_low",
      lastsMs: 0,
      findProblem: async () => {
        if (databaseUrl !== undefined) return undefined;
        const { bavail, bsize } = statfsSync(dataDir);
        const free = bavail * bsize;
        return free >= FREE_SPACE_MIN_BYTES
          ? undefined
          : `Less than 1 GiB is free on the disk of the data folder on ${config.processName}. When the disk is full, the gateway refuses every call.`;
      },
    },
    {
      alert: "grant_budget_used_up",
      lastsMs: 0,
      findProblem: async (now) => {
        return !(await deps.isGrantBudgetUsedUp(now))
          ? undefined
          : "The starting credit of today is used up (POSTERN_GRANT_USD_PER_DAY). It is available again at 00:00 UTC.";
      },
    },
    {
      alert: "prices_old",
      lastsMs: 0,
      findProblem: async (now) => {
        const { days, oldest } = priceAge(deps.catalog.current(), now);
        return days <= STALE_PRICE_DAYS
          ? undefined
          : `The oldest prices were checked on ${oldest}, more than ${STALE_PRICE_DAYS} days ago. Update Postern, or set POSTERN_PRICES_FILE.`;
      },
    },
  ];
}
