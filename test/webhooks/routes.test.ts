import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { EVENT_TYPES } from "../../src/activity/events.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { truncateTables, createHarness, type Harness } from "./harness.ts";
import { startReceiver } from "./webhook-receiver.ts";

const PATH = "/v1/webhooks";
const ENDPOINT_URL = "https://example.com/hook";

describeEachStore((kind, open) => {
  describe(`/v1/webhooks on ${kind}`, () => {
    let store: TestStore;
    let harness: Harness;

    beforeAll(async () => {
      store = await open();
    });
    beforeEach(async () => {
      await truncateTables(store.db);
      harness = await createHarness(store.db);
    });
    afterAll(() => store.close());

    test("POST returns 201 with the record and, only once, the secret", async () => {
      const { status, body, headers } = await harness.call("alice", "POST", PATH, {
        url: "https://EXAMPLE.com/hook",
        events: ["balance.low", "key.created", "balance.low"],
        description: "ops",
      });
      expect(status).toBe(201);
      expect(body).toEqual({
        id: expect.stringMatching(/^whk_[0-9a-z]{26}$/),
        object: "webhook",
        url: ENDPOINT_URL,
        events: ["balance.low", "key.created"],
        description: "ops",
        status: "active",
        disabled_reason: null,
        failing_since: null,
        former_secret_until: null,
        created_at: "2026-11-21T09:30:00.000Z",
        secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
      });
      expect(headers.get("cache-control")).toBe("no-store");
      const read = await harness.call("alice", "GET", `${PATH}/${String(body["id"])}`);
      const { secret: _, ...record } = body;
      expect([read.status, read.body]).toEqual([200, record]);
    });

    test("POST without `events` subscribes to all events", async () => {
      const { body } = await harness.call("alice", "POST", PATH, { url: ENDPOINT_URL });
      expect(body["events"]).toEqual(["*"]);
    });

    test("POST and PATCH take all event types by name, but each only once", async () => {
      const events = [...EVENT_TYPES];
      const { status, body } = await harness.call("alice", "POST", PATH, {
        url: ENDPOINT_URL,
        events,
      });
      expect([status, body["events"]]).toEqual([201, events]);
      const path = `${PATH}/${String(body["id"])}`;
      const changed = await harness.call("alice", "PATCH", path, { events: events.slice(1) });
      expect([changed.status, changed.body["events"]]).toEqual([200, events.slice(1)]);
      const repeated = await harness.call("alice", "PATCH", path, {
        events: [...events, ...events],
      });
      expect(repeated.status).toBe(400);
    });

    test("POST with an invalid body returns 400 and names the field", async () => {
      for (const [param, sent] of [
        ["url", {}],
        ["url", { url: "" }],
        ["url", { url: 7 }],
        ["url", { url: "https://10.0.0.1/" }],
        ["url", { url: "https://user:secret@example.com/" }],
        ["url", { url: `https://example.com/${"a".repeat(3_000)}` }],
        ["events", { url: ENDPOINT_URL, events: [] }],
        ["events.0", { url: ENDPOINT_URL, events: ["key.lost"] }],
        ["events", { url: ENDPOINT_URL, events: "*" }],
        ["description", { url: ENDPOINT_URL, description: "d".repeat(201) }],
        ["description", { url: ENDPOINT_URL, description: "ops\u202espo" }],
        ["secret", { url: ENDPOINT_URL, secret: "whsec_mine" }],
      ] as const) {
        const { status, body } = await harness.call("alice", "POST", PATH, sent);
        expect(status).toBe(400);
        expect(body["error"]).toMatchObject({ code: "invalid_request" });
        expect(JSON.stringify(body["error"])).toContain(param);
      }
    });

    test("POST returns 409 for the eleventh webhook, until one is deleted", async () => {
      const ids: string[] = [];
      for (let count = 0; count < 10; count++)
        ids.push((await harness.createWebhook(ENDPOINT_URL)).id);
      expect((await harness.call("alice", "POST", PATH, { url: ENDPOINT_URL })).status).toBe(409);
      expect((await harness.call("bob", "POST", PATH, { url: ENDPOINT_URL })).status).toBe(201);
      await harness.call("alice", "DELETE", `${PATH}/${ids[0]}`);
      expect((await harness.call("alice", "POST", PATH, { url: ENDPOINT_URL })).status).toBe(201);
    });

    test("concurrent requests cannot exceed the limit", async () => {
      for (let count = 0; count < 9; count++) await harness.createWebhook(ENDPOINT_URL);
      const responses = await Promise.all(
        [1, 2, 3].map(() => harness.call("alice", "POST", PATH, { url: ENDPOINT_URL })),
      );
      expect(responses.map(({ status }) => String(status)).toSorted()).toEqual([
        "201",
        "409",
        "409",
      ]);
    });

    test("POST with the same Idempotency-Key returns the same webhook and secret", async () => {
      harness.idempotency.key = "5f1c0b7a9d3e4826b0c4d8e1f2a36795";
      const [first, second] = [
        await harness.call("alice", "POST", PATH, { url: ENDPOINT_URL }),
        await harness.call("alice", "POST", PATH, { url: ENDPOINT_URL }),
      ];
      harness.idempotency.key = undefined;
      expect([first?.status, second?.body]).toEqual([201, first?.body ?? {}]);
      expect((await harness.call("alice", "GET", PATH)).body["data"]).toHaveLength(1);
    });

    test("GET lists the caller's webhooks in pages, newest first", async () => {
      const ids: string[] = [];
      for (let count = 0; count < 3; count++) {
        ids.unshift((await harness.createWebhook(ENDPOINT_URL)).id);
        harness.clock.now += 1;
      }
      const first = await harness.call("alice", "GET", `${PATH}?limit=2`);
      const next = String(first.body["next_cursor"]);
      const second = await harness.call("alice", "GET", `${PATH}?limit=2&cursor=${next}`);
      const listed = [first, second].flatMap(({ body }) =>
        (body["data"] as readonly { id: string }[]).map(({ id }) => id),
      );
      expect(listed).toEqual(ids);
      expect((await harness.call("bob", "GET", PATH)).body["data"]).toEqual([]);
      expect((await harness.call("alice", "GET", `${PATH}?cursor=key_1`)).status).toBe(400);
      expect((await harness.call("alice", "GET", `${PATH}?limit=0`)).status).toBe(400);
    });

    test("PATCH changes only the given fields", async () => {
      const { id } = await harness.createWebhook(ENDPOINT_URL, { description: "old" });
      const change = async (sent: unknown) =>
        (await harness.call("alice", "PATCH", `${PATH}/${id}`, sent)).body;
      expect(await change({ url: "https://example.org:8443/x" })).toMatchObject({
        url: "https://example.org:8443/x",
        description: "old",
        events: ["*"],
      });
      expect(await change({ description: null, events: ["key.created"] })).toMatchObject({
        description: null,
        events: ["key.created"],
      });
      expect(await change({ status: "disabled" })).toMatchObject({
        status: "disabled",
        disabled_reason: "by request",
      });
      expect(await change({ status: "active" })).toMatchObject({ disabled_reason: null });
      for (const sent of [{ url: "http://example.com/" }, { status: "deleted" }, { id: "x" }])
        expect((await harness.call("alice", "PATCH", `${PATH}/${id}`, sent)).status).toBe(400);
    });

    test("DELETE is final and idempotent", async () => {
      const { id } = await harness.createWebhook(ENDPOINT_URL);
      const one = await harness.call("alice", "DELETE", `${PATH}/${id}`);
      const two = await harness.call("alice", "DELETE", `${PATH}/${id}`);
      expect([one.status, one.body["status"], two.body]).toEqual([200, "deleted", one.body]);
      for (const [method, path, sent] of [
        ["PATCH", "", { status: "active" }],
        ["POST", "/rotate", undefined],
        ["POST", "/test", undefined],
      ] as const)
        expect((await harness.call("alice", method, `${PATH}/${id}${path}`, sent)).status).toBe(
          409,
        );
      const row = await store.db.get("select sealed, former_sealed from webhook");
      expect([row?.["sealed"], row?.["former_sealed"]]).toEqual([null, null]);
      const audit = await harness.call("alice", "GET", "/v1/audit?action=webhook.deleted");
      expect(audit.body["data"]).toHaveLength(1);
    });

    test("rotate returns a new secret and the time until which the old one signs", async () => {
      const { id, secret } = await harness.createWebhook(ENDPOINT_URL);
      const { status, body } = await harness.call("alice", "POST", `${PATH}/${id}/rotate`);
      expect(status).toBe(200);
      expect(body["secret"]).not.toBe(secret);
      expect(body["former_secret_until"]).toBe("2026-11-22T09:30:00.000Z");
    });

    test("test returns 202, and 409 while a test is pending or the webhook is disabled", async () => {
      const { id } = await harness.createWebhook(ENDPOINT_URL);
      const first = await harness.call("alice", "POST", `${PATH}/${id}/test`);
      expect([first.status, first.body["status"], first.body["event_type"]]).toEqual([
        202,
        "pending",
        "webhook.test",
      ]);
      const second = await harness.call("alice", "POST", `${PATH}/${id}/test`);
      expect(second.status).toBe(409);
      await harness.call("alice", "PATCH", `${PATH}/${id}`, { status: "disabled" });
      expect((await harness.log(id))[0]?.status).toBe("cancelled");
      const third = await harness.call("alice", "POST", `${PATH}/${id}/test`);
      expect(third.status).toBe(409);
      expect(third.body["error"]).toMatchObject({
        next: [{ method: "PATCH", url: `${PATH}/${id}`, body: { status: "active" } }],
      });
      const path = `${PATH}/${id}/deliveries/${String(first.body["id"])}/replay`;
      expect((await harness.call("alice", "POST", path)).status).toBe(409);
    });

    test("lists deliveries in pages, newest first", async () => {
      const { id } = await harness.createWebhook(ENDPOINT_URL);
      for (let round = 0; round < 3; round++) {
        await harness.call("alice", "POST", "/v1/keys", {});
        harness.clock.now += 1;
      }
      const first = await harness.call("alice", "GET", `${PATH}/${id}/deliveries?limit=2`);
      expect([first.body["has_more"], (first.body["data"] as unknown[]).length]).toEqual([true, 2]);
      const cursor = String(first.body["next_cursor"]);
      const second = await harness.call(
        "alice",
        "GET",
        `${PATH}/${id}/deliveries?limit=2&cursor=${cursor}`,
      );
      expect([second.body["has_more"], (second.body["data"] as unknown[]).length]).toEqual([
        false,
        1,
      ]);
    });

    test("returns 404 for webhooks of other accounts and unknown ids, and 401 without a key", async () => {
      const { id } = await harness.createWebhook(ENDPOINT_URL);
      const test = await harness.call("alice", "POST", `${PATH}/${id}/test`);
      const delivery = String(test.body["id"]);
      const created = await harness.call("bob", "POST", PATH, { url: ENDPOINT_URL });
      const bobsWebhook = String(created.body["id"]);
      const routes = (webhook: string) =>
        [
          ["GET", `${PATH}/${webhook}`, undefined],
          ["PATCH", `${PATH}/${webhook}`, { description: "mine" }],
          ["DELETE", `${PATH}/${webhook}`, undefined],
          ["POST", `${PATH}/${webhook}/rotate`, undefined],
          ["POST", `${PATH}/${webhook}/test`, undefined],
          ["GET", `${PATH}/${webhook}/deliveries`, undefined],
          ["POST", `${PATH}/${webhook}/deliveries/${delivery}/replay`, undefined],
        ] as const;
      for (const [method, path, sent] of [...routes(id), ...routes("whk_none")]) {
        const { status, body } = await harness.call("bob", method, path, sent);
        expect(`${method} ${path} ${status}`).toBe(`${method} ${path} 404`);
        expect(body["error"]).toMatchObject({ code: "not_found" });
      }
      // A delivery is not found under another webhook either.
      for (const [who, webhook] of [
        ["bob", bobsWebhook],
        ["alice", (await harness.createWebhook(ENDPOINT_URL)).id],
      ] as const)
        expect(
          (await harness.call(who, "POST", `${PATH}/${webhook}/deliveries/${delivery}/replay`))
            .status,
        ).toBe(404);
      expect((await harness.call("alice", "GET", `${PATH}/${id}`)).body["description"]).toBeNull();
      for (const [method, path, sent] of [
        ...routes(id),
        ["POST", PATH, { url: ENDPOINT_URL }],
        ["GET", PATH, undefined],
        ["GET", "/v1/events", undefined],
        ["GET", "/v1/audit", undefined],
        ["GET", "/v1/account/balance-alert", undefined],
        ["PATCH", "/v1/account/balance-alert", { low_usd: 1 }],
      ] as const)
        expect((await harness.call("", method, path, sent)).status).toBe(401);
    });

    test("GET /v1/events filters by type and lists the caller's account only", async () => {
      await harness.call("alice", "POST", "/v1/keys", {});
      const countOrStatus = async (who: string, query: string): Promise<unknown> => {
        const { body, status } = await harness.call(who, "GET", `/v1/events${query}`);
        return status === 200 ? (body["data"] as unknown[]).length : status;
      };
      expect(await countOrStatus("alice", "")).toBe(1);
      expect(await countOrStatus("alice", "?type=key.created")).toBe(1);
      expect(await countOrStatus("alice", "?type=key.revoked")).toBe(0);
      expect(await countOrStatus("alice", "?type=key.lost")).toBe(400);
      expect(await countOrStatus("bob", "")).toBe(0);
    });

    test("a secret appears only in the response that creates it", async () => {
      const receiver = startReceiver();
      receiver.respond = () => new Response("no", { status: 500 });
      const { id, secret } = await harness.createWebhook(receiver.url);
      await harness.call("alice", "POST", `${PATH}/${id}/test`);
      await harness.deliver();
      const rotated = await harness.call("alice", "POST", `${PATH}/${id}/rotate`);
      const fresh = String(rotated.body["secret"]);
      harness.clock.now += 60_000;
      await harness.deliver();
      const shown: string[] = [];
      for (const path of [
        PATH,
        `${PATH}/${id}`,
        `${PATH}/${id}/deliveries`,
        "/v1/audit",
        "/v1/events",
      ])
        shown.push((await harness.call("alice", "GET", path)).text);
      for (const table of ["webhook", "webhook_delivery", "event", "audit"])
        shown.push(JSON.stringify(await store.db.all(`select * from ${table}`), print));
      shown.push(...harness.logged, ...receiver.received.map(({ body }) => body));
      for (const one of receiver.received) shown.push(JSON.stringify([...one.headers]));
      expect(receiver.received.length).toBe(2);
      for (const one of [secret, fresh]) {
        const canary = one.slice("whsec_".length, -1);
        expect(shown.filter((text) => text.includes(canary))).toEqual([]);
      }
    });

    test("a stored secret can be decrypted only in its own webhook's row", async () => {
      const one = await harness.createWebhook("https://example.com/1");
      const two = await harness.createWebhook("https://example.com/2");
      const row = await store.db.get("select * from webhook where id = ?", [one.id]);
      if (row === undefined) throw new Error("no row");
      expect(harness.webhooks.secretsOf(row, 0)[0]?.reveal()).toBe(one.secret);
      expect(() => harness.webhooks.secretsOf({ ...row, id: two.id }, 0)).toThrow();
      expect(() => harness.webhooks.secretsOf({ ...row, account_id: "acct_bob" }, 0)).toThrow();
    });
  });
});

function print(_: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}
