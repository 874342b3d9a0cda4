// Ten tasks of a customer and five of an operator, in a real browser: each counts its clicks and fails on a dead end, which is
// a page with an error that has no link and no button in its main part.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Browser, Page } from "playwright-core";
import { makeDeveloper } from "../billing/console-user.ts";
import { type ConsoleFixture, createConsoleFixture } from "../console/console-fixture.ts";
import { type OperatorHarness, signInOperator, startOperatorHarness } from "../operator/harness.ts";
import { openWindow, sharedBrowser, closeWindows } from "../support/browser/chromium.ts";
import { registerAccount, type TestAccount } from "../support/gateway.ts";
import { type ConsoleHistory, createConsoleHistory } from "./console-history.ts";

interface Task {
  readonly page: Page;
  readonly url: string;
  /** Clicks the one element with this role and name that is visible. */
  readonly click: (role: "link" | "button" | "option", name: string | RegExp) => Promise<void>;
  /** Clicks the link of the first row of a table. */
  readonly clickFirstRow: (table: string) => Promise<void>;
  readonly fill: (label: string | RegExp, text: string) => Promise<void>;
  readonly see: (text: string | RegExp) => Promise<void>;
}

let browser: Browser;
let fixture: ConsoleFixture;
let history: ConsoleHistory;
let operators: OperatorHarness;
let customer: TestAccount;

beforeAll(async () => {
  [browser, fixture, operators] = await Promise.all([
    sharedBrowser(),
    createConsoleFixture("sqlite"),
    startOperatorHarness("sqlite"),
  ]);
  history = await createConsoleHistory(fixture);
  await makeDeveloper(fixture.gateway, fixture.account.id, fixture.developer);
  customer = await registerAccount(operators.gateway);
});
afterAll(async () => {
  await closeWindows(browser);
  await Promise.all([fixture.gateway.stop(), operators.gateway.stop()]);
});

/** A page with an error has a way on within its content. */
async function failOnDeadEnd(page: Page): Promise<void> {
  const [errors, waysOn] = await page.evaluate(() => [
    document.querySelectorAll('main .error:not([hidden]), main [role="alert"]:not([hidden])')
      .length,
    document.querySelectorAll("main a[href], main button:not([disabled])").length,
  ]);
  if ((errors ?? 0) > 0 && waysOn === 0) throw new Error(`dead end at ${page.url()}`);
  if ((await page.getByRole("heading", { name: /Something went wrong|Not found/ }).count()) > 0)
    throw new Error(`dead end at ${page.url()}`);
}

async function withTask(
  { url, cookie, path }: { readonly url: string; readonly cookie: string; readonly path: string },
  run: (task: Task) => Promise<void>,
  clicksMax: number,
): Promise<void> {
  const { page, close } = await openWindow(browser, url, { screen: "desktop", scheme: "light" });
  const [name = "", ...value] = cookie.split("=");
  const cookiePath = name.includes("operator") ? "/operator" : "/";
  await page
    .context()
    .addCookies([{ name, value: value.join("="), domain: "127.0.0.1", path: cookiePath }]);
  let clicks = 0;
  const task: Task = {
    page,
    url,
    click: async (role, text) => {
      await page.getByRole(role, { name: text }).filter({ visible: true }).first().click();
      clicks += 1;
      await page.waitForLoadState();
      await failOnDeadEnd(page);
    },
    clickFirstRow: async (table) => {
      await page
        .getByRole("region", { name: table, exact: true })
        .locator("tbody a")
        .first()
        .click();
      clicks += 1;
      await page.waitForLoadState();
      await failOnDeadEnd(page);
    },
    fill: (label, text) => page.getByLabel(label).filter({ visible: true }).first().fill(text),
    see: (text) => page.getByText(text).filter({ visible: true }).first().waitFor(),
  };
  try {
    await page.goto(url + path);
    await run(task);
  } finally {
    await close();
  }
  expect(clicks).toBeLessThanOrEqual(clicksMax);
}

type CustomerTask = readonly [name: string, clicksMax: number, run: (task: Task) => Promise<void>];

