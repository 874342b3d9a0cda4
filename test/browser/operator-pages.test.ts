// The operator pages in a real browser. POSTERN_TEST_PICTURES names a folder for screenshots.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import path from "node:path";
import type { Browser } from "playwright-core";
import { createLog } from "../../src/base/log.ts";
import { createInvoice } from "../../src/billing/invoices/invoices.ts";
import { markPaid, markRefunded } from "../../src/billing/payments/manual-payments.ts";
import { ingestFacts } from "../../src/billing/payments/payment-facts.ts";
import { addBlock } from "../../src/controls/blocks.ts";
import {
  COMMAND_LINE_ACTOR,
  freezeAccount,
  grantCredit,
} from "../../src/operator/accounts/account-actions.ts";
import { requestChange } from "../../src/operator/accounts/change-requests.ts";
import { addServiceLevel, endServiceLevel } from "../../src/service-levels/service-levels.ts";
import { postIncidentUpdate } from "../../src/status/incidents.ts";
import {
  type OperatorHarness,
  insertUnclearPayment,
  fetchPage,
  startOperatorHarness,
  type OperatorSession,
  signInOperator,
  readAudit,
} from "../operator/harness.ts";
import { TEST_ACTOR, actIn } from "../support/act.ts";
import {
  type DisplayMode,
  openSharedWindow,
  showPage,
  openWindow,
  type OpenWindow,
  type BrowserWindow,
  sharedBrowser,
  closeWindows,
} from "../support/browser/chromium.ts";
import { testedModes, testPageBasics } from "../support/browser/page-checks.ts";
import { type TestAccount, registerAccount } from "../support/gateway.ts";

const SCREENSHOTS_DIR = process.env["POSTERN_TEST_PICTURES"];

let harness: OperatorHarness;
let session: OperatorSession;
let browser: Browser;
let account: TestAccount;
let frozen: TestAccount;

beforeAll(async () => {
  [harness, browser] = await Promise.all([startOperatorHarness("sqlite"), sharedBrowser()]);
  session = await signInOperator(harness);
  await createHistory();
});
afterAll(async () => {
  await closeWindows(browser);
  await harness.gateway.stop();
});

