// Keys where several processes share one PostgreSQL and agree on nothing else.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { MINUTE_MS, SECOND_MS } from "../../src/base/time.ts";
import { newId } from "../../src/base/id.ts";
import { insertKeySpend } from "../../src/ledger/rows.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";
import { testPostgres } from "../support/stores/postgres.ts";
import { valueAt, call, chat, textAt } from "../spec/api-client.ts";

const SECRET = "a master secret that both processes know";

describe("two gateways on one PostgreSQL", () => {
  let one: Gateway;
  let other: Gateway;
  let account: TestAccount;
  beforeAll(async () => {
    const databaseUrl = await testPostgres();
    const env = { POSTERN_SECRET: SECRET };
    [one, other] = [
      await startGateway({ databaseUrl, env }),
      await startGateway({ databaseUrl, env }),
    ];
    account = await registerAccount(one);
  });
  afterAll(async () => {
    await Promise.all([one.stop(), other.stop()]);
  });

  const mint = async (): Promise<{ readonly id: string; readonly key: string }> => {
    const { body } = await call(one, "POST /v1/keys", { key: account.key, body: {} });
    return { id: textAt(body, "id"), key: textAt(body, "api_key") };
  };
  const warm = async (key: string): Promise<void> => {
    for (const gateway of [one, other]) {
      expect((await call(gateway, "GET /v1/account", { key })).status).toBe(200);
      expect((await chat(gateway, key)).status).toBe(200);
    }
  };

  test("a key that one has minted works on the other at once", async () => {
    const { key } = await mint();
    expect((await call(other, "GET /v1/account", { key })).status).toBe(200);
    expect((await chat(other, key)).status).toBe(200);
  });

  test("of many that are minted at once on both, only those that still fit are made", async () => {
    const crowded = await registerAccount(one);
    const { db } = one.server;
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
    const answers = await Promise.all(
      Array.from({ length: 16 }, (_, place) =>
        call(place % 2 === 0 ? one : other, "POST /v1/keys", { key: crowded.key, body: {} }),
      ),
    );
    const made = answers.filter(({ status }) => status === 201).length;
    const refused = answers.filter(({ status }) => status === 409).length;
    expect([made, refused]).toEqual([2, 14]);
  });

  test("a key that one has revoked is refused on the very next request on the other, which knew it well", async () => {
    for (let times = 0; times < 8; times++) {
      const { id, key } = await mint();
      await warm(key);
      await call(one, `DELETE /v1/keys/${id}`, { key: account.key });
      // A model call first: it is the one that may take a key from memory.
      expect((await chat(other, key)).status).toBe(401);
      expect((await call(other, "GET /v1/account", { key })).status).toBe(401);
    }
  });

  test("so is an unstreamed, a streamed and a counting call, in the form of its API", async () => {
    const { id, key } = await mint();
    await warm(key);
    await call(one, `DELETE /v1/keys/${id}`, { key: account.key });
    const messages = [{ role: "user", content: "hello" }];
    const body = { model: "sim/echo", max_tokens: 20, messages };
    for (const line of ["POST /v1/messages", "POST /v1/messages/count_tokens"]) {
      const answer = await call(other, line, { key, body });
      expect([line, answer.status, valueAt(answer.body, "type")]).toEqual([line, 401, "error"]);
    }
    expect((await chat(other, key, { stream: true })).status).toBe(401);
    expect((await chat(one, key)).status).toBe(401);
  });

  test("a limit that one has lowered binds the other at once", async () => {
    const { id, key } = await mint();
    await warm(key);
    await call(one, `PATCH /v1/keys/${id}`, { key: account.key, body: { limit_usd: 0 } });
    const refused = await chat(other, key);
    expect([refused.status, valueAt(refused.body, "error.code")]).toEqual([
      403,
      "key_limit_reached",
    ]);
  });

  test("an expiry that one has set to now ends the key on the other", async () => {
    const { id, key } = await mint();
    await warm(key);
    const soon = new Date(Date.now() + 300).toISOString();
    const changed = await call(one, `PATCH /v1/keys/${id}`, {
      key: account.key,
      body: { expires_at: soon },
    });
    expect(changed.status).toBe(200);
    await new Promise((resolve) => setTimeout(resolve, 320));
    expect((await call(other, "GET /v1/account", { key })).status).toBe(401);
    expect((await chat(other, key)).status).toBe(401);
  });

  test("revoked in the middle of many calls on both, no call begins after the answer to the revocation", async () => {
    const { id, key } = await mint();
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
    const callers = [one, other, one, other].map(caller);
    await call(one, `DELETE /v1/keys/${id}`, { key: account.key });
    revokedAt = performance.now();
    await Promise.all(callers);
    expect(late).toEqual([]);
  });
});

describe("last_used_at", () => {
  test("is written within a minute of the use, at the latest when the process ends", async () => {
    const databaseUrl = await testPostgres();
    const env = { POSTERN_SECRET: SECRET };
    const used = await startGateway({ databaseUrl, env });
    const account = await registerAccount(used);
    const before = await call(used, "GET /v1/account", { key: account.key });
    expect(valueAt(before.body, "key.last_used_at")).toBeNull();
    const usedAt = Date.now();
    await chat(used, account.key);
    await used.stop();
    const later = await startGateway({ databaseUrl, env });
    const { body } = await call(later, "GET /v1/account", { key: account.key });
    const shown = Date.parse(textAt(body, "key.last_used_at"));
    expect(Math.abs(shown - usedAt)).toBeLessThan(5 * SECOND_MS);
    expect(shown).toBeLessThan(Date.now() + MINUTE_MS);
    await later.stop();
  });
});
