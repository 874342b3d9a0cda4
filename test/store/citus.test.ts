// A gateway on a Citus cluster. With POSTERN_TEST_CITUS_URL, all other tests of PostgreSQL stores run on it, too.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { SQL } from "bun";
import { createLog } from "../../src/base/log.ts";
import { createOverloadGuard } from "../../src/http/guards/overload.ts";
import { createJobs } from "../../src/server/jobs.ts";
import { createServices } from "../../src/server/services.ts";
import { shutdown } from "../../src/server/shutdown.ts";
import { integer } from "../../src/store/db.ts";
import { verifyFromCheckpoint } from "../../src/verification/verify.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { skipUnless } from "../support/skip.ts";
import { CITUS_URL, workerUrls } from "../support/stores/citus.ts";

const CALLS = 20;
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
    expect(await transactionsOfTwoPhases()).toBeLessThanOrEqual(twoPhases);
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
    const config = { ...gateway.config, processName: "jobs" };
    const options = {
      log: createLog({ level: "error", isPretty: false, now: Date.now, write: () => {} }),
      now: Date.now,
      version: "0.0.0-test",
      onFatal: () => {},
    };
    const services = await createServices(config, options, createOverloadGuard());
    const failed: string[] = [];
    for (const { name, run } of createJobs(config, options, services))
      await run().catch((error: unknown) => failed.push(`${name}: ${String(error)}`));
    await shutdown(services, async () => {}, Date.now);
    expect(failed).toEqual([]);
  });
});
