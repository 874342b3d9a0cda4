// verify-ledger on a distributed store, which has no snapshot of all nodes, while calls are settled and rolled up.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { SQL } from "bun";
import { newId } from "../../src/base/id.ts";
import { readBalances } from "../../src/ledger-proofs/day-entries.ts";
import { type Db, isLocked, type Reader, text, type Values } from "../../src/store/db.ts";
import { openPostgres } from "../../src/store/postgres.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import { rollUpUsage } from "../../src/usage/rollup/roll-up.ts";
import { findChargeDifferences } from "../../src/verification/verify-charges.ts";
import { findRollupDifferences } from "../../src/verification/verify-rollups.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { openAccount, usageRecord } from "../ledger/fixtures.ts";
import { eventually } from "../support/eventually.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { runInProcess } from "../support/run-command.ts";
import { skipUnless } from "../support/skip.ts";
import { CITUS_URL, workerUrls } from "../support/stores/citus.ts";
import {
  type DistributedNodes,
  openDistributedNodes,
} from "../support/stores/distributed-nodes.ts";

const ACCOUNTS = 6;
const RUNS = 6;
const START = Date.parse("2026-03-01T00:00:00Z");

const isSkipped = skipUnless(
  CITUS_URL !== "",
  "no Citus cluster: test/store/citus.test.ts says how to start one",
);

describe("the hourly charges of a distributed store", () => {
  let nodes: DistributedNodes;
  let db: Db;
  beforeAll(async () => {
    nodes = await openDistributedNodes();
    db = openPostgres(nodes.databaseUrl, { poolSize: 4, isDistributed: true, lockTimeoutMs: 50 });
    for (const account of ["acct_a", "acct_b"])
      await db.write((tx) => openAccount(tx, account, [`${account}.k`], START));
  });
  afterAll(async () => {
    await db.close();
    await nodes.close();
  });
  beforeEach(async () => {
    await charge(db, "acct_a");
    await rollUpUsage(db);
    await charge(db, "acct_b");
  });

  test("do not differ when calls are settled, and not rolled up, between the statements of a verification", async () => {
    let rolledUp = 0;
    const between: OnStatement = async (_, sql) => {
      if (!sql.endsWith("from charge_hour")) return;
      await charge(db, "acct_a");
      rolledUp += await rollUpUnlessLocked(db);
    };
    const problems = await findChargeDifferences(onStatements(db, between), true);
    expect([problems, rolledUp]).toEqual([[], 0]);
    expect(await rollUpUsage(db)).toBeGreaterThan(0);
    expect(await findChargeDifferences(db, true)).toEqual([]);
  });
  test.skipIf(isSkipped)(
    "and the balances do not differ while a commit is interrupted between two nodes",
    async () => {
      await interruptCommit(db, "wallet", "acct_new", {
        onCoordinator:
          "insert into account (id, created_at, created_from) values ('acct_new', 1, '')",
        onShard: (shard) =>
          `insert into ${shard} (account_id, promo, paid, held) values ('acct_new', 0, 0, 0)`,
        during: async () => {
          const { problems } = await verifyLedger(db);
          expect(problems.filter((problem) => problem.includes("acct_new"))).toEqual([]);
        },
      });
      await interruptCommit(db, "usage_pending", "acct_b", {
        onCoordinator: "update charge_hour set promo_nano = promo_nano + 10",
        onShard: (shard) => `delete from ${shard} where account_id = 'acct_b'`,
        during: async () => expect(await findChargeDifferences(db, true)).toEqual([]),
      });
    },
  );
});

