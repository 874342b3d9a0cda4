import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type PageResponse, textOf, visitPage } from "../billing/console-user.ts";
import { describeEachStore } from "../support/stores/stores.ts";
import { type ConsoleFixture, createConsoleFixture } from "./console-fixture.ts";

type Form = Readonly<Record<string, string>>;

interface ApiKey {
  readonly id: string;
  readonly name: string;
  readonly limit_usd: number | null;
  readonly limit_window: string | null;
  readonly expires_at: string | null;
  readonly allowed_models: readonly string[] | null;
}

const secretOf = ({ text }: PageResponse): string => /pst-rt-[0-9A-Za-z]{49}/.exec(text)?.[0] ?? "";
const formTokenOf = ({ text }: PageResponse): string =>
  /name="once" value="(\w{22})"/.exec(text)?.[1] ?? "";

describeEachStore((store) => {
  describe(`keys page on ${store}`, () => {
    let fixture: ConsoleFixture;
    beforeAll(async () => {
      fixture = await createConsoleFixture(store);
    });
    afterAll(() => fixture.gateway.stop());

    const open = (form?: Form): Promise<PageResponse> => {
      const { gateway, account, owner } = fixture;
      return visitPage(gateway, `/console/${account.id}/keys`, owner, form);
    };
    const openKey = (id: string, form?: Form): Promise<PageResponse> => {
      const { gateway, account, owner } = fixture;
      return visitPage(gateway, `/console/${account.id}/keys/${id}`, owner, form);
    };
    const readAccount = (secret: string): Promise<Response> =>
      fetch(`${fixture.gateway.url}/v1/account`, {
        headers: { authorization: `Bearer ${secret}` },
      });
    const readKey = async (secret: string): Promise<ApiKey> =>
      // Safe because the account's response has this shape.
      ((await (await readAccount(secret)).json()) as { key: ApiKey }).key;
    const countKeys = async (): Promise<number> => {
      const { db } = fixture.gateway.server;
      const sql = "select id from api_key where account_id = ?";
      return (await db.all(sql, [fixture.account.id])).length;
    };

    test("creates a key, shows it once, changes its limit and revokes it", async () => {
      const created = await open({
        do: "mint",
        name: "night",
        limit_usd: "2.50",
        limit_window: "day",
      });
      expect(created.status).toBe(200);
      const secret = secretOf(created);
      const key = await readKey(secret);
      expect(key).toMatchObject({ name: "night", limit_usd: 2.5, limit_window: "day" });
      const page = await open();
      expect(page.text).not.toContain(secret);
      expect(textOf(page)).toContain("of $2.50 a day");
      expect(textOf(page)).toContain(fixture.owner.email);
      const rejected = await openKey(key.id, { do: "change", limit_usd: "x" });
      expect(rejected.text).toContain("must be an amount");
      const revoked = await openKey(key.id, { do: "revoke" });
      expect(revoked.status).toBe(303);
      expect(revoked.headers.get("location")).toEndWith("/keys?done=revoke");
      expect(textOf(await openKey(key.id))).toContain("Revoked");
      expect((await readAccount(secret)).status).toBe(401);
    });

    test("rotates a key once per form, shows both secrets and ends the overlap", async () => {
      const former = secretOf(await open({ do: "mint", name: "rotated" }));
      const { id } = await readKey(former);
      const once = formTokenOf(await openKey(id));
      const form = { do: "rotate", overlap: "hour", once };
      const rotated = await openKey(id, form);
      const secret = secretOf(rotated);
      expect(secret).not.toBe(former);
      expect(textOf(rotated)).toMatch(
        new RegExp(`which ends in ${former.slice(-4)} ?, is accepted too until`),
      );
      expect(secretOf(await openKey(id, form))).toBe(secret);
      const page = await openKey(id);
      expect(page.text).not.toContain(secret);
      expect(textOf(page)).toContain(`…${former.slice(-4)} Former`);
      expect([(await readAccount(former)).status, (await readAccount(secret)).status]).toEqual([
        200, 200,
      ]);
      expect((await openKey(id, { do: "end_overlap" })).location).toEndWith("?done=end_overlap");
      expect([(await readAccount(former)).status, (await readAccount(secret)).status]).toEqual([
        401, 200,
      ]);
      const immediately = await openKey(id, { do: "rotate", overlap: "none" });
      expect(textOf(immediately)).toContain("The former secret is no longer accepted.");
      expect((await readAccount(secret)).status).toBe(401);
    });

    test("raises a limit and an expiry that the key itself must not raise", async () => {
      const created = await open({
        do: "mint",
        name: "short",
        limit_usd: "1",
        last_day: "2030-05-01",
      });
      const secret = secretOf(created);
      const { id, ...settings } = await readKey(secret);
      expect(settings).toMatchObject({ expires_at: "2030-05-02T00:00:00.000Z", limit_usd: 1 });
      for (const body of [{ limit_usd: 2 }, { expires_at: "2030-05-02T00:00:00.001Z" }]) {
        const patched = await fetch(`${fixture.gateway.url}/v1/keys/${id}`, {
          method: "PATCH",
          headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
          body: JSON.stringify(body),
        });
        expect(patched.status).toBe(403);
      }
      expect((await openKey(id, { do: "change", limit_usd: "2" })).status).toBe(303);
      expect((await openKey(id, { do: "change", last_day: "2030-06-30" })).status).toBe(303);
      expect(await readKey(secret)).toMatchObject({
        expires_at: "2030-07-01T00:00:00.000Z",
        limit_usd: 2,
      });
      const page = await openKey(id);
      expect(page.text).toContain('value="2030-06-30"');
      expect(textOf(page)).toContain("Expires 2030-07-01 00:00 UTC");
      for (const last_day of ["2020-01-01", "tomorrow", "2030-13-45"]) {
        const rejected = await openKey(id, { do: "change", last_day });
        expect([last_day, rejected.status]).toEqual([last_day, 400]);
      }
      expect((await openKey(id, { do: "change", last_day: "" })).status).toBe(303);
      expect(await readKey(secret)).toMatchObject({ expires_at: null, limit_usd: 2 });
    });

    test("creates, changes and duplicates a key with models, rates, price and alerts", async () => {
      const restrictions = {
        limit_usd: "10",
        allowed_models: "openai/*\nanthropic/*",
        allowed_providers: "sim",
        requests_per_minute: "60",
        tokens_per_minute: "100000",
        max_concurrent_calls: "4",
        max_price_per_million_usd: "2.5",
        alert_percents: "80, 100",
      };
      const created = await open({ do: "mint", name: "narrow", ...restrictions });
      const key = await readKey(secretOf(created));
      expect(key).toMatchObject({
        allowed_models: ["openai/*", "anthropic/*"],
        allowed_providers: ["sim"],
        requests_per_minute: 60,
        tokens_per_minute: 100_000,
        max_concurrent_calls: 4,
        max_price_per_million_usd: 2.5,
        alert_percents: [80, 100],
      });
      const change = { do: "change", name: "renamed", requests_per_minute: "", access: "models" };
      expect((await openKey(key.id, { ...restrictions, ...change })).status).toBe(303);
      expect(await readKey(secretOf(created))).toMatchObject({
        name: "renamed",
        requests_per_minute: null,
        tokens_per_minute: 100_000,
        scopes: expect.arrayContaining(["models:write", "usage:read", "claim:read"]),
      });
      const { gateway, account, owner } = fixture;
      const copyPath = `/console/${account.id}/keys?copy=${key.id}`;
      const copy = await visitPage(gateway, copyPath, owner);
      expect(copy.text).toContain('value="renamed"');
      expect(copy.text).toContain("openai/*\nanthropic/*");
      expect((await visitPage(gateway, `${copyPath}x`, owner)).status).toBe(404);
    });

    test("names the field of each invalid restriction", async () => {
      for (const [field, value, id] of [
        ["requests_per_minute", "0", "mint-requests_per_minute"],
        ["requests_per_minute", "1.5", "mint-requests_per_minute"],
        ["max_concurrent_calls", "many", "mint-max_concurrent_calls"],
        ["max_price_per_million_usd", "-1", "mint-price"],
        ["session_limit_usd", "many", "mint-session-limit"],
        ["alert_percents", "80, 120", "mint-alerts"],
        ["allowed_models", "x".repeat(300), "mint-models"],
        ["alert_percents", "80", ""],
      ] as const) {
        const rejected = await open({ do: "mint", [field]: value });
        expect([field, rejected.status]).toEqual([field, 400]);
        if (id !== "") expect(rejected.text).toContain(`id="${id}-error"`);
        expect(rejected.text).toMatch(/<details class="more" open/);
        expect(rejected.text).toContain(value);
      }
    });

    test("a developer changes the name of an own key whose limit stays, and raises nothing", async () => {
      const { gateway, account, developer } = fixture;
      const send = (path: string, form: Form) =>
        visitPage(gateway, `/console/${account.id}/keys${path}`, developer, form);
      const created = await send("", { do: "mint", limit_usd: "1", last_day: "2030-01-01" });
      const { id } = await readKey(secretOf(created));
      const same = { do: "change", limit_usd: "1", last_day: "2030-01-01" };
      expect((await send(`/${id}`, { ...same, name: "mine" })).status).toBe(303);
      expect((await send(`/${id}`, { ...same, limit_usd: "2" })).status).toBe(403);
    });

    test("creates one key if a form is sent twice", async () => {
      const before = await countKeys();
      const form = { do: "mint", name: "reloaded", once: formTokenOf(await open()) };
      const [first, repeated] = [await open(form), await open(form)];
      expect([first.status, repeated.status]).toEqual([200, 200]);
      expect(secretOf(first)).not.toBe("");
      expect(secretOf(repeated)).toBe(secretOf(first));
      expect(await countKeys()).toBe(before + 1);
      const changed = await open({ ...form, name: "another" });
      expect([changed.status, changed.text]).toEqual([
        400,
        expect.stringContaining("already submitted"),
      ]);
      const next = await open({ ...form, once: formTokenOf(repeated) });
      expect(secretOf(next)).not.toBe(secretOf(first));
      expect(await countKeys()).toBe(before + 2);
    });

    test("keeps the values of a rejected form, and names the fields as the page does", async () => {
      const rejected = await open({
        do: "mint",
        name: "typed name",
        limit_usd: "7",
        limit_window: "week",
        last_day: "2020-01-01",
      });
      expect(rejected.status).toBe(400);
      expect(rejected.text).toContain("expiry date");
      expect(rejected.text).not.toContain("expires_at");
      for (const value of ['value="typed name"', 'value="7"', 'value="2020-01-01"'])
        expect(rejected.text).toContain(value);
      expect(rejected.text).toMatch(/<option value="week" selected/);
    });

    test("rejects an unknown key without mentioning the API", async () => {
      const { text } = await openKey("key_none", { do: "revoke" });
      expect(text).toContain("key");
      expect(text).not.toContain("/v1/");
    });
  });
});
