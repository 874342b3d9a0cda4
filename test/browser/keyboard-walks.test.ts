// Tasks of a person who uses only the keyboard: find out why a call failed, and try a model in the playground.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Browser, Page } from "playwright-core";
import { type ConsoleFixture, createConsoleFixture } from "../console/console-fixture.ts";
import {
  type BrowserWindow,
  openWindow,
  sharedBrowser,
  closeWindows,
} from "../support/browser/chromium.ts";
import { createConsoleHistory } from "./console-history.ts";

/** More stops than any page has before its content ends. */
const TAB_STOPS_MAX = 120;

let fixture: ConsoleFixture;
let browser: Browser;

beforeAll(async () => {
  [fixture, browser] = await Promise.all([createConsoleFixture("sqlite"), sharedBrowser()]);
  await createConsoleHistory(fixture);
});
afterAll(async () => {
  await closeWindows(browser);
  await fixture.gateway.stop();
});

async function openConsole(page: string): Promise<BrowserWindow> {
  const { url } = fixture.gateway;
  const opened = await openWindow(browser, url, { screen: "desktop", scheme: "light" });
  const [name = "", ...value] = fixture.owner.cookie.split("=");
  await opened.page
    .context()
    .addCookies([{ name, value: value.join("="), domain: "127.0.0.1", path: "/" }]);
  await opened.page.goto(`${url}/console/${fixture.account.id}${page}`, { waitUntil: "load" });
  return opened;
}

/** Presses Tab until an element with this name has the focus. */
async function tabTo(page: Page, name: RegExp): Promise<void> {
  const passed: string[] = [];
  for (let stops = 0; stops < TAB_STOPS_MAX; stops++) {
    await page.keyboard.press("Tab");
    const focused = await page.evaluate(() => {
      const element = document.activeElement as HTMLInputElement | null;
      const label = element?.labels?.[0]?.textContent ?? element?.textContent ?? "";
      return `${element?.tagName.toLowerCase() ?? ""} ${label.trim()}`;
    });
    if (name.test(focused)) return;
    passed.push(focused.slice(0, 40));
  }
  throw new Error(`no tab stop is named ${name.source}: ${passed.join(" | ")}`);
}

test("the cause of a failed call is found in the logs by keyboard alone", async () => {
  const { page, close, problems } = await openConsole("");
  await tabTo(page, /^a Logs$/);
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/logs$/);
  await tabTo(page, /^a 90d$/);
  await page.keyboard.press("Enter");
  await page.waitForURL(/range=90d/);
  await tabTo(page, /^a Failed$/);
  await page.keyboard.press("Enter");
  await page.waitForURL(/outcome=failed/);
  await tabTo(page, /^a \d\d:\d\d:\d\d$/);
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/logs\/req_/);
  const notice = page.getByRole("main").getByRole("status").first();
  expect(await notice.textContent()).toContain("failed with status 502. Retry later.");
  expect(problems).toEqual([]);
  await close();
});

test("a model is tried in the playground by keyboard alone", async () => {
  const { page, close } = await openConsole("/playground");
  await tabTo(page, /^textarea Message$/);
  await page.keyboard.press("Control+a");
  await page.keyboard.type("Typed without a mouse.");
  await tabTo(page, /^button Run$/);
  await page.keyboard.press("Enter");
  await page
    .locator("[data-run=model] [data-figure=cost]")
    .getByText(/^\$0\.0/)
    .waitFor();
  expect(await page.locator("[data-run=model] [data-reply]").textContent()).toContain(
    "Typed without a mouse.",
  );
  await tabTo(page, /^summary Show as code$/);
  await page.keyboard.press("Enter");
  await tabTo(page, /^select Language/);
  await close();
});
