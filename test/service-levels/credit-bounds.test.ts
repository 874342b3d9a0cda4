// Random service levels and calls: in every window, all credits together are at most what was paid in it, and a run that is
// repeated, by any process, changes nothing.

import { expect, test } from "bun:test";
import * as fc from "fast-check";
import { toNano } from "../../src/base/money/money.ts";
import { HOUR_MS } from "../../src/base/time.ts";
import { METRICS, PERIODS, windowAt } from "../../src/service-levels/service-levels.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { runs } from "../support/full.ts";
import { TEST_SEED } from "../support/random.ts";
import { describeEachStore } from "../support/stores/stores.ts";
import { FAILED, FIRST_HOUR, MODEL, openLevelWorld, USD } from "./level-world.ts";

const ACCOUNTS = ["acct_a", "acct_b"] as const;
const MODELS = [MODEL, "openai/gpt-5"] as const;
const RUNS = { sqlite: runs(12), postgres: runs(4) } as const;
/** Windows of hours and days end within it, and with January that of the month. */
const CALLS_WITHIN_HOURS = 30;

const Level = fc.record({
  model: fc.constantFrom("*", ...MODELS),
  metric: fc.constantFrom(...METRICS),
  target: fc.constantFrom(500_000, 990_000, 1_000_000),
  period: fc.constantFrom(...PERIODS),
  creditPercent: fc.constantFrom(1, 33, 70, 100),
  cap: fc.constantFrom(7n, USD / 10n, 1_000n * USD),
});
/** Several calls of one kind. */
const Calls = fc.record({
  account: fc.constantFrom(...ACCOUNTS),
  hour: fc.integer({ min: 0, max: CALLS_WITHIN_HOURS }),
  count: fc.constantFrom(1, 19, 21),
  fields: fc.record({
    model: fc.constantFrom(...MODELS),
    cost: fc.constantFrom(0n, 1n, 99n, USD / 7n),
    firstTokenMs: fc.constantFrom(null, 10, 600_000),
    kind: fc.constantFrom("completed", "failed", "broken"),
  }),
});

/** Overlapping levels that are missed and would credit more than was paid. */
const FULL = { model: "*", target: 1_000_000, creditPercent: 100, cap: 1_000n * USD } as const;
const MISSED = PERIODS.map((period) => ({ ...FULL, metric: "availability", period }) as const);
const SLOW = PERIODS.map((period) => ({ ...FULL, metric: "slow_first_token", period }) as const);
const SOME = { account: "acct_a", hour: 12, count: 21 } as const;
/** Its calls cost more than the promotional credit, so they are paid for. */
const FIELDS = { model: MODEL, cost: USD / 7n, firstTokenMs: 600_000, kind: "completed" } as const;

describeEachStore((kind) => {
  test("credits are at most what was paid in each window, and are posted once", async () => {
    let total = 0n;
    await fc.assert(
      fc.asyncProperty(
        fc.array(Level, { minLength: 1, maxLength: 5 }),
        fc.array(Calls, { minLength: 2, maxLength: 8 }),
        async (levels, calls) => {
          const world = await openLevelWorld(kind);
          for (const account of ACCOUNTS) await world.open(account, USD);
          for (const level of levels) {
            const target =
              level.metric === "broken_reply"
                ? 0
                : level.metric === "availability"
                  ? level.target
                  : 1_000;
            // The same level cannot be on twice.
            await world.add({ ...level, target }).catch(() => {});
          }
          for (const { account, hour, count, fields } of calls) {
            const { kind: outcome, ...rest } = fields;
            const failed = outcome === "failed" ? FAILED : {};
            const broken = outcome === "broken" ? { ...FAILED, status: 200, cost: rest.cost } : {};
            await world.calls(count, account, { ...rest, ...failed, ...broken }, hour * 60 + 5);
          }
          for (const hours of [5, 20, 60]) await world.evaluate(hours);
          await Promise.all([world.evaluate(45 * 24), world.evaluate(45 * 24)]);
          const posted = await Promise.all(ACCOUNTS.map(world.credits));
          await world.evaluate(46 * 24);
          await world.db.write((tx) => tx.run("update service_level set evaluated_to = starts_at"));
          await world.evaluate(46 * 24);
          expect(await Promise.all(ACCOUNTS.map(world.credits))).toEqual(posted);
          const rows = await world.db.all(
            "select account_id, created_at, cast(paid_nano as text) as paid from usage_record",
          );
          for (const [index, account] of ACCOUNTS.entries())
            for (const period of PERIODS)
              for (let hour = 0; hour <= CALLS_WITHIN_HOURS; hour++) {
                const window = windowAt(period, FIRST_HOUR + hour * HOUR_MS);
                const credited = (posted[index] ?? [])
                  .filter((one) => one.window.start >= window.start && one.window.end <= window.end)
                  .reduce((sum, { amount }) => sum + amount, 0n);
                const paid = rows
                  .filter((row) => row["account_id"] === account)
                  .filter(
                    ({ created_at: at }) => windowAt(period, Number(at)).start === window.start,
                  )
                  .reduce((sum, row) => sum + toNano(row["paid"] ?? 0n), 0n);
                expect(credited).toBeLessThanOrEqual(paid);
                total += credited;
              }
          expect((await verifyLedger(world.db)).problems).toEqual([]);
          await world.close();
        },
      ),
      {
        numRuns: RUNS[kind],
        seed: TEST_SEED,
        examples: [
          [
            [...MISSED, ...SLOW],
            [
              { ...SOME, fields: FIELDS },
              { ...SOME, fields: { ...FIELDS, kind: "failed" } },
            ],
          ],
        ],
      },
    );
    expect(total).toBeGreaterThan(0n);
  });
});
