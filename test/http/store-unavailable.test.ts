// A store that cannot be used now: what is not a model call says so, too, and is worth another try.

import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import path from "node:path";
import { startFaultyProxy } from "../support/faulty-proxy.ts";
import { valueAt, call } from "../spec/api-client.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";
import { testPostgres } from "../support/stores/postgres.ts";

test("on PostgreSQL that is not there every request is a 503 with retry-after, and goes on once it is there again", async () => {
  const wire = await startFaultyProxy(await testPostgres());
  const gateway = await startGateway({ databaseUrl: wire.url });
  const { key } = await registerAccount(gateway);
  wire.stop();
  for (const asked of ["GET /v1/account", "GET /v1/usage", "POST /v1/keys"])
    expectRetry(
      await call(gateway, asked, { key, ...(asked.startsWith("P") ? { body: {} } : {}) }),
    );
  expectRetry(await call(gateway, "POST /v1/accounts", { body: {} }));
  expect(gateway.logLines.join("\n")).toContain("store unavailable");
  await wire.restart();
  expect((await call(gateway, "GET /v1/account", { key })).status).toBe(200);
  await gateway.stop();
  wire.stop();
}, 60_000);

test("on a SQLite that another program keeps for itself a write is a 503 with retry-after", async () => {
  const gateway = await startGateway();
  const { key } = await registerAccount(gateway);
  const other = new Database(path.join(gateway.config.store.dataDir, "postern.db"));
  other.run("begin immediate");
  expectRetry(await call(gateway, "POST /v1/keys", { key, body: {} }));
  other.run("rollback");
  other.close();
  expect((await call(gateway, "POST /v1/keys", { key, body: {} })).status).toBe(201);
  await gateway.stop();
}, 60_000);

function expectRetry(answered: Awaited<ReturnType<typeof call>>): void {
  expect([answered.status, valueAt(answered.body, "error.code")]).toEqual([503, "overloaded"]);
  expect(answered.headers.get("retry-after")).toBe("1");
}
