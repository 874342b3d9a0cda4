// The operator's pages in a real browser. Where POSTERN_TEST_PICTURES names a folder, a picture of each look is left there.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import path from "node:path";
import type { Browser } from "playwright-core";
import { createLog } from "../../src/base/log.ts";
import { createInvoice } from "../../src/billing/invoices/invoices.ts";
import { ingestFacts } from "../../src/billing/payments/checkouts.ts";
import { markPaid, markRefunded } from "../../src/billing/payments/manual-payments.ts";
import {
  COMMAND_LINE_ACTOR,
  freezeAccount,
  grantCredit,
} from "../../src/operator/accounts/account-actions.ts";
import {
  type OperatorHarness,
  insertUnclearPayment,
  fetchPage,
  startOperatorHarness,
  type OperatorSession,
  signInOperator,
  readAudit,
} from "../operator/harness.ts";
import {
  launchBrowser,
  type DisplayMode,
  openWindow,
  type BrowserWindow,
} from "../support/browser/chromium.ts";
import { type TestAccount, registerAccount } from "../support/gateway.ts";
import { DISPLAY_MODES, testPageBasics } from "../support/browser/page-checks.ts";

const SCREENSHOTS_DIR = process.env["POSTERN_TEST_PICTURES"];
const START_TIMEOUT_MS = 60_000;

let harness: OperatorHarness;
let session: OperatorSession;
let browser: Browser;
let account: TestAccount;
let frozen: TestAccount;

beforeAll(async () => {
  [harness, browser] = await Promise.all([startOperatorHarness("sqlite"), launchBrowser()]);
  session = await signInOperator(harness);
  await createHistory();
}, START_TIMEOUT_MS);
afterAll(async () => {
  await browser.close();
  await harness.gateway.stop();
});

/** A small past: accounts, calls, payments, money that went back, a payment that is not clear, a freeze. */
async function createHistory(): Promise<void> {
  const { gateway, clock } = harness;
  const { db } = gateway.server;
  [account, frozen] = [await registerAccount(gateway), await registerAccount(gateway)];
  const deps = {
    db,
    log: createLog({ level: "error", isPretty: true, now: Date.now, write: () => {} }),
  };
  const act = { by: COMMAND_LINE_ACTOR, network: null, now: clock.now };
  await db.write((tx) =>
    grantCredit(tx, {
      ...act,
      accountId: account.id,
      reason: "a gift for the outage of the third of May",
      id: "gift",
      amount: 12_500_000_000n,
    }),
  );
  await db.write((tx) =>
    freezeAccount(tx, { ...act, accountId: frozen.id, reason: "resells its credits" }),
  );
  for (let call = 0; call < 3; call++)
    await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({
        model: "sim/echo",
        max_tokens: 200,
        messages: [{ role: "user", content: "What a fine day it is. ".repeat(40) }],
      }),
    });
  await insertUnclearPayment(db, account.id, clock.now);
  for (const [index, amountCents] of [1_000, 25_000, 500].entries()) {
    const about = { accountId: account.id, amountCents, now: clock.now + index };
    const { id: invoiceId } = await db.write((tx) => createInvoice(tx, about));
    const payment = { invoiceId, reference: `transfer ${index}`, now: clock.now };
    if (index < 2) await markPaid(deps, payment);
    if (index === 0) await markRefunded(deps, { ...payment, reference: "back", amountCents: 300 });
    if (index === 1)
      await ingestFacts(
        deps,
        [
          {
            processor: "manual",
            ref: "once more",
            kind: "paid",
            payment: "once more",
            invoiceId,
            amountCents: 26_250,
            taxCents: 0,
            currency: "usd",
            at: clock.now,
          },
        ],
        clock.now,
      );
  }
}

async function openPage(target: string, look: DisplayMode): Promise<BrowserWindow> {
  const { url } = harness.gateway;
  const opened = await openWindow(browser, url, look);
  const [name = "", value = ""] = session.cookie.split("=");
  await opened.page.context().addCookies([{ name, value, domain: "127.0.0.1", path: "/operator" }]);
  // There is no script that could ask for more later.
  await opened.page.goto(url + target, { waitUntil: "load" });
  return opened;
}

