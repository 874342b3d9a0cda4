// Keys with several processes that share only a PostgreSQL.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newId } from "../../src/base/id.ts";
import { insertKeySpend } from "../../src/ledger/ledger-rows.ts";
import { valueAt, call, chat, textAt } from "../spec/api-client.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";
import { migratedPostgres } from "../support/stores/postgres.ts";
import { PATIENT_LOCK_MS } from "../support/stores/stores.ts";

const HOUR_MS = 3_600_000;
const SECRET = "the master secret of both processes";

describe("two gateways on one PostgreSQL", () => {
  let first: Gateway;
  let second: Gateway;
  let account: TestAccount;
  let clockOffset = 0;
  beforeAll(async () => {
    const databaseUrl = await migratedPostgres();
    const env = { POSTERN_SECRET: SECRET };
    const now = (): number => Date.now() + clockOffset;
    const options = { databaseUrl, env, now, lockTimeoutMs: PATIENT_LOCK_MS };
    [first, second] = [await startGateway(options), await startGateway(options)];
    account = await registerAccount(first);
  });
  afterAll(async () => {
    await Promise.all([first.stop(), second.stop()]);
  });

  const createKey = async (): Promise<{ readonly id: string; readonly key: string }> => {
    const { body } = await call(first, "POST /v1/keys", { key: account.key, body: {} });
    return { id: textAt(body, "id"), key: textAt(body, "api_key") };
  };
  const warm = async (key: string): Promise<void> => {
    for (const gateway of [first, second]) {
      expect((await call(gateway, "GET /v1/account", { key })).status).toBe(200);
      expect((await chat(gateway, key)).status).toBe(200);
    }
  };

  test("a key created on one gateway works on the other immediately", async () => {
    const { key } = await createKey();
    expect((await call(second, "GET /v1/account", { key })).status).toBe(200);
    expect((await chat(second, key)).status).toBe(200);
  });

  test("concurrent creations on both do not exceed the maximum number of keys", async () => {
    const crowded = await registerAccount(first);
    const { db } = first.server;
    const now = Date.now();
    const ids = Array.from({ length: 997 }, () => newId("key", now));
    await db.write(async (tx) => {
      await tx.insertMany(
        "api_key",
        [
          "id:text",
          "account_id:text",
          "hash:text",
          "prefix:text",
          "last4:text",
          "created_at:bigint",
        ],
        ids.map((id) => [id, crowded.id, `hash of ${id}`, "pst", "0000", now]),
      );
      for (const id of ids) await insertKeySpend(tx, id, crowded.id, now);
    });
    const responses = await Promise.all(
      Array.from({ length: 16 }, (_, index) =>
        call(index % 2 === 0 ? first : second, "POST /v1/keys", { key: crowded.key, body: {} }),
      ),
    );
    const created = responses.filter(({ status }) => status === 201).length;
    const rejected = responses.filter(({ status }) => status === 409).length;
    expect([created, rejected]).toEqual([2, 14]);
  });

  test("a key revoked on one gateway is rejected by the next request on the other, although it was cached", async () => {
    for (let times = 0; times < 8; times++) {
      const { id, key } = await createKey();
      await warm(key);
      await call(first, `DELETE /v1/keys/${id}`, { key: account.key });
      // Model calls first, because they may use a cached key.
      const rejected = await chat(second, key);
      expect(rejected.status).toBe(401);
      expect(textAt(rejected.body, "error.message")).toStartWith("The API key was revoked");
      expect((await call(second, "GET /v1/account", { key })).status).toBe(401);
    }
  });

  test("a revoked key is rejected by every kind of call, in the error format of its API", async () => {
    const { id, key } = await createKey();
    await warm(key);
    await call(first, `DELETE /v1/keys/${id}`, { key: account.key });
    const messages = [{ role: "user", content: "hello" }];
    const body = { model: "sim/echo", max_tokens: 20, messages };
    for (const line of ["POST /v1/messages", "POST /v1/messages/count_tokens"]) {
      const response = await call(second, line, { key, body });
      expect([line, response.status, valueAt(response.body, "type")]).toEqual([line, 401, "error"]);
    }
    expect((await chat(second, key, { stream: true })).status).toBe(401);
    expect((await chat(first, key)).status).toBe(401);
  });

  test("a limit lowered on one gateway applies on the other immediately", async () => {
    const { id, key } = await createKey();
    await warm(key);
    await call(first, `PATCH /v1/keys/${id}`, { key: account.key, body: { limit_usd: 0 } });
    const rejected = await chat(second, key);
    expect([rejected.status, valueAt(rejected.body, "error.code")]).toEqual([
      403,
      "key_limit_reached",
    ]);
  });

  test("an expiry set on one gateway ends the key on the other", async () => {
    const { id, key } = await createKey();
    await warm(key);
    const soon = new Date(Date.now() + HOUR_MS).toISOString();
    const changed = await call(first, `PATCH /v1/keys/${id}`, {
      key: account.key,
      body: { expires_at: soon },
    });
    expect(changed.status).toBe(200);
    expect((await chat(second, key)).status).toBe(200);
    clockOffset += HOUR_MS;
    expect((await call(second, "GET /v1/account", { key })).status).toBe(401);
    expect((await chat(second, key)).status).toBe(401);
  });

  test("no call starts after the response to a revocation during many calls on both", async () => {
    const { id, key } = await createKey();
    await warm(key);
    let revokedAt = Number.POSITIVE_INFINITY;
    const late: number[] = [];
    const caller = async (gateway: Gateway): Promise<void> => {
      for (;;) {
        const begun = performance.now();
        const { status } = await chat(gateway, key);
        if (status !== 200) return;
        if (begun > revokedAt) late.push(begun - revokedAt);
      }
    };
    const callers = [first, second, first, second].map(caller);
    await call(first, `DELETE /v1/keys/${id}`, { key: account.key });
    revokedAt = performance.now();
    await Promise.all(callers);
    expect(late).toEqual([]);
  });
});

describe("last_used_at", () => {
  test("is written at the latest when the process ends", async () => {
    const databaseUrl = await migratedPostgres();
    const env = { POSTERN_SECRET: SECRET };
    const used = await startGateway({ databaseUrl, env });
    const account = await registerAccount(used);
    const before = await call(used, "GET /v1/account", { key: account.key });
    expect(valueAt(before.body, "key.last_used_at")).toBeNull();
    const usedAt = Date.now();
    await chat(used, account.key);
    const doneAt = Date.now();
    await used.stop();
    const later = await startGateway({ databaseUrl, env });
    const { body } = await call(later, "GET /v1/account", { key: account.key });
    const shown = Date.parse(textAt(body, "key.last_used_at"));
    expect(shown).toBeWithin(usedAt, doneAt + 1);
    await later.stop();
  });
});
