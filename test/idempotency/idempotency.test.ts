import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { decrypt, deriveKey } from "../../src/base/crypto/encryption.ts";
import { secret } from "../../src/base/crypto/secret.ts";
import { DAY_MS, MINUTE_MS } from "../../src/base/time.ts";
import { createIdempotency } from "../../src/idempotency/idempotency.ts";
import { text } from "../../src/store/db.ts";
import {
  type ApiResponse,
  valueAt,
  call,
  createFakeClock,
  expectError,
  type Json,
  listAt,
  textAt,
} from "../spec/api-client.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

const MASTER = "the master secret of this test gateway";

describe.each(STORE_KINDS)("idempotency keys, on %s", (store) => {
  const clock = createFakeClock();
  let gateway: Gateway;
  let account: TestAccount;
  beforeAll(async () => {
    gateway = await startGateway({
      store,
      now: clock.now,
      env: { POSTERN_SECRET: MASTER, POSTERN_TRUSTED_PROXIES: "127.0.0.1" },
    });
    account = await registerAccount(gateway);
  });
  afterAll(() => gateway.stop());

  /** 32 hexadecimal digits. */
  const newKey = (): string => randomBytes(16).toString("hex");

  const createKey = (
    key: string,
    body: Json = { name: "a" },
    more: Json = {},
  ): Promise<ApiResponse> =>
    call(gateway, "POST /v1/keys", {
      key: account.key,
      body,
      headers: { "idempotency-key": key },
      ...more,
    });
  const open = (key: string, body: Json = {}, address = "192.0.2.1"): Promise<ApiResponse> =>
    call(gateway, "POST /v1/accounts", {
      body,
      headers: { "idempotency-key": key, "x-forwarded-for": address },
    });
  const keysOf = async (): Promise<number> =>
    listAt((await call(gateway, "GET /v1/keys?limit=100", { key: account.key })).body, "data")
      .length;

  const keyId = async (): Promise<string> =>
    textAt((await call(gateway, "GET /v1/account", { key: account.key })).body, "key.id");

  test("the same key and body replay the first response, including the raw key, without effects", async () => {
    const key = newKey();
    const first = await createKey(key);
    const before = await keysOf();
    for (let times = 0; times < 3; times++) {
      const again = await createKey(key);
      expect([again.status, again.text]).toEqual([201, first.text]);
      expect(again.headers.get("idempotent-replayed")).toBe("true");
    }
    expect(first.headers.get("idempotent-replayed")).toBeNull();
    expect(await keysOf()).toBe(before);
  });

  test("a repeated POST /v1/accounts returns the same account and key with one starting credit", async () => {
    const key = newKey();
    const [first, again] = [await open(key), await open(key)];
    expect(again.text).toBe(first.text);
    const read = await call(gateway, "GET /v1/account", { key: textAt(first.body, "api_key") });
    expect(valueAt(read.body, "balance.credits")).toBe(50_000);
  });

  test("every response has its own request id, replayed or not", async () => {
    const key = newKey();
    const [first, again] = [await createKey(key), await createKey(key)];
    expect(again.headers.get("x-request-id")).not.toBe(first.headers.get("x-request-id"));
  });

  test("another body under the same key is a 409, and the first response is kept", async () => {
    const key = newKey();
    const first = await createKey(key, { name: "a" });
    const other = await createKey(key, { name: "b" });
    expectError(other, { status: 409, code: "conflict", param: "idempotency-key" });
    expect(other.headers.get("x-should-retry")).toBe("false");
    const account = await open(key);
    const otherAccount = await open(key, { email: "a@example.org" });
    expectStatus("createAccount", 409, otherAccount);
    expect((await createKey(key, { name: "a" })).text).toBe(first.text);
    expect((await open(key)).text).toBe(account.text);
  });

  test("the same key can be used by another account or endpoint", async () => {
    const key = newKey();
    const mine = await createKey(key);
    const stranger = await registerAccount(gateway);
    const theirs = await createKey(key, { name: "a" }, { key: stranger.key });
    expect(theirs.status).toBe(201);
    expect(theirs.text).not.toBe(mine.text);
    expect((await open(key)).status).toBe(201);
  });

  test("without an API key, the same key from another network creates another account", async () => {
    const key = newKey();
    const [here, there] = [await open(key), await open(key, {}, "198.51.100.1")];
    expect(there.status).toBe(201);
    expect(valueAt(there.body, "account.id")).not.toBe(valueAt(here.body, "account.id"));
    expect(there.headers.get("idempotent-replayed")).toBeNull();
  });

  test("a key is forgotten after 24 hours", async () => {
    const key = newKey();
    const first = await createKey(key);
    clock.advance(DAY_MS - 1);
    expect((await createKey(key)).status).toBe(409);
    clock.advance(1);
    const later = await createKey(key, { name: "another body" });
    expect(later.status).toBe(201);
    expect(later.headers.get("idempotent-replayed")).toBeNull();
    expect(valueAt(later.body, "id")).not.toBe(valueAt(first.body, "id"));
    clock.advance(-DAY_MS);
  });

  test("concurrent duplicates create one object and get one response", async () => {
    for (let rounds = 0; rounds < 5; rounds++) {
      const key = newKey();
      const before = await keysOf();
      const responses = await Promise.all(Array.from({ length: 12 }, () => createKey(key)));
      const succeeded = responses.filter(({ status }) => status === 201);
      // A duplicate of a running request may get a 409, but never creates another key.
      for (const response of responses)
        if (response.status !== 201) expectError(response, { status: 409, code: "conflict" });
      expect(new Set(succeeded.map(({ text }) => text)).size).toBe(1);
      expect(succeeded.filter(({ headers }) => !headers.has("idempotent-replayed")).length).toBe(1);
      expect(await keysOf()).toBe(before + 1);
      await call(gateway, `DELETE /v1/keys/${textAt(succeeded[0]?.body, "id")}`, {
        key: account.key,
      });
    }
  });

  test("concurrent account creations with one key create one account", async () => {
    const key = newKey();
    const responses = await Promise.all(Array.from({ length: 12 }, () => open(key)));
    const succeeded = responses.filter(({ status }) => status === 201);
    expect(new Set(succeeded.map(({ body }) => valueAt(body, "account.id"))).size).toBe(1);
    expect(responses.every(({ status }) => status === 201 || status === 409)).toBe(true);
  });

  test("a rejected request does not use up its key", async () => {
    const key = newKey();
    expect((await createKey(key, { limit_window: "day" })).status).toBe(400);
    expect((await createKey(key, { name: "fixed" })).status).toBe(201);
  });

  test("quotes around a key are ignored", async () => {
    const key = newKey();
    const first = await createKey(key);
    expect((await createKey(`"${key}"`)).text).toBe(first.text);
  });

  test("a secret is shown again for ten minutes, and the request is not repeated after that", async () => {
    const key = newKey();
    const first = await open(key);
    clock.advance(10 * MINUTE_MS - 1);
    expect((await open(key)).text).toBe(first.text);
    clock.advance(1);
    const late = await open(key);
    expectError(late, { status: 409, code: "conflict", param: "idempotency-key" });
    expect(late.text).toContain("is not shown again");
    expect(late.text).not.toContain(textAt(first.body, "api_key"));
  });

  test("a key of a request that reveals a secret must have 128 bits", async () => {
    for (const guessable of ["k", "only-15-letters", "0".repeat(64), "0123456789abcdef".slice(1)]) {
      const opened = await open(guessable);
      expectError(opened, { status: 400, code: "invalid_request", param: "idempotency-key" });
      expect((await createKey(guessable)).status).toBe(400);
    }
    for (const random of [crypto.randomUUID(), newKey(), randomBytes(16).toString("base64url")])
      expect((await open(random)).status).toBe(201);
  });

  test("a key has 1 to 255 printable characters", async () => {
    expectError(await createKey("two words"), {
      status: 400,
      code: "invalid_request",
      param: "idempotency-key",
    });
    const long = newKey().repeat(8);
    expectError(await createKey(long), { status: 400, code: "invalid_request" });
    expect((await createKey(long.slice(1))).status).toBe(201);
    const invoice = { body: { amount_usd: 10 }, headers: { "idempotency-key": "k" } };
    const paid = await call(gateway, "POST /v1/billing/invoice", { key: account.key, ...invoice });
    expect(paid.status).toBe(201);
  });

  test("a revoked API key gets no replayed response", async () => {
    const other = await call(gateway, "POST /v1/keys", { key: account.key, body: {} });
    const raw = textAt(other.body, "api_key");
    const key = newKey();
    expect((await createKey(key, { name: "a" }, { key: raw })).status).toBe(201);
    expect((await createKey(key, { name: "a" }, { key: raw })).status).toBe(201);
    await call(gateway, `DELETE /v1/keys/${textAt(other.body, "id")}`, { key: account.key });
    expect((await createKey(key, { name: "a" }, { key: raw })).status).toBe(401);
  });

  describe("a second API key with the idempotency key and body of the first", () => {
    const both = async (line: string, body: Json): Promise<readonly [ApiResponse, ApiResponse]> => {
      const second = textAt((await createKey(newKey(), { name: "limited" })).body, "api_key");
      const headers = { "idempotency-key": newKey() };
      const first = await call(gateway, line, { key: account.key, body, headers });
      const again = await call(gateway, line, { key: account.key, body, headers });
      expect([again.text, again.headers.get("idempotent-replayed")]).toEqual([first.text, "true"]);
      return [first, await call(gateway, line, { key: second, body, headers })];
    };

    test("does not get the raw key of the first", async () => {
      const [mine, other] = await both("POST /v1/keys", { name: "ci" });
      expect([mine.status, other.status]).toEqual([201, 201]);
      expect(other.headers.get("idempotent-replayed")).toBeNull();
      expect(other.text).not.toContain(textAt(mine.body, "api_key"));
    });

    test("does not get the secret of a created or rotated webhook", async () => {
      const [mine, other] = await both("POST /v1/webhooks", { url: "https://example.com/hook" });
      expect(other.headers.get("idempotent-replayed")).toBeNull();
      expect(other.text).not.toContain(textAt(mine.body, "secret"));
      const [rotated, otherRotated] = await both(
        `POST /v1/webhooks/${textAt(mine.body, "id")}/rotate`,
        {},
      );
      expect(otherRotated.headers.get("idempotent-replayed")).toBeNull();
      expect(otherRotated.text).not.toContain(textAt(rotated.body, "secret"));
    });

    test("makes a request of its own, such as another invoice", async () => {
      const [mine, other] = await both("POST /v1/billing/invoice", { amount_usd: 10 });
      expect(other.status).toBe(201);
      expect(other.headers.get("idempotent-replayed")).toBeNull();
      expect(textAt(other.body, "id")).not.toBe(textAt(mine.body, "id"));
    });
  });

  describe("a crash", () => {
    test("before the commit leaves neither the record nor the key, and a retry creates one", async () => {
      const key = newKey();
      const before = await keysOf();
      const { db } = gateway.server;
      const idempotency = createIdempotency(secret(MASTER));
      const request = {
        accountId: account.id,
        scope: `${await keyId()} createKey`,
        key,
        body: '/v1/keys\n{"name":"a"}',
        now: clock.now(),
      };
      // The process dies after the work and before the commit, so the store rolls back.
      const died = db.write(async (tx) => {
        await idempotency.begin(tx, request);
        await tx.run("update api_key set name = ? where account_id = ?", ["lost", account.id]);
        throw new Error("killed");
      });
      expect(await died.catch((error: Error) => error.message)).toBe("killed");
      const { text } = await call(gateway, "GET /v1/keys?limit=100", { key: account.key });
      expect(text).not.toContain("lost");
      const after = await createKey(key);
      expect(after.status).toBe(201);
      expect(after.headers.get("idempotent-replayed")).toBeNull();
      expect(await keysOf()).toBe(before + 1);
    });

    test("after the commit loses no response: a retry gets it", async () => {
      const key = newKey();
      const lost = await createKey(key);
      expect((await createKey(key)).text).toBe(lost.text);
    });

    test("a request without a stored response counts as running: 409 with retry-after", async () => {
      const key = newKey();
      const idempotency = createIdempotency(secret(MASTER));
      const request = {
        accountId: account.id,
        scope: `${await keyId()} createKey`,
        key,
        body: '/v1/keys\n{"name":"a"}',
        now: clock.now(),
      };
      await gateway.server.db.write((tx) => idempotency.begin(tx, request));
      const response = await createKey(key);
      expectError(response, { status: 409, code: "conflict", param: "idempotency-key" });
      expect(response.headers.get("retry-after")).toBe("1");
    });
  });

  test("raw keys in stored responses are encrypted at rest", async () => {
    const key = newKey();
    const responses = [await createKey(key, { name: "canary" }), await open(key)];
    const raws = responses.map(({ body }) => textAt(body, "api_key"));
    const stored = await readStoreContent(gateway, store);
    expect(stored.includes("canary")).toBe(true);
    for (const raw of raws) {
      expect(stored.includes(raw)).toBe(false);
      expect(stored.includes(raw.slice(12, -4))).toBe(false);
      expect(stored.includes(btoa(raw).slice(4, 40))).toBe(false);
    }
    expect(stored.includes(key)).toBe(false);
  });

  test("a stored response cannot be decrypted with the master secret alone", async () => {
    await createKey(newKey());
    const row = await gateway.server.db.get(
      "select id, sealed from idempotent_answer where status = 201 order by created_at desc limit 1",
    );
    const [id, sealed] = [text(row ?? {}, "id"), text(row ?? {}, "sealed")];
    // The client's idempotency key is the other part, and the store does not have it.
    const masterOnly = deriveKey(secret(MASTER), "idempotent-answer/v1");
    expect(() => decrypt(masterOnly, id, sealed)).toThrow();
  });

  test("a stored response is encrypted", async () => {
    const key = newKey();
    await createKey(key);
    const rows = await gateway.server.db.all(
      "select * from idempotent_answer where status = 201 order by created_at desc",
    );
    expect(rows.length).toBeGreaterThan(0);
    for (const row of rows) expect(String(row["sealed"])).toMatch(/^[A-Za-z0-9+/]+=*$/);
  });

  test("idempotency keys apply to POST only; PATCH and DELETE are idempotent anyway", async () => {
    const { body } = await createKey(newKey());
    const headers = { "idempotency-key": newKey() };
    const id = textAt(body, "id");
    const rename = (name: string): Promise<ApiResponse> =>
      call(gateway, `PATCH /v1/keys/${id}`, { key: account.key, body: { name }, headers });
    expect((await rename("x")).body["name"]).toBe("x");
    expect((await rename("y")).body["name"]).toBe("y");
  });
});

/** The bytes of the database files, or every row of every table. */
async function readStoreContent(gateway: Gateway, store: "sqlite" | "postgres"): Promise<string> {
  if (store === "sqlite") {
    const { dataDir } = gateway.config.store;
    return readdirSync(dataDir)
      .filter((name) => /\.(db|sqlite)/.test(name))
      .map((name) => readFileSync(path.join(dataDir, name), "latin1"))
      .join("\n");
  }
  const { db } = gateway.server;
  const tables = await db.all(
    "select table_name from information_schema.tables where table_schema = 'public'",
  );
  const rows = await Promise.all(
    tables.map(({ table_name: name }) => db.all(`select * from "${String(name)}"`)),
  );
  return JSON.stringify(rows, (_name, value: unknown) =>
    typeof value === "bigint" ? String(value) : value,
  );
}
