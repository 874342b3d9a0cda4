import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { GOOD_KEY, openFakeProvider, acceptOnly } from "./fake-provider.ts";
import { openProviderKeysHarness, type ProviderKeysHarness } from "./harness.ts";

const provider = openFakeProvider();
afterAll(() => provider.close());

const PATH = "/v1/provider-keys";
const BODY = { provider: "openai", api_key: GOOD_KEY, name: "team" };

describeEachStore((kind, open) => {
  describe(`/v1/provider-keys on ${kind}`, () => {
    let store: TestStore;
    let room: ProviderKeysHarness;

    beforeEach(async () => {
      store = await open();
      room = openProviderKeysHarness(store.db, provider);
      provider.respondWith(acceptOnly(GOOD_KEY));
    });
    afterEach(() => store.close());

    const idOf = async (who = "alice", body: unknown = BODY): Promise<string> =>
      String((await room.call(who, "POST", PATH, { body })).body["id"]);

    test("POST gives 201 and the record, without the key", async () => {
      const { status, body, text, headers } = await room.call("alice", "POST", PATH, {
        body: BODY,
      });
      expect(status).toBe(201);
      expect(body).toEqual({
        id: expect.stringMatching(/^pk_[0-9a-z]{26}$/),
        object: "provider_key",
        provider: "openai",
        name: "team",
        last4: "9fQz",
        created_at: "2026-09-21T14:13:20.000Z",
        last_used_at: null,
        status: "active",
      });
      expect(text).not.toContain(GOOD_KEY.slice(0, 12));
      expect(headers.get("cache-control")).toBe("no-store");
    });

    test("a name that turns the text around it is a 400 that names it", async () => {
      const body = { ...BODY, name: "team\u202emaet" };
      const answer = await room.call("alice", "POST", PATH, { body });
      expect([answer.status, JSON.stringify(answer.body)]).toEqual([
        400,
        expect.stringContaining("`name` must not hold control characters"),
      ]);
    });

    test("a name may be left out or null", async () => {
      const { name: _, ...nameless } = BODY;
      expect((await room.call("alice", "POST", PATH, { body: nameless })).body["name"]).toBeNull();
      const named = await room.call("alice", "POST", PATH, { body: { ...BODY, name: null } });
      expect(named.body["name"]).toBeNull();
    });

    test("a key that cannot be checked is stored as unchecked", async () => {
      provider.respondWith(() => new Response("trouble", { status: 503 }));
      const { status, body } = await room.call("alice", "POST", PATH, { body: BODY });
      expect([status, body["status"]]).toEqual([201, "unchecked"]);
      const sim = await room.call("alice", "POST", PATH, { body: { ...BODY, provider: "sim" } });
      expect([sim.status, sim.body["provider"]]).toEqual([201, "sim"]);
    });

    test("a key that the provider refuses gives 400 with the provider's words and is not stored", async () => {
      const wrong = "sk-wrong-zyxwvutsrqponmlkjihgfedcba-0000";
      const { status, body, text } = await room.call("alice", "POST", PATH, {
        body: { ...BODY, api_key: wrong },
      });
      expect(status).toBe(400);
      expect(body["error"]).toMatchObject({
        message:
          "OpenAI rejected this key (status 401): Incorrect API key provided: [key]. The key was not stored.",
        code: "invalid_request",
        param: "api_key",
        provider: "openai",
        provider_status: 401,
      });
      expect(text).not.toContain("zyxwv");
      expect((await room.call("alice", "GET", PATH)).body["data"]).toEqual([]);
    });

    test("an unknown provider gives 400 with those that exist, and the key is sent nowhere", async () => {
      const asked = provider.requests.length;
      for (const name of ["mistral", "OpenAI", "http://127.0.0.1", "constructor"]) {
        const { status, body } = await room.call("alice", "POST", PATH, {
          body: { ...BODY, provider: name },
        });
        expect(status).toBe(400);
        expect(body["error"]).toMatchObject({
          message: "`provider` must be one of `openai`, `sim`.",
          param: "provider",
        });
      }
      expect(provider.requests.length).toBe(asked);
    });

    test("a key that no provider gave gives 400 that names api_key and does not repeat it", async () => {
      const asked = provider.requests.length;
      for (const [title, key] of [
        ["a space", "sk-with a space in it 000"],
        ["a line break at the end", `${GOOD_KEY}\n`],
        ["a header inside", "sk-0123456789\r\nx-evil: 1"],
        ["a NUL", "sk-0123456789abcdef\u0000"],
        ["a letter beyond ASCII", "sk-0123456789abcdéf"],
        ["an invisible character", "sk-0123456789abcdef\u200b"],
        ["too few characters", "sk-012345678901"],
        ["too many characters", "k".repeat(2_049)],
        ["the form of a gateway key", `pst-rt-${"a".repeat(49)}`],
      ] as const) {
        const sent = { body: { ...BODY, api_key: key } };
        const { status, body, text } = await room.call("alice", "POST", PATH, sent);
        expect(`${title}: ${status}`).toBe(`${title}: 400`);
        expect(body["error"]).toMatchObject({ param: "api_key" });
        expect(text).not.toContain(key.slice(0, 12));
      }
      expect(provider.requests.length).toBe(asked);
    });

    test("a key of 16 and one of 2048 characters are taken", async () => {
      provider.respondWith(() => new Response("", { status: 404 }));
      for (const length of [16, 2_048]) {
        const body = { ...BODY, api_key: "k".repeat(length) };
        expect((await room.call("alice", "POST", PATH, { body })).status).toBe(201);
      }
    });

    test("unknown, missing and mistyped fields give 400", async () => {
      for (const body of [
        { ...BODY, base_url: "http://127.0.0.1" },
        { provider: "openai" },
        { api_key: GOOD_KEY },
        { ...BODY, api_key: 7 },
        { ...BODY, name: "" },
        { ...BODY, name: "n".repeat(101) },
        [],
      ])
        expect((await room.call("alice", "POST", PATH, { body })).status).toBe(400);
    });

    test("no key, or a wrong one, gives 401", async () => {
      for (const who of ["", "mallory"])
        for (const [method, path] of [
          ["POST", PATH],
          ["GET", PATH],
          ["DELETE", `${PATH}/pk_1`],
        ] as const)
          expect(
            (await room.call(who, method, path, { body: method === "POST" ? BODY : undefined }))
              .status,
          ).toBe(401);
    });

    test("GET lists the caller's own, newest first, in pages, deleted ones included", async () => {
      const ids: string[] = [];
      for (let count = 0; count < 3; count++) {
        room.clock.now += 1;
        ids.unshift(await idOf());
      }
      await idOf("bob");
      await room.call("alice", "DELETE", `${PATH}/${ids[1]}`);
      const first = await room.call("alice", "GET", `${PATH}?limit=2`);
      expect(first.body).toMatchObject({
        object: "list",
        has_more: true,
        next_cursor: ids[1],
        data: [
          { id: ids[0], status: "active" },
          { id: ids[1], status: "deleted" },
        ],
      });
      const second = await room.call("alice", "GET", `${PATH}?limit=2&cursor=${ids[1]}`);
      expect(second.body).toMatchObject({
        has_more: false,
        next_cursor: null,
        data: [{ id: ids[2] }],
      });
      expect((await room.call("alice", "GET", `${PATH}?limit=0`)).status).toBe(400);
    });

    test("DELETE gives 200 and the deleted record, and the same when repeated", async () => {
      const id = await idOf();
      const first = await room.call("alice", "DELETE", `${PATH}/${id}`);
      expect(first.status).toBe(200);
      expect(first.body).toMatchObject({ id, status: "deleted", last4: "9fQz" });
      room.clock.now += 60_000;
      const again = await room.call("alice", "DELETE", `${PATH}/${id}`);
      expect([again.status, again.body]).toEqual([200, first.body]);
      const row = await store.db.get("select * from provider_key where id = ?", [id]);
      expect(row).toMatchObject({ sealed: null, data_key: null });
    });

    test("someone else's key is 404, and stays", async () => {
      const id = await idOf();
      const { status, body } = await room.call("bob", "DELETE", `${PATH}/${id}`);
      expect(status).toBe(404);
      expect(body["error"]).toMatchObject({
        code: "not_found",
        param: "id",
        next: [{ method: "GET", url: "/v1/provider-keys" }],
      });
      const none = await room.call("bob", "DELETE", `${PATH}/pk_00000000000000000000000000`);
      expect([none.status, none.body["error"]]).toEqual([
        404,
        { ...Object(body["error"]), request_id: expect.any(String) },
      ]);
      expect((await room.call("alice", "GET", PATH)).body["data"]).toMatchObject([
        { id, status: "active" },
      ]);
    });

    test("an account has 50 live keys at most", async () => {
      provider.respondWith(() => new Response("", { status: 404 }));
      const ids: string[] = [];
      for (let count = 0; count < 50; count++) ids.push(await idOf());
      const { status, body } = await room.call("alice", "POST", PATH, { body: BODY });
      expect([status, Object(body["error"]).code]).toEqual([409, "conflict"]);
      await room.call("alice", "DELETE", `${PATH}/${ids[0]}`);
      expect((await room.call("alice", "POST", PATH, { body: BODY })).status).toBe(201);
    });

    test("Idempotency-Key replays the first answer, whatever the provider says by then", async () => {
      const headers = { "idempotency-key": "add-my-key-0001" };
      const first = await room.call("alice", "POST", PATH, { body: BODY, headers });
      provider.respondWith(acceptOnly("another"));
      const again = await room.call("alice", "POST", PATH, { body: BODY, headers });
      expect([again.status, again.body]).toEqual([201, first.body]);
      expect(again.headers.get("idempotent-replayed")).toBe("true");
      const other = { ...BODY, name: "other" };
      expect((await room.call("alice", "POST", PATH, { body: other, headers })).status).toBe(409);
      const { body } = await room.call("alice", "GET", PATH);
      expect(body["data"]).toHaveLength(1);
    });

    test("a refused key leaves its Idempotency-Key free", async () => {
      const headers = { "idempotency-key": "add-my-key-0002" };
      provider.respondWith(acceptOnly("another"));
      expect((await room.call("alice", "POST", PATH, { body: BODY, headers })).status).toBe(400);
      provider.respondWith(acceptOnly(GOOD_KEY));
      expect((await room.call("alice", "POST", PATH, { body: BODY, headers })).status).toBe(201);
    });
  });
});
