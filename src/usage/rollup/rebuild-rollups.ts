// Computes the roll-ups of an account anew from its records.

import { minIdAt } from "../../base/id.ts";
import { DAY_MS } from "../../base/time.ts";
import { text, type Tx } from "../../store/db.ts";
import { selectUsageInOrder } from "../usage-of-account.ts";
import { toUsageRecord } from "../usage.ts";
import { emptyQueue, limitLabels } from "./roll-up.ts";
import { rollupDeltas } from "./rollup-delta.ts";
import { addToRollups } from "./rollup-rows.ts";

const RECORDS_PER_STATEMENT = 500;

/** From the start of a UTC day on. Settlements wait until it is done. */
export async function rebuildRollups(tx: Tx, accountId: string, from: number): Promise<void> {
  await emptyQueue(tx);
  await tx.run("delete from usage_rollup where account_id = ? and at >= ?", [accountId, from]);
  // A call may have begun on the day before.
  for (let after = minIdAt("req", from - DAY_MS); ;) {
    const { sql, values } = selectUsageInOrder(
      "*",
      { accountId, ids: { after } },
      { order: "asc", limit: RECORDS_PER_STATEMENT },
    );
    const rows = await tx.all(sql, values);
    const records = rows.map(toUsageRecord).filter(({ createdAt }) => createdAt >= from);
    await addToRollups(tx, await limitLabels(tx, rollupDeltas(records)));
    const last = rows.at(-1);
    if (last === undefined || rows.length < RECORDS_PER_STATEMENT) return;
    after = text(last, "id");
  }
}
