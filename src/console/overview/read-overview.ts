// Data of the overview page.

import { countMembers } from "../../accounts/members.ts";
import { listLiveWebhooks, type Webhook } from "../../activity/webhook-rows.ts";
import type { Nano } from "../../base/money/money.ts";
import { DAY_MS } from "../../base/time.ts";
import { readAutoTopUpSummary, type AutoTopUpSummary } from "../../billing/top-up/auto-top-up.ts";
import { listPendingAttempts, listWaitingClaims } from "../../claims/claim-attempt-rows.ts";
import type { ClaimAttempt } from "../../claims/claim-attempt.ts";
import type { SessionUser } from "../../http/route.ts";
import type { Key } from "../../keys/key.ts";
import { listKeysFrom } from "../../keys/keys.ts";
import { countLiveKeys } from "../../keys/live-keys.ts";
import { getLowBalanceThreshold } from "../../ledger/balance-thresholds.ts";
import type { Wallet } from "../../ledger/decide.ts";
import { type Freeze, findFreeze } from "../../ledger/freezes.ts";
import { getWallet } from "../../ledger/ledger.ts";
import { type BudgetStates, getBudgets } from "../../ledger/wallet-budgets.ts";
import type { Reader } from "../../store/db.ts";
import { listUsage } from "../../usage/usage-list.ts";
import {
  previousPeriod,
  readUsage,
  readCostSeries,
  totalUsage,
  type CostPoint,
  type UsageSum,
} from "../../usage/usage-stats.ts";
import type { UsageRecord } from "../../usage/usage.ts";
import type { ConsoleReadDeps } from "../require-access.ts";
import { endOfHour, type KeyNames, readKeyNames } from "../usage/read-usage.ts";
import { filterOf, type Period, type UsageQuery } from "../usage/usage-query.ts";

const LATEST_CALLS = 8;
const RATE_DAYS = 7;

export interface Overview {
  readonly balance: Wallet;
  /** Zero if the low-balance alert is off. */
  readonly lowThreshold: Nano;
  /** Undefined if the workspace is not frozen. */
  readonly freeze: Freeze | undefined;
  readonly topUp: AutoTopUpSummary;
  readonly budgets: BudgetStates;
  readonly keys: readonly Key[];
  readonly webhooks: readonly Webhook[];
  readonly liveKeys: number;
  readonly members: number;
  /** Started by agents, not yet accepted. */
  readonly pendingClaims: readonly ClaimAttempt[];
  /** Claims of any account that the signed-in person can decide. */
  readonly waitingClaims: readonly ClaimAttempt[];
  readonly usage: OverviewUsage;
}

interface OverviewUsage {
  readonly totals: UsageSum;
  readonly previous: UsageSum | undefined;
  readonly points: readonly CostPoint[];
  readonly latest: readonly UsageRecord[];
  readonly keyNames: KeyNames;
  /** The average cost of a day in the last days. */
  readonly dailyCost: Nano;
}

interface OverviewQuery {
  readonly query: UsageQuery;
  readonly period: Period;
  readonly createdAt: number;
  readonly user: SessionUser;
  readonly now: number;
}

export async function readOverview(
  deps: ConsoleReadDeps,
  accountId: string,
  view: OverviewQuery,
): Promise<Overview> {
  const { db } = deps;
  const { now } = view;
  const [balance, lowThreshold, freeze, topUp, budgets, keys, webhooks] = await Promise.all([
    getWallet(db, accountId),
    getLowBalanceThreshold(db, accountId),
    findFreeze(db, accountId),
    readAutoTopUpSummary(db, accountId, now),
    getBudgets(db, accountId, now),
    listKeysFrom(db, accountId, { revoked: false, now }),
    listLiveWebhooks(db, accountId),
  ]);
  const [liveKeys, members, pendingClaims, waitingClaims, usage] = await Promise.all([
    countLiveKeys(db, accountId, now),
    countMembers(db, accountId),
    listPendingAttempts(db, accountId, now),
    listWaitingClaims(db, view.user, now),
    readUsage(db, (reader) => readOverviewUsage(reader, accountId, view)),
  ]);
  const state = { balance, lowThreshold, freeze, topUp, budgets, keys, webhooks };
  return { ...state, liveKeys, members, pendingClaims, waitingClaims, usage };
}

async function readOverviewUsage(
  reader: Reader,
  accountId: string,
  { query, period, createdAt, now }: OverviewQuery,
): Promise<OverviewUsage> {
  const filter = filterOf({}, period);
  const before = previousPeriod(filter, endOfHour(now));
  const dimension = query.by === "key" ? "key" : "model";
  const totals = await totalUsage(reader, accountId, filter);
  const previous = before === undefined ? undefined : await totalUsage(reader, accountId, before);
  const points = await readCostSeries(reader, accountId, filter, {
    buckets: period.buckets,
    dimension,
  });
  const { data: latest } = await listUsage(reader, accountId, {}, { limit: LATEST_CALLS });
  const keyNames = await readKeyNames(reader, accountId, [
    ...latest.map(({ keyId }) => keyId),
    ...(dimension === "key" ? points.map(({ group }) => group) : []),
  ]);
  const days = Math.min(RATE_DAYS, Math.max(1, Math.ceil((now - createdAt) / DAY_MS)));
  const recent = await totalUsage(reader, accountId, {
    from: endOfHour(now) - days * DAY_MS,
  });
  const dailyCost = recent.cost / BigInt(days);
  return { totals, previous, points, latest, keyNames, dailyCost };
}