const CUSTOMER_TASKS: readonly CustomerTask[] = [
  [
    "create a key with a limit",
    2,
    async ({ click, fill, see }) => {
      await click("link", "Keys");
      await fill("Name", "task key");
      await fill("Limit (USD, optional)", "$1,000");
      await click("button", "Create key");
      await see(/pst-rt-/);
    },
  ],
  [
    "call a model in the browser",
    2,
    async ({ click, fill, see, page }) => {
      await click("link", "Playground");
      await fill("Message", "Hello to the task.");
      await click("button", "Run");
      await see("Hello to the task.");
      await page.getByRole("link", { name: "Open this call" }).waitFor();
    },
  ],
  [
    "find the most expensive call and why it cost that",
    2,
    async ({ click, clickFirstRow, see }) => {
      await click("link", "Usage");
      await clickFirstRow("Most expensive calls");
      await see("Total at list prices");
    },
  ],
  [
    "find out why calls failed",
    3,
    async ({ click, clickFirstRow, see }) => {
      await click("link", "Logs");
      await click("link", "Failed");
      await clickFirstRow("Calls");
      await see(/Attempts/);
    },
  ],
  [
    "rotate a key with an overlap",
    3,
    async ({ click, see }) => {
      await click("link", "Keys");
      await click("link", /nightly-eval/);
      await click("button", "Rotate key");
      await see(/pst-rt-/);
    },
  ],
  [
    "invite a developer",
    2,
    async ({ click, fill, see }) => {
      await click("link", "Members");
      await fill("Email address", "new@example.com");
      await click("button", "Invite");
      await see("new@example.com");
    },
  ],
  [
    "set a monthly budget",
    2,
    async ({ click, fill, see }) => {
      await click("link", "Budgets");
      await fill("Monthly budget (USD)", "200");
      await click("button", "Save budgets");
      await see("of $200.00");
    },
  ],
  [
    "buy credits and download the invoice",
    6,
    async ({ click, fill, page, see, url }) => {
      await click("link", "Billing");
      await click("link", "Buy credits");
      await fill("Amount (USD)", "25");
      await click("button", "Review price");
      await click("button", "Continue to payment");
      await click("button", /^Pay \$26\.25/);
      await see("Payment received.");
      await click("link", "Receipt");
      const pdf = page.getByRole("link", { name: "Download PDF" });
      const response = await page.request.get(url + ((await pdf.getAttribute("href")) ?? ""));
      expect(response.headers()["content-type"]).toBe("application/pdf");
    },
  ],
  [
    "put the company on the invoices",
    2,
    async ({ click, fill, see }) => {
      await click("link", "Billing");
      await fill("Legal name", "Example Research Ltd");
      await fill("VAT or tax ID", "DE123456789");
      await click("button", "Save details");
      await see("The billing details are saved.");
    },
  ],
  [
    "get events by webhook",
    2,
    async ({ click, fill, see }) => {
      await click("link", "Webhooks");
      await fill("URL (https)", "https://hooks.example.com/task");
      await click("button", "Add webhook");
      await see("Signing secret");
    },
  ],
];

describe("a customer can", () => {
  test.each(CUSTOMER_TASKS)("%s, in at most %d clicks", async (_name, clicksMax, run) => {
    const { gateway, account, owner } = fixture;
    const path = `/console/${account.id}`;
    await withTask({ url: gateway.url, cookie: owner.cookie, path }, run, clicksMax);
  });

  test("look at a page without its permission and go on from there", async () => {
    const { gateway, account, developer } = fixture;
    const path = `/console/${account.id}/webhooks/${history.webhookId}`;
    await withTask(
      { url: gateway.url, cookie: developer.cookie, path },
      async ({ click, see }) => {
        await click("link", "Usage");
        await see(/Spend/);
      },
      1,
    );
  });
});

const OPERATOR_TASKS: readonly CustomerTask[] = [
  [
    "grant credit to an account",
    4,
    async ({ click, fill, see }) => {
      await fill("Account, key, invoice or email address", customer.id);
      await click("button", "Search");
      await click("link", customer.id);
      await fill("Amount (USD)", "5");
      await fill("Reason", "outage");
      await click("button", "Grant credit");
      await click("button", "Confirm");
      await see("Credit granted.");
    },
  ],
  [
    "see what the gateway earned",
    1,
    async ({ click, see }) => {
      await click("link", "Report");
      await see("Profit of the period");
    },
  ],
  [
    "block a network",
    2,
    async ({ click, fill, see }) => {
      await click("link", "Blocks and limits");
      await fill("Network or domain", "203.0.113.0/24");
      await fill("Reason", "abuse");
      await click("button", "Block");
      await see("203.0.113.0/24");
    },
  ],
  [
    "post an incident",
    2,
    async ({ click, fill, see }) => {
      await click("link", "Post an incident");
      await fill("Title", "Slow replies");
      await fill("Message", "We look into it.");
      await click("button", "Post update");
      await see("The update is on the status page");
    },
  ],
  [
    "find who changed an account",
    1,
    async ({ click, see }) => {
      await click("link", "Audit log");
      await see("account.credited");
    },
  ],
];

describe("an operator can", () => {
  test.each(OPERATOR_TASKS)("%s, in at most %d clicks", async (_name, clicksMax, run) => {
    const { cookie } = await signInOperator(operators);
    await withTask({ url: operators.gateway.url, cookie, path: "/operator" }, run, clicksMax);
  });
});
