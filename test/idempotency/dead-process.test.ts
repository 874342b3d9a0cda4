// The idempotency key of a call whose process is killed between the claim of the key and the hold.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { SECOND_MS } from "../../src/base/time.ts";
import { runningKeys } from "../../src/idempotency/idempotency.ts";
import { createSweeper } from "../../src/ledger/sweep.ts";
import { type GatewayProcess, startGatewayProcess } from "../chaos/gateway-process.ts";
import { eventually } from "../support/eventually.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { openStore, type TestStore } from "../support/stores/stores.ts";

const SECRET = "dead".repeat(10);

describe("the key of a call whose process is killed before its hold, on PostgreSQL", () => {
  let store: TestStore;
  let gateway: Gateway;
  let killed: GatewayProcess;
  let account: TestAccount;
  beforeAll(async () => {
    store = await openStore("postgres");
    const databaseUrl = store.location.address;
    gateway = await startGateway({
      databaseUrl,
      env: { POSTERN_SECRET: SECRET, POSTERN_PROCESS_NAME: "other" },
    });
    killed = await startGatewayProcess({
      DATABASE_URL: databaseUrl,
      POSTERN_SECRET: SECRET,
      SIM_BASE_URL: gateway.simulatorUrl,
    });
    account = await registerAccount(gateway);
  });
  afterAll(async () => {
    killed.end();
    await gateway.stop();
    await store.close();
  });

  const send = (url: string, key: string): Promise<Response> =>
    fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { ...account.headers, "idempotency-key": key },
      body: JSON.stringify({
        model: "sim/echo",
        max_tokens: 5,
        messages: [{ role: "user", content: "hello" }],
      }),
    });
  /** Holds wait for the wallet, which is locked until the process is dead. */
  const killBeforeHold = async (key: string): Promise<void> => {
    await store.db.write(async (tx) => {
      await tx.lockMany("wallet", "account_id", [account.id]);
      const killing = new AbortController();
      // A call whose wait for the wallet times out is repeated.
      const callUntilKilled = async (): Promise<void> => {
        while (!killing.signal.aborted) await send(killed.url, key).catch(() => {});
      };
      const calling = callUntilKilled();
      await eventually(() =>
        store.db.get("select id from idempotent_answer where state = 'running'"),
      );
      killing.abort();
      killed.end();
      await calling;
    });
    expect(await store.db.all("select id from hold")).toEqual([]);
  };

  test("is released when another process has counted it as dead", async () => {
    await killBeforeHold("dead");
    expect((await send(gateway.url, "dead")).status).toBe(409);
    let monotonicMs = 0;
    const sweep = createSweeper({
      db: store.db,
      process: "sweeper",
      now: Date.now,
      otherWork: runningKeys,
      monotonicNow: () => monotonicMs,
    });
    for (; monotonicMs <= 30 * SECOND_MS; monotonicMs += 10 * SECOND_MS) {
      expect((await send(gateway.url, "dead")).status).toBe(409);
      await sweep();
    }
    expect((await send(gateway.url, "dead")).status).toBe(200);
  });

  test("is free when the process has started again", async () => {
    await killed.killAndStart();
    await killBeforeHold("restarted");
    expect((await send(gateway.url, "restarted")).status).toBe(409);
    await killed.killAndStart();
    expect((await send(gateway.url, "restarted")).status).toBe(200);
  });
});
