import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type PageResponse, type TestUser, textOf, visitPage } from "../billing/console-user.ts";
import { describeEachStore } from "../support/stores/stores.ts";
import { type ConsoleFixture, createConsoleFixture } from "./console-fixture.ts";

describeEachStore((store) => {
  describe(`presets page on ${store}`, () => {
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
      visitPage(fixture.gateway, `/console/${fixture.account.id}/presets${query}`, user, form);
    const save = (fields: Readonly<Record<string, string>>) =>
      open("", { do: "save", name: "reviewer", model: "", system: "", more: "", ...fields });

    test("saves a preset that calls can name, edits and deletes it", async () => {
      expect(textOf(await open())).toContain("No presets yet");
      const saved = await save({
        model: "sim/echo",
        system: "Review.",
        more: '{"temperature": 0}',
      });
      expect([saved.status, saved.location]).toEqual([
        303,
        `/console/${fixture.account.id}/presets?done=save`,
      ]);
      const edited = await open("?edit=reviewer");
      expect(edited.text).toContain("Save a version");
      expect(edited.text).toContain("&quot;temperature&quot;: 0");
      await save({ model: "sim/tiny" });
      expect(textOf(await open())).toMatch(/reviewer sim\/tiny 2 /);
      expect(textOf(await open("?delete=reviewer"))).toContain("Delete reviewer? All its versions");
      const deleted = await open("", { do: "delete", name: "reviewer" });
      expect(deleted.location).toContain("done=delete");
      expect(textOf(await open())).toContain("No presets yet");
    });

    test("keeps a rejected form, with the error at its field", async () => {
      for (const [fields, message] of [
        [{ name: "Upper case" }, "must be lowercase letters"],
        [{ more: "[1]" }, "Further settings must be a JSON object"],
        [{ more: "{" }, "Further settings must be a JSON object"],
        [{ more: '{"temprature": 1}' }, "Did you mean temperature?"],
        [{ more: '{"temperature": 3}' }, "must be at most 2"],
      ] as const) {
        const page = await save({ ...fields, system: "A text that must not be lost" });
        expect(page.status).toBe(400);
        expect(textOf(page)).toContain(message);
        expect(page.text).toContain("A text that must not be lost");
      }
    });

    test("a developer reads presets and cannot change them", async () => {
      await save({ system: "Shared." });
      const page = await open("", undefined, fixture.developer);
      expect(page.text).toContain("reviewer");
      expect(page.text).not.toContain("Save preset");
      const form = { do: "save", name: "other", model: "", system: "", more: "" };
      expect((await open("", form, fixture.developer)).status).toBe(403);
      expect((await open("", { do: "delete", name: "reviewer" }, fixture.developer)).status).toBe(
        403,
      );
    });
  });
});
