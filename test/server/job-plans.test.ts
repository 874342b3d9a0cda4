// Jobs run every second to every hour beside the calls of all accounts, and SQLite answers on the main thread. So none of their
// statements reads all rows of a table that grows with use.

import { Database } from "bun:sqlite";
import { expect, spyOn, test } from "bun:test";
import { leaseDue } from "../../src/activity/deliveries.ts";
import { countEvents, listEvents } from "../../src/activity/events.ts";
import { readBatchUse } from "../../src/batches/batch-rows.ts";
import { listDebtors } from "../../src/ledger/payments/payments.ts";
import type { Db, Reader } from "../../src/store/db.ts";
import { startGateway } from "../support/gateway.ts";
import { runJobs } from "../support/run-jobs.ts";
import { openStore } from "../support/stores/stores.ts";

/** Tables with a row for each call, batch, response, file, event, email, key or request of anyone. */
const GROWING = new Set([
  "api_key",
  "audit",
  "audit_stream_entry",
  "batch",
  "batch_item",
  "email",
  "event",
  "idempotent_answer",
  "prompt_log",
  "provider_batch",
  "refused_call",
  "session_usage",
  "sink_entry",
  "stored_file",
  "stored_file_part",
  "stored_item",
  "stored_response",
  "stored_stream",
  "transfer",
  "usage_record",
  "webhook_delivery",
]);

test("no statement of a job reads all rows of a table that grows with use", async () => {
  const gateway = await startGateway({ store: "sqlite" });
  const { config } = gateway;
  await gateway.stop();
  const query = spyOn(Database.prototype, "query");
  const failed = await runJobs(config);
  const statements = [...new Set(query.mock.calls.map(([sql]) => sql))];
  query.mockRestore();
  expect([...failed]).toEqual([]);
  const { db, close } = await openStore("sqlite");
  const partial = new Set(
    (
      await db.all("select name from sqlite_master where type = 'index' and sql like '% where %'")
    ).map(({ name }) => name),
  );
  const scans: string[] = [];
  for (const sql of statements.filter((one) => /^\s*(select|with|update|delete)\b/.test(one))) {
    for (const { detail } of await db.all(`explain query plan ${sql}`, valuesFor(sql))) {
      const [, table = "", index] =
        /^SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?/.exec(String(detail)) ?? [];
      if (GROWING.has(table) && !partial.has(index)) scans.push(`${table}: ${sql}`);
    }
  }
  expect(statements.length).toBeGreaterThan(50);
  expect(scans).toEqual([]);
  await close();
});

function valuesFor(sql: string): readonly number[] {
  return sql
    .split("?")
    .slice(1)
    .map(() => 1);
}

async function planOf(run: (db: Db) => Promise<unknown>): Promise<string> {
  const { db, close } = await openStore("sqlite");
  const query = spyOn(Database.prototype, "query");
  await run(db);
  const statements = query.mock.calls.map(([sql]) => sql);
  query.mockRestore();
  const plans = await Promise.all(
    statements.map((sql) => db.all(`explain query plan ${sql}`, valuesFor(sql))),
  );
  await close();
  return plans
    .flat()
    .map(({ detail }) => String(detail))
    .join();
}

test("what the batches of an account store is read from an index only", async () => {
  expect(await planOf((reader) => readBatchUse(reader, "acct_a"))).toContain(
    "COVERING INDEX batch_use",
  );
});

test("the events of one type are found without reading the others of the account", async () => {
  const INDEX = "INDEX event_by_type (account_id=? AND type=?";
  for (const read of [
    (reader: Reader) => countEvents(reader, "acct_a", "member.invited", 0),
    (reader: Reader) => listEvents(reader, "acct_a", { limit: 20 }, "member.invited"),
  ])
    expect(await planOf(read)).toContain(INDEX);
});

test("the few deliveries that are due are leased without reading what other webhooks send later", async () => {
  const request = { now: 1, limit: 1, lease: "mine", busy: new Map() };
  const plan = await planOf((db) => db.write((tx) => leaseDue(tx, request)));
  expect(plan).toContain("webhook_delivery USING INDEX webhook_delivery_by_due (due_at<?)");
  expect(plan).not.toMatch(/SCAN webhook_delivery|RECURSIVE STEP/);
});

test("accounts with a debt are found without reading the others", async () => {
  expect(await planOf((reader) => listDebtors(reader, 10))).toContain("INDEX wallet_with_debt");
});
