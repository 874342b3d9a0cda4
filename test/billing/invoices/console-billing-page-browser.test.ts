// The billing page in a real browser without JavaScript: an owner buys credits, saves a method, enables auto top-up and
// reads why it stopped. If POSTERN_TEST_PICTURES names a folder, screenshots are saved there.

import { afterAll, beforeAll, expect, test } from "bun:test";
import path from "node:path";
import type { Browser, Page } from "playwright-core";
import { sharedBrowser, closeWindows } from "../../support/browser/chromium.ts";
import { eventually } from "../../support/eventually.ts";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { type TestUser, createUser, makeOwner } from "../console-user.ts";
import { api } from "../fixtures.ts";

// The first start of a browser unpacks it.

const SCREENSHOT_DIR = process.env["POSTERN_TEST_PICTURES"];
const SCREENS = [
  { name: "desktop-light", width: 1_280, colorScheme: "light" },
  { name: "desktop-dark", width: 1_280, colorScheme: "dark" },
  { name: "phone-light", width: 360, colorScheme: "light" },
  { name: "phone-dark", width: 360, colorScheme: "dark" },
] as const;

let browser: Browser;
let gateway: Gateway;
let account: TestAccount;
let owner: TestUser;
let page: Page;
let billing: string;
const failures: string[] = [];

beforeAll(async () => {
  [gateway, browser] = await Promise.all([startGateway(), sharedBrowser()]);
  account = await registerAccount(gateway);
  owner = await createUser(gateway, "olga");
  await makeOwner(gateway, account.id, owner);
  billing = `${gateway.url}/console/${account.id}/billing`;
  page = await openPage(gateway, owner, SCREENS[0]);
});
afterAll(async () => {
  await closeWindows(browser);
  await gateway.stop();
});

async function openPage(
  { url }: Pick<Gateway, "url">,
  { cookie }: TestUser,
  screen: (typeof SCREENS)[number],
): Promise<Page> {
  const context = await browser.newContext({
    javaScriptEnabled: false,
    viewport: { width: screen.width, height: 900 },
    colorScheme: screen.colorScheme,
  });
  const [name = "", value = ""] = cookie.split("=");
  await context.addCookies([{ name, value, url }]);
  const opened = await context.newPage();
  opened.on("console", (message) => {
    if (message.type() === "error" && !/status of (4|5)\d\d/.test(message.text()))
      failures.push(message.text());
  });
  return opened;
}

async function screenshot(opened: Page, name: string): Promise<void> {
  if (SCREENSHOT_DIR !== undefined)
    await opened.screenshot({ path: path.join(SCREENSHOT_DIR, `${name}.png`), fullPage: true });
}

test("an owner sees the price, pays and opens the receipt", async () => {
  await page.goto(billing);
  await page.click("text=Buy credits");
  await page.fill("#buy-amount", "33.33");
  await page.click("text=Review price");
  await page.locator("main", { hasText: "$35.00" }).waitFor();
  await screenshot(page, "billing-price");
  await page.click("text=Continue to payment");
  await page.waitForURL(`${gateway.url}/pay/**`);
  await page.click("button:has-text('Pay $35.00')");
  await page.waitForURL(/\/billing\?invoice=inv_/);
  expect(await page.textContent("[role=status]")).toContain(
    "33,330,000 credits ($33.33) were added",
  );
  expect(await page.textContent(".figures")).toContain("Balance$33.38");
  await page.click("text=Receipt");
  await page.getByRole("heading", { name: "Receipt", level: 1, exact: true }).waitFor();
  await screenshot(page, "billing-receipt");
  expect(failures).toEqual([]);
});

test("an owner voids an invoice", async () => {
  await page.goto(`${billing}/buy?amount_usd=12`);
  await page.click("text=Continue to payment");
  await page.waitForURL(`${gateway.url}/pay/**`);
  await page.goto(billing);
  await page.click("button:has-text('Void')");
  await page.waitForURL(`${billing}?done=invoice_voided`);
  expect(await page.textContent("[role=status]")).toContain("voided");
  expect(await page.textContent("tbody tr:first-child")).toContain("void");
});

test("an owner saves a method and enables auto top-up, which buys credits", async () => {
  await page.goto(billing);
  await page.click("text=Add payment method");
  await page.getByText("Test card that succeeds").waitFor();
  await screenshot(page, "billing-card");
  await page.click("text=Test card that succeeds");
  await page.locator("[role=status]", { hasText: "The payment method is saved" }).waitFor();
  await page.fill("#auto-threshold_usd", "50");
  await page.fill("#auto-amount_usd", "20");
  await page.fill("#auto-monthly_ceiling_usd", "60");
  await page.click("button:has-text('Turn on auto top-up')");
  await eventually(async () => {
    const { body } = await api<{ last_attempt: { state: string } | null }>(gateway, account, [
      "GET",
      "/v1/billing/auto-top-up",
    ]);
    return body.last_attempt?.state === "paid";
  });
  await page.goto(billing);
  expect(await page.textContent(".card:has(h2#auto) .tag")).toBe("on");
  expect(await page.textContent(".figures")).toContain("Balance$53.38");
  expect(await page.textContent("tbody tr:first-child")).toContain("auto top-up");
  expect(failures).toEqual([]);
});

test("an owner reads why auto top-up stopped, without horizontal scrolling on any screen", async () => {
  await gateway.server.db.write((tx) =>
    tx.run(
      "update auto_top_up set status = 'stopped', stopped_reason = 'payment_failed', stopped_at = 1 where account_id = ?",
      [account.id],
    ),
  );
  for (const screen of SCREENS) {
    const opened = await openPage(gateway, owner, screen);
    await opened.goto(billing);
    expect(await opened.textContent("[role=alert]")).toContain("two payments in a row failed");
    await screenshot(opened, `billing-${screen.name}`);
    const [contentWidth, screenWidth] = [
      await opened.locator("html").evaluate((node) => node.scrollWidth),
      await opened.locator("html").evaluate((node) => node.clientWidth),
    ];
    expect(contentWidth).toBeLessThanOrEqual(screenWidth);
    await opened.context().close();
  }
});

test("the content security policy allows the form to lead to the processor", async () => {
  const stripe: FakeStripe = startFakeStripe();
  const withStripe = await startGateway({ env: stripe.env });
  const stripeAccount = await registerAccount(withStripe);
  const stripeOwner = await createUser(withStripe, "olga");
  await makeOwner(withStripe, stripeAccount.id, stripeOwner);
  const opened = await openPage(withStripe, stripeOwner, SCREENS[0]);
  await opened.goto(`${withStripe.url}/console/${stripeAccount.id}/billing`);
  await opened.click("text=Add payment method");
  await opened.waitForURL(`${stripe.url}/c/setup/**`);
  expect(failures).toEqual([]);
  await withStripe.stop();
  await stripe.stop();
});