describe.skipIf(isSkipped)("verify-ledger on Citus", () => {
  let gateway: Gateway;
  let db: Db;
  let accounts: readonly TestAccount[];
  let completed = 0;
  beforeAll(async () => {
    gateway = await startGateway({ store: "postgres" });
    ({ db } = gateway.server);
    accounts = await Promise.all(Array.from({ length: ACCOUNTS }, () => registerAccount(gateway)));
  });
  afterAll(() => gateway.stop());

  const verify = async (...flags: readonly string[]): Promise<string> => {
    const settings = { DATABASE_URL: gateway.config.store.databaseUrl?.reveal() ?? "" };
    const { code, stdout, stderr } = await runInProcess(
      ["admin", "verify-ledger", "--json", ...flags],
      settings,
    );
    return `${code} ${stdout}${stderr}`;
  };
  const call = async ({ headers }: TestAccount): Promise<void> => {
    const messages = [{ role: "user", content: "hello" }];
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { ...headers },
      body: JSON.stringify({ model: "sim/echo", max_tokens: 10, messages }),
    });
    await response.text();
    // Rows that a verification copies are locked.
    expect([200, 503]).toContain(response.status);
    if (response.ok) completed += 1;
  };
  /** Calls of all accounts, and the roll-up job, until `work` is done. */
  const duringCalls = async (work: () => Promise<void>): Promise<void> => {
    const done = new AbortController();
    const repeat = async (run: () => Promise<unknown>): Promise<void> => {
      while (!done.signal.aborted) await run();
    };
    const traffic = Promise.all([
      ...accounts.map((account) => repeat(() => call(account))),
      repeat(() => rollUpUnlessLocked(db)),
    ]);
    await Promise.race([traffic, work().finally(() => done.abort())]);
    await traffic;
  };

  test.each([
    ["with --full", ["--full"]],
    ["without --full", []],
  ])("finds no differences during calls %s", async (_, flags) => {
    const found: string[] = [];
    const before = completed;
    await duringCalls(async () => {
      for (let run = 0; run < RUNS; run++) found.push(await verify(...flags));
    });
    expect(found.filter((result) => !/^0 .*"problem_count":0/.test(result))).toEqual([]);
    expect(completed).toBeGreaterThan(before + ACCOUNTS);
  });

  test("reports wrong sums during calls, and recomputes them", async () => {
    const id = accounts[0]?.id ?? "";
    await duringCalls(async () => {
      await db.write(async (tx) => {
        await tx.run("update charge_hour set promo_nano = promo_nano + 7000000000");
        const wrong =
          "update usage_rollup set calls = calls + 1 where account_id = ? and unit = 'day'";
        await tx.run(wrong, [id]);
      });
      for (const flags of [["--full"], []]) {
        const result = await verify(...flags);
        expect(result).toStartWith("1 ");
        expect(result).toContain('"problem_count":2');
        expect(result).toContain("the charges of the hour ");
        expect(result).toContain(`the usage summaries of ${id} by day do not match`);
      }
      expect(await verify("--full", "--rebuild-sums")).toStartWith("0 ");
    });
    expect(await verify("--full")).toStartWith("0 ");
  });

  test("reads what it compares of an account in one statement on each shard", async () => {
    const plans: string[] = [];
    const explained = onStatements(db, async (reader, sql, params) => {
      if (!/\busage_record\b/.test(sql)) return;
      const rows = await reader.all(`explain (costs off) ${sql}`, params);
      plans.push(rows.map((row) => text(row, "QUERY PLAN")).join("\n"));
    });
    for (const from of [undefined, START])
      await explained.snapshot((reader) => findRollupDifferences(reader, from));
    await findChargeDifferences(explained, true);
    const allAccounts = { sql: "account_id > ?", params: [""] };
    await explained.snapshot((reader) => readBalances(reader, allAccounts, START));
    expect(plans.length).toBe(4);
    for (const [index, plan] of plans.entries()) {
      for (const table of ["usage_record", index === 3 ? "wallet" : "usage_pending"])
        expect(plan).toMatch(new RegExp(` ${table}_\\d+`));
      expect(plan).not.toContain("Distributed Subplan");
    }
  });
});

interface Interruption {
  readonly onCoordinator: string;
  readonly onShard: (shard: string) => string;
  /** Waits for the end of the commit on the shard. */
  readonly during: () => Promise<void>;
}

/** Commits on the coordinator, and on the node of the account once something waits for it there. */
async function interruptCommit(
  db: Db,
  table: string,
  account: string,
  { onCoordinator, onShard, during }: Interruption,
): Promise<void> {
  const placement = await db.get(
    `select nodeport, cast(? as text) || '_' || shardid as shard, current_database() as name from pg_dist_shard_placement
     where shardid = get_shard_id_for_distribution_column(cast(? as text)::regclass, cast(? as text))`,
    [table, table, account],
  );
  const [shard, port] = [String(placement?.["shard"]), String(placement?.["nodeport"])];
  const workers = (await workerUrls()).map((url) => new URL(url));
  const worker = workers.find((url) => url.port === port);
  if (worker === undefined) throw new Error(`no worker has ${shard}`);
  worker.pathname = `/${String(placement?.["name"])}`;
  const node = new SQL(worker.href, { max: 1 });
  const name = `'interrupted ${crypto.randomUUID()}'`;
  await node.unsafe("set citus.enable_manual_changes_to_shards = on");
  await node.unsafe(`begin; ${onShard(shard)}; prepare transaction ${name}`);
  await db.write((tx) => tx.run(onCoordinator));
  const isAwaited = async (): Promise<boolean> => {
    const rows = await node.unsafe(
      `select 1 from pg_locks where relation = '${shard}'::regclass and not granted`,
    );
    return rows.length > 0;
  };
  const ended = during();
  await Promise.race([ended, eventually(isAwaited)]).finally(() =>
    node.unsafe(`commit prepared ${name}`),
  );
  await ended;
  await node.close();
}

async function charge(db: Db, accountId: string): Promise<void> {
  const record = usageRecord({
    id: newId("req", START),
    accountId,
    keyId: `${accountId}.k`,
    cost: 10n,
    createdAt: START,
  });
  const charges = { promo: 10n, paid: 0n, overrun: 0n, at: START };
  await db.write((tx) =>
    insertUsage(tx, [record], { accountId, calls: [charges], hours: [charges] }),
  );
}

/** The job runs again at its next interval. */
function rollUpUnlessLocked(db: Db): Promise<number> {
  return rollUpUsage(db).catch((error: unknown) => {
    if (!isLocked(error)) throw error;
    return 0;
  });
}

type OnStatement = (reader: Reader, sql: string, params?: Values) => Promise<void>;

/** Runs `before` each statement that reads rows in a transaction. */
function onStatements(db: Db, before: OnStatement): Db {
  const intercept = <R extends Reader>(reader: R): R => ({
    ...reader,
    all: async (sql, params) => {
      await before(reader, sql, params);
      return reader.all(sql, params);
    },
  });
  return {
    ...db,
    write: (work, durability) => db.write((tx) => work(intercept(tx)), durability),
    snapshot: (work) => db.snapshot((reader) => work(intercept(reader))),
  };
}
