// The Budgets page: in a browser without JavaScript, and with requests that no browser sends.
// With POSTERN_TEST_PICTURES set to a folder, a screenshot of each state is saved there.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import path from "node:path";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { claimWorkspace } from "../../src/accounts/members.ts";
import { loadMasterSecret } from "../../src/config/master-secret.ts";
import { recordPerson } from "../../src/people/people.ts";
import { createSessions } from "../../src/people/sessions.ts";
import {
  bodyOf,
  expectSettledLedger,
  grantCredits,
  postCall,
  USD,
} from "../inference/support/harness.ts";
import { valueAt, call, listAt } from "../spec/api-client.ts";
import { addDeveloper } from "../support/act.ts";
import { sharedBrowser, closeWindows } from "../support/browser/chromium.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";

const SCREENSHOT_FOLDER = process.env["POSTERN_TEST_PICTURES"];

interface SignedInPerson {
  readonly personId: string;
  readonly cookie: string;
  readonly csrf: string;
}

let gateway: Gateway;
let browser: Browser;
let account: TestAccount;
let owner: SignedInPerson;
let developer: SignedInPerson;
let stranger: SignedInPerson;
const failures: string[] = [];

beforeAll(async () => {
  [gateway, browser] = await Promise.all([startGateway(), sharedBrowser()]);
  account = await registerAccount(gateway);
  await grantCredits(gateway, account, USD);
  [owner, developer, stranger] = [await signIn("olga"), await signIn("dev"), await signIn("else")];
  await gateway.server.db.write(async (tx) => {
    const membership = { accountId: account.id, via: "test", now: Date.now() };
    await claimWorkspace(tx, { ...membership, personId: owner.personId });
    await addDeveloper(tx, { ...membership, personId: developer.personId });
  });
});
afterAll(async () => {
  await closeWindows(browser);
  await expectSettledLedger(gateway.server.db);
  await gateway.stop();
});

async function signIn(name: string): Promise<SignedInPerson> {
  const { db } = gateway.server;
  const master = loadMasterSecret(gateway.config, gateway.config.store.dataDir);
  const sessions = createSessions({ db, master, baseUrl: gateway.url });
  const now = Date.now();
  const identity = {
    issuer: "https://id.test",
    subject: name,
    email: `${name}@example.com`,
    name,
  };
  const [personId, set] = await db.write(async (tx) => {
    const { id } = await recordPerson(tx, identity, now);
    const session = { personId: id, network: "test", browser: "test", cookies: null, now };
    return [id, await sessions.begin(tx, session)] as const;
  });
  const cookie = set.split(";")[0] ?? "";
  return { personId, cookie, csrf: (await sessions.find(cookie, now))?.csrf ?? "" };
}

const page = (): string => `${gateway.url}/console/${account.id}/budgets`;
const budgets = async () =>
  (await call(gateway, "GET /v1/account/budgets", { key: account.key })).body;

async function openPage(
  { cookie }: SignedInPerson,
  options: { readonly width?: number; readonly colorScheme?: "light" | "dark" } = {},
): Promise<readonly [BrowserContext, Page]> {
  const { width = 1_000, colorScheme = "light" } = options;
  const context = await browser.newContext({
    javaScriptEnabled: false,
    colorScheme,
    viewport: { width, height: 900 },
  });
  const [name = "", value = ""] = cookie.split("=", 2);
  await context.addCookies([{ name, value, url: gateway.url }]);
  const opened = await context.newPage();
  opened.on("console", (message) => {
    if (message.type() === "error" && !/status of (4|5)\d\d/.test(message.text()))
      failures.push(message.text());
  });
  return [context, opened];
}

async function screenshot(opened: Page, name: string): Promise<void> {
  if (SCREENSHOT_FOLDER !== undefined)
    await opened.screenshot({ path: path.join(SCREENSHOT_FOLDER, `${name}.png`), fullPage: true });
}

function send(
  { cookie, csrf }: SignedInPerson,
  form: Readonly<Record<string, string>>,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return fetch(page(), {
    method: "POST",
    redirect: "manual",
    headers: {
      cookie,
      origin: gateway.url,
      "sec-fetch-site": "same-origin",
      "content-type": "application/x-www-form-urlencoded",
      ...headers,
    },
    body: new URLSearchParams({ csrf, ...form }).toString(),
  });
}

