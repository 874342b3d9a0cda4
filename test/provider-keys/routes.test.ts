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
    let harness: ProviderKeysHarness;

    beforeEach(async () => {
      store = await open();
      harness = await openProviderKeysHarness(store.db, provider);
      provider.respondWith(acceptOnly(GOOD_KEY));
    });
    afterEach(() => store.close());

    const addKey = async (caller = "alice", body: unknown = BODY): Promise<string> =>
      String((await harness.call(caller, "POST", PATH, { body })).body["id"]);

    test("POST returns 201 and the record without the key", async () => {
      const { status, body, text, headers } = await harness.call("alice", "POST", PATH, {
        body: BODY,
      });
      expect(status).toBe(201);
      expect(body).toEqual({
        id: expect.stringMatching(/^pk_[0-9a-z]{26}$/),
        object: "provider_key",
        provider: "openai",
        name: "team",
        last4: "9fQz",
        api_key_ids: ["key_alice"],
        allow_store: false,
        created_at: "2026-09-21T14:13:20.000Z",
        last_used_at: null,
        status: "active",
      });
      expect(text).not.toContain(GOOD_KEY.slice(0, 12));
      expect(headers.get("cache-control")).toBe("no-store");
    });

    test("POST rejects a name with text direction marks", async () => {
      const body = { ...BODY, name: "team\u202emaet" };
      const response = await harness.call("alice", "POST", PATH, { body });
      expect([response.status, JSON.stringify(response.body)]).toEqual([
        400,
        expect.stringContaining("`name` must not contain control characters"),
      ]);
    });

    test("POST accepts a missing or null name", async () => {
      const { name: _, ...nameless } = BODY;
      expect(
        (await harness.call("alice", "POST", PATH, { body: nameless })).body["name"],
      ).toBeNull();
      const named = await harness.call("alice", "POST", PATH, { body: { ...BODY, name: null } });
      expect(named.body["name"]).toBeNull();
    });

    test("POST stores a key that cannot be checked as unchecked", async () => {
      provider.respondWith(() => new Response("unavailable", { status: 503 }));
      const { status, body } = await harness.call("alice", "POST", PATH, { body: BODY });
      expect([status, body["status"]]).toEqual([201, "unchecked"]);
      const sim = await harness.call("alice", "POST", PATH, { body: { ...BODY, provider: "sim" } });
      expect([sim.status, sim.body["provider"]]).toEqual([201, "sim"]);
    });

    test("POST rejects a key that the provider rejects, with its message", async () => {
      const wrong = "sk-wrong-zyxwvutsrqponmlkjihgfedcba-0000";
      const { status, body, text } = await harness.call("alice", "POST", PATH, {
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
      expect((await harness.call("alice", "GET", PATH)).body["data"]).toEqual([]);
    });

    test("POST rejects an unknown provider without sending the key", async () => {
      const before = provider.requests.length;
      for (const name of ["mistral", "OpenAI", "http://127.0.0.1", "constructor"]) {
        const { status, body } = await harness.call("alice", "POST", PATH, {
          body: { ...BODY, provider: name },
        });
        expect(status).toBe(400);
        expect(body["error"]).toMatchObject({
          message: "`provider` must be one of `openai`, `sim`.",
          param: "provider",
        });
      }
      expect(provider.requests.length).toBe(before);
    });

    test("POST rejects a malformed key without echoing it", async () => {
      const before = provider.requests.length;
      for (const [title, key] of [
        ["a space", "sk-with a space in it 000"],
        ["a line break at the end", `${GOOD_KEY}\n`],
        ["a header inside", "sk-0123456789\r\nx-evil: 1"],
        ["a NUL", "sk-0123456789abcdef\u0000"],
        ["a non-ASCII letter", "sk-0123456789abcdéf"],
        ["an invisible character", "sk-0123456789abcdef\u200b"],
        ["too few characters", "sk-012345678901"],
        ["too many characters", "k".repeat(2_049)],
        ["the format of a gateway key", `pst-rt-${"a".repeat(49)}`],
      ] as const) {
        const request = { body: { ...BODY, api_key: key } };
        const { status, body, text } = await harness.call("alice", "POST", PATH, request);
        expect(`${title}: ${status}`).toBe(`${title}: 400`);
        expect(body["error"]).toMatchObject({ param: "api_key" });
        expect(text).not.toContain(key.slice(0, 12));
      }
      expect(provider.requests.length).toBe(before);
    });

    test("POST accepts keys of 16 and 2048 characters", async () => {
      provider.respondWith(() => new Response("", { status: 404 }));
      for (const length of [16, 2_048]) {
        const body = { ...BODY, api_key: "k".repeat(length) };
        expect((await harness.call("alice", "POST", PATH, { body })).status).toBe(201);
      }
    });

    test("POST rejects unknown, missing and mistyped fields", async () => {
      for (const body of [
        { ...BODY, base_url: "http://127.0.0.1" },
        { provider: "openai" },
        { api_key: GOOD_KEY },
        { ...BODY, api_key: 7 },
        { ...BODY, name: "" },
        { ...BODY, name: "n".repeat(101) },
        [],
      ])
        expect((await harness.call("alice", "POST", PATH, { body })).status).toBe(400);
    });

    test("all methods return 401 without a valid API key", async () => {
      for (const caller of ["", "mallory"])
        for (const [method, path] of [
          ["POST", PATH],
          ["GET", PATH],
          ["DELETE", `${PATH}/pk_1`],
        ] as const)
          expect(
            (
              await harness.call(caller, method, path, {
                body: method === "POST" ? BODY : undefined,
              })
            ).status,
          ).toBe(401);
    });

    test("GET lists the caller's keys, newest first, in pages, including deleted ones", async () => {
      const ids: string[] = [];
      for (let count = 0; count < 3; count++) {
        harness.clock.now += 1;
        ids.unshift(await addKey());
      }
      await addKey("bob");
      await harness.call("alice", "DELETE", `${PATH}/${ids[1]}`);
      const first = await harness.call("alice", "GET", `${PATH}?limit=2`);
      expect(first.body).toMatchObject({
        object: "list",
        has_more: true,
        next_cursor: ids[1],
        data: [
          { id: ids[0], status: "active" },
          { id: ids[1], status: "deleted" },
        ],
      });
      const second = await harness.call("alice", "GET", `${PATH}?limit=2&cursor=${ids[1]}`);
      expect(second.body).toMatchObject({
        has_more: false,
        next_cursor: null,
        data: [{ id: ids[2] }],
      });
      expect((await harness.call("alice", "GET", `${PATH}?limit=0`)).status).toBe(400);
    });

    test("DELETE returns the deleted record, also when repeated", async () => {
      const id = await addKey();
      const first = await harness.call("alice", "DELETE", `${PATH}/${id}`);
      expect(first.status).toBe(200);
      expect(first.body).toMatchObject({ id, status: "deleted", last4: "9fQz" });
      harness.clock.now += 60_000;
      const again = await harness.call("alice", "DELETE", `${PATH}/${id}`);
      expect([again.status, again.body]).toEqual([200, first.body]);
      const row = await store.db.get("select * from provider_key where id = ?", [id]);
      expect(row).toMatchObject({ sealed: null, data_key: null });
    });

    test("DELETE returns 404 for a key of another account", async () => {
      const id = await addKey();
      const { status, body } = await harness.call("bob", "DELETE", `${PATH}/${id}`);
      expect(status).toBe(404);
      expect(body["error"]).toMatchObject({
        code: "not_found",
        param: "id",
        next: [{ method: "GET", url: "/v1/provider-keys" }],
      });
      const unknown = await harness.call("bob", "DELETE", `${PATH}/pk_00000000000000000000000000`);
      expect([unknown.status, unknown.body["error"]]).toEqual([
        404,
        { ...Object(body["error"]), request_id: expect.any(String) },
      ]);
      expect((await harness.call("alice", "GET", PATH)).body["data"]).toMatchObject([
        { id, status: "active" },
      ]);
    });

    test("POST returns 409 above 50 keys per account", async () => {
      provider.respondWith(() => new Response("", { status: 404 }));
      const ids: string[] = [];
      for (let count = 0; count < 50; count++) ids.push(await addKey());
      const { status, body } = await harness.call("alice", "POST", PATH, { body: BODY });
      expect([status, Object(body["error"]).code]).toEqual([409, "conflict"]);
      await harness.call("alice", "DELETE", `${PATH}/${ids[0]}`);
      expect((await harness.call("alice", "POST", PATH, { body: BODY })).status).toBe(201);
    });

    test("POST with a repeated Idempotency-Key replays the first response without a new check", async () => {
      const headers = { "idempotency-key": "add-my-key-0001" };
      const first = await harness.call("alice", "POST", PATH, { body: BODY, headers });
      provider.respondWith(acceptOnly("another"));
      const again = await harness.call("alice", "POST", PATH, { body: BODY, headers });
      expect([again.status, again.body]).toEqual([201, first.body]);
      expect(again.headers.get("idempotent-replayed")).toBe("true");
      const other = { ...BODY, name: "other" };
      expect((await harness.call("alice", "POST", PATH, { body: other, headers })).status).toBe(
        409,
      );
      const { body } = await harness.call("alice", "GET", PATH);
      expect(body["data"]).toHaveLength(1);
    });

    test("POST with a rejected key does not use up its Idempotency-Key", async () => {
      const headers = { "idempotency-key": "add-my-key-0002" };
      provider.respondWith(acceptOnly("another"));
      expect((await harness.call("alice", "POST", PATH, { body: BODY, headers })).status).toBe(400);
      provider.respondWith(acceptOnly(GOOD_KEY));
      expect((await harness.call("alice", "POST", PATH, { body: BODY, headers })).status).toBe(201);
    });
  });
});
