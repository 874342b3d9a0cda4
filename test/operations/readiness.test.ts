// `/readyz` while the store can be read but not written.

import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import path from "node:path";
import { SQL } from "bun";
import { createReadinessCheck } from "../../src/operations/readiness.ts";
import { call } from "../spec/api-client.ts";
import { eventually } from "../support/eventually.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import { STORE_KINDS, type StoreKind } from "../support/stores/stores.ts";

describe.each([...STORE_KINDS])("on %s", (store) => {
  test("/readyz is 503 while the store rejects writes, and recovers", async () => {
    const gateway = await startGateway({ store });
    await execute(store, gateway, REJECT_WRITES[store]);
    const unready = await call(gateway, "GET /readyz");
    expect([unready.status, unready.body]).toEqual([503, { status: "store unavailable" }]);
    expect((await call(gateway, "GET /healthz")).status).toBe(200);
    await execute(store, gateway, ALLOW_WRITES[store]);
    await eventually(async () => (await call(gateway, "GET /readyz")).status === 200);
    const lines = gateway.logLines.filter((line) => line.includes("accept"));
    expect(lines).toEqual([
      expect.stringMatching(/did not accept a write.*(full|no space left)/),
      expect.stringContaining("accepted a write again"),
    ]);
    await gateway.stop();
  });
});

test("/readyz is 503 while PostgreSQL's disk is full for new rows only, and recovers", async () => {
  const gateway = await startGateway({ store: "postgres" });
  const { headers } = await registerAccount(gateway);
  const body = JSON.stringify({ model: "sim/echo", messages: [{ role: "user", content: "hi" }] });
  const chat = (): Promise<Response> =>
    fetch(`${gateway.url}/v1/chat/completions`, { method: "POST", headers, body });
  await execute(
    "postgres",
    gateway,
    REJECT_WRITES.postgres.replace("update on process", "insert on hold"),
  );
  expect((await chat()).status).toBe(503);
  const unready = await call(gateway, "GET /readyz");
  expect([unready.status, unready.body]).toEqual([503, { status: "store unavailable" }]);
  await execute("postgres", gateway, "drop trigger full_disk on hold");
  // Without a call that tries again: a load balancer sends none.
  await eventually(async () => (await call(gateway, "GET /readyz")).status === 200);
  expect((await chat()).status).toBe(200);
  expect((await gateway.server.db.all("select id from hold")).length).toBe(0);
  await gateway.stop();
});

test("concurrent checks share one write", async () => {
  let writes = 0;
  const isWritable = createReadinessCheck(async () => {
    writes++;
  });
  const results = await Promise.all(Array.from({ length: 100 }, isWritable));
  expect([await isWritable(), ...results].every(Boolean)).toBe(true);
  expect(writes).toBe(1);
});

test("a write that does not finish in time is not ready, and is not repeated meanwhile", async () => {
  let writes = 0;
  const write = Promise.withResolvers<void>();
  const isWritable = createReadinessCheck(
    () => {
      writes++;
      return write.promise;
    },
    { timeoutMs: 10 },
  );
  expect(await Promise.all([isWritable(), isWritable()])).toEqual([false, false]);
  write.resolve();
  expect([await isWritable(), writes]).toEqual([true, 1]);
});

// Simulates a full disk: writes fail, reads work.
const REJECT_WRITES: Readonly<Record<StoreKind, string>> = {
  sqlite:
    "create trigger full_disk before update on process begin select raise(abort, 'full'); end",
  postgres: `
    create function refuse() returns trigger language plpgsql as
      $$ begin raise exception 'no space left on device' using errcode = '53100'; end $$;
    create trigger full_disk before update on process for each row execute function refuse();
  `,
};
const ALLOW_WRITES: Readonly<Record<StoreKind, string>> = {
  sqlite: "drop trigger full_disk",
  postgres: "drop trigger full_disk on process",
};

async function execute(store: StoreKind, { config }: Gateway, sql: string): Promise<void> {
  const { databaseUrl, dataDir } = config.store;
  if (store === "postgres") {
    const client = new SQL(databaseUrl?.reveal() ?? "", { max: 1 });
    await client.unsafe(sql);
    await client.close();
    return;
  }
  const database = new Database(path.join(dataDir, "postern.db"));
  database.run(sql);
  database.close();
}
