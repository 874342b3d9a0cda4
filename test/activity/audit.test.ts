import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { AUDIT_ACTIONS } from "../../src/activity/audit.ts";
import { endOtherSessions } from "../../src/people/sessions.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { truncateTables, createHarness, START_MS, type Harness } from "../webhooks/harness.ts";

interface Entry {
  readonly action: string;
  readonly target: string | null;
  readonly network: string | null;
  readonly detail: Readonly<Record<string, unknown>>;
}

const PROVIDER_KEY = "sk-canary-0123456789abcdefghij-9fQz";

test("the actions are listed by what they change, in alphabetical order", () => {
  const subjects = Object.keys(AUDIT_ACTIONS).map((action) => action.split(".")[0] ?? "");
  expect(subjects).toEqual(subjects.toSorted((one, other) => one.localeCompare(other)));
});

describeEachStore((kind, open) => {
  describe(`GET /v1/audit on ${kind}`, () => {
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

    const audit = async (query = "", who = "alice"): Promise<readonly Entry[]> =>
      (await harness.call(who, "GET", `/v1/audit${query}`)).body["data"] as readonly Entry[];
    const idOf = async (path: string, body: unknown): Promise<string> => {
      harness.clock.now += 1;
      return String((await harness.call("alice", "POST", path, body)).body["id"]);
    };
    const change = async (method: string, path: string, body?: unknown): Promise<void> => {
      harness.clock.now += 1;
      const { status, text } = await harness.call("alice", method, path, body);
      if (status >= 300) throw new Error(text);
    };

    test("lists every change by a key, newest first and without secrets", async () => {
      const key = await idOf("/v1/keys", { name: "ci", limit_usd: 5, limit_window: "day" });
      const expires_at = new Date(harness.clock.now + 60_000).toISOString();
      await change("PATCH", `/v1/keys/${key}`, { limit_usd: 6, expires_at });
      await change("DELETE", `/v1/keys/${key}`);
      await change("DELETE", `/v1/keys/${key}`);
      const own = await idOf("/v1/provider-keys", { provider: "openai", api_key: PROVIDER_KEY });
      await change("DELETE", `/v1/provider-keys/${own}`);
      await change("DELETE", `/v1/provider-keys/${own}`);
      const hook = await idOf("/v1/webhooks", {
        url: "https://example.com/path-canary?token=canary",
      });
      await change("PATCH", `/v1/webhooks/${hook}`, { description: "x" });
      await change("POST", `/v1/webhooks/${hook}/rotate`);
      await change("DELETE", `/v1/webhooks/${hook}`);
      await change("PATCH", "/v1/account/balance-alert", { low_usd: 2 });
      const entries = await audit("?limit=100");
      expect(entries.map(({ action, target }) => [action, target])).toEqual([
        ["balance_alert.changed", null],
        ["webhook.deleted", hook],
        ["webhook.secret_rotated", hook],
        ["webhook.changed", hook],
        ["webhook.created", hook],
        ["provider_key.deleted", own],
        ["provider_key.added", own],
        ["key.revoked", key],
        ["key.changed", key],
        ["key.created", key],
      ]);
      for (const entry of entries)
        expect(entry).toMatchObject({
          object: "audit_entry",
          actor: { type: "key", id: "key_alice" },
          network: "203.0.113.0/24",
        });
      expect(entries[8]?.detail).toMatchObject({ limit_usd: "6", limit_window: "day", expires_at });
      expect(JSON.stringify(entries)).not.toContain("canary");
    });

    test("keeps the order of writing within a millisecond and after the clock stepped back", async () => {
      const keys: unknown[] = [];
      for (const step of [0, 0, 0, 0, 0, 0, -60_000, 0, 0, 1]) {
        harness.clock.now += step;
        keys.unshift((await harness.call("alice", "POST", "/v1/keys", {})).body["id"]);
      }
      expect((await audit("?limit=100")).map(({ target }): unknown => target)).toEqual(keys);
      const first = await harness.call("alice", "GET", "/v1/audit?limit=4");
      const rest = await audit(`?limit=100&cursor=${String(first.body["next_cursor"])}`);
      expect(rest.map(({ target }): unknown => target)).toEqual(keys.slice(4));
    });

    test("paginates and filters by action, actor and target", async () => {
      const key = await idOf("/v1/keys", {});
      await idOf("/v1/keys", {});
      await change("DELETE", `/v1/keys/${key}`);
      expect((await audit("?action=key.created")).length).toBe(2);
      expect((await audit(`?target=${key}`)).map(({ action }) => action)).toEqual([
        "key.revoked",
        "key.created",
      ]);
      expect((await audit(`?target=${key}&action=key.created&actor=key_alice`)).length).toBe(1);
      expect(await audit("?actor=key_other")).toEqual([]);
      const first = await harness.call("alice", "GET", "/v1/audit?limit=2");
      const cursor = String(first.body["next_cursor"]);
      expect((await audit(`?limit=2&cursor=${cursor}`)).length).toBe(1);
      for (const query of ["?action=key.lost", "?cursor=key_1", "?limit=101", "?who=me"])
        expect((await harness.call("alice", "GET", `/v1/audit${query}`)).status).toBe(400);
    });

    test("does not list other accounts' entries, and returns 401 without a key", async () => {
      await idOf("/v1/keys", {});
      expect(await audit("", "bob")).toEqual([]);
      expect((await harness.call("", "GET", "/v1/audit")).status).toBe(401);
    });

    test("a rejected change adds no entry", async () => {
      await harness.call("alice", "DELETE", "/v1/keys/key_none");
      await harness.call("alice", "POST", "/v1/webhooks", { url: "https://10.0.0.1/" });
      expect(await audit()).toEqual([]);
    });

    test("records ended sessions without an account", async () => {
      await store.db.write(async (tx) => {
        for (const id of ["ses_1", "ses_2"])
          await tx.run(
            `insert into session (id, hash, person_id, created_at, seen_at, expires_at, network, browser)
             values (?, ?, 'usr_1', 1, 1, ?, 'n', 'b')`,
            [id, id, START_MS + 1],
          );
        const act = { personId: "usr_1", network: "203.0.113.0/24", now: START_MS };
        for (let round = 0; round < 2; round++) await endOtherSessions(tx, act, "ses_1");
      });
      expect(await audit()).toEqual([]);
      const rows = await store.db.all("select * from audit where actor_id = 'usr_1'");
      expect(rows).toHaveLength(1);
      expect(rows[0]).toMatchObject({
        account_id: null,
        action: "session.ended",
        target: "ses_1",
        network: "203.0.113.0/24",
      });
    });
  });
});
