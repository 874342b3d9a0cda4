// The sign-in at /mcp in a real browser: the page's policy lets the form return to the client, and only there.

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

const DESKTOP: DisplayMode = { screen: "desktop", scheme: "light" };
const CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

let fixture: ConsoleFixture;
let browser: Browser;
let client: FileServer;

beforeAll(async () => {
  [fixture, browser] = await Promise.all([createConsoleFixture("sqlite"), sharedBrowser()]);
  client = startFileServer(() => new Response("signed in"));
});
afterAll(async () => {
  await closeWindows(browser);
  await fixture.gateway.stop();
  await client.close();
});

async function authorizeUrl(redirectUri: string): Promise<string> {
  const { url } = fixture.gateway;
  const response = await fetch(`${url}/mcp/register`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ client_name: "Editor", redirect_uris: [redirectUri] }),
  });
  // Safe because the response of the registration has this field.
  const { client_id: clientId } = (await response.json()) as { readonly client_id: string };
  const query = new URLSearchParams({
    response_type: "code",
    client_id: clientId,
    redirect_uri: redirectUri,
    state: "abc",
    code_challenge: CHALLENGE,
    code_challenge_method: "S256",
  });
  return `${url}/mcp/authorize?${query.toString()}`;
}

async function open(redirectUri: string, mode: DisplayMode = DESKTOP): Promise<BrowserWindow> {
  const opened = await openWindow(browser, fixture.gateway.url, mode);
  const [name = "", ...value] = fixture.owner.cookie.split("=");
  await opened.page
    .context()
    .addCookies([{ name, value: value.join("="), domain: "127.0.0.1", path: "/" }]);
  await opened.page.goto(await authorizeUrl(redirectUri), { waitUntil: "load" });
  return opened;
}

test.each(["127.0.0.1", "localhost"])("returns to a client at %s", async (host) => {
  const redirectUri = client.url.replace("127.0.0.1", host);
  const { page, close } = await open(`${redirectUri}/callback`);
  await page.getByLabel("Limit (USD)").fill("2.50");
  await page.getByRole("button", { name: "Connect" }).click();
  await page.waitForURL(/\/callback\?code=/);
  const returned = new URL(page.url());
  expect([returned.origin, returned.searchParams.get("state")]).toEqual([redirectUri, "abc"]);
  await close();
});

test("tells a client that the person canceled", async () => {
  const { page, close } = await open(`${client.url}/callback`);
  await page.getByLabel("Limit (USD)").fill("");
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.waitForURL(/\/callback\?error=access_denied/);
  await close();
});

describe.each(testedModes(0))("the page on a $screen, $scheme", (mode) => {
  let opened: BrowserWindow;
  beforeAll(async () => {
    opened = await open(`${client.url}/callback`, mode);
    const folder = process.env["POSTERN_TEST_PICTURES"];
    if (folder !== undefined)
      await opened.page.screenshot({ path: `${folder}/mcp-sign-in-${mode.screen}.png` });
  });
  afterAll(() => opened.close());

  testPageBasics(() => opened);
});
