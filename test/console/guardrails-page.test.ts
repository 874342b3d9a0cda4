import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type PageResponse, type TestUser, textOf, visitPage } from "../billing/console-user.ts";
import { describeEachStore } from "../support/stores/stores.ts";
import { type ConsoleFixture, createConsoleFixture } from "./console-fixture.ts";

describeEachStore((store) => {
  describe(`guardrails page on ${store}`, () => {
    let fixture: ConsoleFixture;
    beforeAll(async () => {
      fixture = await createConsoleFixture(store);
    });
    afterAll(() => fixture.gateway.stop());

    const open = (
      query = "",
      form?: Readonly<Record<string, string>>,
      user: TestUser = fixture.owner,
    ): Promise<PageResponse> =>
      visitPage(fixture.gateway, `/console/${fixture.account.id}/guardrails${query}`, user, form);
    const PATTERNS = { do: "patterns", name: "no-mail", action: "mask", input: "on", email: "on" };
    const HOOK = {
      do: "hook",
      name: "judge",
      url: "https://example.com/guard?token=1",
      on_failure: "allow",
      timeout_ms: "900",
      input: "on",
      output: "on",
    };

    test("saves patterns and a hook, shows both, and deletes them", async () => {
      expect(textOf(await open())).toContain("No guardrails yet");
      const saved = await open("", PATTERNS);
      expect([saved.status, saved.location]).toEqual([
        303,
        `/console/${fixture.account.id}/guardrails?done=save`,
      ]);
      expect((await open("", HOOK)).status).toBe(303);
      const page = await open();
      expect(textOf(page)).toMatch(/no-mail Masks email addresses Requests/);
      expect(textOf(page)).toMatch(/judge Hook at example\.com Requests, Replies/);
      expect(page.text).not.toContain("token=1");
      expect(textOf(await open("?delete=judge"))).toContain("Delete judge?");
      for (const name of ["judge", "no-mail"]) {
        const deleted = await open("", { do: "delete", name });
        expect(deleted.location).toContain("done=delete");
      }
      expect(textOf(await open())).toContain("No guardrails yet");
    });

    test("keeps a rejected form, and says what is wrong", async () => {
      for (const [form, message] of [
        [{ ...PATTERNS, name: "Upper case" }, "must be lowercase letters"],
        [{ do: "patterns", name: "kept-name", action: "mask", input: "on" }, "Choose what"],
        [{ do: "patterns", name: "kept-name", action: "mask", email: "on" }, "Choose requests"],
        [{ ...HOOK, url: "http://example.com/" }, "must begin with https://"],
        [{ ...HOOK, timeout_ms: "never" }, "must be a number of milliseconds"],
      ] as const) {
        const page = await open("", form);
        expect(page.status).toBe(400);
        expect(textOf(page)).toContain(message);
        expect(page.text).toContain(`value="${form.name}"`);
      }
    });

    test("a developer reads guardrails and cannot change them", async () => {
      await open("", PATTERNS);
      const page = await open("", undefined, fixture.developer);
      expect(page.text).toContain("no-mail");
      expect(page.text).not.toContain("Save patterns");
      expect((await open("", PATTERNS, fixture.developer)).status).toBe(403);
    });
  });
});
