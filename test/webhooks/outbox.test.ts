import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { type NewEvent, emitEvent } from "../../src/activity/events.ts";
import { createClaims } from "../../src/claims/claims.ts";
import { revokeKey } from "../../src/keys/keys.ts";
import { grant } from "../../src/ledger/ledger.ts";
import { COMMAND_LINE_ACTOR, grantCredit } from "../../src/operator/accounts/account-actions.ts";
import { recordPerson } from "../../src/people/people.ts";
import type { Row } from "../../src/store/db.ts";
import { shownNow } from "../claims/shown-now.ts";
import { actIn } from "../support/act.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { MASTER, truncateTables, createHarness, type Harness } from "../webhooks/harness.ts";

const USD = 1_000_000_000n;

describeEachStore((kind, open) => {
  describe(`events on ${kind}`, () => {
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

    const events = async (who = "alice"): Promise<readonly Row[]> => {
      const { body } = await harness.call(who, "GET", "/v1/events");
      return body["data"] as readonly Row[];
    };
    const types = async (who = "alice"): Promise<readonly string[]> =>
      (await events(who)).map((event) => String(event["type"]));
    const count = async (table: string): Promise<number> =>
      Number((await store.db.get(`select count(*) as count from ${table}`))?.["count"]);

    test("are rolled back together with the change", async () => {
      await harness.createWebhook("https://example.com/");
      const [audited, keys] = [await count("audit"), await count("api_key")];
      const crash = store.db.write(async (tx) => {
        const act = actIn("acct_alice", harness.clock.now);
        const { key } = await harness.keys.create(tx, act, { name: "lost" });
        await revokeKey(tx, act, key.id);
        throw new Error("rolled back");
      });
      expect(crash).rejects.toThrow("rolled back");
      await crash.catch(() => {});
      expect([
        (await count("api_key")) - keys,
        await count("event"),
        await count("webhook_delivery"),
        (await count("audit")) - audited,
      ]).toEqual([0, 0, 0, 0]);
    });

    test("a change is rolled back if its event cannot be written", async () => {
      const brokenStore = await open();
      const broken = await createHarness(brokenStore.db);
      await brokenStore.db.write((tx) => tx.run("drop table event"));
      expect((await broken.call("alice", "POST", "/v1/keys", {})).status).toBe(500);
      expect(await brokenStore.db.all("select id from api_key order by id")).toEqual([
        { id: "key_alice" },
        { id: "key_bob" },
      ]);
      expect(await brokenStore.db.all("select id from audit")).toEqual([]);
      await brokenStore.close();
    });

    test("are queued for the account's active webhooks that subscribe to them", async () => {
      const all = await harness.createWebhook("https://example.com/all");
      const low = await harness.createWebhook("https://example.com/low", {
        events: ["balance.low"],
      });
      const other = await harness.createWebhook("https://example.com/key", {
        events: ["key.created"],
      });
      const off = await harness.createWebhook("https://example.com/off");
      await harness.call("alice", "PATCH", `/v1/webhooks/${off.id}`, { status: "disabled" });
      await harness.call("bob", "POST", "/v1/webhooks", { url: "https://example.com/bob" });
      await store.db.write((tx) => emitEvent(tx, lowEvent("acct_alice")));
      for (const [hook, deliveries] of [
        [all, 1],
        [low, 1],
        [other, 0],
        [off, 0],
      ] as const)
        expect((await harness.log(hook.id)).length).toBe(deliveries);
      expect(await count("webhook_delivery")).toBe(2);
      expect(await types("bob")).toEqual([]);
    });

    test("key.created and key.revoked are emitted once each and do not contain the key", async () => {
      const minted = await harness.call("alice", "POST", "/v1/keys", { name: "ci" });
      const id = String(minted.body["id"]);
      const raw = String(minted.body["api_key"]);
      await harness.call("alice", "PATCH", `/v1/keys/${id}`, { name: "cd" });
      harness.clock.now += 1;
      for (let round = 0; round < 2; round++)
        await harness.call("alice", "DELETE", `/v1/keys/${id}`);
      const [revoked, created] = await events();
      expect(await types()).toEqual(["key.revoked", "key.created"]);
      const data = {
        key_id: id,
        prefix: raw.slice(0, 12),
        last4: raw.slice(-4),
        by: "key_alice",
      };
      expect(created?.["data"]).toEqual({ ...data, name: "ci" });
      expect(revoked?.["data"]).toEqual({ ...data, name: "cd" });
      expect(JSON.stringify(await events())).not.toContain(raw.slice(8, -4));
    });

    test("claim.completed is emitted for the owner and member.added for the next person", async () => {
      const claims = createClaims({
        master: MASTER,
        limits: { startsPerAccount: 0, bonusPerDay: 0n },
      });
      const { now } = harness.clock;
      const key = await store.db.write(
        async (tx) => (await harness.keys.create(tx, actIn("acct_alice", now), {})).key,
      );
      const network = "203.0.113.0/24";
      const claim = async (email: string, choices: "revoke" | "keep"): Promise<string> => {
        const start = { accountId: "acct_alice", keyId: key.id, email, network, now };
        const started = await store.db.write((tx) => claims.start(tx, start));
        await store.db.write(async (tx) => {
          const identity = { issuer: "https://id.test", subject: email, email, name: null };
          const { id: personId } = await recordPerson(tx, identity, now);
          const confirmed = await claims.confirm(tx, {
            attemptId: started.id,
            claimer: { ...identity, personId },
            userCode: started.userCode,
            keyChoices: choices === "revoke" ? [{ kind: "revoke", keyId: key.id }] : [],
            shown: await shownNow(tx, "acct_alice", now),
            now,
          });
          expect(confirmed.status).toBe("claimed");
        });
        return started.id;
      };
      const first = await claim("owner@example.com", "revoke");
      const second = await claim("dev@example.com", "keep");
      const all = (await events()).filter(
        ({ type }) => type !== "key.created" && type !== "claim.started",
      );
      expect(new Map(all.map((event) => [event["type"], event["data"]]))).toEqual(
        new Map<unknown, unknown>([
          [
            "claim.completed",
            {
              claim_attempt_id: first,
              email: "owner@example.com",
              role: "owner",
              bonus_credits: 1_000_000,
            },
          ],
          [
            "member.added",
            { claim_attempt_id: second, email: "dev@example.com", role: "developer" },
          ],
          [
            "key.revoked",
            expect.objectContaining({ key_id: key.id, by: expect.stringMatching(/^usr_/) }),
          ],
        ]),
      );
      const audit = await harness.call("alice", "GET", "/v1/audit");
      const actions = (audit.body["data"] as readonly Row[]).map((entry) =>
        String(entry["action"]),
      );
      expect(actions.toSorted()).toEqual([
        "account.claimed",
        "claim.started",
        "claim.started",
        "key.created",
        "key.revoked",
        "member.added",
      ]);
    });

    describe("balance events", () => {
      let keyId = "";

      beforeEach(async () => {
        const act = actIn("acct_alice", harness.clock.now);
        keyId = await store.db.write(async (tx) => (await harness.keys.create(tx, act, {})).key.id);
        await store.db.write((tx) => tx.run("delete from event"));
      });

      const give = (amount: bigint): Promise<boolean> =>
        store.db.write((tx) =>
          grant(tx, {
            id: crypto.randomUUID(),
            accountId: "acct_alice",
            amount,
            now: harness.clock.now,
            reason: "test",
          }),
        );
      const spend = async (amount: bigint, id: string = crypto.randomUUID()): Promise<void> => {
        harness.clock.now += 1;
        const { now } = harness.clock;
        const request = { id, accountId: "acct_alice", keyId, now };
        await harness.ledger.hold({ ...request, amount, expiresAt: now + 1_000 });
        await harness.ledger.settle({ ...request, cost: amount });
      };

      test("balance.low and balance.empty are emitted once, when a charge crosses the threshold", async () => {
        await give((15n * USD) / 10n);
        await spend((4n * USD) / 10n);
        expect(await types()).toEqual([]);
        await spend((2n * USD) / 10n);
        expect(await types()).toEqual(["balance.low"]);
        expect((await events())[0]?.["data"]).toEqual({
          credits: 900_000,
          usd: 0.9,
          below_usd: 1,
        });
        await spend((8n * USD) / 10n);
        expect(await types()).toEqual(["balance.low"]);
        await spend(USD / 10n - 99_999n);
        expect((await events())[0]).toMatchObject({
          type: "balance.empty",
          data: { credits: 99, usd: 0.000099, below_usd: 0.0001 },
        });
        await spend(99_999n);
        expect(await types()).toEqual(["balance.empty", "balance.low"]);
      });

      test("one charge can cross both thresholds, and a purchase re-arms them", async () => {
        await give(2n * USD);
        await spend(2n * USD);
        expect((await types()).toSorted()).toEqual(["balance.empty", "balance.low"]);
        await give(2n * USD);
        await spend(2n * USD);
        expect((await types()).length).toBe(4);
      });

      test("a repeated settle emits no further event", async () => {
        await give(2n * USD);
        await spend(2n * USD, "once");
        await harness.ledger.settle({
          id: "once",
          accountId: "acct_alice",
          keyId,
          now: harness.clock.now,
          cost: 2n * USD,
        });
        expect((await types()).length).toBe(2);
      });

      test("the threshold can be changed, and 0 disables the alert", async () => {
        const path = "/v1/account/balance-alert";
        expect((await harness.call("alice", "GET", path)).body).toEqual({
          object: "balance_alert",
          low_usd: 1,
        });
        const set = await harness.call("alice", "PATCH", path, { low_usd: "2.5" });
        expect([set.status, set.body["low_usd"]]).toEqual([200, 2.5]);
        await give(3n * USD);
        await spend(USD);
        expect((await events())[0]?.["data"]).toMatchObject({ usd: 2, below_usd: 2.5 });
        await harness.call("alice", "PATCH", path, { low_usd: 0 });
        await spend(USD + USD / 2n);
        expect(await types()).toEqual(["balance.low"]);
        expect((await harness.call("bob", "GET", path)).body["low_usd"]).toBe(1);
        for (const low_usd of [-1, "much", 9_000_001, null, 0.12345678912])
          expect((await harness.call("alice", "PATCH", path, { low_usd })).status).toBe(400);
      });

      test("a grant by an operator is audited", async () => {
        await store.db.write((tx) =>
          grantCredit(tx, {
            id: "1",
            accountId: "acct_alice",
            by: COMMAND_LINE_ACTOR,
            amount: USD,
            reason: "sorry",
            network: null,
            now: harness.clock.now,
          }),
        );
        const { body } = await harness.call("alice", "GET", "/v1/audit?action=account.credited");
        expect(body["data"]).toMatchObject([
          {
            actor: { type: "operator" },
            target: "grant.acct_alice.1",
            detail: { usd: "1", reason: "sorry" },
          },
        ]);
      });
    });
  });
});

function lowEvent(accountId: string): NewEvent {
  const data = { credits: 1, usd: 0.000001, below_usd: 1 };
  return { type: "balance.low", accountId, data, now: Date.parse("2026-11-21T09:30:00Z") };
}
