// What a person who claims an account decides about its keys, on both stores.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { actIn } from "../support/act.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import {
  type Agent,
  confirmFields,
  createHarness,
  type Harness,
  linkOf,
  type Page,
  readJson,
  register,
  signedIn,
  type StartResponse,
  startedClaim,
  textOf,
  titleOf,
} from "./harness.ts";

describeEachStore((kind, open) => {
  describe(`the keys of a claimed account on ${kind}`, () => {
    let store: TestStore;
    let harness: Harness;
    let agent: Agent;
    let start: StartResponse;
    let browser: Awaited<ReturnType<typeof signedIn>>;
    let page: Page;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());
    beforeEach(async () => {
      harness = createHarness(store.db);
      agent = await register(harness);
      const email = `human-${crypto.randomUUID()}@example.com`;
      start = await startedClaim(agent.start(email));
      browser = await signedIn(harness, { email });
      page = await browser.visit(linkOf(start));
    });
    const fields = (more: Record<string, string> = {}) => ({
      ...confirmFields(page, start),
      ...more,
    });

    test("revokes and limits keys as chosen", async () => {
      const created = await Promise.all(
        ["limited", "kept"].map((name) =>
          harness.db.write((tx) =>
            harness.keys.create(tx, actIn(agent.accountId, harness.clock.now), { name }),
          ),
        ),
      );
      page = await browser.visit("/claim");
      const [limited, kept] = created.map(({ key }) => key.id);
      const keys = await readJson<{ data: { id: string; name: string | null }[] }>(
        agent.get("/v1/keys"),
      );
      const first = keys.data.find(({ name }) => name === null)?.id ?? "";
      const done = await browser.post(
        "/claim",
        fields({
          [`key.${first}`]: "revoke",
          [`key.${limited}`]: "keep",
          [`usd.${limited}`]: "2,50",
          [`window.${limited}`]: "day",
          [`key.${kept}`]: "keep",
        }),
      );
      expect(titleOf(done)).toBe("The account is yours");
      expect(done.text).toContain("2 keys are active");
      expect(textOf(done)).toMatch(/limited pst-rt-\S+, limited to \$2\.50 per day\. It may call/);
      expect(textOf(done)).toMatch(/kept pst-rt-\S+, no limit\. It may do everything\./);
      expect(textOf(done)).toMatch(/1 key was revoked with the claim\. Key pst-rt-/);
      const rows = await store.db.all(
        "select id, revoked_at, limit_nano, limit_window from api_key where account_id = ?",
        [agent.accountId],
      );
      const row = (id: string | undefined) => rows.find((one) => one["id"] === id);
      expect(row(first)?.["revoked_at"]).not.toBeNull();
      expect(row(limited)).toMatchObject({ revoked_at: null, limit_window: "day" });
      expect(BigInt(String(row(limited)?.["limit_nano"]))).toBe(2_500_000_000n);
      expect(row(kept)).toMatchObject({ revoked_at: null, limit_nano: null });
      expect((await agent.get("/v1/account")).status).toBe(401);
      expect(await harness.auditedActions(agent.accountId)).toEqual([
        "key.created",
        "account.created",
        "claim.started",
        "key.created",
        "key.created",
        "key.revoked",
        "key.changed",
        "account.claimed",
      ]);
    });

    test("limits a key whose parent is revoked: it ends with its parent", async () => {
      const { data } = await readJson<{ data: { id: string }[] }>(agent.get("/v1/keys"));
      const first = data[0]?.id ?? "";
      const { key } = await harness.db.write((tx) =>
        harness.keys.create(tx, actIn(agent.accountId, harness.clock.now), {
          name: "derived",
          derived: { raw: "pst-dk-derived", ancestors: first },
        }),
      );
      page = await browser.visit("/claim");
      const choices = { [`key.${first}`]: "revoke", [`key.${key.id}`]: "keep" };
      const done = await browser.post("/claim", fields({ ...choices, [`usd.${key.id}`]: "1" }));
      expect(titleOf(done)).toBe("The account is yours");
      const sql = "select id from api_key where account_id = ? and revoked_at is null";
      expect(await store.db.all(sql, [agent.accountId])).toEqual([]);
    });

    test("says what a key with a policy may do", async () => {
      await harness.db.write((tx) =>
        harness.keys.create(tx, actIn(agent.accountId, harness.clock.now), {
          name: "bounded",
          policy: { models: ["sim/echo"] },
        }),
      );
      const { text } = await browser.visit("/claim");
      const bounded = text.slice(text.indexOf("bounded"));
      expect(bounded).toMatch(/^.{0,200} \$0\.00 spent\. It may call models and run batches, read/);
    });

    test("limits a key and narrows it to model calls, and a limit stays if the field is empty", async () => {
      const created = await harness.db.write((tx) =>
        harness.keys.create(tx, actIn(agent.accountId, harness.clock.now), {
          name: "limited before",
          limit: 4_000_000_000n,
        }),
      );
      page = await browser.visit("/claim");
      const keys = await readJson<{ data: { id: string }[] }>(agent.get("/v1/keys"));
      const id = keys.data.find((key) => key.id !== created.key.id)?.id ?? "";
      const done = await browser.post(
        "/claim",
        fields({
          [`key.${id}`]: "keep",
          [`usd.${id}`]: "3",
          [`window.${id}`]: "month",
          [`models.${id}`]: "only",
          [`key.${created.key.id}`]: "keep",
          [`usd.${created.key.id}`]: " ",
          [`window.${created.key.id}`]: "day",
        }),
      );
      expect(textOf(done)).toMatch(
        /Key pst-rt-\S+, limited to \$3\.00 per month\. It may call models and run batches, read and delete stored responses, batches and files; read the account, its balance, usage and settings; see whether a person has claimed or joined the account\./,
      );
      expect(textOf(done)).toMatch(/limited before pst-rt-\S+, limited to \$4\.00 in total\./);
    });

    test("narrows a key to model calls, and the agent still learns that the account is claimed", async () => {
      const keys = await readJson<{ data: { id: string }[] }>(agent.get("/v1/keys"));
      const id = keys.data[0]?.id ?? "";
      expect((await browser.visit("/claim")).text).toContain("It may do everything.");
      const done = await browser.post(
        "/claim",
        fields({ [`key.${id}`]: "keep", [`models.${id}`]: "only" }),
      );
      expect(titleOf(done)).toBe("The account is yours");
      expect((await agent.get("/v1/keys")).status).toBe(403);
      expect((await agent.get("/v1/account")).status).toBe(200);
      expect(
        (await store.db.get("select scopes from api_key where id = ?", [id]))?.["scopes"],
      ).toBe("claim:read models:write usage:read");
      expect(await harness.auditedActions(agent.accountId)).toEqual([
        "key.created",
        "account.created",
        "claim.started",
        "key.changed",
        "account.claimed",
      ]);
    });
  });
});
