// What a new user does, in a real browser and with the keyboard alone.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Browser, Locator, Page } from "playwright-core";
import { createUser, type TestUser } from "../billing/console-user.ts";
import { openWindow, sharedBrowser, closeWindows } from "../support/browser/chromium.ts";
import { eventually } from "../support/eventually.ts";
import { every } from "../support/full.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";

const TABS_MAX = 120;

let gateway: Gateway;
let browser: Browser;
beforeAll(async () => {
  [gateway, browser] = await Promise.all([startGateway(), sharedBrowser()]);
});
afterAll(async () => {
  await closeWindows(browser);
  await gateway.stop();
});

/** Presses Tab until the element has the focus. */
async function tabTo(page: Page, target: Locator): Promise<void> {
  // Finding an element by its role takes longer than the key press, so it is found once.
  const handle = await target.elementHandle();
  for (let tabs = 0; tabs < TABS_MAX; tabs += 1) {
    if (await handle?.evaluate((element) => element === document.activeElement)) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`not reachable with the keyboard: ${String(target)}`);
}

async function press(page: Page, target: Locator): Promise<void> {
  await tabTo(page, target);
  await page.keyboard.press("Enter");
}

async function type(page: Page, target: Locator, text: string): Promise<void> {
  await tabTo(page, target);
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.type(text);
}

const button = (page: Page, name: string | RegExp): Locator =>
  page.getByRole("main").getByRole("button", { name }).first();
const link = (page: Page, name: string | RegExp): Locator =>
  page.getByRole("main").getByRole("link", { name }).first();

describe.each(every(2, ["desktop", "phone"] as const))("with the keyboard on a %s", (screen) => {
  let user: TestUser;
  let page: Page;
  let close: () => Promise<void>;
  let accountId: string;
  let key: string;
  beforeAll(async () => {
    user = await createUser(gateway, `walker-${screen}`);
    ({ page, close } = await openWindow(browser, gateway.url, {
      screen,
      scheme: "light",
    }));
    page.setDefaultTimeout(120_000);
    const [name = "", value = ""] = user.cookie.split("=");
    await page.context().addCookies([{ name, value, domain: "127.0.0.1", path: "/" }]);
  });
  afterAll(() => close());

  const open = (path: string) => page.goto(`${gateway.url}/console/${accountId}${path}`);

  test("a person signs up, calls a model with the snippet and sees the call in the logs", async () => {
    await page.goto(gateway.url);
    await press(page, page.getByRole("navigation").getByRole("link", { name: "Console" }));
    await type(page, page.getByLabel("Name (optional)"), "Walk");
    await press(page, button(page, "Create workspace"));
    await page.getByRole("heading", { name: "Your workspace is ready" }).waitFor();
    key = /pst-rt-\w{49}/.exec((await page.textContent("main")) ?? "")?.[0] ?? "";
    const snippet = (await page.locator(".tabs pre").first().textContent()) ?? "";
    expect(snippet).toStartWith("curl ");
    const url = /https?:\S+/.exec(snippet)?.[0] ?? "";
    const body = /-d '([^']+)'/.exec(snippet)?.[1] ?? "";
    const model =
      gateway.config.providers["sim"] === undefined
        ? body
        : body.replace(/"model": "[^"]+"/, '"model": "sim/echo"');
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    expect((await fetch(url, { method: "POST", headers, body: model })).status).toBe(200);
    await press(page, link(page, "Logs"));
    await page.waitForURL(/\/logs$/);
    accountId = /acct_\w+/.exec(page.url())?.[0] ?? "";
    expect(await page.textContent("main")).toContain("sim/echo");
    expect(await page.locator(".switcher b").first().textContent()).toBe("Walk");
  });

  test("limits, renames and revokes a key", async () => {
    await open("/keys");
    await press(page, link(page, "First key"));
    await type(page, page.getByLabel("Limit (USD, optional)"), "2 EUR");
    await press(page, button(page, "Save key"));
    await page.locator("#key-limit-error").waitFor();
    await type(page, page.getByLabel("Limit (USD, optional)"), "2.50");
    await type(page, page.getByLabel("Name", { exact: true }), "limited");
    await press(page, button(page, "Save key"));
    await page.getByRole("status").filter({ hasText: "The key is saved." }).waitFor();
    expect(await page.textContent("main")).toContain("of $2.50");
    await press(page, link(page, /^Revoke the key/));
    await page.waitForURL(/revoke=true#confirmation$/);
    await press(page, button(page, "Revoke key"));
    await page.getByRole("status").filter({ hasText: "The key is revoked." }).waitFor();
    const headers = { authorization: `Bearer ${key}` };
    expect((await fetch(`${gateway.url}/v1/account`, { headers })).status).toBe(401);
  });

  test("invites a person with a role", async () => {
    await open("/members");
    await type(page, page.getByLabel("Email address"), `guest-${screen}@example.com`);
    await tabTo(page, page.getByLabel("Role"));
    await page.keyboard.type("View");
    await press(page, button(page, "Invite"));
    await page
      .getByRole("row", { name: new RegExp(`guest-${screen}@example.com Viewer`) })
      .waitFor();
  });

  test("adds a webhook and replays a delivery", async () => {
    let received = 0;
    const endpoint = Bun.serve({
      port: 0,
      fetch: () => {
        received += 1;
        return new Response("ok");
      },
    });
    await open("/webhooks");
    await type(page, page.getByLabel("URL (https)"), `http://127.0.0.1:${endpoint.port}/hook`);
    await press(page, button(page, "Add webhook"));
    await page.getByRole("heading", { name: "Signing secret" }).waitFor();
    await press(page, button(page, /^Send test event/));
    await page.waitForURL(/\/webhooks\?done=test$/);
    await eventually(() => received === 1);
    await press(page, link(page, /^http:/));
    await press(page, button(page, /^Replay/));
    await page.waitForURL(/delivery=dlv_/);
    await eventually(() => received === 2);
    // The page shows the new attempt without being loaded again.
    await page.getByText("2. ", { exact: false }).first().waitFor();
    await endpoint.stop(true);
  });

  test("buys credits, which billing then shows", async () => {
    await open("/billing");
    await press(page, link(page, "Buy credits"));
    await type(page, page.getByLabel("Amount (USD)"), "10");
    await press(page, button(page, "Review price"));
    await press(page, button(page, "Continue to payment"));
    await page.waitForURL(/\/pay\//);
    await press(page, button(page, /^Pay \$10\.50/));
    await page.waitForURL(/\/billing\?invoice=inv_/);
    const main = page.getByRole("main");
    expect(await main.textContent()).toContain("10,000,000 credits ($10.00) were added");
  });
});
