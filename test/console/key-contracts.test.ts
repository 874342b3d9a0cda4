// Keys without a secret, derived keys and the restrictions of endpoints, sessions and receipts, on the pages of keys and Settings.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { deriveKey } from "../../examples/derived-keys/derive-key.ts";
import { type PageResponse, textOf, visitPage } from "../billing/console-user.ts";
import { call, textAt, valueAt } from "../spec/api-client.ts";
import { describeEachStore } from "../support/stores/stores.ts";
import { type ConsoleFixture, createConsoleFixture } from "./console-fixture.ts";

type Form = Readonly<Record<string, string>>;

describeEachStore((store) => {
  describe(`keys page on ${store}`, () => {
    let fixture: ConsoleFixture;
    beforeAll(async () => {
      fixture = await createConsoleFixture(store);
    });
    afterAll(() => fixture.gateway.stop());

    const open = (path: string, form?: Form): Promise<PageResponse> => {
      const { gateway, account, owner } = fixture;
      return visitPage(gateway, `/console/${account.id}${path}`, owner, form);
    };
    const mint = (form: Form): Promise<PageResponse> => open("/keys", { do: "mint", ...form });
    const secretOf = ({ text }: PageResponse): string =>
      /pst-rt-[0-9A-Za-z]{49}/.exec(text)?.[0] ?? "";
    const self = async (key: string): Promise<unknown> =>
      (await call(fixture.gateway, "GET /v1/keys/self", { key })).body;

    test("creates a key for the tokens of an issuer, which shows its audience and has no secret to rotate", async () => {
      const issuer = "https://token.actions.example";
      const created = await mint({
        name: "ci",
        limit_usd: "5",
        oidc_issuer: issuer,
        oidc_subject: "repo:acme/app:ref:refs/heads/main",
      });
      expect([created.status, secretOf(created)]).toEqual([200, ""]);
      const audience = /http[^<\s]*\/v1\/keys\/(key_[0-9a-z]{26})/.exec(created.text);
      expect(audience?.[0]).toStartWith(fixture.gateway.url);
      const page = textOf(await open(`/keys/${audience?.[1]}`));
      for (const shown of [issuer, "repo:acme/app:ref:refs/heads/main", audience?.[0] ?? ""])
        expect(page).toContain(shown);
      expect(page).not.toContain("Rotate key");
    });

    test.each([
      [{ oidc_issuer: "not a URL", oidc_subject: "repo:a/b:c" }, "mint-oidc-issuer"],
      [{ oidc_issuer: "https://a.example", oidc_subject: "" }, "mint-oidc-subject"],
      [{ oidc_issuer: "https://a.example", oidc_subject: "repo:*" }, "mint-oidc-subject"],
    ])("says beside the field what is wrong with an identity: %j", async (fields, id) => {
      const { status, text } = await mint({ name: "ci", ...fields });
      expect(status).toBe(400);
      const [input = ""] = new RegExp(`<input[^>]*id="${id}"[^>]*>`).exec(text) ?? [];
      expect(input).toContain('aria-invalid="true"');
    });

    test("lists the keys derived from one, with their spend, and has no rotation of them", async () => {
      const raw = secretOf(await mint({ name: "lead", limit_usd: "1" }));
      const first = deriveKey(raw, { id: "researcher", usd: "0.5" });
      const second = deriveKey(first, { id: "reader", usd: "0.1", endpoints: ["chat"] });
      const chat = await call(fixture.gateway, "POST /v1/chat/completions", {
        key: second,
        body: { model: "sim/echo", max_tokens: 8, messages: [{ role: "user", content: "Hi" }] },
      });
      expect(chat.status).toBe(200);
      const rootPage = textOf(await open(`/keys/${textAt(await self(raw), "id")}`));
      for (const shown of ["Derived keys", "researcher", "reader", "of $0.10 in total"])
        expect(rootPage).toContain(shown);
      expect(rootPage.indexOf("researcher")).toBeLessThan(rootPage.indexOf("reader"));
      const id = textAt(await self(second), "id");
      const leaf = textOf(await open(`/keys/${id}`));
      expect(leaf).toContain("Derived from");
      expect(leaf).not.toContain("Rotate key");
      await open(`/keys/${textAt(await self(first), "id")}`, { do: "revoke" });
      expect(textOf(await open(`/keys/${id}`))).toContain("Revoked");
    });

    test("sets endpoints, a session and receipts of a key, and says what is wrong with them", async () => {
      const restrictions = {
        allowed_endpoints: "chat\nembeddings",
        session: "task-1",
        receipts: "true",
      };
      const raw = secretOf(await mint({ name: "narrow", ...restrictions }));
      expect(await self(raw)).toMatchObject({
        allowed_endpoints: ["chat", "embeddings"],
        session: "task-1",
        receipts: true,
      });
      const path = `/keys/${textAt(await self(raw), "id")}`;
      const { text } = await open(path);
      expect(text).toContain("chat\nembeddings</textarea>");
      const cleared = { do: "change", allowed_endpoints: "", session: "", receipts: "" };
      expect((await open(path, cleared)).status).toBe(303);
      expect(await self(raw)).toMatchObject({
        allowed_endpoints: null,
        session: null,
        receipts: null,
      });
      for (const [field, value] of [
        ["allowed_endpoints", "chats"],
        ["session", "two words"],
      ] as const) {
        const rejected = await open(path, { do: "change", [field]: value });
        expect([field, rejected.status]).toEqual([field, 400]);
        expect(rejected.text).toContain('aria-invalid="true"');
      }
    });

    test("turns receipts of every call on and off in Settings", async () => {
      const raw = secretOf(await mint({ name: "any" }));
      const setting = async (): Promise<unknown> => {
        const { body } = await call(fixture.gateway, "GET /v1/account", { key: raw });
        return valueAt(body, "account.receipts");
      };
      expect((await open("/settings", { name: "Acme", receipts: "all" })).status).toBe(303);
      expect(await setting()).toBe(true);
      expect((await open("/settings")).text).toMatch(/<option value="all" selected/);
      await open("/settings", { name: "Acme", receipts: "asked" });
      expect(await setting()).toBe(false);
    });
  });
});
