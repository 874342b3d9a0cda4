import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type PageResponse, visitPage } from "../billing/console-user.ts";
import { describeEachStore } from "../support/stores/stores.ts";
import { type ConsoleFixture, createConsoleFixture } from "./console-fixture.ts";

const secretOf = ({ text }: PageResponse): string | undefined => /whsec_[\w+/=]+/.exec(text)?.[0];

describeEachStore((store) => {
  describe(`webhooks page on ${store}`, () => {
    let fixture: ConsoleFixture;
    beforeAll(async () => {
      fixture = await createConsoleFixture(store);
    });
    afterAll(() => fixture.gateway.stop());

    const open = (form?: Readonly<Record<string, string>>): Promise<PageResponse> => {
      const { gateway, account, owner } = fixture;
      return visitPage(gateway, `/console/${account.id}/webhooks`, owner, form);
    };

    test("adds, tests and deletes a webhook, with audit entries", async () => {
      expect((await open({ do: "add", url: "ftp://example.com" })).status).toBe(400);
      const added = await open({ do: "add", url: "http://127.0.0.1:9/hook" });
      expect(secretOf(added)).toBeString();
      expect(secretOf(await open())).toBeUndefined();
      const webhook = /name="webhook" value="([^"]+)"/.exec(added.text)?.[1] ?? "";
      expect((await open({ do: "test", webhook })).status).toBe(303);
      expect((await open({ do: "remove", webhook })).status).toBe(303);
      const { gateway, account, owner } = fixture;
      const log = await visitPage(gateway, `/console/${account.id}/audit`, owner);
      expect(log.text).toContain("webhook.created");
      expect(log.text).toContain("webhook.deleted");
    });

    test("adds one webhook if a form is sent twice", async () => {
      const once = /name="once" value="(\w{22})"/.exec((await open()).text)?.[1] ?? "";
      const form = { do: "add", url: "http://127.0.0.1:9/reloaded", once };
      const added = await open(form);
      expect(secretOf(added)).toBeString();
      expect(secretOf(await open(form))).toBe(secretOf(added));
      const { text } = await open();
      expect(text.match(/<h2[^>]*>http:\/\/127\.0\.0\.1:9\/reloaded</g)).toHaveLength(1);
    });
  });
});
