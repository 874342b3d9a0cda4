// Shutdown when the final write fails.

import { expect, test } from "bun:test";
import { openSqlite } from "../../src/store/sqlite.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";

test("reports a failed final write and still closes the store", async () => {
  const gateway = await startGateway();
  const { headers } = await registerAccount(gateway);
  expect((await fetch(`${gateway.url}/v1/account`, { headers })).status).toBe(200);
  const { server, config } = gateway;
  // The last use of each key is written on shutdown.
  await server.db.write((tx) => tx.run("alter table api_key rename to stolen"));
  const failure = await server.close().then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(String(failure)).toContain("api_key");
  // Opening with a lock succeeds, so the first lock was released.
  await openSqlite({ folder: config.store.dataDir, lock: true }).close();
  await gateway.stop().catch(() => {});
});
