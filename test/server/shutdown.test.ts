// Stopping a house, also where its last words cannot be written.

import { expect, test } from "bun:test";
import { openSqlite } from "../../src/store/sqlite.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";

test("a house whose last write fails still lets go of its store, and says what went wrong", async () => {
  const gateway = await startGateway();
  const { headers } = await registerAccount(gateway);
  expect((await fetch(`${gateway.url}/v1/account`, { headers })).status).toBe(200);
  const { server, config } = gateway;
  // When a key was last used is written at the end.
  await server.db.write((tx) => tx.run("alter table api_key rename to stolen"));
  const failure = await server.close().then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(String(failure)).toContain("api_key");
  // The folder was locked, and is not any more.
  await openSqlite({ folder: config.store.dataDir, lock: true }).close();
  await gateway.stop().catch(() => {});
});
