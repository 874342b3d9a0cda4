// Data of the overview page.

import { countMembers } from "../../accounts/members.ts";
import { DAY_MS } from "../../base/time.ts";
import {
  readAutoTopUpSummary,
  type AutoTopUpSummary,
} from "../../billing/top-up/auto-top-up-summary.ts";
import { countLiveKeys } from "../../keys/live-keys.ts";
import { type Freeze, findFreeze } from "../../ledger/freezes.ts";
import { startOfDay } from "../../usage/time-buckets.ts";
import { readUsage, sumUsage, type UsageSum } from "../../usage/usage-stats.ts";
import type { Balance, ConsoleReadDeps } from "../authorize.ts";

const USAGE_DAYS = 30;

export interface Overview {
  readonly balance: Balance;
  /** Undefined if the workspace is not frozen. */
  readonly freeze: Freeze | undefined;
  readonly topUp: AutoTopUpSummary;
  readonly days: readonly UsageSum[];
  readonly liveKeys: number;
  readonly members: number;
}

export async function readOverview(
  deps: ConsoleReadDeps,
  accountId: string,
  now: number,
): Promise<Overview> {
  const [balance, freeze, topUp, days, liveKeys, members] = await Promise.all([
    deps.getWallet(deps.db, accountId),
    findFreeze(deps.db, accountId),
    readAutoTopUpSummary(deps.db, accountId, now),
    readUsage(deps.db, (reader) =>
      sumUsage(reader, accountId, { from: startOfDay("UTC", now - USAGE_DAYS * DAY_MS) }, "day"),
    ),
    countLiveKeys(deps.db, accountId, now),
    countMembers(deps.db, accountId),
  ]);
  return {
    balance,
    freeze,
    topUp,
    days,
    liveKeys,
    members,
  };
}
