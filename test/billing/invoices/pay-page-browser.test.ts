// The invoice page in a real browser without JavaScript, which also enforces the content security policy. If
// POSTERN_TEST_PICTURES names a folder, screenshots are saved there.

import { afterAll, expect, test } from "bun:test";
import path from "node:path";
import { sharedBrowser, closeWindows } from "../../support/browser/chromium.ts";
import { findPageIssues } from "../../support/browser/page-checks.ts";
import { startFakeStripe } from "../../support/fakes/stripe.ts";
import { registerAccount, startGateway } from "../../support/gateway.ts";
import { buyCredits, readInvoice } from "../fixtures.ts";

const SCREENSHOT_DIR = process.env["POSTERN_TEST_PICTURES"];

const failures: string[] = [];

const gateway = await startGateway({
  env: {
    POSTERN_OPERATOR_NAME: "Example Gateways Ltd",
    POSTERN_OPERATOR_ADDRESS: "1 Example Street; 10115 Berlin",
  },
});
const stripe = startFakeStripe();
const browser = await sharedBrowser();
const context = await browser.newContext({
  javaScriptEnabled: false,
  viewport: { width: 760, height: 900 },
});
const page = await context.newPage();
page.on("console", (message) => {
  if (message.type() === "error" && !/status of (4|5)\d\d/.test(message.text()))
    failures.push(message.text());
});
afterAll(async () => {
  await closeWindows(browser);
  await gateway.stop();
  await stripe.stop();
});

/** Checks the page on a desktop and a phone, in light and dark mode. */
async function checkPage(name: string): Promise<void> {
  if (SCREENSHOT_DIR !== undefined)
    await page.screenshot({ path: path.join(SCREENSHOT_DIR, `${name}.png`), fullPage: true });
  expect(await findPageIssues(page)).toEqual([]);
}

test("shows a failed payment, takes a payment and prints the receipt", async () => {
  const account = await registerAccount(gateway);
  const invoice = await buyCredits(gateway, account, "33.33");
  await page.goto(invoice.pay_url);
  await checkPage("pay-open");
  await page.click("text=Simulate a failed payment");
  await page.locator("[role=alert]", { hasText: "Nothing was charged" }).waitFor();
  await checkPage("pay-failed");
  await page.click("button:has-text('Pay $35.00')");
  await page.getByRole("heading", { name: "Invoice paid", level: 1, exact: true }).waitFor();
  await checkPage("pay-paid");
  await page.click("text=Receipt");
  await page.locator("main", { hasText: "Example Gateways Ltd" }).waitFor();
  await checkPage("receipt");
  // Print is dark on white even with a dark color scheme.
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  const brightness = await page
    .locator("h1, td, dt")
    .evaluateAll((elements) =>
      elements.map((element) =>
        Math.max(...(getComputedStyle(element).color.match(/\d+/g) ?? []).map(Number)),
      ),
    );
  expect(Math.max(...brightness)).toBeLessThan(110);
  await page.emulateMedia({ media: null, colorScheme: null });
  expect(await readInvoice(gateway, account, invoice.id)).toMatchObject({ status: "paid" });
  expect(failures).toEqual([]);
});

test("the content security policy allows the form to lead to the processor", async () => {
  const withStripe = await startGateway({ env: stripe.env });
  const invoice = await buyCredits(withStripe, await registerAccount(withStripe));
  await page.goto(invoice.pay_url);
  await checkPage("pay-stripe");
  await page.click("button:has-text('with Stripe')");
  await page.waitForURL(`${stripe.url}/c/pay/**`);
  expect(failures).toEqual([]);
  await withStripe.stop();
});
