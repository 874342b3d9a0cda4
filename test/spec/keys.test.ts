import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from "../../src/base/time.ts";
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
  chat,
  createFakeClock,
  expectError,
  type Json,
  listAt,
  textAt,
} from "./api-client.ts";

/** A Wednesday in the middle of its week and month. */
const START = Date.UTC(2026, 10, 18, 9, 30);
/** A call that costs $0.0001 and is held at slightly more. */
const EXPENSIVE_CALL: Json = { messages: [{ role: "user", content: "[[sim: tokens=50]] hello" }] };
const FIELDS = [
  "id",
  "object",
  "name",
  "prefix",
  "last4",
  "created_at",
  "last_used_at",
  "expires_at",
  "revoked_at",
  "limit_usd",
  "limit_window",
  "spent_usd",
  "scopes",
  "allowed_models",
  "allowed_providers",
  "allowed_endpoints",
  "allowed_mcp_servers",
  "requests_per_minute",
  "tokens_per_minute",
  "max_concurrent_calls",
  "max_price_per_million_usd",
  "session_limit_usd",
  "session",
  "data_policy",
  "receipts",
  "cache_ttl",
  "prompt_logging",
  "alert_percents",
  "created_by",
  "derived_from",
  "credential",
  "former_secret",
];

describe.each(STORE_KINDS)("API keys on %s", (store) => {
  const clock = createFakeClock(START);
  let gateway: Gateway;
  let account: TestAccount;
  let otherAccount: TestAccount;
  beforeAll(async () => {
    gateway = await startGateway({ store, now: clock.now });
    [account, otherAccount] = [await registerAccount(gateway), await registerAccount(gateway)];
  });
  afterAll(() => gateway.stop());

  interface Minted {
    readonly id: string;
    readonly key: string;
    readonly body: Json;
  }

  async function mint(settings: Json = {}, key = account.key): Promise<Minted> {
    const response = await call(gateway, "POST /v1/keys", { key, body: settings });
    expect({ status: response.status, text: response.status === 201 ? "" : response.text }).toEqual(
      {
        status: 201,
        text: "",
      },
    );
    return {
      id: textAt(response.body, "id"),
      key: textAt(response.body, "api_key"),
      body: response.body,
    };
  }

  const change = (id: string, body: unknown, key = account.key): Promise<ApiResponse> =>
    call(gateway, `PATCH /v1/keys/${id}`, { key, body });
  const revoke = (id: string, key = account.key): Promise<ApiResponse> =>
    call(gateway, `DELETE /v1/keys/${id}`, { key });
  const works = async (key: string): Promise<number> =>
    (await call(gateway, "GET /v1/account", { key })).status;

  describe("POST /v1/keys", () => {
    test("creates a key of the same account that works immediately", async () => {
      const response = await call(gateway, "POST /v1/keys", { key: account.key, body: {} });
      expectStatus("createKey", 201, response);
      const read = await call(gateway, "GET /v1/account", {
        key: textAt(response.body, "api_key"),
      });
      expect(valueAt(read.body, "account.id")).toBe(account.id);
    });

    test("returns the record and the raw key", async () => {
      const { key, body } = await mint({ name: "ci" });
      expect(Object.keys(body)).toEqual([...FIELDS, "api_key"]);
      expect(key).toMatch(/^pst-rt-[0-9A-Za-z]{49}$/);
      expect(body).toMatchObject({
        object: "api_key",
        name: "ci",
        prefix: key.slice(0, 12),
        last4: key.slice(-4),
        created_at: new Date(START).toISOString(),
        last_used_at: null,
        revoked_at: null,
      });
      expect(textAt(body, "id")).toMatch(/^key_[0-9a-z]{26}$/);
    });

    test("does not return the raw key again", async () => {
      const { id, key } = await mint({ name: "once" });
      const secret = key.slice(12, -4);
      for (const line of ["GET /v1/keys?limit=100", `GET /v1/keys/${id}`, "GET /v1/account"])
        expect((await call(gateway, line, { key })).text).not.toContain(secret);
      expect((await change(id, { name: "again" })).text).not.toContain(secret);
      expect((await revoke(id)).text).not.toContain(secret);
    });

    test("returns unique keys", async () => {
      const owner = await registerAccount(gateway);
      const keys = await Promise.all(Array.from({ length: 200 }, () => mint({}, owner.key)));
      expect(new Set(keys.map(({ key }) => key)).size).toBe(200);
      expect(new Set(keys.map(({ id }) => id)).size).toBe(200);
    });

    test("accepts name, expires_at, limit_usd and limit_window", async () => {
      const settings = {
        name: "everything",
        expires_at: "2027-01-31T00:00:00Z",
        limit_usd: 2.5,
        limit_window: "month",
      };
      const { body } = await mint(settings);
      expect(body).toMatchObject({ ...settings, expires_at: "2027-01-31T00:00:00.000Z" });
    });

    test("accepts limit_usd as number or string with nine decimals", async () => {
      for (const [limit, shown] of [
        [0, 0],
        ["0.000000001", 1e-9],
        [1e-7, 1e-7],
        ["10", 10],
        [9_000_000, 9_000_000],
      ])
        expect((await mint({ limit_usd: limit })).body["limit_usd"]).toBe(shown);
    });

    const REJECTED: readonly (readonly [string, unknown, string | null])[] = [
      ["a negative limit", { limit_usd: -1 }, "limit_usd"],
      ["a limit above the maximum", { limit_usd: 9_000_001 }, "limit_usd"],
      ["a limit of 1e300", { limit_usd: 1e300 }, "limit_usd"],
      ["a limit with ten decimals", { limit_usd: "0.0000000001" }, "limit_usd"],
      ["a number with ten decimals", { limit_usd: 1.5e-9 }, "limit_usd"],
      ["a limit of 1e-10", { limit_usd: 1e-10 }, "limit_usd"],
      ["a limit in words", { limit_usd: "ten" }, "limit_usd"],
      ["an empty limit", { limit_usd: "" }, "limit_usd"],
      ["a string limit with an exponent", { limit_usd: "1e3" }, "limit_usd"],
      ["a limit that is true", { limit_usd: true }, "limit_usd"],
      ["a limit that is an array", { limit_usd: [1] }, "limit_usd"],
      ["a window without a limit", { limit_window: "day" }, "limit_window"],
      ["an unknown window", { limit_usd: 1, limit_window: "hour" }, "limit_window"],
      ["an expiry in the past", { expires_at: "2020-01-01T00:00:00Z" }, "expires_at"],
      ["an expiry that is now", { expires_at: new Date(START).toISOString() }, "expires_at"],
      ["an expiry without a zone", { expires_at: "2027-01-31T00:00:00" }, "expires_at"],
      ["an expiry that is a date", { expires_at: "2027-01-31" }, "expires_at"],
      ["an expiry on an invalid day", { expires_at: "2027-02-30T00:00:00Z" }, "expires_at"],
      ["an expiry that is a number", { expires_at: 1_800_000_000 }, "expires_at"],
      ["an empty name", { name: "" }, "name"],
      ["a blank name", { name: " \t " }, "name"],
      ["a name of 101 characters", { name: "n".repeat(101) }, "name"],
      ["a name that is a number", { name: 7 }, "name"],
      ["a name with a NUL", { name: "a\u0000b" }, "name"],
      ["a name of two lines", { name: "a\nb" }, "name"],
      ["a name with a terminal escape", { name: "a\u001b[2Kb" }, "name"],
      ["a name with a right-to-left override", { name: "a\u202eb" }, "name"],
      ["a name with a direction isolate", { name: "a\u2067b" }, "name"],
      ["a name with an Arabic letter mark", { name: "a\u061cb" }, "name"],
      ["account_id", { account_id: "acct_x" }, "account_id"],
      ["a read-only field", { spent_usd: 0 }, "spent_usd"],
      ["__proto__", JSON.parse('{"__proto__":{"name":"x"}}'), "__proto__"],
      ["an array", [], null],
    ];
    test.each(REJECTED)("rejects %s and names the field", async (_name, body, param) => {
      expectError(await call(gateway, "POST /v1/keys", { key: account.key, body }), {
        status: 400,
        code: "invalid_request",
        param,
      });
      const { id } = await mint({ name: "victim" });
      const changed = await change(id, body);
      expectError(changed, { status: 400, code: "invalid_request", param });
      expectStatus("changeKey", 400, changed);
    });

    test("accepts any text as name", async () => {
      for (const name of ["ключ", "🔑", "'; drop table api_key; --", '"quoted"']) {
        const { id } = await mint({ name });
        const read = await call(gateway, `GET /v1/keys/${id}`, { key: account.key });
        expect(read.body["name"]).toBe(name.trim());
      }
      const half = await call(gateway, "POST /v1/keys", {
        key: account.key,
        raw: '{"name":"\\ud83d"}',
      });
      expect([201, 400]).toContain(half.status);
    });

    test("returns 409 above 1000 active keys", async () => {
      const owner = await registerAccount(gateway);
      await gateway.server.db.write((tx) =>
        tx.insertMany(
          "api_key",
          [
            "id:text",
            "account_id:text",
            "hash:text",
            "prefix:text",
            "last4:text",
            "created_at:bigint",
          ],
          Array.from({ length: 998 }, (_, place) => [
            `key_${String(place).padStart(5, "0")}${owner.id.slice(-21)}`,
            owner.id,
            `not a hash ${owner.id} ${place}`,
            "pst-rt-00000",
            "0000",
            START,
          ]),
        ),
      );
      const last = await mint({ name: "the thousandth" }, owner.key);
      const over = await call(gateway, "POST /v1/keys", { key: owner.key, body: {} });
      expectError(over, { status: 409, code: "conflict" });
      expectStatus("createKey", 409, over);
      await revoke(last.id, owner.key);
      await mint({}, owner.key);
    });
  });

  describe("GET /v1/keys", () => {
    test("lists keys, newest first, including revoked ones", async () => {
      const owner = await registerAccount(gateway);
      clock.advance(1);
      const second = await mint({ name: "second" }, owner.key);
      clock.advance(1);
      const third = await mint({ name: "third" }, owner.key);
      await revoke(second.id, owner.key);
      const response = await call(gateway, "GET /v1/keys", { key: owner.key });
      expectStatus("listKeys", 200, response);
      expect(response.body).toMatchObject({ object: "list", has_more: false, next_cursor: null });
      const keys = listAt(response.body, "data");
      expect(keys.map(({ name }) => name)).toEqual(["third", "second", null]);
      expect(keys[0]?.["id"]).toBe(third.id);
      expect(keys[1]?.["revoked_at"]).not.toBeNull();
      for (const key of keys) expect(Object.keys(key)).toEqual(FIELDS);
    });

    test("does not list keys of other accounts", async () => {
      const { text } = await call(gateway, "GET /v1/keys?limit=100", { key: otherAccount.key });
      for (const key of listAt(JSON.parse(text), "data"))
        expect(key["prefix"]).toBe(otherAccount.key.slice(0, 12));
    });
  });

  describe("GET /v1/keys/{id}", () => {
    test("returns a key", async () => {
      const { id, body } = await mint({ name: "one" });
      const response = await call(gateway, `GET /v1/keys/${id}`, { key: account.key });
      expectStatus("getKey", 200, response);
      const { api_key: _raw, ...record } = body;
      expect(response.body).toEqual(record);
    });

    test("returns the same 404 for a key of another account as for an unknown one", async () => {
      const { id } = await mint({}, otherAccount.key);
      const theirs = await call(gateway, `GET /v1/keys/${id}`, { key: account.key });
      const nobodys = await call(gateway, `GET /v1/keys/${id.slice(0, -4)}0000`, {
        key: account.key,
      });
      expectError(theirs, { status: 404, code: "not_found", param: "id" });
      expectStatus("getKey", 404, theirs);
      expect(valueAt(theirs.body, "error.message")).toBe(valueAt(nobodys.body, "error.message"));
      expect(valueAt(theirs.body, "error.next.0.url")).toBe("/v1/keys");
    });

    test("returns 404 for a malformed id, and 400 with a NUL", async () => {
      for (const id of [
        "x",
        "key_",
        "%20",
        "..%2f..",
        "'%20or%201=1",
        "%f0%9f%94%91",
        "null",
        "%ff",
      ])
        expectError(await call(gateway, `GET /v1/keys/${id}`, { key: account.key }), {
          status: 404,
          code: "not_found",
        });
      const nul = await call(gateway, "GET /v1/keys/key_%00", { key: account.key });
      expectError(nul, { status: 400, code: "invalid_request" });
      expectStatus("getKey", 400, nul);
      expectStatus(
        "revokeKey",
        400,
        await call(gateway, "DELETE /v1/keys/key_%00", { key: account.key }),
      );
    });
  });

  describe("PATCH /v1/keys/{id}", () => {
    test("renames a key and changes nothing else", async () => {
      const { id, body } = await mint({ name: "old", limit_usd: 3, limit_window: "day" });
      const response = await change(id, { name: "new" });
      expectStatus("changeKey", 200, response);
      const { api_key: _raw, ...record } = body;
      expect(response.body).toEqual({ ...record, name: "new" });
    });

    test("does not affect calls with the renamed key", async () => {
      const { id, key } = await mint({ name: "old" });
      await change(id, { name: "new" });
      expect(await works(key)).toBe(200);
    });

    test("removes settings with null", async () => {
      const { id } = await mint({
        name: "full",
        expires_at: "2027-01-31T00:00:00Z",
        limit_usd: 1,
        limit_window: "week",
      });
      expect((await change(id, { limit_window: null })).body).toMatchObject({
        limit_usd: 1,
        limit_window: null,
      });
      expect(
        (await change(id, { name: null, expires_at: null, limit_usd: null })).body,
      ).toMatchObject({ name: null, expires_at: null, limit_usd: null, limit_window: null });
    });

    test("removes the window with the limit, and rejects a window alone", async () => {
      const { id } = await mint({ limit_usd: 1, limit_window: "week" });
      expect((await change(id, { limit_usd: null })).body["limit_window"]).toBeNull();
      expectError(await change(id, { limit_window: "day" }), {
        status: 400,
        code: "invalid_request",
        param: "limit_window",
      });
      expectError(await change(id, { limit_usd: null, limit_window: "day" }), {
        status: 400,
        code: "invalid_request",
        param: "limit_window",
      });
    });

    test("accepts an empty change", async () => {
      const { id, body } = await mint({ name: "same", limit_usd: 1 });
      const { api_key: _raw, ...record } = body;
      expect((await change(id, {})).body).toEqual(record);
    });

    test("lets a key lower its own limit, which applies immediately", async () => {
      const { id, key } = await mint();
      expect((await change(id, { limit_usd: 0 }, key)).status).toBe(200);
      expectError(await chat(gateway, key), { status: 403, code: "key_limit_reached" });
    });

    test("changes and revokes the calling key under the id self", async () => {
      const { id, key } = await mint({ name: "old" });
      expect((await change("self", { name: "new" }, key)).body).toMatchObject({ id, name: "new" });
      const revoked = await call(gateway, "DELETE /v1/keys/self", { key });
      expect(revoked.body).toMatchObject({ id, revoked_at: expect.any(String) });
      expect(await works(key)).toBe(401);
      expect(await works(account.key)).toBe(200);
    });

    test("returns 409 for a revoked key", async () => {
      const { id } = await mint();
      await revoke(id);
      const response = await change(id, { name: "too late" });
      expectError(response, { status: 409, code: "conflict" });
      expectStatus("changeKey", 409, response);
    });

    test("returns 404 for a key of another account", async () => {
      const { id } = await mint({ name: "theirs" }, otherAccount.key);
      const response = await change(id, { name: "mine" });
      expectError(response, { status: 404, code: "not_found" });
      expectStatus("changeKey", 404, response);
      const read = await call(gateway, `GET /v1/keys/${id}`, { key: otherAccount.key });
      expect(read.body["name"]).toBe("theirs");
    });
  });

  describe("POST /v1/keys/{id}/rotate", () => {
    const rotate = (id: string, body: Json = {}, key = account.key): Promise<ApiResponse> =>
      call(gateway, `POST /v1/keys/${id}/rotate`, { key, body });

    test("replaces the secret and keeps the id, the settings and the spend", async () => {
      const settings = { name: "ci", limit_usd: 2, scopes: ["models:write", "usage:read"] };
      const minted = await mint({ ...settings, allowed_models: ["sim/*", "*/*"] });
      expect((await chat(gateway, minted.key, EXPENSIVE_CALL)).status).toBe(200);
      const before = await call(gateway, `GET /v1/keys/${minted.id}`, { key: account.key });
      expect(valueAt(before.body, "spent_usd")).toBeGreaterThan(0);
      const response = await rotate(minted.id, { overlap_seconds: 3600 });
      expectStatus("rotateKey", 200, response);
      const raw = textAt(response.body, "api_key");
      expect(raw).not.toBe(minted.key);
      const { last_used_at: _used, ...kept } = before.body;
      expect(response.body).toMatchObject({
        ...kept,
        prefix: raw.slice(0, 12),
        last4: raw.slice(-4),
        former_secret: {
          last4: minted.key.slice(-4),
          expires_at: new Date(clock.now() + HOUR_MS).toISOString(),
          last_used_at: null,
        },
      });
      expect((await chat(gateway, raw)).status).toBe(200);
    });

    test("accepts both secrets during the overlap, then rejects the former one with the reason", async () => {
      const { id, key } = await mint();
      const raw = textAt((await rotate(id, { overlap_seconds: 60 })).body, "api_key");
      clock.advance(MINUTE_MS - 1);
      expect([await works(key), await works(raw)]).toEqual([200, 200]);
      expect([(await chat(gateway, key)).status, (await chat(gateway, raw)).status]).toEqual([
        200, 200,
      ]);
      clock.advance(1);
      const rejected = await chat(gateway, key);
      expectError(rejected, { status: 401, code: "invalid_api_key" });
      expect(rejected.text).toContain("The API key was rotated");
      expect([await works(key), await works(raw)]).toEqual([401, 200]);
      clock.advance(-MINUTE_MS);
    });

    test("shares one limit between both secrets", async () => {
      const owner = await registerAccount(gateway);
      const { id, key } = await mint({ limit_usd: 0.0005 }, owner.key);
      const rotated = await rotate(id, {}, owner.key);
      const secrets = [key, textAt(rotated.body, "api_key")] as const;
      for (let calls = 0; calls < 60; calls++) {
        const reply = await chat(gateway, secrets[calls % 2] ?? "", EXPENSIVE_CALL);
        if (reply.status === 403) break;
      }
      for (const each of secrets)
        expectError(await chat(gateway, each, EXPENSIVE_CALL), {
          status: 403,
          code: "key_limit_reached",
        });
      const { body } = await call(gateway, `GET /v1/keys/${id}`, { key: owner.key });
      expect(Number(body["spent_usd"])).toBeLessThanOrEqual(0.0005);
    });

    test("rejects the former secret on request", async () => {
      const { id, key } = await mint();
      const raw = textAt((await rotate(id)).body, "api_key");
      expect(await works(key)).toBe(200);
      const ended = await change(id, { former_secret: null });
      expect(ended.body["former_secret"]).toBeNull();
      expect([await works(key), await works(raw)]).toEqual([401, 200]);
    });

    test("rejects the former secret at once without an overlap, and the oldest after two rotations", async () => {
      const first = await mint();
      expect((await chat(gateway, first.key)).status).toBe(200);
      const second = textAt((await rotate(first.id, { overlap_seconds: 0 })).body, "api_key");
      expect((await chat(gateway, first.key)).status).toBe(401);
      expect((await chat(gateway, second)).status).toBe(200);
      const third = textAt((await rotate(first.id)).body, "api_key");
      const fourth = textAt((await rotate(first.id)).body, "api_key");
      expect([await works(second), await works(third), await works(fourth)]).toEqual([
        401, 200, 200,
      ]);
    });

    test("lets a limited key rotate itself with an overlap, and a repetition shows the same secret", async () => {
      const { id, key } = await mint({ limit_usd: 1 });
      const short = await rotate(id, { overlap_seconds: 0 }, key);
      expectError(short, { status: 400, code: "invalid_request", param: "overlap_seconds" });
      const request = {
        key,
        body: { overlap_seconds: 600 },
        headers: { "idempotency-key": crypto.randomUUID() },
      };
      const rotated = await call(gateway, "POST /v1/keys/self/rotate", request);
      expect(rotated.body["id"]).toBe(id);
      const repeated = await call(gateway, "POST /v1/keys/self/rotate", request);
      expect(repeated.body).toEqual(rotated.body);
      expect(await works(textAt(rotated.body, "api_key"))).toBe(200);
    });

    test("does not let a limited key rotate a key that it did not create", async () => {
      const [limited, other] = [await mint({ limit_usd: 1 }), await mint()];
      const refused = await rotate(other.id, {}, limited.key);
      expectError(refused, { status: 403, code: "forbidden" });
      expectStatus("rotateKey", 403, refused);
      const foreign = await rotate(other.id, {}, otherAccount.key);
      expectError(foreign, { status: 404, code: "not_found" });
      expectStatus("rotateKey", 404, foreign);
      expect(await works(other.key)).toBe(200);
    });

    test("refuses to rotate a revoked key", async () => {
      const { id } = await mint();
      await revoke(id);
      const refused = await rotate(id);
      expectError(refused, { status: 409, code: "conflict" });
      expectStatus("rotateKey", 409, refused);
    });
  });

  describe("DELETE /v1/keys/{id}", () => {
    test("revokes a key and returns its record with revoked_at", async () => {
      const { id, body } = await mint({ name: "gone" });
      const response = await revoke(id);
      expectStatus("revokeKey", 200, response);
      const { api_key: _raw, ...record } = body;
      expect(response.body).toEqual({ ...record, revoked_at: new Date(clock.now()).toISOString() });
    });

    test("rejects the next request with a revoked key", async () => {
      for (let times = 0; times < 10; times++) {
        const { id, key } = await mint();
        expect(await works(key)).toBe(200);
        expect((await chat(gateway, key)).status).toBe(200);
        await revoke(id);
        const [read, model] = [await works(key), (await chat(gateway, key)).status];
        expect([read, model]).toEqual([401, 401]);
      }
    });

    test("returns the same record when repeated", async () => {
      const { id } = await mint();
      const first = await revoke(id);
      clock.advance(HOUR_MS);
      const again = await revoke(id);
      clock.advance(-HOUR_MS);
      expect(again.status).toBe(200);
      expect(again.body).toEqual(first.body);
    });

    test("lets a key revoke itself once", async () => {
      const { id, key } = await mint();
      expect((await revoke(id, key)).status).toBe(200);
      expectError(await revoke(id, key), { status: 401, code: "invalid_api_key" });
    });

    test("revokes the last active key with a warning", async () => {
      const owner = await registerAccount(gateway);
      const [first] = listAt(
        (await call(gateway, "GET /v1/keys", { key: owner.key })).body,
        "data",
      );
      const second = await mint({}, owner.key);
      const early = await revoke(textAt(first, "id"), second.key);
      expect(early.headers.get("x-postern-warning")).toBeNull();
      const last = await revoke(second.id, second.key);
      expect(last.status).toBe(200);
      expect(last.headers.get("x-postern-warning")).toContain("no live key");
      expect(textAt(last.body, "warning")).toContain("its balance is out of reach");
      expect([await works(owner.key), await works(second.key)]).toEqual([401, 401]);
    });

    test("returns 404 for a key of another account", async () => {
      const { id, key } = await mint({}, otherAccount.key);
      const response = await revoke(id);
      expectError(response, { status: 404, code: "not_found" });
      expectStatus("revokeKey", 404, response);
      expect(await works(key)).toBe(200);
    });
  });

  describe("expiry", () => {
    test("rejects a key from expires_at on", async () => {
      const { key } = await mint({ expires_at: new Date(clock.now() + MINUTE_MS).toISOString() });
      clock.advance(MINUTE_MS - 1);
      expect([await works(key), (await chat(gateway, key)).status]).toEqual([200, 200]);
      clock.advance(1);
      expect([await works(key), (await chat(gateway, key)).status]).toEqual([401, 401]);
      clock.advance(-MINUTE_MS);
    });

    test("accepts timestamps of any time zone", async () => {
      const { body } = await mint({ expires_at: "2027-01-31T02:00:00+02:00" });
      expect(body["expires_at"]).toBe("2027-01-31T00:00:00.000Z");
    });

    test("reactivates an expired key with a later expires_at or none", async () => {
      const { id, key } = await mint({
        expires_at: new Date(clock.now() + SECOND_MS).toISOString(),
      });
      clock.advance(2 * SECOND_MS);
      expect(await works(key)).toBe(401);
      expect((await change(id, { expires_at: null })).status).toBe(200);
      expect(await works(key)).toBe(200);
      clock.advance(-2 * SECOND_MS);
    });
  });

  describe("limits", () => {
    test("stop a key at limit_usd, but not other keys of the account", async () => {
      const owner = await registerAccount(gateway);
      const { id, key } = await mint({ limit_usd: 0.0005 }, owner.key);
      let refused: ApiResponse | undefined;
      for (let calls = 0; calls < 60 && refused === undefined; calls++) {
        const reply = await chat(gateway, key, EXPENSIVE_CALL);
        if (reply.status !== 200) refused = reply;
      }
      expectError(refused ?? (await chat(gateway, key, EXPENSIVE_CALL)), {
        status: 403,
        code: "key_limit_reached",
      });
      const { body } = await call(gateway, `GET /v1/keys/${id}`, { key: owner.key });
      const spent = Number(body["spent_usd"]);
      expect(spent).toBeGreaterThan(0);
      expect(spent).toBeLessThanOrEqual(0.0005);
      expect((await chat(gateway, owner.key)).status).toBe(200);
    });

    test("compare with spent_usd, the sum of the key's calls", async () => {
      const { id, key } = await mint({ limit_usd: 1 });
      let sum = 0;
      for (const text of ["one", "two words", "three words here"]) {
        const reply = await chat(gateway, key, { messages: [{ role: "user", content: text }] });
        sum += Math.round(Number(reply.headers.get("x-postern-cost-usd")) * 1e9);
      }
      const { body } = await call(gateway, `GET /v1/keys/${id}`, { key: account.key });
      expect(Math.round(Number(body["spent_usd"]) * 1e9)).toBe(sum);
    });

    const WINDOWS = [
      ["day", DAY_MS, "2026-11-19T00:00:00Z"],
      ["week", 7 * DAY_MS, "2026-11-23T00:00:00Z"],
      ["month", 13 * DAY_MS, "2026-12-01T00:00:00Z"],
    ] as const;
    test.each(WINDOWS)(
      "a limit by the %s opens again when the next one begins, in UTC",
      async (window, _length, next) => {
        const owner = await registerAccount(gateway);
        const { id, key } = await mint({ limit_usd: 0.0005, limit_window: window }, owner.key);
        for (let calls = 0; calls < 60; calls++)
          if ((await chat(gateway, key, EXPENSIVE_CALL)).status === 403) break;
        const until = Date.parse(next) - clock.now();
        clock.advance(until - 1);
        expect((await chat(gateway, key, EXPENSIVE_CALL)).status).toBe(403);
        clock.advance(1);
        const { body } = await call(gateway, `GET /v1/keys/${id}`, { key: owner.key });
        expect(body["spent_usd"]).toBe(0);
        expect((await chat(gateway, key, EXPENSIVE_CALL)).status).toBe(200);
        clock.advance(-until);
      },
    );

    test("count earlier spending after a change of the window", async () => {
      const { id, key } = await mint({ limit_usd: 1, limit_window: "day" });
      await chat(gateway, key);
      const byDay = (await call(gateway, `GET /v1/keys/${id}`, { key })).body["spent_usd"];
      expect(Number(byDay)).toBeGreaterThan(0);
      expect((await change(id, { limit_window: "month" })).body["spent_usd"]).toBe(byDay);
      expect((await change(id, { limit_window: null })).body["spent_usd"]).toBe(byDay);
    });

    test("apply immediately when raised", async () => {
      const { id, key } = await mint({ limit_usd: 0 });
      expect((await chat(gateway, key)).status).toBe(403);
      await change(id, { limit_usd: 1 });
      expect((await chat(gateway, key)).status).toBe(200);
    });
  });

  describe("storage", () => {
    test("contains only an HMAC of a key under a pepper", async () => {
      const { id, key } = await mint();
      const row = await gateway.server.db.get("select * from api_key where id = ?", [id]);
      const stored = JSON.stringify(row, (_name, value: unknown) =>
        typeof value === "bigint" ? String(value) : value,
      );
      expect(stored).not.toContain(key.slice(12, -4));
      expect(String(row?.["hash"])).toMatch(/^[\w-]{43}$/);
      const plain = new Bun.CryptoHasher("sha256").update(key).digest("base64url");
      expect(row?.["hash"]).not.toBe(plain);
    });
  });
});
