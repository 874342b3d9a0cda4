import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type PageResponse, textOf, visitPage } from "../billing/console-user.ts";
import { eventually } from "../support/eventually.ts";
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
      const { gateway, account, owner } = fixture;
      const path = `/console/${account.id}/webhooks`;
      for (const [action, notice] of [
        ["test", "The test event is sent."],
        ["enable", "The webhook is enabled."],
        ["remove", "The webhook is deleted."],
      ] as const) {
        const { status, location } = await open({ do: action, webhook });
        expect([status, location]).toEqual([303, `${path}?done=${action}`]);
        expect(textOf(await visitPage(gateway, location ?? "", owner))).toContain(notice);
      }
      const log = await visitPage(gateway, `/console/${account.id}/audit`, owner);
      expect(log.text).toContain("webhook.created");
      expect(log.text).toContain("webhook.deleted");
    });

    test("lists the deliveries of a webhook and replays one", async () => {
      let status = 500;
      const received: string[] = [];
      const endpoint = Bun.serve({
        port: 0,
        fetch: (request) => {
          received.push(request.headers.get("webhook-id") ?? "");
          return new Response("try later", { status });
        },
      });
      const url = `http://127.0.0.1:${endpoint.port}/log`;
      const added = await open({ do: "add", url });
      const webhook =
        [...added.text.matchAll(/id="(whk_\w+)"[^>]*>([^<]*)</g)].find(
          ([, , shown]) => shown === url,
        )?.[1] ?? "";
      const { gateway, account, owner, otherAccount, otherOwner } = fixture;
      const path = `/console/${account.id}/webhooks/${webhook}`;
      const openLog = (form?: Readonly<Record<string, string>>) =>
        visitPage(gateway, path, owner, form);
      expect(textOf(await openLog())).toContain("No deliveries yet");
      await open({ do: "test", webhook });
      await eventually(async () => textOf(await openLog()).includes(" 500 "));
      status = 200;
      const delivery = /name="delivery" value="([^"]+)"/.exec((await openLog()).text)?.[1] ?? "";
      const replayed = await openLog({ do: "replay", delivery });
      expect(replayed.location).toBe(`${path}?delivery=${delivery}&done=replay`);
      await eventually(async () => textOf(await openLog()).includes(" delivered "));
      const shown = await visitPage(gateway, `${path}?delivery=${delivery}`, owner);
      expect(textOf(shown)).toContain("the endpoint answered 500");
      expect(textOf(shown)).toContain("try later");
      expect(textOf(shown)).toContain("&quot;type&quot;: &quot;webhook.test&quot;");
      expect(shown.text.match(/<summary>(?=[1-9])/g)?.length).toBeGreaterThanOrEqual(2);
      expect(new Set(received).size).toBe(1);
      expect((await openLog({ do: "replay", delivery: "dlv_none" })).status).toBe(404);
      const foreign = `/console/${otherAccount.id}/webhooks/${webhook}`;
      expect((await visitPage(gateway, foreign, otherOwner)).status).toBe(404);
      await endpoint.stop(true);
    });

    test("chooses the events of a webhook, and rotates its secret once per form", async () => {
      const added = await open({
        do: "add",
        url: "http://127.0.0.1:9/chosen",
        "key.created": "on",
        "invoice.paid": "on",
      });
      const id = /id="(whk_\w+)"[^>]*>http:\/\/127\.0\.0\.1:9\/chosen/.exec(added.text)?.[1] ?? "";
      expect(textOf(added)).toContain("key.created, invoice.paid");
      const { gateway, account, owner } = fixture;
      const openWebhook = (form?: Readonly<Record<string, string>>) =>
        visitPage(gateway, `/console/${account.id}/webhooks/${id}`, owner, form);
      const first = await openWebhook();
      expect(first.text).toMatch(/id="webhook-key\.created"[^>]*checked/);
      expect(first.text).not.toMatch(/id="webhook-all"[^>]*checked/);
      await openWebhook({ do: "events", all_events: "on" });
      expect((await openWebhook()).text).toMatch(/id="webhook-all"[^>]*checked/);
      const once = /name="once" value="(\w{22})"/.exec(first.text)?.[1] ?? "";
      const form = { do: "rotate", overlap: "hour", once };
      const rotated = await openWebhook(form);
      expect(secretOf(rotated)).toBeString();
      expect(secretOf(rotated)).not.toBe(secretOf(added));
      expect(secretOf(await openWebhook(form))).toBe(secretOf(rotated));
      expect(textOf(rotated)).toContain("The former secret signs until");
    });

    test("adds one webhook if a form is sent twice", async () => {
      const once = /name="once" value="(\w{22})"/.exec((await open()).text)?.[1] ?? "";
      const form = { do: "add", url: "http://127.0.0.1:9/reloaded", once };
      const added = await open(form);
      expect(secretOf(added)).toBeString();
      expect(secretOf(await open(form))).toBe(secretOf(added));
      const { text } = await open();
      expect(text.match(/<a [^>]*>http:\/\/127\.0\.0\.1:9\/reloaded</g)).toHaveLength(1);
    });
  });
});