/** Accounts, calls, payments, a refund, an unclear payment, a freeze, a block, an incident and a change to approve. */
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
      reason: "compensation for the outage of May 3",
      id: "gift",
      amount: 12_500_000_000n,
    }),
  );
  await db.write((tx) =>
    freezeAccount(tx, { ...act, accountId: frozen.id, reason: "resells its credits" }),
  );
  const operatorAct = { operator: session.email, network: "203.0.113.0/24", now: clock.now };
  const fields = { do: "grant", usd: "5", bucket: "", reason: "outage" } as const;
  await db.write(async (tx) => {
    const block = { kind: "network", value: "203.0.113.0/24", reason: "abuse" } as const;
    await addBlock(tx, operatorAct, block);
    await postIncidentUpdate(tx, operatorAct, {
      incidentId: undefined,
      title: "Slow replies of a provider in Europe",
      impact: "degraded",
      state: "investigating",
      message: "We look into it.",
    });
    await requestChange(tx, operatorAct, { accountId: account.id, fields });
  });
  for (let call = 0; call < 3; call++)
    await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({
        model: "sim/echo",
        max_tokens: 200,
        messages: [{ role: "user", content: "Describe the weather today. ".repeat(40) }],
      }),
    });
  const terms = {
    model: "openai/gpt-5-mini",
    metric: "availability",
    target: 999_500,
    period: "day",
    creditPercent: 10,
    cap: 25_000_000_000n,
  } as const;
  const operator = { operator: session.email, network: null, now: clock.now };
  await db.write(async (tx) => {
    await addServiceLevel(tx, operator, terms);
    const slow = { ...terms, model: "*", metric: "first_token_p95", target: 2_000 } as const;
    await endServiceLevel(tx, operator, await addServiceLevel(tx, operator, slow));
  });
  await insertUnclearPayment(db, account.id, clock.now);
  for (const [index, amountCents] of [1_000, 25_000, 500].entries()) {
    const act = actIn(account.id, clock.now + index);
    const { id: invoiceId } = await db.write((tx) => createInvoice(tx, act, amountCents * 10_000));
    const payment = { invoiceId, reference: `transfer ${index}`, by: TEST_ACTOR, now: clock.now };
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

async function openPage(
  target: string,
  mode: DisplayMode,
  open: OpenWindow = openWindow,
): Promise<BrowserWindow> {
  const { url } = harness.gateway;
  const opened = await open(browser, url, mode);
  const [name = "", value = ""] = session.cookie.split("=");
  await opened.page.context().addCookies([{ name, value, domain: "127.0.0.1", path: "/operator" }]);
  await showPage(opened, url + target);
  return opened;
}

const PAGES: readonly (readonly [name: string, target: () => string])[] = [
  ["sign-in", () => "/operator/signin"],
  ["accounts", () => "/operator"],
  ["account", () => `/operator/accounts/${account.id}`],
  ["frozen", () => `/operator/accounts/${frozen.id}`],
  ["report", () => "/operator/report"],
  ["approvals", () => "/operator/approvals"],
  ["controls", () => "/operator/controls"],
  ["providers", () => "/operator/providers"],
  ["incidents", () => "/operator/incidents"],
  ["service-levels", () => "/operator/service-levels"],
  ["grants", () => "/operator/grants"],
  ["system", () => "/operator/system"],
  ["payments", () => "/operator/payments"],
  ["audit", () => "/operator/audit"],
];
const PAGE_MODES = PAGES.flatMap(([name, target], index) =>
  testedModes(index).map(({ screen, scheme }) => [name, screen, scheme, target] as const),
);

describe.each(PAGE_MODES)("operator page %s on %s in %s mode", (name, screen, scheme, target) => {
  let opened: BrowserWindow;
  beforeAll(async () => {
    opened = await openPage(target(), { screen, scheme }, openSharedWindow);
    if (SCREENSHOTS_DIR !== undefined)
      await opened.page.screenshot({
        path: path.join(SCREENSHOTS_DIR, `operator-${name}-${screen}-${scheme}.png`),
        fullPage: true,
      });
  });
  afterAll(() => opened.close());

  testPageBasics(() => opened);

  test("has one label for every field", async () => {
    const unlabeled = await opened.page
      .locator("input:not([type=hidden]), select")
      .evaluateAll((fields) =>
        fields
          .filter((field) => (field as HTMLInputElement).labels?.length !== 1)
          .map(({ id }) => id),
      );
    expect(unlabeled).toEqual([]);
  });

  // The table of a chart has a column for each provider.
  test("shows tables without scrolling them sideways", async () => {
    const scrolling = await opened.page
      .locator(".scroll:not(.chart-table *)")
      .evaluateAll((regions) =>
        regions
          .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
          .map((region) => region.getAttribute("aria-label")),
      );
    expect(scrolling).toEqual([]);
  });

  test("follows the preferred color scheme", async () => {
    const background = await opened.page.evaluate(() =>
      (getComputedStyle(document.body).backgroundColor.match(/\d+/g) ?? []).map(Number),
    );
    expect((background[0] ?? 0) < 128).toBe(scheme === "dark");
  });
});

describe("operator forms in a browser", () => {
  test("adjust a balance once, even after a reload", async () => {
    const before = (await readAudit(harness.gateway.server.db, "account.adjusted")).length;
    const { page, problems, close } = await openPage(`/operator/accounts/${account.id}`, {
      screen: "desktop",
      scheme: "light",
    });
    await page.getByLabel("Amount (USD, may be negative)").fill("-0.25");
    await page.locator("#adjust-reason").fill("counted twice");
    await page.getByRole("button", { name: "Adjust balance" }).click();
    await page.getByText("Take $0.25? Reason: “counted twice”.").waitFor();
    await page.getByRole("button", { name: "Confirm" }).click();
    await page.waitForURL(/done=adjusted/);
    expect(await page.getByRole("status").textContent()).toBe("Balance adjusted.");
    await page.reload();
    const entries = await readAudit(harness.gateway.server.db, "account.adjusted");
    expect(entries.length - before).toBe(1);
    expect(entries.at(-1)?.detail).toMatchObject({ usd: "-0.25", reason: "counted twice" });
    expect(problems).toEqual([]);
    await close();
  });

  test("are applied once on a double click", async () => {
    const before = (await readAudit(harness.gateway.server.db, "account.credited")).length;
    const { page, close } = await openPage(`/operator/accounts/${account.id}`, {
      screen: "desktop",
      scheme: "light",
    });
    await page.locator("#grant-usd").fill("1");
    await page.locator("#grant-reason").fill("double click");
    await page.getByRole("button", { name: "Grant credit" }).click();
    await page.getByRole("button", { name: "Confirm" }).dblclick();
    await page.waitForURL(/done=granted/);
    expect((await readAudit(harness.gateway.server.db, "account.credited")).length - before).toBe(
      1,
    );
    await close();
  });

  test("require a reason before they are sent", async () => {
    const { page, close } = await openPage(`/operator/accounts/${account.id}`, {
      screen: "desktop",
      scheme: "light",
    });
    await page.getByRole("button", { name: "Freeze account" }).click();
    expect(await page.evaluate(() => document.activeElement?.id)).toBe("freeze-reason");
    expect(
      (await fetchPage(harness, `/operator/accounts/${account.id}`, session)).text,
    ).not.toContain("Frozen by an operator");
    await close();
  });

  test("sign the operator out", async () => {
    const previous = session;
    session = await signInOperator(harness);
    const { page, close } = await openPage("/operator", { screen: "desktop", scheme: "light" });
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.waitForURL(/\/operator\/signin/);
    await page.goto(`${harness.gateway.url}/operator/audit`);
    expect(new URL(page.url()).pathname).toBe("/operator/signin");
    session = previous;
    await close();
  });
});
