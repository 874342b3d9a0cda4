// Data of the usage page.

import { DAY_MS } from "../../base/time.ts";
import type { Page } from "../../base/pagination.ts";
import type { Reader } from "../../store/db.ts";
import { getKeyLabels } from "../../keys/keys.ts";
import { startOfDay } from "../../usage/time-buckets.ts";
import {
  GROUPS_MAX,
  listUsageSums,
  readUsage,
  sumUsage,
  type UsageSum,
} from "../../usage/usage-stats.ts";
import type { ConsoleReadDeps } from "../authorize.ts";

const USAGE_DAYS = 30;

export interface Spending {
  readonly byModel: Page<UsageSum>;
  readonly byKey: Page<UsageSum>;
  readonly byDay: readonly UsageSum[];
  /** Labels of the keys in `byKey`. */
  readonly keyLabels: Awaited<ReturnType<typeof getKeyLabels>>;
}

/** Cursors of the tables; absent for their first page. */
export interface SpendingCursors {
  readonly models?: string | undefined;
  readonly keys?: string | undefined;
}

export async function readSpending(
  { db }: ConsoleReadDeps,
  accountId: string,
  now: number,
  { models, keys }: SpendingCursors,
): Promise<Spending> {
  const filter = { from: startOfDay("UTC", now - USAGE_DAYS * DAY_MS) };
  const page = (reader: Reader, grouping: "model" | "key", cursor: string | undefined) =>
    listUsageSums(reader, accountId, filter, {
      grouping,
      limit: GROUPS_MAX,
      ...(cursor === undefined ? {} : { cursor }),
    });
  const [byModel, byKey, byDay] = await readUsage(db, async (reader) => [
    await page(reader, "model", models),
    await page(reader, "key", keys),
    await sumUsage(reader, accountId, filter, "day"),
  ]);
  const keyLabels = await getKeyLabels(
    db,
    accountId,
    byKey.data.map(({ group }) => group),
  );
  return { byModel, byKey, byDay, keyLabels };
}