const PAGES: readonly (readonly [name: string, target: () => string])[] = [
  ["sign-in", () => "/operator/signin"],
  ["accounts", () => "/operator"],
  ["account", () => `/operator/accounts/${account.id}`],
  ["frozen", () => `/operator/accounts/${frozen.id}`],
  ["report", () => "/operator/report"],
  ["payments", () => "/operator/payments"],
  ["audit", () => "/operator/audit"],
];
const PAGE_LOOKS = PAGES.flatMap(([name, target]) =>
  DISPLAY_MODES.map(({ screen, scheme }) => [name, screen, scheme, target] as const),
);

describe.each(PAGE_LOOKS)("the operator's %s on a %s in %s", (name, screen, scheme, target) => {
  let opened: BrowserWindow;
  beforeAll(async () => {
    opened = await openPage(target(), { screen, scheme });
    if (SCREENSHOTS_DIR !== undefined)
      await opened.page.screenshot({
        path: path.join(SCREENSHOTS_DIR, `operator-${name}-${screen}-${scheme}.png`),
        fullPage: true,
      });
  });
  afterAll(() => opened.close());

  testPageBasics(() => opened);

  test("runs no script", async () => {
    expect(await opened.page.locator("script").count()).toBe(0);
  });

  test("every field has a name", async () => {
    const nameless = await opened.page
      .locator("input:not([type=hidden]), select")
      .evaluateAll((fields) =>
        fields
          .filter((field) => (field as HTMLInputElement).labels?.length !== 1)
          .map(({ id }) => id),
      );
    expect(nameless).toEqual([]);
  });

  test("follows the colours that the person has chosen", async () => {
    const ground = await opened.page.evaluate(() =>
      (getComputedStyle(document.body).backgroundColor.match(/\d+/g) ?? []).map(Number),
    );
    expect((ground[0] ?? 0) < 128).toBe(scheme === "dark");
  });
});

describe("an operator with a mouse", () => {
  test("adjusts a balance, sees it done, and a reload asks for nothing again", async () => {
    const before = (await readAudit(harness.gateway.server.db, "account.adjusted")).length;
    const { page, problems, close } = await openPage(`/operator/accounts/${account.id}`, {
      screen: "desktop",
      scheme: "light",
    });
    await page.getByLabel("US dollars, with − for less").fill("-0.25");
    await page.locator("#adjust-reason").fill("counted twice");
    await page.getByRole("button", { name: "Adjust the balance" }).click();
    await page.waitForURL(/done=adjusted/);
    expect(await page.getByRole("status").textContent()).toBe("The balance was adjusted.");
    await page.reload();
    const told = await readAudit(harness.gateway.server.db, "account.adjusted");
    expect(told.length - before).toBe(1);
    expect(told.at(-1)?.detail).toMatchObject({ usd: "-0.25", reason: "counted twice" });
    expect(problems).toEqual([]);
    await close();
  });

  test("a double click is one change", async () => {
    const before = (await readAudit(harness.gateway.server.db, "account.credited")).length;
    const { page, close } = await openPage(`/operator/accounts/${account.id}`, {
      screen: "desktop",
      scheme: "light",
    });
    await page.locator("#grant-usd").fill("1");
    await page.locator("#grant-reason").fill("double click");
    await page.getByRole("button", { name: "Grant the credit" }).dblclick();
    await page.waitForURL(/done=granted/);
    expect((await readAudit(harness.gateway.server.db, "account.credited")).length - before).toBe(
      1,
    );
    await close();
  });

  test("what is missing is asked for before anything is sent", async () => {
    const { page, close } = await openPage(`/operator/accounts/${account.id}`, {
      screen: "desktop",
      scheme: "light",
    });
    await page.getByRole("button", { name: "Freeze the account" }).click();
    expect(await page.evaluate(() => document.activeElement?.id)).toBe("freeze-reason");
    expect(
      (await fetchPage(harness, `/operator/accounts/${account.id}`, session)).text,
    ).not.toContain("Frozen by an operator");
    await close();
  });

  test("signs out, and the way back leads to the door", async () => {
    const own = await signInOperator(harness);
    const former = session;
    session = own;
    const { page, close } = await openPage("/operator", { screen: "desktop", scheme: "light" });
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.waitForURL(/\/operator\/signin/);
    await page.goto(`${harness.gateway.url}/operator/audit`);
    expect(new URL(page.url()).pathname).toBe("/operator/signin");
    session = former;
    await close();
  });
});
