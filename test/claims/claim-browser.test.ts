// A claim in a real browser without JavaScript, with the development identity provider. If POSTERN_TEST_PICTURES names a
// folder, a screenshot of each state is written there.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import path from "node:path";
import type { Browser, Page } from "playwright-core";
import { secret } from "../../src/base/crypto/secret.ts";
import { HOUR_MS } from "../../src/base/time.ts";
import { listen, type Listener } from "../../src/http/listen.ts";
import { type DevIdentity, startDevIdentity } from "../../src/people/dev-identity.ts";
import { CLIENT, startFakeIssuer } from "../people/fake-oidc-issuer.ts";
import { actIn } from "../support/act.ts";
import { sharedBrowser, closeWindows } from "../support/browser/chromium.ts";
import { findPageIssues } from "../support/browser/page-checks.ts";
import { openStore, type TestStore } from "../support/stores/stores.ts";
import {
  agentOf,
  createHarness,
  readJson,
  register,
  type StartResponse,
  type Harness,
} from "./harness.ts";

const SCREENSHOT_DIR = process.env["POSTERN_TEST_PICTURES"];

let store: TestStore;
let browser: Browser;
let listener: Listener;
let devIdentity: DevIdentity;
let harness: Harness;
let base: string;
let ahead = 0;
const printed: string[] = [];

beforeAll(async () => {
  store = await openStore("sqlite");
  listener = listen({ host: "127.0.0.1", port: 0 }, (request) =>
    harness.handle(request, "203.0.113.7"),
  );
  base = `http://127.0.0.1:${listener.port}`;
  devIdentity = await startDevIdentity({
    baseUrl: base,
    port: 0,
    print: (line) => printed.push(line),
  });
  harness = createHarness(store.db, {
    baseUrl: base,
    identity: devIdentity.settings,
    clock: () => Date.now() + ahead,
    limits: { startsPerAccount: 0, bonusPerDay: 0n },
  });
  browser = await sharedBrowser();
});
afterAll(async () => {
  await closeWindows(browser);
  await listener.stop(true);
  await devIdentity.close();
  await store.close();
});

interface BrowserWindow {
  readonly page: Page;
  readonly failures: string[];
}

async function openWindow(
  options: { readonly dark?: boolean; readonly narrow?: boolean } = {},
): Promise<BrowserWindow> {
  const context = await browser.newContext({
    javaScriptEnabled: false,
    colorScheme: options.dark === true ? "dark" : "light",
    viewport: options.narrow === true ? { width: 375, height: 760 } : { width: 760, height: 760 },
  });
  const page = await context.newPage();
  const failures: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" && !/status of 4\d\d/.test(message.text()))
      failures.push(message.text());
  });
  page.on("requestfailed", (request) =>
    failures.push(`${request.url()} ${request.failure()?.errorText}`),
  );
  return { page, failures };
}

/** Checks the page on a desktop and a phone, in light and dark mode. */
async function checkPage(page: Page, name: string): Promise<void> {
  // After a click, the page may still be loading.
  await page.getByRole("heading", { level: 1 }).waitFor();
  if (SCREENSHOT_DIR !== undefined)
    await page.screenshot({ path: path.join(SCREENSHOT_DIR, `claim-${name}.png`), fullPage: true });
  expect(await findPageIssues(page)).toEqual([]);
}

async function openAccount() {
  const response = await fetch(`${base}/v1/accounts`, { method: "POST" });
  const made = await readJson<{ api_key: string; account: { id: string } }>(response);
  return agentOf(harness, made.api_key, made.account.id);
}

async function startFor(
  agent: { start: (email: string) => Promise<Response> },
  email: string,
): Promise<StartResponse["claim_attempt"]> {
  return (await readJson<StartResponse>(agent.start(email))).claim_attempt;
}

async function signIn(page: Page, email: string): Promise<void> {
  await page.getByLabel("Email").fill(email);
  await page.getByRole("button", { name: "Continue" }).click();
  const code = page.getByLabel("Six-digit code");
  await code.waitFor();
  await code.fill(printed.at(-1)?.slice(-6) ?? "");
  await page.getByRole("button", { name: "Sign in" }).click();
}

/** Follows the link and signs in with the email. */
async function openLinkAndSignIn(page: Page, link: string, email: string): Promise<void> {
  await page.goto(link);
  await page.getByRole("link", { name: "Sign in" }).click();
  await signIn(page, email);
  await page.waitForURL(/\/claim(?:\/code)?$/);
}

/** The previous page may still be open after a click. */
const waitForHeading = (page: Page, name: string): Promise<void> =>
  page.getByRole("heading", { level: 1, name, exact: true }).waitFor();

