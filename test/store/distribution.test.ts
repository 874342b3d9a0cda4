// What a gateway does on a distributed store, on a PostgreSQL that only looks like Citus: its functions are there, and all rows
// are on one server. test/store/citus.test.ts runs on Citus itself.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { restoreProcesses, startEpoch } from "../../src/ledger/ledger.ts";
import { sweepHolds } from "../../src/ledger/sweep.ts";
import { type Db, text } from "../../src/store/db.ts";
import { DISTRIBUTED_TABLES } from "../../src/store/distribution.ts";
import { rollUpUsage } from "../../src/usage/rollup/roll-up.ts";
import { verifyFromCheckpoint, verifyLedger } from "../../src/verification/verify.ts";
import { startLedger } from "../ledger/fixtures.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { runInProcess } from "../support/run-command.ts";
import { CITUS_URL } from "../support/stores/citus.ts";
import { LOOKALIKE } from "../support/stores/distributed-nodes.ts";
import { openStore, type TestStore } from "../support/stores/stores.ts";

let store: TestStore;
let settings: Readonly<Record<string, string>>;

beforeAll(async () => {
  store = await openStore("postgres");
  settings = { DATABASE_URL: store.location.address, POSTERN_SECRET: "distribution".repeat(4) };
});
afterAll(() => store.close());

describe.skipIf(CITUS_URL !== "")("postern admin distribute", () => {
  test("says what is missing", async () => {
    const { code, stderr } = await runInProcess(["admin", "distribute"], settings);
    expect(`${code} ${stderr}`).toStartWith(
      "1 postern admin distribute: The database has no Citus",
    );
  });

  test("prints the statements of all tables, and executes them", async () => {
    await store.db.write(async (tx) => {
      for (const statement of LOOKALIKE) await tx.run(statement);
    });
    const printed = await runInProcess(["admin", "distribute"], settings);
    const lines = printed.stdout.trim().split("\n");
    expect(lines[0]).toBe(
      "select create_distributed_table('wallet', 'account_id', colocate_with => 'none');",
    );
    expect(lines).toContain(
      "select create_distributed_table('hold', 'account_id', colocate_with => 'wallet');",
    );
    expect(lines).toContain("select citus_add_local_table_to_metadata('api_key');");
    const run = await runInProcess(["admin", "distribute", "--run"], settings);
    expect(run.stdout).toBe(printed.stdout);
    const rows = await store.db.all(
      "select logicalrelid::text as name from pg_dist_partition where partmethod = 'h'",
    );
    expect(rows.map((row) => text(row, "name")).toSorted()).toEqual(DISTRIBUTED_TABLES.toSorted());
    const again = await runInProcess(["admin", "distribute"], settings);
    expect(again.stdout).toBe("All tables are placed.\n");
  });
});

describe.skipIf(CITUS_URL !== "")("a gateway on a distributed store", () => {
  let gateway: Gateway;
  let db: Db;
  let accounts: readonly TestAccount[];
  beforeAll(async () => {
    gateway = await startGateway({ databaseUrl: store.location.address });
    ({ db } = gateway.server);
    accounts = await Promise.all(Array.from({ length: 3 }, () => registerAccount(gateway)));
  });
  afterAll(() => gateway.stop());

  const call = async ({ headers }: TestAccount, fields: object): Promise<number> => {
    const messages = [{ role: "user", content: "hello" }];
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { ...headers },
      body: JSON.stringify({ model: "sim/echo", max_tokens: 10, messages, ...fields }),
    });
    await response.text();
    return response.status;
  };

  test("commits the calls of each account on their own", async () => {
    expect(db.isDistributed).toBe(true);
    const calls = accounts.flatMap((account) =>
      [{}, { stream: true }, {}].map((fields) => call(account, fields)),
    );
    expect(await Promise.all(calls)).toEqual(calls.map(() => 200));
    const pending = await db.all("select account_id, deltas from usage_pending");
    for (const row of pending)
      for (const { id } of accounts)
        expect(text(row, "deltas").includes(id)).toBe(text(row, "account_id") === id);
    await rollUpUsage(db);
    expect(await db.all("select id from usage_pending")).toEqual([]);
    for (const { headers } of accounts) {
      const response = await fetch(`${gateway.url}/v1/usage/summary`, { headers: { ...headers } });
      expect(await response.json()).toMatchObject({ totals: { calls: 3 } });
    }
  });

  test("releases the holds of a process that started again, of any number of accounts", async () => {
    const now = Date.now();
    const rows = await db.all("select id, account_id from api_key order by id");
    const ledger = await startLedger(db, "left", now);
    const held = await Promise.all(
      rows.map((row, index) =>
        ledger.hold({
          id: `left.${index}`,
          accountId: text(row, "account_id"),
          keyId: text(row, "id"),
          amount: 10n,
          now,
          expiresAt: now + 60_000,
        }),
      ),
    );
    expect(held.map(({ status }) => status)).toEqual(rows.map(() => "held"));
    await db.write((tx) => tx.run("delete from process where name = 'left'"));
    await db.write(restoreProcesses);
    expect(await startEpoch(db, "left", now)).toBe(now + 2);
    expect(await sweepHolds(db, now)).toBe(rows.length);
  });

  test("verifies the ledger on copies, and reports a wrong wallet", async () => {
    expect((await verifyFromCheckpoint(db, { now: Date.now() })).problems).toEqual([]);
    const wrong = "update wallet set promo = promo + 1 where account_id = ?";
    const [first] = accounts;
    await db.write((tx) => tx.run(wrong, [first?.id ?? ""]));
    const { problems } = await verifyLedger(db);
    expect(problems.filter((problem) => problem.includes(first?.id ?? ""))).not.toEqual([]);
  });
});
