import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { DAY_MS } from "../../src/base/time.ts";
import { createUser, textOf, visitPage } from "../billing/console-user.ts";
import { describeEachStore } from "../support/stores/stores.ts";
import { type ConsoleFixture, createConsoleFixture } from "./console-fixture.ts";

describeEachStore((store) => {
  describe(`console overview on ${store}`, () => {
    let fixture: ConsoleFixture;
    beforeAll(async () => {
      fixture = await createConsoleFixture(store);
      await fetch(`${fixture.gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: fixture.account.headers,
        body: JSON.stringify({
          model: "sim/echo",
          max_tokens: 20,
          messages: [{ role: "user", content: "hi" }],
        }),
      });
    });
    afterAll(() => fixture.gateway.stop());

    test("shows balance, usage, keys and members to a developer", async () => {
      const { gateway, account, owner, developer } = fixture;
      const path = `/console/${account.id}`;
      const overview = await visitPage(gateway, path, developer);
      expect(overview.status).toBe(200);
      const text = textOf(overview);
      expect(text).toMatch(/Balance \$0\.0\d+/);
      expect(text).toMatch(/Latency, p50 ~(\d+ m?s) p95 ~\1/);
      expect(text).toContain("1 active key");
      expect(overview.text).toMatch(new RegExp(`href="${path}/keys/key_\\w+"`));
      expect(text).toContain("2 members");
      expect(overview.headers.get("cache-control")).toBe("no-store");
      expect(overview.headers.get("content-security-policy")).toContain("frame-ancestors 'none'");
      const usage = await visitPage(gateway, `${path}/usage`, developer);
      expect(usage.text).toContain("sim/echo");
      const members = await visitPage(gateway, `${path}/members`, developer);
      expect(members.text).toContain(owner.email);
    });

    test("tells owners of the people that an agent invited", async () => {
      const { gateway, account, owner, developer } = fixture;
      await fetch(`${gateway.url}/agent/identity/claim`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({ email: "colleague@example.com" }),
      });
      const path = `/console/${account.id}`;
      const sentence = "An agent of this workspace invited colleague@example.com";
      expect(textOf(await visitPage(gateway, path, owner))).toContain(sentence);
      expect(textOf(await visitPage(gateway, path, developer))).not.toContain(sentence);
    });

    test("warns of a key that expires soon, but not of one created for a short time", async () => {
      const { gateway, account, owner } = fixture;
      const inDays = (days: number): string => new Date(Date.now() + days * DAY_MS).toISOString();
      for (const [name, days] of [
        ["for-an-hour", 1 / 24],
        ["for-eight-days", 8],
      ] as const)
        await fetch(`${gateway.url}/v1/keys`, {
          method: "POST",
          headers: account.headers,
          body: JSON.stringify({ name, expires_at: inDays(days) }),
        });
      await gateway.server.db.write((tx) =>
        tx.run(
          "update api_key set created_at = created_at - ?, expires_at = expires_at - ? where name = ?",
          [2 * DAY_MS, 2 * DAY_MS, "for-eight-days"],
        ),
      );
      const text = textOf(await visitPage(gateway, `/console/${account.id}`, owner));
      expect(text).toContain("for-eight-days expires on");
      expect(text).not.toContain("for-an-hour expires on");
    });

    test("lists three keys that expire soon, and counts the others", async () => {
      const { gateway, account, owner } = fixture;
      await gateway.server.db.write((tx) => tx.run("update api_key set expires_at = null"));
      const expiry = new Date(Date.now() + 8 * DAY_MS).toISOString();
      for (const name of ["one", "two", "three", "four"])
        await fetch(`${gateway.url}/v1/keys`, {
          method: "POST",
          headers: account.headers,
          body: JSON.stringify({ name, expires_at: expiry }),
        });
      await gateway.server.db.write((tx) =>
        tx.run(
          "update api_key set created_at = created_at - ?, expires_at = expires_at - ? where name in ('one', 'two', 'three', 'four')",
          [2 * DAY_MS, 2 * DAY_MS],
        ),
      );
      const text = textOf(await visitPage(gateway, `/console/${account.id}`, owner));
      expect(text.match(/(?:one|two|three|four) expires on/g)).toHaveLength(3);
      expect(text).toContain("Expiring within 7 days: 1 more key.");
    });

    test("makes wide tables scrollable by keyboard, with a label", async () => {
      const { gateway, account, owner } = fixture;
      for (const page of ["", "/usage", "/audit"]) {
        const { text } = await visitPage(gateway, `/console/${account.id}${page}`, owner);
        const regions = text.match(/<div class="scroll[^>]*>/g) ?? [];
        expect([page, regions.length]).not.toEqual([page, 0]);
        for (const region of regions)
          expect(region).toMatch(/role="region" aria-label="[^"]+" tabindex="0"/);
      }
    });

    test("lists a person's workspaces, or redirects to the only one", async () => {
      const { gateway, account, owner } = fixture;
      expect((await visitPage(gateway, "/console", owner)).location).toBe(`/console/${account.id}`);
      const newcomer = await createUser(gateway, "newcomer");
      const empty = await visitPage(gateway, "/console", newcomer);
      expect(empty.text).toContain("Create your workspace");
    });

    test("shows the key that spent most, also among more than a hundred", async () => {
      const { gateway, account, owner } = fixture;
      for (let key = 0; key < 101; key++)
        await fetch(`${gateway.url}/v1/keys`, {
          method: "POST",
          headers: account.headers,
          body: JSON.stringify({ name: `worker-${key}` }),
        });
      const path = `/console/${account.id}`;
      const [called] = await gateway.server.db.all(
        "select key_id from usage_record where account_id = ?",
        [account.id],
      );
      const { text } = await visitPage(gateway, path, owner);
      expect(text).toContain(`href="${path}/keys/${String(called?.["key_id"])}"`);
    });
  });
});
