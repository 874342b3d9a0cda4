// What the agent changes after the claim page was shown: nothing is confirmed that the person has not seen.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { changeKey, revokeKey } from "../../src/keys/keys.ts";
import type { Tx } from "../../src/store/db.ts";
import { actIn } from "../support/act.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import {
  type Agent,
  type Browser,
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
  titleOf,
} from "./harness.ts";

const USD = 1_000_000_000n;
const TAKE_OVER = "An agent wants to hand you its account";

describeEachStore((kind, open) => {
  describe(`a claim page of keys that changed since, on ${kind}`, () => {
    let store: TestStore;
    let harness: Harness;
    let agent: Agent;
    let start: StartResponse;
    let browser: Browser;
    let page: Page;
    let first: string;
    let limited: string;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());
    beforeEach(async () => {
      harness = createHarness(store.db);
      agent = await register(harness);
      const keys = await readJson<{ data: { id: string }[] }>(agent.get("/v1/keys"));
      first = keys.data[0]?.id ?? "";
      limited = await createKey("limited", 1n * USD);
      const email = `human-${crypto.randomUUID()}@example.com`;
      start = await startedClaim(agent.start(email));
      browser = await signedIn(harness, { email });
      page = await browser.visit(linkOf(start));
    });

    const write = <T>(work: (tx: Tx) => Promise<T>): Promise<T> => harness.db.write(work);
    const createKey = async (name: string, limit: bigint | null = null): Promise<string> => {
      const { now } = harness.clock;
      const created = await write((tx) =>
        harness.keys.create(tx, actIn(agent.accountId, now), { name, limit }),
      );
      return created.key.id;
    };
    const change = (id: string, settings: Parameters<typeof changeKey>[3]) =>
      write((tx) => changeKey(tx, actIn(agent.accountId, harness.clock.now), id, settings));
    const confirm = (shown: Page, more: Record<string, string> = {}): Promise<Page> =>
      browser.post("/claim", { ...confirmFields(shown, start), ...more });
    const keepBoth = () => ({ [`key.${first}`]: "revoke", [`key.${limited}`]: "keep" });
    const stateOf = () =>
      store.db.all(
        `select api_key.id, revoked_at, limit_nano, scopes, claimed_at from api_key
         join account on account.id = account_id where account_id = ? order by api_key.id`,
        [agent.accountId],
      );
    /** Expects that nothing changed and that the page says what is different, and confirms the new page. */
    const expectShownAgain = async (mark: string | RegExp): Promise<Page> => {
      const before = await stateOf();
      const again = await confirm(page, keepBoth());
      expect([again.status, titleOf(again)]).toEqual([409, TAKE_OVER]);
      expect(again.text).toContain("changed after this page was shown");
      expect(again.text).toMatch(mark);
      expect(await stateOf()).toEqual(before);
      expect(await harness.auditedActions(agent.accountId)).not.toContain("account.claimed");
      expect(titleOf(await confirm(again, keepBoth()))).toBe("The account is yours");
      return again;
    };

    test("a key that was created in between is shown as new", async () => {
      await createKey("sneaked in");
      await expectShownAgain(/sneaked in.{0,120}New/s);
    });

    test.each([
      ["limit", { limit: 1_000n * USD }],
      ["removed limit", { limit: null }],
      ["window", { limitWindow: "day" }],
      ["scopes", { scopes: ["models:write"] }],
      ["policy", { policy: { models: ["sim/*"] } }],
      ["expiry", { expiresAt: Date.parse("2030-01-01") }],
    ] as const)("a key whose %s changed in between is shown as changed", async (_, settings) => {
      await change(limited, settings);
      await expectShownAgain(/limited.{0,120}Changed/s);
    });

    test("a key that was revoked in between is not shown any more", async () => {
      const { now } = harness.clock;
      await write((tx) => revokeKey(tx, actIn(agent.accountId, now), limited));
      const again = await expectShownAgain("is no longer active");
      expect(again.text).not.toContain(`key.${limited}`);
    });

    test("a key among those that are not listed counts as well", async () => {
      const unlisted = await Promise.all(
        Array.from({ length: 15 }, (_, index) => createKey(`key ${index}`)),
      );
      page = await browser.visit("/claim");
      const hidden = unlisted.find((id) => !page.text.includes(`key.${id}`)) ?? "";
      await change(hidden, { limit: 5n * USD });
      await expectShownAgain("keys that are not listed");
    });

    test("a webhook or provider key that was added in between is shown", async () => {
      await write((tx) =>
        tx.run(
          `insert into webhook (id, account_id, url, events, status, former_until, created_at)
           values (?, ?, 'https://spy.example/hook', '*', 'active', 0, 1)`,
          [`wh_${crypto.randomUUID()}`, agent.accountId],
        ),
      );
      await expectShownAgain("spy.example");
    });

    test("a form without what the page has shown changes nothing", async () => {
      const fields = Object.entries(confirmFields(page, start)).filter(
        ([name]) => !name.startsWith("shown"),
      );
      const again = await browser.post("/claim", Object.fromEntries(fields));
      expect([again.status, titleOf(again)]).toEqual([409, TAKE_OVER]);
    });

    test("spending and a new name change nothing that the person decides on", async () => {
      await change(limited, { name: "renamed" });
      await write((tx) =>
        tx.run("update api_key set last_used_at = 5 where account_id = ?", [agent.accountId]),
      );
      expect(titleOf(await confirm(page, keepBoth()))).toBe("The account is yours");
    });

    test("confirming again is refused to another person with the same email address", async () => {
      expect(titleOf(await confirm(page))).toBe("The account is yours");
      const { claim_attempt_id: attemptId, claim_attempt } = start;
      const attempt = await store.db.get(
        "select email, claimed_by from claim_attempt where id = ?",
        [attemptId],
      );
      const claimer = {
        issuer: "https://other.test",
        subject: "x",
        email: String(attempt?.["email"]),
      };
      const repeat = (personId: string) =>
        write((tx) =>
          harness.claims.confirm(tx, {
            attemptId,
            claimer: { ...claimer, personId },
            userCode: claim_attempt.user_code,
            keyChoices: [],
            shown: undefined,
            now: harness.clock.now,
          }),
        );
      expect(await repeat("person_other")).toEqual({ status: "refused", state: "claimed" });
      expect(await repeat(String(attempt?.["claimed_by"]))).toMatchObject({ status: "claimed" });
    });
  });
});
