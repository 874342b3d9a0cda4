// Requests other than model calls while the store is unavailable.

import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import path from "node:path";
import { type ApiResponse, valueAt, call } from "../spec/api-client.ts";
import { startFaultyProxy } from "../support/faulty-proxy.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";
import { migratedPostgres } from "../support/stores/postgres.ts";

test("PostgreSQL: answers 503 with retry-after while the server is down, and recovers", async () => {
  const proxy = await startFaultyProxy(await migratedPostgres());
  const gateway = await startGateway({ databaseUrl: proxy.url });
  const { key } = await registerAccount(gateway);
  proxy.stop();
  for (const line of ["GET /v1/account", "GET /v1/usage", "POST /v1/keys"])
    expectRetryLater(
      await call(gateway, line, { key, ...(line.startsWith("POST") ? { body: {} } : {}) }),
    );
  expectRetryLater(await call(gateway, "POST /v1/accounts", { body: {} }));
  expect(gateway.logLines.join("\n")).toContain("store unavailable");
  await proxy.restart();
  expect((await call(gateway, "GET /v1/account", { key })).status).toBe(200);
  await gateway.stop();
  proxy.stop();
});

test("SQLite: answers 503 with retry-after to writes while another process holds the lock", async () => {
  const gateway = await startGateway();
  const { key } = await registerAccount(gateway);
  const other = new Database(path.join(gateway.config.store.dataDir, "postern.db"));
  other.run("begin immediate");
  expectRetryLater(await call(gateway, "POST /v1/keys", { key, body: {} }));
  other.run("rollback");
  other.close();
  expect((await call(gateway, "POST /v1/keys", { key, body: {} })).status).toBe(201);
  await gateway.stop();
});

function expectRetryLater(response: ApiResponse): void {
  expect([response.status, valueAt(response.body, "error.code")]).toEqual([503, "overloaded"]);
  expect(response.headers.get("retry-after")).toBe("1");
}
