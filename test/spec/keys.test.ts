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

/** A Wednesday, well within its week and its month. */
const START = Date.UTC(2026, 10, 18, 9, 30);
/** A call that costs a tenth of a thousandth of a dollar, and may cost a little more. */
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
];

describe.each(STORE_KINDS)("the specification's gateway API keys, on %s", (store) => {
  const clock = createFakeClock(START);
  let gateway: Gateway;
  let account: TestAccount;
  let stranger: TestAccount;
  beforeAll(async () => {
    gateway = await startGateway({ store, now: clock.now });
    [account, stranger] = [await registerAccount(gateway), await registerAccount(gateway)];
  });
  afterAll(() => gateway.stop());

  interface Minted {
    readonly id: string;
    readonly key: string;
    readonly body: Json;
  }

  async function mint(settings: Json = {}, key = account.key): Promise<Minted> {
    const answer = await call(gateway, "POST /v1/keys", { key, body: settings });
    expect({ status: answer.status, text: answer.status === 201 ? "" : answer.text }).toEqual({
      status: 201,
      text: "",
    });
    return {
      id: textAt(answer.body, "id"),
      key: textAt(answer.body, "api_key"),
      body: answer.body,
    };
  }

  const change = (id: string, body: unknown, key = account.key): Promise<ApiResponse> =>
    call(gateway, `PATCH /v1/keys/${id}`, { key, body });
  const revoke = (id: string, key = account.key): Promise<ApiResponse> =>
    call(gateway, `DELETE /v1/keys/${id}`, { key });
  const works = async (key: string): Promise<number> =>
    (await call(gateway, "GET /v1/account", { key })).status;

  describe("POST /v1/keys", () => {
    test("mints an additional key, which works at once and belongs to the same account", async () => {
      const answer = await call(gateway, "POST /v1/keys", { key: account.key, body: {} });
      expectStatus("mintKey", 201, answer);
      const read = await call(gateway, "GET /v1/account", { key: textAt(answer.body, "api_key") });
      expect(valueAt(read.body, "account.id")).toBe(account.id);
    });

    test("the answer is the key's record and, once, the raw key", async () => {
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

    test("the raw key is returned once: no later answer holds it, or any part of its secret but the ends", async () => {
      const { id, key } = await mint({ name: "once" });
      const secret = key.slice(12, -4);
      for (const line of ["GET /v1/keys?limit=100", `GET /v1/keys/${id}`, "GET /v1/account"])
        expect((await call(gateway, line, { key })).text).not.toContain(secret);
      expect((await change(id, { name: "again" })).text).not.toContain(secret);
      expect((await revoke(id)).text).not.toContain(secret);
    });

    test("two hundred keys are all different", async () => {
      const owner = await registerAccount(gateway);
      const keys = await Promise.all(Array.from({ length: 200 }, () => mint({}, owner.key)));
      expect(new Set(keys.map(({ key }) => key)).size).toBe(200);
      expect(new Set(keys.map(({ id }) => id)).size).toBe(200);
    });

    test("takes a name, an expiry, a limit and the limit's window", async () => {
      const settings = {
        name: "everything",
        expires_at: "2027-01-31T00:00:00Z",
        limit_usd: 2.5,
        limit_window: "month",
      };
      const { body } = await mint(settings);
      expect(body).toMatchObject({ ...settings, expires_at: "2027-01-31T00:00:00.000Z" });
    });

    test("a limit may be a number or a text, to the billionth of a dollar", async () => {
      for (const [limit, shown] of [
        [0, 0],
        ["0.000000001", 1e-9],
        [1e-7, 1e-7],
        ["10", 10],
        [9_000_000, 9_000_000],
      ])
        expect((await mint({ limit_usd: limit })).body["limit_usd"]).toBe(shown);
    });

    const REFUSED: readonly (readonly [string, unknown, string | null])[] = [
      ["a limit that is negative", { limit_usd: -1 }, "limit_usd"],
      ["a limit that nobody can have", { limit_usd: 9_000_001 }, "limit_usd"],
      ["a limit beyond numbers", { limit_usd: 1e300 }, "limit_usd"],
      ["a limit finer than a billionth", { limit_usd: "0.0000000001" }, "limit_usd"],
      ["a number finer than a billionth", { limit_usd: 1.5e-9 }, "limit_usd"],
      ["a tiny number, which is not zero", { limit_usd: 1e-10 }, "limit_usd"],
      ["a limit in words", { limit_usd: "ten" }, "limit_usd"],
      ["an empty limit", { limit_usd: "" }, "limit_usd"],
      ["a limit with an exponent in text", { limit_usd: "1e3" }, "limit_usd"],
      ["a limit that is true", { limit_usd: true }, "limit_usd"],
      ["a limit that is a list", { limit_usd: [1] }, "limit_usd"],
      ["a window without a limit", { limit_window: "day" }, "limit_window"],
      ["a window that is none", { limit_usd: 1, limit_window: "hour" }, "limit_window"],
      ["an expiry in the past", { expires_at: "2020-01-01T00:00:00Z" }, "expires_at"],
      ["an expiry that is now", { expires_at: new Date(START).toISOString() }, "expires_at"],
      ["an expiry without a zone", { expires_at: "2027-01-31T00:00:00" }, "expires_at"],
      ["an expiry that is a date", { expires_at: "2027-01-31" }, "expires_at"],
      ["an expiry on no day", { expires_at: "2027-02-30T00:00:00Z" }, "expires_at"],
      ["an expiry that is a number", { expires_at: 1_800_000_000 }, "expires_at"],
      ["an empty name", { name: "" }, "name"],
      ["a blank name", { name: " \t " }, "name"],
      ["a name of 101 characters", { name: "n".repeat(101) }, "name"],
      ["a name that is a number", { name: 7 }, "name"],
      ["a name with a NUL", { name: "a\u0000b" }, "name"],
      ["a name of two lines", { name: "a\nb" }, "name"],
      ["a name with a terminal's control", { name: "a\u001b[2Kb" }, "name"],
      ["a name that turns the text around", { name: "a\u202eb" }, "name"],
      ["a name that isolates what follows", { name: "a\u2067b" }, "name"],
      ["a name with an Arabic mark", { name: "a\u061cb" }, "name"],
      ["a field of another's", { account_id: "acct_x" }, "account_id"],
      ["a field that only answers have", { spent_usd: 0 }, "spent_usd"],
      ["a prototype", JSON.parse('{"__proto__":{"name":"x"}}'), "__proto__"],
      ["a list", [], null],
    ];
    test.each(REFUSED)("%s is a 400 that names the field", async (_what, body, param) => {
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

    test("names are any text: other scripts, emoji, half of a surrogate pair, quotes, SQL", async () => {
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

    test("an account may have 1000 live keys; one more is a conflict until one is revoked", async () => {
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
      expectStatus("mintKey", 409, over);
      await revoke(last.id, owner.key);
      await mint({}, owner.key);
    });
  });

  describe("GET /v1/keys", () => {
    test("lists the account's keys, newest first, revoked ones included", async () => {
      const owner = await registerAccount(gateway);
      clock.advance(1);
      const second = await mint({ name: "second" }, owner.key);
      clock.advance(1);
      const third = await mint({ name: "third" }, owner.key);
      await revoke(second.id, owner.key);
      const answer = await call(gateway, "GET /v1/keys", { key: owner.key });
      expectStatus("listKeys", 200, answer);
      expect(answer.body).toMatchObject({ object: "list", has_more: false, next_cursor: null });
      const keys = listAt(answer.body, "data");
      expect(keys.map(({ name }) => name)).toEqual(["third", "second", null]);
      expect(keys[0]?.["id"]).toBe(third.id);
      expect(keys[1]?.["revoked_at"]).not.toBeNull();
      for (const key of keys) expect(Object.keys(key)).toEqual(FIELDS);
    });

    test("shows nobody else's keys", async () => {
      const { text } = await call(gateway, "GET /v1/keys?limit=100", { key: stranger.key });
      for (const key of listAt(JSON.parse(text), "data"))
        expect(key["prefix"]).toBe(stranger.key.slice(0, 12));
    });
  });

  describe("GET /v1/keys/{id}", () => {
    test("reads one key", async () => {
      const { id, body } = await mint({ name: "one" });
      const answer = await call(gateway, `GET /v1/keys/${id}`, { key: account.key });
      expectStatus("getKey", 200, answer);
      const { api_key: _raw, ...record } = body;
      expect(answer.body).toEqual(record);
    });

    test("someone else's key is a 404, exactly as one that never was", async () => {
      const { id } = await mint({}, stranger.key);
      const theirs = await call(gateway, `GET /v1/keys/${id}`, { key: account.key });
      const nobodys = await call(gateway, `GET /v1/keys/${id.slice(0, -4)}0000`, {
        key: account.key,
      });
      expectError(theirs, { status: 404, code: "not_found", param: "id" });
      expectStatus("getKey", 404, theirs);
      expect(valueAt(theirs.body, "error.message")).toBe(valueAt(nobodys.body, "error.message"));
      expect(valueAt(theirs.body, "error.next.0.url")).toBe("/v1/keys");
    });

    test("an id that can be no id is a 404, or a 400 where it holds a NUL", async () => {
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
    test("renames a key and leaves everything else as it was", async () => {
      const { id, body } = await mint({ name: "old", limit_usd: 3, limit_window: "day" });
      const answer = await change(id, { name: "new" });
      expectStatus("changeKey", 200, answer);
      const { api_key: _raw, ...record } = body;
      expect(answer.body).toEqual({ ...record, name: "new" });
    });

    test("the key goes on working under its new name", async () => {
      const { id, key } = await mint({ name: "old" });
      await change(id, { name: "new" });
      expect(await works(key)).toBe(200);
    });

    test("null takes a setting away", async () => {
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

    test("a limit that is taken away takes its window along; a window alone is a 400", async () => {
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

    test("an empty change changes nothing", async () => {
      const { id, body } = await mint({ name: "same", limit_usd: 1 });
      const { api_key: _raw, ...record } = body;
      expect((await change(id, {})).body).toEqual(record);
    });

    test("a key may change itself, and a limit of its own counts at once", async () => {
      const { id, key } = await mint();
      expect((await change(id, { limit_usd: 0 }, key)).status).toBe(200);
      expectError(await chat(gateway, key), { status: 403, code: "key_limit_reached" });
    });

    test("a revoked key cannot be changed: 409", async () => {
      const { id } = await mint();
      await revoke(id);
      const answer = await change(id, { name: "too late" });
      expectError(answer, { status: 409, code: "conflict" });
      expectStatus("changeKey", 409, answer);
    });

    test("someone else's key is a 404 and stays as it was", async () => {
      const { id } = await mint({ name: "theirs" }, stranger.key);
      const answer = await change(id, { name: "mine" });
      expectError(answer, { status: 404, code: "not_found" });
      expectStatus("changeKey", 404, answer);
      const read = await call(gateway, `GET /v1/keys/${id}`, { key: stranger.key });
      expect(read.body["name"]).toBe("theirs");
    });
  });

  describe("DELETE /v1/keys/{id}", () => {
    test("revokes a key: the answer is its record with revoked_at", async () => {
      const { id, body } = await mint({ name: "gone" });
      const answer = await revoke(id);
      expectStatus("revokeKey", 200, answer);
      const { api_key: _raw, ...record } = body;
      expect(answer.body).toEqual({ ...record, revoked_at: new Date(clock.now()).toISOString() });
    });

    test("a revoked key is refused on the very next request", async () => {
      for (let times = 0; times < 10; times++) {
        const { id, key } = await mint();
        expect(await works(key)).toBe(200);
        expect((await chat(gateway, key)).status).toBe(200);
        await revoke(id);
        const [read, model] = [await works(key), (await chat(gateway, key)).status];
        expect([read, model]).toEqual([401, 401]);
      }
    });

    test("repeated, it gives the same answer, with the time of the first", async () => {
      const { id } = await mint();
      const first = await revoke(id);
      clock.advance(HOUR_MS);
      const again = await revoke(id);
      clock.advance(-HOUR_MS);
      expect(again.status).toBe(200);
      expect(again.body).toEqual(first.body);
    });

    test("a key may revoke itself, and is then refused even for that", async () => {
      const { id, key } = await mint();
      expect((await revoke(id, key)).status).toBe(200);
      expectError(await revoke(id, key), { status: 401, code: "invalid_api_key" });
    });

    test("the last live key may be revoked, with a warning", async () => {
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
      expect([await works(owner.key), await works(second.key)]).toEqual([401, 401]);
    });

    test("someone else's key is a 404 and goes on working", async () => {
      const { id, key } = await mint({}, stranger.key);
      const answer = await revoke(id);
      expectError(answer, { status: 404, code: "not_found" });
      expectStatus("revokeKey", 404, answer);
      expect(await works(key)).toBe(200);
    });
  });

  describe("expiry", () => {
    test("a key works until its expires_at and not a millisecond longer", async () => {
      const { key } = await mint({ expires_at: new Date(clock.now() + MINUTE_MS).toISOString() });
      clock.advance(MINUTE_MS - 1);
      expect([await works(key), (await chat(gateway, key)).status]).toEqual([200, 200]);
      clock.advance(1);
      expect([await works(key), (await chat(gateway, key)).status]).toEqual([401, 401]);
      clock.advance(-MINUTE_MS);
    });

    test("an expiry in any zone is the same instant", async () => {
      const { body } = await mint({ expires_at: "2027-01-31T02:00:00+02:00" });
      expect(body["expires_at"]).toBe("2027-01-31T00:00:00.000Z");
    });

    test("a later expires_at brings an expired key back, and none makes it last", async () => {
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
    test("a key spends up to its limit_usd and no more; the account's other keys go on", async () => {
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

    test("spent_usd is the sum of what the key's calls cost", async () => {
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

    test("a change of the window needs no look back: what was spent today counts by the month too", async () => {
      const { id, key } = await mint({ limit_usd: 1, limit_window: "day" });
      await chat(gateway, key);
      const byDay = (await call(gateway, `GET /v1/keys/${id}`, { key })).body["spent_usd"];
      expect(Number(byDay)).toBeGreaterThan(0);
      expect((await change(id, { limit_window: "month" })).body["spent_usd"]).toBe(byDay);
      expect((await change(id, { limit_window: null })).body["spent_usd"]).toBe(byDay);
    });

    test("a raised limit counts at once", async () => {
      const { id, key } = await mint({ limit_usd: 0 });
      expect((await chat(gateway, key)).status).toBe(403);
      await change(id, { limit_usd: 1 });
      expect((await chat(gateway, key)).status).toBe(200);
    });
  });

  describe("at rest", () => {
    test("only a hash of a key is stored: an HMAC under a pepper, so the store alone cannot tell a key", async () => {
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