describe("in a browser without JavaScript", () => {
  test("the development sign-in fits a long address on a phone, and its error is readable in dark mode", async () => {
    const { page } = await openWindow({ dark: true, narrow: true });
    const attempt = await startFor(await openAccount(), "x@example.com");
    await page.goto(attempt.verification_uri_complete);
    await page.getByRole("link", { name: "Sign in" }).click();
    await page.getByLabel("Email").fill(`${"x".repeat(60)}@${"y".repeat(60)}.example.com`);
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByLabel("Six-digit code").fill("0");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.locator(".error").waitFor();
    const [content, screen, red] = await page.evaluate(() => {
      const wrong = document.querySelector(".error");
      const color = wrong === null ? "" : getComputedStyle(wrong).color;
      const { scrollWidth, clientWidth } = document.documentElement;
      return [scrollWidth, clientWidth, Number(/\d+/.exec(color)?.[0])];
    });
    expect(content).toBeLessThanOrEqual(screen);
    expect(red).toBeGreaterThan(220);
  });

  test("takes over an account", async () => {
    const { page, failures } = await openWindow();
    const email = "you@example.com";
    const agent = await openAccount();
    ahead += 3 * HOUR_MS;
    await agent.get("/v1/account");
    await harness.keys.flushLastUsed();
    await harness.db.write((tx) =>
      harness.keys.create(tx, actIn(agent.accountId, harness.clock.now), { name: "nightly build" }),
    );
    const attempt = await startFor(agent, email);
    await page.goto(attempt.verification_uri_complete);
    expect(page.url()).toBe(`${base}/claim`);
    await waitForHeading(page, "An agent needs your decision");
    await checkPage(page, "landing");
    await page.getByRole("link", { name: "Sign in" }).click();
    await page.getByLabel("Email").waitFor();
    await checkPage(page, "dev-email");
    await signIn(page, email);
    await waitForHeading(page, "An agent wants to hand you its account");
    expect(page.url()).toBe(`${base}/claim`);
    const code = attempt.user_code;
    expect(await page.getByText(`${code.slice(0, 3)} ${code.slice(3)}`).isVisible()).toBe(true);
    await checkPage(page, "review");
    const confirm = page.getByRole("button", { name: "Take over the account" });
    const decline = page.getByRole("button", { name: "Decline" });
    const [left, right] = [await confirm.boundingBox(), await decline.boundingBox()];
    expect(Math.round(left?.width ?? 0)).toBe(Math.round(right?.width ?? 1));
    expect(Math.round(left?.height ?? 0)).toBe(Math.round(right?.height ?? 1));
    await page.getByLabel("Limit in US dollars").first().fill("5");
    await page.getByLabel("Only let it call models and read usage").first().check();
    await confirm.click();
    await waitForHeading(page, "The account is yours");
    expect(page.url()).toBe(`${base}/claim`);
    await checkPage(page, "owner");
    expect((await agent.poll()).status).toBe(200);
    expect(failures).toEqual([]);
  });

  test("declines by keyboard, on a phone in dark mode", async () => {
    const { page, failures } = await openWindow({ dark: true, narrow: true });
    const email = "keyboard@example.com";
    const agent = await openAccount();
    await openLinkAndSignIn(page, (await startFor(agent, email)).verification_uri_complete, email);
    await checkPage(page, "review-phone");
    expect(
      await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth),
    ).toBe(true);
    await page.keyboard.press("Tab");
    expect(await page.locator(":focus").textContent()).toContain("Skip to content");
    await page.keyboard.press("Enter");
    for (let step = 0; step < 30; step++) {
      await page.keyboard.press("Tab");
      if ((await page.locator(":focus").textContent())?.trim() === "Decline") break;
    }
    await page.keyboard.press("Enter");
    await waitForHeading(page, "You declined");
    await checkPage(page, "declined");
    expect(await (await agent.poll()).json()).toMatchObject({ error: "access_denied" });
    expect(failures).toEqual([]);
  });

  test("an invited person enters the code and joins", async () => {
    const { page, failures } = await openWindow();
    const agent = await openAccount();
    const owner = "owner@example.com";
    await openLinkAndSignIn(page, (await startFor(agent, owner)).verification_uri_complete, owner);
    await page.getByRole("button", { name: "Take over the account" }).click();
    await waitForHeading(page, "The account is yours");
    const guest = await openWindow({ dark: true });
    const invited = "guest@example.com";
    const attempt = await startFor(agent, invited);
    await openLinkAndSignIn(guest.page, attempt.verification_uri, invited);
    await waitForHeading(guest.page, "Enter the code");
    await checkPage(guest.page, "code");
    await guest.page.getByLabel("Six-digit code").fill(attempt.user_code);
    await guest.page.getByRole("button", { name: "Continue" }).click();
    await waitForHeading(guest.page, "An agent invites you to a workspace");
    await checkPage(guest.page, "invited");
    await guest.page.getByRole("button", { name: "Join the workspace" }).click();
    await waitForHeading(guest.page, "You have joined the workspace");
    await checkPage(guest.page, "developer");
    expect([...failures, ...guest.failures]).toEqual([]);
  });

  test("shows a page for each failure", async () => {
    const { page, failures } = await openWindow();
    const email = "late@example.com";
    const agent = await openAccount();
    await openLinkAndSignIn(
      page,
      (await startFor(agent, "right@example.com")).verification_uri_complete,
      email,
    );
    await waitForHeading(page, "This is for another account");
    await checkPage(page, "wrong-account");

    await page.goto(`${base}/claim?token=x&user_code=123456`);
    await waitForHeading(page, "This link is not valid");
    await checkPage(page, "invalid");

    const first = await startFor(agent, email);
    const second = await startFor(agent, email);
    await page.goto(first.verification_uri_complete);
    await waitForHeading(page, "There is a newer link");
    await checkPage(page, "superseded");

    const wrong = second.user_code === "111111" ? "222222" : "111111";
    await page.goto(
      second.verification_uri_complete.replace(/user_code=\d+/, `user_code=${wrong}`),
    );
    await page.getByRole("button", { name: "Take over the account" }).click();
    for (let left = 4; left > 0; left--) {
      await page
        .getByRole("alert")
        .filter({ hasText: `${left} more wrong code` })
        .waitFor();
      if (left === 4) await checkPage(page, "wrong-code");
      await page.getByLabel("Six-digit code from your agent").fill(wrong);
      await page.getByRole("button", { name: "Take over the account" }).click();
    }
    await waitForHeading(page, "Too many wrong codes");
    await checkPage(page, "locked");

    const third = await startFor(agent, email);
    ahead += 900_000;
    await page.goto(third.verification_uri_complete);
    await waitForHeading(page, "This link has expired");
    await checkPage(page, "expired");

    const fourth = await startFor(agent, email);
    const fifth = await startFor(agent, "faster@example.com");
    const faster = await openWindow();
    await openLinkAndSignIn(faster.page, fifth.verification_uri_complete, "faster@example.com");
    await faster.page.getByRole("button", { name: "Take over the account" }).click();
    await waitForHeading(faster.page, "The account is yours");
    await page.goto(fourth.verification_uri_complete);
    await waitForHeading(page, "Claimed by someone else");
    await checkPage(page, "claimed-by-other");

    await page.goto(`${base}/sessions`);
    await checkPage(page, "sessions");
    expect([...failures, ...faster.failures]).toEqual([]);
  });

  test("takes over an account with an external identity provider", async () => {
    const fake = await startFakeIssuer();
    const email = "outside@example.com";
    fake.overrides = { claims: { email } };
    let external: Harness | undefined;
    const listener = listen({ host: "127.0.0.1", port: 0 }, async (request) => {
      if (external === undefined) throw new Error("not started");
      return external.handle(request);
    });
    const { id: clientId, secret: clientSecret } = CLIENT;
    external = createHarness(store.db, {
      baseUrl: `http://127.0.0.1:${listener.port}`,
      identity: {
        issuer: fake.issuer,
        clientId,
        clientSecret: secret(clientSecret),
        allowedTenants: [],
      },
      clock: () => Date.now(),
    });
    const agent = await register(external);
    const { page, failures } = await openWindow();
    await page.goto((await startFor(agent, email)).verification_uri_complete);
    await page.getByRole("link", { name: "Sign in" }).click();
    await waitForHeading(page, "An agent wants to hand you its account");
    await page.getByRole("button", { name: "Take over the account" }).click();
    await waitForHeading(page, "The account is yours");
    expect(await (await agent.poll()).json()).toMatchObject({ status: "claimed" });
    expect(failures).toEqual([]);
    await listener.stop(true);
    await fake.close();
  });

  test("another site can neither frame the page nor post to it", async () => {
    const { page } = await openWindow();
    const email = "framed@example.com";
    const agent = await openAccount();
    const attempt = await startFor(agent, email);
    await openLinkAndSignIn(page, attempt.verification_uri_complete, email);
    const csrf = await page.locator("input[name=csrf]").first().getAttribute("value");
    const evil = listen(
      { host: "127.0.0.1", port: 0 },
      async () =>
        new Response(
          `<!doctype html><iframe src="${base}/claim"></iframe><form method="post" action="${base}/claim">
         <input name="csrf" value="${csrf}"><input name="user_code" value="${attempt.user_code}">
         <button name="decision" value="confirm">Win a prize</button></form>`,
          { headers: { "content-type": "text/html" } },
        ),
    );
    const host = `http://localhost:${evil.port}`;
    await page.goto(host);
    expect(await page.frames()[1]?.locator("h1").count()).toBe(0);
    await page.getByRole("button", { name: "Win a prize" }).click();
    expect(page.url()).not.toContain("/claim/");
    expect(await page.content()).not.toContain("The account is yours");
    expect(await (await agent.poll()).json()).toMatchObject({ error: "authorization_pending" });
    await evil.stop(true);
  });
});
