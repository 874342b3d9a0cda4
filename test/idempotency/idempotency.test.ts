import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { DAY_MS } from "../../src/base/time.ts";
import { createIdempotency } from "../../src/idempotency/idempotency.ts";
import { secret } from "../../src/base/secret.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
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

const MASTER = "a master secret that only this test knows";

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

  let made = 0;
  const newKey = (): string => `a-random-key-of-the-client-${(made += 1)}`;

  const mint = (key: string, body: Json = { name: "a" }, more: Json = {}): Promise<ApiResponse> =>
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

  test("the same key and body replay the first answer, raw key and all, and make nothing", async () => {
    const key = newKey();
    const first = await mint(key);
    const before = await keysOf();
    for (let times = 0; times < 3; times++) {
      const again = await mint(key);
      expect([again.status, again.text]).toEqual([201, first.text]);
      expect(again.headers.get("idempotent-replayed")).toBe("true");
    }
    expect(first.headers.get("idempotent-replayed")).toBeNull();
    expect(await keysOf()).toBe(before);
  });

  test("a repeated POST /v1/accounts gives the same account and key, and one starting credit", async () => {
    const key = newKey();
    const [first, again] = [await open(key), await open(key)];
    expect(again.text).toBe(first.text);
    const read = await call(gateway, "GET /v1/account", { key: textAt(first.body, "api_key") });
    expect(valueAt(read.body, "balance.credits")).toBe(50_000);
  });

  test("every answer has a request id of its own, replayed or not", async () => {
    const key = newKey();
    const [first, again] = [await mint(key), await mint(key)];
    expect(again.headers.get("x-request-id")).not.toBe(first.headers.get("x-request-id"));
  });

  test("another body under the same key is a 409, and the first answer stays", async () => {
    const key = newKey();
    const first = await mint(key, { name: "a" });
    const other = await mint(key, { name: "b" });
    expectError(other, { status: 409, code: "conflict", param: "idempotency-key" });
    const account = await open(key);
    const otherAccount = await open(key, { email: "a@example.org" });
    expectStatus("createAccount", 409, otherAccount);
    expect((await mint(key, { name: "a" })).text).toBe(first.text);
    expect((await open(key)).text).toBe(account.text);
  });

  test("a key means something to its account alone: another account, or another endpoint, may use the same", async () => {
    const key = newKey();
    const mine = await mint(key);
    const stranger = await registerAccount(gateway);
    const theirs = await mint(key, { name: "a" }, { key: stranger.key });
    expect(theirs.status).toBe(201);
    expect(theirs.text).not.toBe(mine.text);
    expect((await open(key)).status).toBe(201);
  });

  test("without an API key the network stands for the caller: a stranger elsewhere gets an account of their own", async () => {
    const key = newKey();
    const [here, there] = [await open(key), await open(key, {}, "198.51.100.1")];
    expect(there.status).toBe(201);
    expect(valueAt(there.body, "account.id")).not.toBe(valueAt(here.body, "account.id"));
    expect(there.headers.get("idempotent-replayed")).toBeNull();
  });

  test("it is kept for 24 hours, and then the key is new again", async () => {
    const key = newKey();
    const first = await mint(key);
    clock.advance(DAY_MS - 1);
    expect((await mint(key)).text).toBe(first.text);
    clock.advance(1);
    const later = await mint(key, { name: "another body" });
    expect(later.status).toBe(201);
    expect(later.headers.get("idempotent-replayed")).toBeNull();
    expect(valueAt(later.body, "id")).not.toBe(valueAt(first.body, "id"));
    clock.advance(-DAY_MS);
  });

  test("duplicates that arrive at once make one thing, and all get one answer", async () => {
    for (let rounds = 0; rounds < 5; rounds++) {
      const key = newKey();
      const before = await keysOf();
      const answers = await Promise.all(Array.from({ length: 12 }, () => mint(key)));
      const good = answers.filter(({ status }) => status === 201);
      // One that came while the first was running may be told to wait; it never makes another.
      for (const answer of answers)
        if (answer.status !== 201) expectError(answer, { status: 409, code: "conflict" });
      expect(new Set(good.map(({ text }) => text)).size).toBe(1);
      expect(good.filter(({ headers }) => !headers.has("idempotent-replayed")).length).toBe(1);
      expect(await keysOf()).toBe(before + 1);
      await call(gateway, `DELETE /v1/keys/${textAt(good[0]?.body, "id")}`, { key: account.key });
    }
  });

  test("accounts that are opened at once with one key are one account", async () => {
    const key = newKey();
    const answers = await Promise.all(Array.from({ length: 12 }, () => open(key)));
    const good = answers.filter(({ status }) => status === 201);
    expect(new Set(good.map(({ body }) => valueAt(body, "account.id"))).size).toBe(1);
    expect(answers.every(({ status }) => status === 201 || status === 409)).toBe(true);
  });

  test("a refused request leaves its key free", async () => {
    const key = newKey();
    expect((await mint(key, { limit_window: "day" })).status).toBe(400);
    expect((await mint(key, { name: "mended" })).status).toBe(201);
  });

  test("a quoted key and the bare one are the same", async () => {
    const key = newKey();
    const first = await mint(key);
    expect((await mint(`"${key}"`)).text).toBe(first.text);
  });

  test("a key is 1 to 255 printable characters, and at least 16 where no API key says who calls", async () => {
    expectError(await mint("two words"), {
      status: 400,
      code: "invalid_request",
      param: "idempotency-key",
    });
    expectError(await mint("k".repeat(256)), { status: 400, code: "invalid_request" });
    expect((await mint("k".repeat(255))).status).toBe(201);
    expect((await mint("k")).status).toBe(201);
    const guessable = await open("only-15-letters");
    expectError(guessable, { status: 400, code: "invalid_request", param: "idempotency-key" });
    expect((await open("exactly-16-chars")).status).toBe(201);
  });

  test("a revoked API key gets no replay", async () => {
    const other = await call(gateway, "POST /v1/keys", { key: account.key, body: {} });
    const raw = textAt(other.body, "api_key");
    const key = newKey();
    expect((await mint(key, { name: "a" }, { key: raw })).status).toBe(201);
    expect((await mint(key, { name: "a" }, { key: raw })).status).toBe(201);
    await call(gateway, `DELETE /v1/keys/${textAt(other.body, "id")}`, { key: account.key });
    expect((await mint(key, { name: "a" }, { key: raw })).status).toBe(401);
  });

  describe("a second key of the account, with the first one's idempotency key and body", () => {
    const both = async (line: string, body: Json): Promise<readonly [ApiResponse, ApiResponse]> => {
      const second = textAt((await mint(newKey(), { name: "limited" })).body, "api_key");
      const headers = { "idempotency-key": newKey() };
      const first = await call(gateway, line, { key: account.key, body, headers });
      const again = await call(gateway, line, { key: account.key, body, headers });
      expect([again.text, again.headers.get("idempotent-replayed")]).toEqual([first.text, "true"]);
      return [first, await call(gateway, line, { key: second, body, headers })];
    };

    test("gets no raw key that the first one was given", async () => {
      const [mine, other] = await both("POST /v1/keys", { name: "ci" });
      expect([mine.status, other.status]).toEqual([201, 201]);
      expect(other.headers.get("idempotent-replayed")).toBeNull();
      expect(other.text).not.toContain(textAt(mine.body, "api_key"));
    });

    test("gets no webhook's secret, neither a new one nor a replaced one", async () => {
      const [mine, other] = await both("POST /v1/webhooks", { url: "https://example.com/hook" });
      expect(other.headers.get("idempotent-replayed")).toBeNull();
      expect(other.text).not.toContain(textAt(mine.body, "secret"));
      const [rotated, otherwise] = await both(
        `POST /v1/webhooks/${textAt(mine.body, "id")}/rotate`,
        {},
      );
      expect(otherwise.headers.get("idempotent-replayed")).toBeNull();
      expect(otherwise.text).not.toContain(textAt(rotated.body, "secret"));
    });

    test("gets the first answer where it holds no secret: the account has one invoice", async () => {
      const [mine, other] = await both("POST /v1/billing/invoice", { amount_usd: 10 });
      expect([other.status, other.text]).toEqual([201, mine.text]);
      expect(other.headers.get("idempotent-replayed")).toBe("true");
    });
  });

  test("every route whose answer shows a secret once says so, and those alone", () => {
    const secretive = gateway.server.routes.filter(
      ({ auth, method, responses }) =>
        auth === "key" &&
        method === "POST" &&
        /"api_key":|"secret":|token=/.test(JSON.stringify(Object.values(responses))),
    );
    const ids = (routes: typeof secretive): readonly string[] => routes.map(({ id }) => id).sort();
    expect(ids(gateway.server.routes.filter((route) => route.revealsSecret === true))).toEqual(
      ids(secretive),
    );
    expect(ids(secretive)).toEqual(["addWebhook", "mintKey", "rotateWebhookSecret", "startClaim"]);
  });

  describe("a crash in between", () => {
    test("leaves both the record and the key, or neither: the same request then makes one thing", async () => {
      const key = newKey();
      const before = await keysOf();
      const { db } = gateway.server;
      const idempotency = createIdempotency(secret(MASTER));
      const request = {
        scope: `${account.id} ${await keyId()} mintKey`,
        key,
        body: '/v1/keys\n{"name":"a"}',
        now: clock.now(),
      };
      // The process dies after the work and before the commit: the store throws the transaction away.
      const died = db.write(async (tx) => {
        await idempotency.begin(tx, request);
        await tx.run("update api_key set name = ? where account_id = ?", ["lost", account.id]);
        throw new Error("killed");
      });
      expect(await died.catch((error: Error) => error.message)).toBe("killed");
      const { text } = await call(gateway, "GET /v1/keys?limit=100", { key: account.key });
      expect(text).not.toContain("lost");
      const after = await mint(key);
      expect(after.status).toBe(201);
      expect(after.headers.get("idempotent-replayed")).toBeNull();
      expect(await keysOf()).toBe(before + 1);
    });

    test("after the commit and before the answer: the repeated request gets the answer that was lost", async () => {
      const key = newKey();
      const lost = await mint(key);
      expect((await mint(key)).text).toBe(lost.text);
    });

    test("a request whose answer was never stored is still running, for another process too: 409, and retry-after", async () => {
      const key = newKey();
      const idempotency = createIdempotency(secret(MASTER));
      const request = {
        scope: `${account.id} ${await keyId()} mintKey`,
        key,
        body: '/v1/keys\n{"name":"a"}',
        now: clock.now(),
      };
      await gateway.server.db.write((tx) => idempotency.begin(tx, request));
      const answer = await mint(key);
      expectError(answer, { status: 409, code: "conflict", param: "idempotency-key" });
      expect(answer.headers.get("retry-after")).toBe("1");
    });
  });

  test("raw keys in stored answers are sealed at rest: nothing in the store holds the canary", async () => {
    const key = newKey();
    const answers = [await mint(key, { name: "canary" }), await open(key)];
    const raws = answers.map(({ body }) => textAt(body, "api_key"));
    const stored = await everythingIn(gateway, store);
    expect(stored.includes("canary")).toBe(true);
    for (const raw of raws) {
      expect(stored.includes(raw)).toBe(false);
      expect(stored.includes(raw.slice(12, -4))).toBe(false);
      expect(stored.includes(btoa(raw).slice(4, 40))).toBe(false);
    }
    expect(stored.includes(key)).toBe(false);
  });

  test("a stored answer opens under the client's own key alone", async () => {
    const key = newKey();
    await mint(key);
    const rows = await gateway.server.db.all(
      "select * from idempotent_answer where status = 201 order by created_at desc",
    );
    expect(rows.length).toBeGreaterThan(0);
    for (const row of rows) expect(String(row["sealed"])).toMatch(/^[A-Za-z0-9+/]+=*$/);
  });

  test("idempotency keys are for POST: PATCH and DELETE are the same when repeated anyway", async () => {
    const { body } = await mint(newKey());
    const headers = { "idempotency-key": newKey() };
    const id = textAt(body, "id");
    const rename = (name: string): Promise<ApiResponse> =>
      call(gateway, `PATCH /v1/keys/${id}`, { key: account.key, body: { name }, headers });
    expect((await rename("x")).body["name"]).toBe("x");
    expect((await rename("y")).body["name"]).toBe("y");
  });
});

/** The very bytes of the database's files, or every row of every table. */
async function everythingIn(gateway: Gateway, store: "sqlite" | "postgres"): Promise<string> {
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
