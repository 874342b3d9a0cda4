// "Sign in with Postern" in a real browser, with the workspaces of a person: the form returns to the app and only there, and no
// page of another site frames it.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Browser } from "playwright-core";
import { type ConsoleFixture, createConsoleFixture } from "../console/console-fixture.ts";
import {
  type BrowserWindow,
  type DisplayMode,
  openWindow,
  sharedBrowser,
  closeWindows,
} from "../support/browser/chromium.ts";
import { testedModes, testPageBasics } from "../support/browser/page-checks.ts";
import { type FileServer, startFileServer } from "../support/file-server.ts";
import { pkce, queryOf } from "../support/pkce.ts";

const DESKTOP: DisplayMode = { screen: "desktop", scheme: "light" };

let fixture: ConsoleFixture;
let browser: Browser;
let app: FileServer;

beforeAll(async () => {
  [fixture, browser] = await Promise.all([createConsoleFixture("sqlite"), sharedBrowser()]);
  app = startFileServer(({ pathname }) =>
    pathname === "/frame"
      ? new Response(`<iframe src="${connectUrl(pkce().challenge)}"></iframe>`, {
          headers: { "content-type": "text/html" },
        })
      : new Response("signed in"),
  );
});
afterAll(async () => {
  await closeWindows(browser);
  await fixture.gateway.stop();
  await app.close();
});

function connectUrl(challenge: string): string {
  const query = queryOf({
    callback_url: `${app.url}/callback`,
    code_challenge: challenge,
    code_challenge_method: "S256",
    state: "abc",
    limit: "3",
  });
  return `${fixture.gateway.url}/connect?${query}`;
}

async function open(challenge: string, mode: DisplayMode = DESKTOP): Promise<BrowserWindow> {
  const opened = await openWindow(browser, fixture.gateway.url, mode);
  const [name = "", ...value] = fixture.owner.cookie.split("=");
  await opened.page
    .context()
    .addCookies([{ name, value: value.join("="), domain: "127.0.0.1", path: "/" }]);
  await opened.page.goto(connectUrl(challenge), { waitUntil: "load" });
  return opened;
}

test("gives the app a key of the workspace that the person picks", async () => {
  const { verifier, challenge } = pkce();
  const { page, close } = await open(challenge);
  await page.getByLabel("Workspace").selectOption({ index: 0 });
  const workspace = await page.getByLabel("Workspace").inputValue();
  expect(await page.getByLabel("Limit (USD)").inputValue()).toBe("3");
  await page.getByLabel("Limit (USD)").fill("none");
  await page.getByRole("button", { name: "Connect" }).click();
  await page.getByText("The limit must be an amount in US dollars").waitFor();
  await page.getByLabel("Limit (USD)").fill("2.50");
  await page.getByRole("button", { name: "Connect" }).click();
  await page.waitForURL(/\/callback\?code=/);
  const returned = new URL(page.url());
  expect([returned.origin, returned.searchParams.get("state")]).toEqual([app.url, "abc"]);
  const redeemed = await fetch(`${fixture.gateway.url}/v1/auth/keys`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code: returned.searchParams.get("code"), code_verifier: verifier }),
  });
  expect(await redeemed.json()).toMatchObject({ user_id: workspace });
  await close();
});

test("tells the app that the person canceled", async () => {
  const { page, close } = await open(pkce().challenge);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.waitForURL(/\/callback\?error=access_denied/);
  await close();
});

test("is not shown within the page of another site", async () => {
  const { page, close } = await open(pkce().challenge);
  await page.goto(`${app.url}/frame`, { waitUntil: "load" });
  await page.locator("iframe").waitFor();
  expect(await page.frameLocator("iframe").getByRole("button", { name: "Connect" }).count()).toBe(
    0,
  );
  await close();
});

describe.each(testedModes(0))("the page on a $screen, $scheme", (mode) => {
  let opened: BrowserWindow;
  beforeAll(async () => {
    opened = await open(pkce().challenge, mode);
    const folder = process.env["POSTERN_TEST_PICTURES"];
    if (folder !== undefined)
      await opened.page.screenshot({ path: `${folder}/connect-${mode.screen}-${mode.scheme}.png` });
  });
  afterAll(() => opened.close());

  testPageBasics(() => opened);
});
