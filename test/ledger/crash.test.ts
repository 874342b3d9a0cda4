// A process that spends as fast as it can is killed in the middle of it, again and again.

import { describe, expect, test, setDefaultTimeout } from "bun:test";
import path from "node:path";
import { toNano } from "../../src/base/money.ts";
import { getBudgets, setBudgets } from "../../src/ledger/budgets.ts";
import { deposit, startEpoch } from "../../src/ledger/ledger.ts";
import { sweepHolds } from "../../src/ledger/sweep.ts";
import { verifyLedger } from "../../src/ledger/verify.ts";
import { type Db, text, integer } from "../../src/store/db.ts";
import { startScript } from "../support/script-process.ts";
import { describeEachStore } from "../support/stores/stores.ts";
import { openAccount, promoDeposit } from "./fixtures.ts";

// The first of these tests starts a PostgreSQL, on a machine that may be busy.
setDefaultTimeout(60_000);

const WORKER = path.join(import.meta.dirname, "ledger-process.ts");
const KILLS = 20;
const RUN_MS_MAX = 60;
/** Spent in a moment; each further run is given as much again as was spent, so it begins by passing half. */
const FIRST_BUDGET = 2_000n;

describeEachStore((kind, open) => {
  describe(`kill -9 on ${kind}`, () => {
    test(`whatever was seen to be settled is charged once after ${KILLS} kills, nothing stays held, and each mark of a budget is told once`, async () => {
      const started = performance.now();
      const { db, location, close } = await open();
      const now = Date.now();
      await db.write(async (tx) => {
        await openAccount(tx, "a", ["k1", "k2"], now);
        await deposit(tx, promoDeposit("a.start", "a", 20_000n, now));
        await deposit(tx, { ...promoDeposit("a.paid", "a", 1_000_000_000n, now), bucket: "paid" });
      });
      const seen = new Map<string, string>();
      let orphans = 0;
      const marks: string[] = [];
      for (let run = 0; run < KILLS; run++) {
        const usedBefore = await usedOf(db);
        const limit = usedBefore * 2n > FIRST_BUDGET ? usedBefore * 2n + 2n : FIRST_BUDGET;
        await db.write((tx) => setBudgets(tx, "a", { month: limit }, now));
        const child = startScript(WORKER, [location.kind, location.address, "only"]);
        orphans += Number((await child.waitForLine("ready")).split(" ")[2]);
        child.process.stdin.write(`hammer a k1,k2 ${run}\n`);
        await child.waitForLine("settled");
        await Bun.sleep(Math.random() * RUN_MS_MAX);
        child.process.kill("SIGKILL");
        await child.exitCode;
        for (const line of child.lines) {
          const [word = "", id = "", ...rest] = line.split(" ");
          if (word === "settled") seen.set(id, rest.join(" "));
        }
        await untilAlone(db);
        const used = await usedOf(db);
        for (const percent of [50n, 80n, 100n])
          if (usedBefore * 100n < limit * percent && used * 100n >= limit * percent)
            marks.push(`${percent} % of ${limit}`);
      }
      await startEpoch(db, "only", Date.now());
      orphans += await sweepHolds(db, Date.now());
      const { problems, checked } = await verifyLedger(db);
      expect(problems).toEqual([]);
      expect(checked.holds).toBe(0);

      expect(await thresholdEvents(db)).toEqual(marks);
      expect(marks.length).toBeGreaterThan(KILLS / 2);

      const charged = await charges(db);
      for (const [id, told] of seen) expect([id, charged.get(id)]).toEqual([id, told]);
      expect(seen.size).toBeGreaterThan(KILLS);
      console.log(
        `${kind}: ${seen.size} settles seen, ${checked.usageRecords} recorded, ${orphans} holds given back, ${((performance.now() - started) / 1_000).toFixed(1)} s`,
      );
      await close();
    }, 60_000);
  });
});

async function usedOf(db: Db): Promise<bigint> {
  return (await getBudgets(db, "a", Date.now())).month.used;
}

async function thresholdEvents(db: Db): Promise<readonly string[]> {
  const rows = await db.all("select data from event order by created_at, id");
  return rows
    .map((row) => JSON.parse(text(row, "data")))
    .map((data) => `${data.percent} % of ${Math.round(data.limit_usd * 1e9)}`);
}

/** For every usage record its cost, what was charged and what was overrun, as the worker prints them. */
async function charges(db: Db): Promise<Map<string, string>> {
  const moved = new Map<string, { charged: bigint; overrun: bigint }>();
  for (const row of await db.all(
    "select ref, from_account, amount from transfer where kind = 'usage'",
  )) {
    const sums = moved.get(text(row, "ref")) ?? { charged: 0n, overrun: 0n };
    sums[text(row, "from_account").startsWith("system:") ? "overrun" : "charged"] += toNano(
      row["amount"],
    );
    moved.set(text(row, "ref"), sums);
  }
  const records = await db.all("select id, cost_nano from usage_record");
  return new Map(
    records.map((row) => {
      const { charged, overrun } = moved.get(text(row, "id")) ?? { charged: 0n, overrun: 0n };
      return [text(row, "id"), `${toNano(row["cost_nano"])} ${charged} ${overrun}`];
    }),
  );
}

// A server works off what a killed client had already sent.
async function untilAlone(db: Db): Promise<void> {
  if (db.kind === "sqlite") return;
  for (;;) {
    const row = await db.get(
      "select count(*) as count from pg_stat_activity where datname = current_database() and state <> 'idle' and pid <> pg_backend_pid()",
    );
    if (row !== undefined && integer(row, "count") === 0) return;
    await Bun.sleep(20);
  }
}
