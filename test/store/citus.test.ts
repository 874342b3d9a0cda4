// A gateway on a Citus cluster. With POSTERN_TEST_CITUS_URL, all other tests of PostgreSQL stores run on it, too.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { SQL } from "bun";
import { secret } from "../../src/base/crypto/secret.ts";
import { createIdempotency } from "../../src/idempotency/idempotency.ts";
import { integer } from "../../src/store/db.ts";
import { verifyFromCheckpoint } from "../../src/verification/verify.ts";
import { openWorld, REQUESTS, type World } from "../activity/mutating-requests.ts";
import { visitPage } from "../billing/console-user.ts";
import { eventually } from "../support/eventually.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { runJobs } from "../support/run-jobs.ts";
import { skipUnless } from "../support/skip.ts";
import { CITUS_URL, workerUrls } from "../support/stores/citus.ts";

const CALLS = 20;
const idempotency = createIdempotency(secret("the master secret of this test"));
/** What a call writes to the log of its node, at least. */
const CALL_BYTES = 1_000;

const isSkipped = skipUnless(
  CITUS_URL !== "",
  "no Citus cluster: run POSTERN_TEST_POSTGRES_HOME=/usr/lib/postgresql/15 node test/support/stores/citus-cluster.mjs with a PostgreSQL that has Citus, and set POSTERN_TEST_CITUS_URL to the URL that it prints",
);

describe.skipIf(isSkipped)("a gateway on Citus", () => {
  let gateway: Gateway;
  let workers: readonly SQL[];
  beforeAll(async () => {
    gateway = await startGateway({ store: "postgres" });
    workers = (await workerUrls()).map((url) => new SQL(url, { max: 1 }));
  });
  afterAll(async () => {
    for (const worker of workers) await worker.close();
    await gateway.stop();
  });

  const call = async ({ headers }: TestAccount, fields: object = {}): Promise<string> => {
    const messages = [{ role: "user", content: "hello" }];
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { ...headers },
      body: JSON.stringify({ model: "sim/echo", max_tokens: 10, messages, ...fields }),
    });
    const body = await response.text();
    expect([response.status, body]).toEqual([200, expect.any(String)]);
    return body;
  };
  const logPositions = (): Promise<readonly number[]> =>
    Promise.all(
      workers.map(async (worker) => {
        const rows = await worker.unsafe("select pg_current_wal_lsn() - '0/0'::pg_lsn as bytes");
        return Number(rows[0]?.bytes);
      }),
    );
  const transactionsOfTwoPhases = async (): Promise<number> => {
    const row = await gateway.server.db.get("select count(*) as count from pg_dist_transaction");
    return row === undefined ? 0 : integer(row, "count");
  };

  test("writes the rows of a call on one worker, without two phases", async () => {
    expect(workers.length).toBeGreaterThan(1);
    const account = await registerAccount(gateway);
    await call(account);
    const [before, twoPhases] = [await logPositions(), await transactionsOfTwoPhases()];
    for (let index = 0; index < CALLS; index++) await call(account, { stream: index % 2 === 1 });
    const after = await logPositions();
    const written = after.filter(
      (bytes, index) => bytes - (before[index] ?? 0) > CALLS * CALL_BYTES,
    );
    expect(written).toHaveLength(1);
    // Those of background jobs are fewer than one for each call.
    expect(await transactionsOfTwoPhases()).toBeLessThan(twoPhases + CALLS);
  });

  test("serves calls of many accounts at once, and verifies the ledger meanwhile", async () => {
    const accounts = await Promise.all(Array.from({ length: 8 }, () => registerAccount(gateway)));
    const calls = accounts.flatMap((account) => Array.from({ length: 5 }, () => call(account)));
    const { db } = gateway.server;
    expect((await verifyFromCheckpoint(db, { now: Date.now() })).problems).toEqual([]);
    await Promise.all(calls);
    expect((await verifyFromCheckpoint(db, { now: Date.now() })).problems).toEqual([]);
  });

  test("runs every background job", async () => {
    expect([...(await runJobs(gateway.config))]).toEqual([]);
  });

  test("sends the statements of a call, and of an account's pages, to one worker", async () => {
    const { id, headers } = await registerAccount(gateway);
    const input = { model: "sim/echo", max_output_tokens: 20, input: "hello" };
    const messages = [{ role: "user", content: "hello" }];
    const chat = { model: "sim/echo", max_tokens: 10, messages };
    const key = { "idempotency-key": crypto.randomUUID() };
    const requests: readonly (readonly [path: string, body?: object, extra?: object])[] = [
      ["/v1/chat/completions", chat],
      ["/v1/chat/completions", { ...chat, stream: true }],
      ["/v1/chat/completions", chat, key],
      ["/v1/chat/completions", chat, key],
      ["/v1/messages", chat],
      ["/v1/messages", { ...chat, stream: true }],
      ["/v1/responses", input],
      ["/v1/responses", { ...input, stream: true }],
      ["/v1/account/export"],
    ];
    const failed: unknown[] = [];
    await withoutStatementsOnAllShards(gateway, async () => {
      const send = (path: string, body?: object, extra?: object): Promise<Response> =>
        fetch(`${gateway.url}${path}`, {
          method: body === undefined ? "GET" : "POST",
          headers: { ...headers, ...extra },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
      for (const [path, body, extra] of requests) {
        const response = await send(path, body, extra);
        const text = await response.text();
        if (response.status !== 200) failed.push([path, body, response.status, text]);
      }
      // A repetition of a running call reads its hold.
      const { db } = gateway.server;
      const call = { scope: id, key: "repeated", body: "{}", now: Date.now() };
      const claim = { ...call, hold: [id, "req_running"] as const };
      await db.write((tx) => idempotency.begin(tx, claim));
      const repetition = db.write((tx) => idempotency.begin(tx, claim));
      expect(await rejectionMessage(repetition)).toContain("still running");
    });
    expect(failed).toEqual([]);
  });
});

