// Forms of the console: what they keep, what they reject, and how long names are laid out.

import { afterAll, describe, expect, test } from "bun:test";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import { textOf, visitPage } from "../billing/console-user.ts";
import { eventually } from "../support/eventually.ts";
import { startWorkspaceHarness, usageRecordOf, withBrowserPage } from "./workspace-harness.ts";

const harness = await startWorkspaceHarness();
afterAll(() => harness.gateway.stop());

type Form = Readonly<Record<string, string>>;
const visit = (path: string, form?: Form) => visitPage(harness.gateway, path, harness.owner, form);

describe("key forms", () => {
  test("keep the limit when only its window is changed", async () => {
    const { path, api, claim } = await harness.newWorkspace();
    const { id } = await api("POST", "/v1/keys", { limit_usd: 5, limit_window: "day" });
    await claim();
    const page = await visit(`${path}/keys/${id}`);
    const input = /id="key-limit"[^>]*>/.exec(page.text)?.[0] ?? "";
    const limit = /value="([^"]*)"/.exec(input)?.[1] ?? "";
    const form = { do: "change", limit_usd: limit, limit_window: "week" };
    await visit(`${path}/keys/${id}`, form);
    expect(await api("GET", `/v1/keys/${id}`)).toMatchObject({
      limit_usd: 5,
      limit_window: "week",
    });
  });

  test("keep a rejected limit or expiry in the form of their key", async () => {
    const { path, api, claim } = await harness.newWorkspace();
    const { id } = await api("POST", "/v1/keys", { limit_usd: 5, limit_window: "day" });
    await claim();
    const send = async (form: Form): Promise<string> => {
      const rejected = await visit(`${path}/keys/${id}`, { do: "change", ...form });
      expect(rejected.status).toBe(400);
      return rejected.text;
    };
    const limit = await send({ limit_usd: "7.5 EUR", limit_window: "week" });
    expect(limit).toMatch(/id="key-limit"[^>]* value="7\.5 EUR"/);
    expect(limit).toContain('id="key-limit-error"');
    expect(/<option [^>]*selected[^>]*>/.exec(limit)?.[0]).toContain('value="week"');
    const expiry = await send({ last_day: "2001-02-03", limit_usd: "5" });
    expect(expiry).toMatch(/id="key-expiry"[^>]* value="2001-02-03"[^>]* aria-invalid="true"/);
    expect(expiry).toMatch(/id="key-limit"[^>]* value="5"/);
  });

  test("are kept without their secrets when the session has ended, and sent again after the sign-in", async () => {
    const { path, claim, api } = await harness.newWorkspace();
    await claim();
    const { gateway, owner } = harness;
    await withBrowserPage(gateway, owner, async (page) => {
      const [cookie] = await page.context().cookies();
      await page.goto(`${gateway.url}${path}/keys`);
      await page.fill("#mint-name", "typed before the session ended");
      await page.context().clearCookies();
      await page.click("text=Create key >> nth=-1");
      await page.locator("main", { hasText: "send the form again" }).waitFor();
      const target = await page.getByRole("link", { name: "Sign in" }).getAttribute("href");
      expect(target).toBe("/signin?return_to=%2Fsignin%2Fform");
      // What the sign-in does: it sets a session, and returns to the page.
      await page.context().addCookies(cookie === undefined ? [] : [cookie]);
      await page.goto(`${gateway.url}/signin/form`);
      expect(await page.textContent("main")).toContain("typed before the session ended");
      await page.click("button:has-text('Send again')");
      await page.locator("main", { hasText: "Your new key" }).waitFor();
    });
    const { data } = (await api("GET", "/v1/keys")) as unknown as { data: { name: string }[] };
    expect(data.map(({ name }) => name)).toContain("typed before the session ended");
  });

  test("with a secret are kept without it, and those of other sites are not kept", async () => {
    const { path } = await harness.newWorkspace();
    const { gateway } = harness;
    const post = (headers: Readonly<Record<string, string>>) =>
      fetch(`${gateway.url}${path}/provider-keys`, {
        method: "POST",
        headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
        body: "do=add&provider=openai&api_key=sk-typed&name=mine",
      });
    const kept = await post({ "sec-fetch-site": "same-origin" });
    expect(kept.status).toBe(403);
    const cookie = kept.headers.get("set-cookie")?.split(";")[0] ?? "";
    const headers = { cookie: `${cookie}; ${harness.owner.cookie}` };
    const shown = await (await fetch(`${gateway.url}/signin/form`, { headers })).text();
    expect(shown).toContain('name="name" value="mine"');
    expect(shown).not.toContain("sk-typed");
    const foreign = await post({ "sec-fetch-site": "cross-site" });
    expect([foreign.status, foreign.headers.get("set-cookie")]).toEqual([403, null]);
    const forged = { cookie: `postern_form=forged; ${harness.owner.cookie}` };
    const none = await fetch(`${gateway.url}/signin/form`, { headers: forged, redirect: "manual" });
    expect(none.headers.get("location")).toBe("/console");
  });

  test("say that the session has ended", async () => {
    const { path, claim } = await harness.newWorkspace();
    await claim();
    const { gateway, owner } = harness;
    await withBrowserPage(gateway, owner, async (page) => {
      await page.goto(`${gateway.url}${path}/keys`);
      await page.context().clearCookies();
      await page.click("text=Create key >> nth=-1");
      await page.locator("main", { hasText: "Your session has ended" }).waitFor();
    });
  });
});

