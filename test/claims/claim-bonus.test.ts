// The daily budget of the claim bonus: mailboxes are free to create, and each could collect $1.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { DAY_MS } from "../../src/base/time.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import {
  type Agent,
  balanceOf,
  claimAs,
  createHarness,
  linkOf,
  type Page,
  register,
  signedIn,
  startedClaim,
  type Harness,
} from "./harness.ts";

const USD = 1_000_000_000n;
const START = 50_000_000n;

describeEachStore((kind, open) => {
  describe(`daily bonus budget on ${kind}`, () => {
    let store: TestStore;
    let harness: Harness;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());
    beforeEach(async () => {
      harness = harnessWith(2n * USD);
      await store.db.write((tx) => tx.run("delete from claim_count"));
    });

    const harnessWith = (bonusPerDay: bigint): Harness =>
      createHarness(store.db, { limits: { startsPerAccount: 0, bonusPerDay } });
    const newHuman = (): { email: string } => ({ email: `${crypto.randomUUID()}@example.com` });
    interface Claimed {
      readonly agent: Agent;
      readonly page: Page;
      readonly balance: bigint;
    }
    const claim = async (human = newHuman()): Promise<Claimed> => {
      const agent = await register(harness);
      const page = await claimAs(harness, human, await startedClaim(agent.start(human.email)));
      return { agent, page, balance: await balanceOf(harness, agent.accountId) };
    };

    test("beyond the budget a claim succeeds without a bonus, and the page says so", async () => {
      expect((await claim()).balance).toBe(START + USD);
      expect((await claim()).page.text).toContain("A bonus of $1.00 was added");
      const { page, balance, agent } = await claim();
      expect([page.status, balance]).toEqual([200, START]);
      expect(page.text).toContain("The account is yours");
      expect(page.text).toContain("the daily bonus budget of this gateway was spent");
      expect(page.text).not.toContain("once per person");
      expect((await agent.poll()).status).toBe(200);
    });

    test("the review page offers a bonus only while the budget lasts", async () => {
      const [agent, human] = [await register(harness), newHuman()];
      const start = await startedClaim(agent.start(human.email));
      const browser = await signedIn(harness, human);
      expect((await browser.visit(linkOf(start))).text).toContain("a bonus of $1.00");
      await claim();
      await claim();
      const { text } = await browser.visit(linkOf(start));
      expect(text).not.toContain("a bonus of $1.00");
      expect(text).toContain("No bonus today");
    });

    test("the budget resets each UTC day, and a human who missed the bonus can still get it", async () => {
      const human = newHuman();
      await claim();
      await claim();
      expect((await claim(human)).balance).toBe(START);
      harness.clock.now += DAY_MS;
      const next = await claim(human);
      expect(next.balance).toBe(START + USD);
      expect((await claim(human)).page.text).toContain("granted once per person");
      harness.clock.now -= DAY_MS;
    });

    test("a human who already had the bonus does not use the budget", async () => {
      const human = newHuman();
      for (let times = 0; times < 5; times++) await claim(human);
      expect((await claim()).balance).toBe(START + USD);
      expect((await claim()).balance).toBe(START);
    });

    test("concurrent claims never exceed the budget", async () => {
      harness = harnessWith(3n * USD + USD / 2n);
      const claims = await Promise.all(Array.from({ length: 9 }, () => claim()));
      expect(claims.map(({ page }) => page.status)).toEqual(claims.map(() => 200));
      const withBonus = claims.filter(({ balance }) => balance === START + USD);
      const without = claims.filter(({ balance }) => balance === START);
      expect([withBonus.length, without.length]).toEqual([3, 6]);
    });

    test("a budget below one bonus grants none, and 0 means no limit", async () => {
      harness = harnessWith(USD - 1n);
      expect((await claim()).balance).toBe(START);
      harness = harnessWith(0n);
      for (let times = 0; times < 4; times++) expect((await claim()).balance).toBe(START + USD);
    });
  });
});
