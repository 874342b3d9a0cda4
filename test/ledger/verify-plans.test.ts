// SQLite joins row by row, so a check whose join finds no index takes a time that grows with the square of the accounts.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { restrictCheck } from "../../src/ledger/verify/check-tables.ts";
import { CHECKS } from "../../src/ledger/verify/ledger-checks.ts";
import { integer, text } from "../../src/store/db.ts";
import { openStore, type TestStore } from "../support/stores/stores.ts";

const RANGE = { after: "acct_1", upTo: "acct_2" };

let store: TestStore;
beforeAll(async () => {
  store = await openStore("sqlite");
});
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

test("a join of a column without a type is such a scan", async () => {
  const sql = `with names as (select account_id || ':paid' as name from wallet union all select key_id || '' from spender)
    select 1 from transfer left join names on names.name = to_account`;
  expect(await findNestedScans(sql, [])).toHaveLength(1);
});