test("an expired key does not count as active", async () => {
  const { path, api, claim } = await harness.newWorkspace();
  await api("POST", "/v1/keys", { expires_at: new Date(Date.now() + 1_000).toISOString() });
  await claim();
  await eventually(async () => textOf(await visit(path)).includes("1 active key "));
});

describe("invalid forms", () => {
  test("are rejected with a message about the field's value", async () => {
    const { path, claim } = await harness.newWorkspace();
    await claim();
    for (const [form, message] of [
      [{ name: "x".repeat(101) }, /name must have at most 100 characters/],
      [{ last_day: "2098-02-30" }, /Enter the expiry date as YYYY-MM-DD/],
    ] as const) {
      const rejected = await visit(`${path}/keys`, { do: "mint", ...form });
      expect([rejected.status, textOf(rejected)]).toEqual([400, expect.stringMatching(message)]);
    }
  });

  test("are rejected with the field's name if the page could not have sent them", async () => {
    const { path, claim } = await harness.newWorkspace();
    await claim();
    for (const [page, form, field] of [
      ["keys", {}, "do"],
      ["members", { do: "nope" }, "do"],
      ["keys/key_none", { do: "nope" }, "do"],
      ["keys", { do: "mint", once: "x" }, "once"],
      ["budgets", {}, "daily_usd"],
    ] as const) {
      const rejected = await visit(`${path}/${page}`, form);
      const text = textOf(rejected);
      expect([rejected.status, /form field “(\w+)”/.exec(text)?.[1]]).toEqual([400, field]);
      expect(text).not.toMatch(/Invalid|next_cursor|undefined/);
    }
  });

  test("are rejected if an email address contains a direction mark", async () => {
    const { path, claim } = await harness.newWorkspace();
    await claim();
    const form = { do: "invite", email: "a\u202eb@example.com" };
    expect((await visit(`${path}/members`, form)).status).toBe(400);
  });
});

test("a workspace with the maximum number of invitations can repeat one", async () => {
  const { path, claim } = await harness.newWorkspace();
  await claim();
  const invite = async (email: string): Promise<number> =>
    (await visit(`${path}/members`, { do: "invite", email })).status;
  for (let sent = 0; sent < 50; sent++) expect(await invite(`guest-${sent}@example.com`)).toBe(303);
  expect(await invite("guest-50@example.com")).toBe(400);
  expect(await invite("guest-0@example.com")).toBe(303);
});

describe("long names", () => {
  test("of models do not make the usage table scroll sideways", async () => {
    const { account, path, api, claim } = await harness.newWorkspace();
    await claim();
    const keyId = (await api("GET", "/v1/keys")).data[0]?.id ?? "none";
    const call = { id: `req_long_${keyId}`, keyId, model: `sim/${"m".repeat(180)}` };
    const { gateway, owner } = harness;
    await gateway.server.db.write((tx) => insertUsage(tx, [usageRecordOf(account.id, call)]));
    await withBrowserPage(gateway, owner, async (page) => {
      await page.goto(`${gateway.url}${path}/usage`);
      const table = page.getByRole("region", { name: "Usage by model" });
      const [content, visible] = await table.evaluate((node) => [
        node.scrollWidth,
        node.clientWidth,
      ]);
      expect(content).toBeLessThanOrEqual(visible ?? 0);
    });
  });

  test("of keys stay within the claim page on a phone", async () => {
    const { api } = await harness.newWorkspace();
    await api("POST", "/v1/keys", { name: "W".repeat(100) });
    const { gateway, owner } = harness;
    const claim = await api("POST", "/agent/identity/claim", { email: owner.email });
    await withBrowserPage(
      gateway,
      owner,
      async (page) => {
        await page.goto(claim.claim_attempt.verification_uri_complete);
        const legend = page.locator("legend", { hasText: "WWW" });
        const html = page.locator("html");
        expect(await html.evaluate((node) => node.scrollWidth)).toBeLessThanOrEqual(360);
        const [legendTop, fieldsetTop] = await legend.evaluate((node) => [
          node.getBoundingClientRect().top,
          node.closest("fieldset")?.getBoundingClientRect().top ?? 0,
        ]);
        expect(legendTop).toBeGreaterThan(fieldsetTop);
      },
      { width: 360, height: 740 },
    );
  });
});
