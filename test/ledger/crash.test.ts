// Kills a process repeatedly while it charges calls.

import { describe, expect, test } from "bun:test";
import path from "node:path";
import { toNano } from "../../src/base/money/money.ts";
import { deposit, startEpoch } from "../../src/ledger/ledger.ts";
import { sweepHolds } from "../../src/ledger/sweep.ts";
import { getBudgets, setBudgets } from "../../src/ledger/wallet-budgets.ts";
import { type Db, text, integer } from "../../src/store/db.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { eventually } from "../support/eventually.ts";
import { runs } from "../support/full.ts";
import { TEST_SEED, createRandom } from "../support/random.ts";
import { startScript } from "../support/script-process.ts";
import { describeEachStore } from "../support/stores/stores.ts";
import { ALL_TRANSFERS, openAccount, promoDeposit } from "./fixtures.ts";

const LEDGER_PROCESS = path.join(import.meta.dirname, "ledger-process.ts");
const KILLS = runs(20);
const RUN_MS_MAX = 60;
/** Spent quickly. Later runs get a limit of twice the current spend, so each starts by crossing 50%. */
const FIRST_BUDGET = 2_000n;

describeEachStore((kind, open) => {
  describe(`kill -9 on ${kind}`, () => {
    test(`charges every settled call once after ${KILLS} kills, releases every hold and emits each budget threshold once`, async () => {
      const started = performance.now();
      const { db, location, close } = await open();
      const now = Date.now();
      await db.write(async (tx) => {
        await openAccount(tx, "a", ["k1", "k2"], now);
        await deposit(tx, promoDeposit("a.start", "a", 20_000n, now));
        await deposit(tx, { ...promoDeposit("a.paid", "a", 1_000_000_000n, now), bucket: "paid" });
      });
      const random = createRandom(TEST_SEED);
      const seen = new Map<string, string>();
      let orphans = 0;
      const thresholds: string[] = [];
      for (let run = 0; run < KILLS; run++) {
        const usedBefore = await usedOf(db);
        const limit = usedBefore * 2n > FIRST_BUDGET ? usedBefore * 2n + 2n : FIRST_BUDGET;
        await db.write((tx) => setBudgets(tx, "a", { month: limit }, now));
        const child = startScript(LEDGER_PROCESS, [location.kind, location.address, "only"]);
        orphans += Number((await child.waitForLine("ready")).split(" ")[2]);
        child.process.stdin.write(`hammer a k1,k2 ${run}\n`);
        await child.waitForLine("settled");
        // Calls may cost nothing: each run crosses a threshold before its end.
        await eventually(async () => (await usedOf(db)) * 2n >= limit);
        // The kill comes at a random moment.
        await Bun.sleep(random(RUN_MS_MAX));
        child.process.kill("SIGKILL");
        await child.exitCode;
        for (const line of child.lines) {
          const [word = "", id = "", ...rest] = line.split(" ");
          if (word === "settled") seen.set(id, rest.join(" "));
        }
        await waitUntilIdle(db);
        const used = await usedOf(db);
        for (const percent of [50n, 80n, 100n])
          if (usedBefore * 100n < limit * percent && used * 100n >= limit * percent)
            thresholds.push(`${percent}% of ${limit}`);
      }
      await startEpoch(db, "only", Date.now());
      orphans += await sweepHolds(db, Date.now());
      const { problems, checked } = await verifyLedger(db);
      expect(problems).toEqual([]);
      expect(checked.holds).toBe(0);

      expect(await thresholdEvents(db)).toEqual(thresholds);
      expect(thresholds.length).toBeGreaterThan(KILLS / 2);

      const charged = await charges(db);
      for (const [id, amounts] of seen) expect([id, charged.get(id)]).toEqual([id, amounts]);
      expect(seen.size).toBeGreaterThan(KILLS);
      console.log(
        `${kind}: ${seen.size} settlements seen, ${checked.usageRecords} recorded, ${orphans} holds released, ${((performance.now() - started) / 1_000).toFixed(1)} s`,
      );
      await close();
    });
  });
});

async function usedOf(db: Db): Promise<bigint> {
  return (await getBudgets(db, "a", Date.now())).month.used;
}

async function thresholdEvents(db: Db): Promise<readonly string[]> {
  const rows = await db.all(
    "select data from event where type = 'budget.reached' order by created_at, id",
  );
  return rows
    .map((row) => JSON.parse(text(row, "data")))
    .map((data) => `${data.percent}% of ${Math.round(data.limit_usd * 1e9)}`);
}

/** The cost, charge and overrun of every usage record, in the format of the process. */
async function charges(db: Db): Promise<Map<string, string>> {
  const sumsByRecord = new Map<string, { charged: bigint; overrun: bigint }>();
  for (const row of await db.all(
    `select ref, from_account, amount from ${ALL_TRANSFERS} where kind = 'usage'`,
  )) {
    const sums = sumsByRecord.get(text(row, "ref")) ?? { charged: 0n, overrun: 0n };
    sums[text(row, "from_account").startsWith("system:") ? "overrun" : "charged"] += toNano(
      row["amount"],
    );
    sumsByRecord.set(text(row, "ref"), sums);
  }
  const records = await db.all("select id, cost_nano from usage_record");
  return new Map(
    records.map((row) => {
      const { charged, overrun } = sumsByRecord.get(text(row, "id")) ?? {
        charged: 0n,
        overrun: 0n,
      };
      return [text(row, "id"), `${toNano(row["cost_nano"])} ${charged} ${overrun}`];
    }),
  );
}

// PostgreSQL may still run what a killed client has sent.
async function waitUntilIdle(db: Db): Promise<void> {
  if (db.kind === "sqlite") return;
  await eventually(async () => {
    const row = await db.get(
      "select count(*) as count from pg_stat_activity where datname = current_database() and state <> 'idle' and pid <> pg_backend_pid()",
    );
    return row !== undefined && integer(row, "count") === 0;
  });
}