describe("the Budgets page", () => {
  test("lets an owner set budgets without JavaScript", async () => {
    const [context, opened] = await openPage(owner);
    await opened.goto(`${gateway.url}/console/${account.id}`);
    await opened.click("nav >> text=Budgets");
    await opened.getByRole("heading", { name: "Budgets", level: 1, exact: true }).waitFor();
    expect(await opened.locator("text=No budget is set.").count()).toBe(2);
    expect(await opened.locator("progress").count()).toBe(0);
    await screenshot(opened, "budgets-none");
    await opened.fill("label:has-text('Daily budget') + input", "0.0010");
    await opened.fill("label:has-text('Monthly budget') + input", "12.5");
    await opened.click("button:has-text('Save budgets')");
    await opened.waitForURL(`${page()}?done=saved`);
    expect(await opened.textContent("[role=status]")).toContain("The budgets are saved");
    expect(await opened.inputValue("[name=daily_usd]")).toBe("0.001");
    expect(await opened.inputValue("[name=monthly_usd]")).toBe("12.5");
    expect(valueAt(await budgets(), "daily.limit_usd")).toBe(0.001);
    await context.close();
  });

  test("shows use, limit and reset of each budget", async () => {
    for (let tries = 0; tries < 5; tries++)
      await (
        await postCall(gateway, account, "chat", bodyOf("chat", "[[sim: tokens=200]] x"))
      ).text();
    const [context, opened] = await openPage(owner);
    await opened.goto(page());
    const [day = "", month = ""] = await opened
      .locator("main .side-by-side .card")
      .allTextContents();
    expect(day).toMatch(/^Today\d+% used\$0\.000\d+ of \$0\.001/);
    expect(day).toMatch(/\$0\.000\d+ left\. Resets on \d{4}-\d\d-\d\d 00:00 UTC\./);
    expect(month).toMatch(/^This month0% used\D?\$0\.0\d+ of \$12\.50/);
    const used = Number(valueAt(await budgets(), "daily.used_usd"));
    expect(used).toBeGreaterThan(0.0003);
    expect(await opened.locator("progress").first().getAttribute("value")).toBe(
      String(Math.floor((used / 0.001) * 100)),
    );
    expect(await opened.locator("progress").nth(1).getAttribute("value")).toBe("0");
    await context.close();
  });

  test("keeps invalid input, shows the error and changes nothing", async () => {
    const before = await budgets();
    for (const invalid of ["-1", "five", "1e3", "9000001", "1.0000000001", "<script>x</script>"]) {
      const response = await send(owner, { daily_usd: invalid, monthly_usd: "7" });
      const text = await response.text();
      expect(response.status).toBe(400);
      expect(text).toContain("The daily budget must be an amount of US dollars");
      expect(text).toContain('id="budget-day-error"');
      expect(text).not.toContain("<script>");
      expect(text).toContain('value="7"');
    }
    expect((await send(owner, { daily_usd: "1" })).status).toBe(400);
    expect(await budgets()).toEqual(before);
  });

  test("an empty field removes a budget, and a form submitted twice changes it once", async () => {
    const form = { daily_usd: " ", monthly_usd: "12.5" };
    const responses = await Promise.all([send(owner, form), send(owner, form)]);
    expect(responses.map(({ status }) => status)).toEqual([303, 303]);
    expect(valueAt(await budgets(), "daily.limit_usd")).toBeNull();
    const log = await call(gateway, "GET /v1/audit?action=budget.changed", { key: account.key });
    expect(
      listAt(log.body, "data").map((entry) => [valueAt(entry, "actor.id"), entry["detail"]]),
    ).toEqual([
      [owner.personId, { daily_usd: null }],
      [owner.personId, { daily_usd: "0.001", monthly_usd: "12.5" }],
    ]);
  });

  test("developers can only read it, non-members get 404, and other sites cannot submit it", async () => {
    const before = await budgets();
    const form = { daily_usd: "1", monthly_usd: "1" };
    const [context, opened] = await openPage(developer);
    await opened.goto(page());
    expect(await opened.locator("main progress").count()).toBe(1);
    expect(await opened.locator("main .card form").count()).toBe(0);
    expect(await opened.textContent("main")).toContain(
      "Only owners, admins and billing members can change budgets.",
    );
    await context.close();
    expect((await send(developer, form)).status).toBe(403);
    expect((await send(stranger, form)).status).toBe(404);
    const foreign = { origin: "https://evil.example", "sec-fetch-site": "cross-site" };
    expect((await send(owner, form, foreign)).status).toBe(403);
    expect((await send({ ...owner, csrf: "wrong" }, form)).status).toBe(403);
    expect(await budgets()).toEqual(before);
  });

  test("fits a phone in light and dark, without console errors", async () => {
    const used = Number(valueAt(await budgets(), "daily.used_usd"));
    const [day, month] = [used * 1.15, used].map((usd) => usd.toFixed(9));
    await send(owner, { daily_usd: day ?? "", monthly_usd: month ?? "" });
    for (const colorScheme of ["light", "dark"] as const)
      for (const width of [360, 1_000]) {
        const [context, opened] = await openPage(owner, { width, colorScheme });
        await opened.goto(page());
        await screenshot(opened, `budgets-${colorScheme}-${width}`);
        const wide = await opened.locator("html").evaluate((html) => html.scrollWidth);
        expect(wide).toBeLessThanOrEqual(width);
        const barStyle = await opened
          .locator("progress")
          .first()
          .evaluate((bar) => [getComputedStyle(bar).appearance, bar.clientWidth]);
        expect(barStyle[0]).toBe("none");
        expect(Number(barStyle[1])).toBeGreaterThan(width / 4);
        await context.close();
      }
    expect(failures).toEqual([]);
  });
});