/** Routes of operators, which read all accounts. */
const OF_OPERATORS = /^\/operator\b/;
const WORKSPACE = "{account}";

describe.skipIf(isSkipped)("the requests of customers on Citus", () => {
  let world: World;
  beforeAll(async () => {
    world = await openWorld("postgres");
  });
  afterAll(() => world.gateway.stop());

  test("are statements on one worker each, if they change something", async () => {
    const paths = new Map(world.gateway.server.routes.map(({ id, path }) => [id, path]));
    const failed: unknown[] = [];
    await withoutStatementsOnAllShards(world.gateway, async () => {
      for (const [id, prepare] of Object.entries(REQUESTS)) {
        if (OF_OPERATORS.test(paths.get(id) ?? "")) continue;
        const { status } = await (await prepare(world))();
        if (status >= 400) failed.push([id, status]);
      }
    });
    expect(failed).toEqual([]);
  });

  test("are statements on one worker each, if they read pages and lists", async () => {
    const { gateway, workspace, owner } = world;
    const failed: unknown[] = [];
    const paths = gateway.server.routes
      .filter(({ method, path }) => method === "GET" && !OF_OPERATORS.test(path))
      .map(({ path }) => path.replace(WORKSPACE, workspace.id))
      .filter((path) => !path.includes("{"));
    expect(paths.length).toBeGreaterThan(50);
    await withoutStatementsOnAllShards(gateway, async () => {
      for (const path of paths) {
        const isPage = !path.startsWith("/v1/");
        const { status } = isPage
          ? await visitPage(gateway, path, owner)
          : await fetch(gateway.url + path, { headers: { ...workspace.headers } });
        if (status === 500) failed.push([path, status]);
      }
    });
    expect(failed).toEqual([]);
  });
});

/** New connections of the gateway refuse statements that Citus sends to more than one shard, such as those of jobs. */
async function withoutStatementsOnAllShards(
  { config, server }: Gateway,
  work: () => Promise<void>,
): Promise<void> {
  const client = new SQL(config.store.databaseUrl?.reveal() ?? "", { max: 1 });
  const rows = await client.unsafe("select current_database() as name");
  const database = `alter database ${String(rows[0]?.name)}`;
  const reconnect = async (): Promise<void> => {
    await client.unsafe(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'postern'",
    );
    // The first statements on these connections fail as unavailable.
    await eventually(() => server.db.get("select 1 as one"));
  };
  try {
    await client.unsafe(`${database} set citus.multi_task_query_log_level = 'error'`);
    // In its sixth execution, PostgreSQL also plans a statement without its values. That plan names all shards and is not used.
    await client.unsafe(`${database} set plan_cache_mode = force_custom_plan`);
    await reconnect();
    expect(await rejectionMessage(server.db.get("select count(*) from wallet"))).toContain(
      "multi-task query",
    );
    await work();
  } finally {
    await client.unsafe(`${database} reset all`);
    await reconnect();
    await client.close();
  }
}
