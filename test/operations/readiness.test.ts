// `/readyz` on a store that still answers, but takes no more writes.

import { Database } from "bun:sqlite";
import { SQL } from "bun";
import { describe, expect, test } from "bun:test";
import path from "node:path";
import { createReadinessCheck } from "../../src/operations/readiness.ts";
import { call } from "../spec/api-client.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";
import { STORE_KINDS, type StoreKind } from "../support/stores/stores.ts";

describe.each([...STORE_KINDS])("on %s", (store) => {
  test("a gateway whose store takes no writes says so, and is ready when it takes them again", async () => {
    const gateway = await startGateway({ store });
    await execute(store, gateway, FULL[store]);
    const full = await call(gateway, "GET /readyz");
    expect([full.status, full.body]).toEqual([503, { status: "store unavailable" }]);
    expect((await call(gateway, "GET /healthz")).status).toBe(200);
    await execute(store, gateway, ROOM[store]);
    while ((await call(gateway, "GET /readyz")).status !== 200) await Bun.sleep(50);
    await gateway.stop();
  });
});

test("however many ask for it, the store is written to once", async () => {
  let writes = 0;
  const isWritable = createReadinessCheck(async () => {
    writes++;
  });
  const answers = await Promise.all(Array.from({ length: 100 }, isWritable));
  expect([await isWritable(), ...answers].every(Boolean)).toBe(true);
  expect(writes).toBe(1);
});

test("a store that says nothing is not ready, and has one write before it however many ask", async () => {
  let writes = 0;
  const silent = Promise.withResolvers<void>();
  const isWritable = createReadinessCheck(() => {
    writes++;
    return silent.promise;
  }, 10);
  expect(await Promise.all([isWritable(), isWritable()])).toEqual([false, false]);
  silent.resolve();
  expect([await isWritable(), writes]).toEqual([true, 1]);
});

// What a full disk does to every write, and to nothing that is read.
const FULL: Readonly<Record<StoreKind, string>> = {
  sqlite:
    "create trigger full_disk before update on process begin select raise(abort, 'full'); end",
  postgres: `
    create function refuse() returns trigger language plpgsql as
      $$ begin raise exception 'no space left on device' using errcode = '53100'; end $$;
    create trigger full_disk before update on process for each row execute function refuse();
  `,
};
const ROOM: Readonly<Record<StoreKind, string>> = {
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
