// SQLite joins row by row, so a check whose join finds no index takes a time that grows with the square of the accounts. On
// PostgreSQL, so does one that reads all checkpoints for each range of accounts.

import { afterAll, expect, test } from "bun:test";
import { integer, text } from "../../src/store/db.ts";
import { countDifferences, restrictCheck } from "../../src/verification/check-tables.ts";
import { CHECKS } from "../../src/verification/ledger-checks.ts";
import { CITUS_URL } from "../support/stores/citus.ts";
import { openStore } from "../support/stores/stores.ts";

// The first test on PostgreSQL starts the server, possibly on a busy machine.

const CHECKS_AFTER_CHECKPOINT = CHECKS.filter(
  ({ isGlobal, isFullOnly }) => isGlobal !== true && isFullOnly !== true,
).map(({ sql }) => sql);
const RANGE = { after: "acct_1", upTo: "acct_2" };

const store = await openStore("sqlite");
afterAll(() => store.close());

/** Joins in which a loop inside of another one reads a whole table. */
async function findNestedScans(sql: string, params: readonly string[]): Promise<readonly string[]> {
  const steps = await store.db.all(`explain query plan ${sql}`, params);
  const joins = new Map<number, string[]>();
  for (const step of steps) {
    const detail = text(step, "detail");
    if (!/^(SCAN|SEARCH)\b/.test(detail)) continue;
    const parent = integer(step, "parent");
    joins.set(parent, [...(joins.get(parent) ?? []), detail]);
  }
  return [...joins.values()]
    .filter(([, ...inner]) => inner.some((detail) => detail.startsWith("SCAN")))
    .map((loops) => loops.join(", "));
}

test.each([undefined, "req_01"])(
  "no check reads a whole table for each row of another, after position %p",
  async (position) => {
    for (const { problem, sql: check } of CHECKS) {
      const { sql, params } = restrictCheck(check, "sqlite", { range: RANGE, position });
      expect({ problem, scans: await findNestedScans(sql, params) }).toEqual({
        problem,
        scans: [],
      });
    }
  },
);

test("neither does the statement of all checks after a checkpoint", async () => {
  const { sql, params } = countDifferences(CHECKS_AFTER_CHECKPOINT, "sqlite", {
    range: RANGE,
    position: "req_01",
  });
  expect(await findNestedScans(sql, params)).toEqual([]);
});

test("a join of a column without a type is such a scan", async () => {
  const sql = `with names as (select account_id || ':paid' as name from wallet union all select key_id || '' from spender)
    select 1 from transfer left join names on names.name = to_account`;
  expect(await findNestedScans(sql, [])).toHaveLength(1);
});

// On Citus each verification reads all calls, from copies of the rows.
test.skipIf(CITUS_URL !== "")(
  "no check after a checkpoint reads the checkpoints of other accounts on PostgreSQL",
  async () => {
    const postgres = await openStore("postgres");
    await postgres.db.write(async (tx) => {
      await tx.run(`insert into ledger_checkpoint
      select 'acct_' || lpad(n::text, 6, '0'), 'key', 'req_00', 1, 0, 0 from generate_series(1, 20000) as n`);
      await tx.run(`insert into wallet (account_id, promo, paid, held)
      select 'acct_' || lpad(n::text, 6, '0'), 1, 0, 0 from generate_series(1, 20000) as n`);
      await tx.run("analyze ledger_checkpoint");
      await tx.run("analyze wallet");
    });
    const { sql, params } = countDifferences(CHECKS_AFTER_CHECKPOINT, "postgres", {
      range: { after: "acct_010000", upTo: "acct_012000" },
      position: "req_01",
    });
    const plan = await postgres.db.all(`explain ${sql}`, params);
    const lines = plan.map((line) => text(line, "QUERY PLAN"));
    const reads = lines.filter((line) => /\b(on|using) ledger_checkpoint/.test(line));
    expect(reads.length).toBeGreaterThan(0);
    expect(reads.filter((line) => line.includes("Seq Scan"))).toEqual([]);
    // Each table has the calls before and after all others: two index searches, however many checks there are.
    expect(lines.filter((line) => line.includes("Scan using usage_record_pkey")).length).toBe(2);
    await postgres.close();
  },
);
