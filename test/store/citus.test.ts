// A gateway on a Citus cluster. With POSTERN_TEST_CITUS_URL, all other tests of PostgreSQL stores run on it, too.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { SQL } from "bun";
import { secret } from "../../src/base/crypto/secret.ts";
import { createIdempotency } from "../../src/idempotency/idempotency.ts";
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
/** Each one is synced. A transaction of two phases has the last three, on two servers. */
const COMMIT_RECORDS = "('COMMIT', 'PREPARE', 'COMMIT_PREPARED')";

const isSkipped = skipUnless(
  CITUS_URL !== "",
  "no Citus cluster: run POSTERN_TEST_POSTGRES_HOME=/usr/lib/postgresql/15 node test/support/stores/citus-cluster.mjs with a PostgreSQL that has Citus, and set POSTERN_TEST_CITUS_URL to the URL that it prints",
);

describe.skipIf(isSkipped)("a gateway on Citus", () => {
  let gateway: Gateway;
  /** The coordinator first. */
  let nodes: readonly SQL[];
  beforeAll(async () => {
    gateway = await startGateway({ store: "postgres" });
    nodes = [CITUS_URL, ...(await workerUrls())].map((url) => new SQL(url, { max: 1 }));
  });
  afterAll(async () => {
    for (const node of nodes) await node.close();
    await gateway.stop();
  });

  const call = async (
    { headers }: TestAccount,
    fields: object = {},
    extra: object = {},
  ): Promise<string> => {
    const messages = [{ role: "user", content: "hello" }];
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { ...headers, ...extra },
      body: JSON.stringify({ model: "sim/echo", max_tokens: 10, messages, ...fields }),
    });
    const body = await response.text();
    expect([response.status, body]).toEqual([200, expect.any(String)]);
    return body;
  };
  const commitsOf = async (work: () => Promise<void>): Promise<readonly number[]> => {
    const position = "select pg_current_wal_flush_lsn()::text as position";
    const before = await Promise.all(nodes.map((node) => node.unsafe(position)));
    await work();
    return Promise.all(
      nodes.map(async (node, index) => {
        // The log cannot be read from its end, so that it must not be empty.
        await node.unsafe("select pg_logical_emit_message(true, 'test', '')");
        const [row] = await node.unsafe(
          `select count(*) as commits from pg_get_wal_records_info($1, pg_current_wal_flush_lsn())
           where resource_manager = 'Transaction' and record_type in ${COMMIT_RECORDS}`,
          [before[index]?.[0]?.position],
        );
        return Number(row?.commits);
      }),
    );
  };

  test.each([
    ["a call", 2, {}, false],
    ["a stream", 2, { stream: true }, false],
    ["a call with an idempotency key", 3, {}, true],
    ["a stream with an idempotency key", 3, { stream: true }, true],
  ])("commits %s at most %i times, on one worker", async (_, commits, fields, hasKey) => {
    const account = await registerAccount(gateway);
    const sendOne = (): Promise<string> =>
      call(account, fields, hasKey ? { "idempotency-key": crypto.randomUUID() } : {});
    await sendOne();
    const [coordinator = 0, ...workers] = await commitsOf(async () => {
      for (let index = 0; index < CALLS; index++) await sendOne();
    });
    const [most = 0, ...others] = workers.toSorted((one, two) => two - one);
    expect(others.length).toBeGreaterThan(0);
    // A busy key has no commit for a hold. Background jobs commit less than once for each call.
    expect(most).toBeWithin((commits - 1) * CALLS, (commits + 1) * CALLS);
    for (const each of [coordinator, ...others]) expect(each).toBeLessThan(CALLS);
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
      const call = { accountId: id, scope: "a chat", key: "repeated", body: "{}", now: Date.now() };
      const claim = { ...call, holdId: "req_running" };
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
