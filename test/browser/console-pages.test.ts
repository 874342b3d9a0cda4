// The console pages in a real browser. POSTERN_TEST_PICTURES names a folder for screenshots.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import path from "node:path";
import type { Browser } from "playwright-core";
import { chatRequests, createBatch, waitForEnd } from "../batches/batch-harness.ts";
import { makeDeveloper, visitPage } from "../billing/console-user.ts";
import { type ConsoleFixture, createConsoleFixture } from "../console/console-fixture.ts";
import {
  type BrowserWindow,
  type DisplayMode,
  openSharedWindow,
  showPage,
  openWindow,
  type OpenWindow,
  sharedBrowser,
  closeWindows,
} from "../support/browser/chromium.ts";
import { testedModes, testPageBasics } from "../support/browser/page-checks.ts";
import { type ConsoleHistory, createConsoleHistory } from "./console-history.ts";

const SCREENSHOTS_DIR = process.env["POSTERN_TEST_PICTURES"];
const DESKTOP: DisplayMode = { screen: "desktop", scheme: "light" };

let fixture: ConsoleFixture;
let browser: Browser;
let history: ConsoleHistory;

beforeAll(async () => {
  [fixture, browser] = await Promise.all([createConsoleFixture("sqlite"), sharedBrowser()]);
  await makeDeveloper(fixture.gateway, fixture.otherAccount.id, fixture.owner);
  history = await createConsoleHistory(fixture);
  const { id } = await createBatch(fixture.gateway, fixture.account, chatRequests(2));
  await waitForEnd(fixture.gateway, fixture.account, id);
});
afterAll(async () => {
  await closeWindows(browser);
  await fixture.gateway.stop();
});

async function openPage(
  target: string,
  mode: DisplayMode,
  open: OpenWindow = openWindow,
): Promise<BrowserWindow> {
  const { url } = fixture.gateway;
  const opened = await open(browser, url, mode);
  const [name = "", ...value] = fixture.owner.cookie.split("=");
  await opened.page
    .context()
    .addCookies([{ name, value: value.join("="), domain: "127.0.0.1", path: "/" }]);
  await showPage(opened, url + target);
  return opened;
}

const PAGES: readonly (readonly [name: string, target: () => string])[] = [
  ["components", () => "/console/_components"],
  ["sessions", () => "/sessions"],
  ...[
    "",
    "/usage",
    "/logs",
    "/agent-sessions",
    "/batches",
    "/playground",
    "/keys",
    "/connected-apps",
    "/presets",
    "/guardrails",
    "/mcp-servers",
    "/provider-keys",
    "/budgets",
    "/members",
    "/sso",
    "/directory-sync",
    "/webhooks",
    "/sinks",
    "/audit",
    "/billing",
    "/settings",
  ].map((page): readonly [string, () => string] => [
    page === "" ? "overview" : page.slice(1),
    () => `/console/${fixture.account.id}${page}`,
  ]),
  ["provider-key", () => `/console/${fixture.account.id}/provider-keys/${history.providerKeyId}`],
  ["new-provider-key", () => `/console/${fixture.account.id}/provider-keys/new`],
  [
    "member",
    () => `/console/${fixture.account.id}/members?ask=change&person=${fixture.developer.personId}`,
  ],
  ["audit-stream", () => `/console/${fixture.account.id}/audit/stream`],
  ["require-sso", () => `/console/${fixture.account.id}/sso?ask=require`],
  ["sign-in", () => "/signin"],
  ["buy", () => `/console/${fixture.account.id}/billing/buy`],
  ["buy-review", () => `/console/${fixture.account.id}/billing/buy?amount_usd=25`],
  ["call", () => `/console/${fixture.account.id}/logs/${history.callId}`],
  ["agent-session", () => `/console/${fixture.account.id}/agent-sessions/${history.sessionId}`],
  [
    "agent-session-stop",
    () => `/console/${fixture.account.id}/agent-sessions/${history.sessionId}?ask=stop`,
  ],
  ["usage-by-session", () => `/console/${fixture.account.id}/usage?by=session`],
  ["usage-by-key", () => `/console/${fixture.account.id}/usage?range=7d&unit=hour&by=key`],
  ["logs-filtered", () => `/console/${fixture.account.id}/logs?outcome=failed&range=90d`],
  ["key", () => `/console/${fixture.account.id}/keys/${history.keyId}`],
  ["deliveries", () => `/console/${fixture.account.id}/webhooks/${history.webhookId}`],
  ["emails", () => "/emails"],
  ["sent-emails", () => "/emails/_sent"],
  ["workspaces", () => "/console?all=true"],
  ["search", () => `/console/${fixture.account.id}/search?q=key`],
  ["empty-overview", () => `/console/${fixture.otherAccount.id}`],
  ["empty-logs", () => `/console/${fixture.otherAccount.id}/logs`],
];
const PAGE_MODES = PAGES.flatMap(([name, target], index) =>
  testedModes(index).map(({ screen, scheme }) => [name, screen, scheme, target] as const),
);

describe.each(PAGE_MODES)("console page %s on %s in %s mode", (name, screen, scheme, target) => {
  let opened: BrowserWindow;
  beforeAll(async () => {
    opened = await openPage(target(), { screen, scheme }, openSharedWindow);
    if (SCREENSHOTS_DIR !== undefined)
      await opened.page.screenshot({
        path: path.join(SCREENSHOTS_DIR, `console-${name}-${screen}-${scheme}.png`),
        fullPage: true,
      });
  });
  afterAll(() => opened.close());

  testPageBasics(() => opened);

  test("follows the preferred color scheme", async () => {
    const background = await opened.page.evaluate(() =>
      (getComputedStyle(document.body).backgroundColor.match(/\d+/g) ?? []).map(Number),
    );
    expect((background[0] ?? 0) < 128).toBe(scheme === "dark");
  });
});

describe("the app frame", () => {
  test("opens and closes the sidebar as a drawer on a phone", async () => {
    const { page, close } = await openPage(`/console/${fixture.account.id}`, {
      screen: "phone",
      scheme: "light",
    });
    const usage = page.getByRole("link", { name: "Usage", exact: true });
    expect(await usage.isVisible()).toBe(false);
    await page.getByRole("button", { name: "Menu" }).click();
    await usage.click();
    await page.waitForURL(/\/usage$/);
    expect(await page.locator("[aria-current=page]").first().textContent()).toBe("Usage");
    await close();
  });

  test("signs out from the sidebar of a page without scripts", async () => {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    const { otherOwner, otherAccount, gateway } = fixture;
    const [name = "", ...value] = otherOwner.cookie.split("=");
    await context.addCookies([{ name, value: value.join("="), domain: "127.0.0.1", path: "/" }]);
    await page.goto(`${gateway.url}/console/${otherAccount.id}`);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.waitForURL(/\/signout/);
    await context.close();
  });

  test("copies code, shows ages and describes chart bars", async () => {
    const { page, close } = await openPage("/console/_components", DESKTOP);
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.getByRole("button", { name: "Copy" }).first().click();
    await page.getByRole("button", { name: "Copied" }).waitFor();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toStartWith("req_");
    expect(await page.locator("time").first().textContent()).toBe("5m ago");
    await page.locator("rect.hit").first().hover();
    const tip = page.locator(".chart-tip").filter({ visible: true });
    expect(await tip.textContent()).toContain("claude-sonnet-5-5: $3");
    expect(await tip.locator("rect").first().getAttribute("class")).toBe("series-1");
    const [above, chart] = [
      await tip.boundingBox(),
      await page.locator(".chart svg").first().boundingBox(),
    ];
    expect((above?.y ?? 0) + (above?.height ?? 0)).toBeLessThanOrEqual(chart?.y ?? 0);
    await close();
  });
});

test("a bar of a chart leads to the page of its day", async () => {
  const { page, close } = await openPage(`/console/${fixture.account.id}/usage`, DESKTOP);
  const bar = page.locator("rect.hit[data-href]").last();
  const href = (await bar.getAttribute("data-href")) ?? "none";
  await bar.click();
  await page.waitForURL((url) => url.href.endsWith(href));
  expect(await page.locator(".figures .value").count()).toBeGreaterThan(3);
  await close();
});

test("the time zone of the browser is proposed until one is chosen", async () => {
  const context = await browser.newContext({ timezoneId: "Europe/Berlin" });
  const page = await context.newPage();
  const { developer, account, gateway } = fixture;
  const [name = "", ...value] = developer.cookie.split("=");
  await context.addCookies([{ name, value: value.join("="), domain: "127.0.0.1", path: "/" }]);
  await page.goto(`${gateway.url}/console/${account.id}`);
  await page.getByRole("button", { name: "Use Europe/Berlin" }).click();
  await page.waitForURL(/\/settings/);
  expect(await page.getByLabel("Time zone").inputValue()).toBe("Europe/Berlin");
  expect(await page.getByRole("button", { name: "Use Europe/Berlin" }).count()).toBe(0);
  await context.close();
});

describe("filters", () => {
  test.each(["logs", "usage"])(
    "of %s are one row at 1440 pixels, and open for the rarely used ones",
    async (target) => {
      const { page, close } = await openPage(`/console/${fixture.account.id}/${target}`, DESKTOP);
      const box = await page.locator("form.filters").boundingBox();
      expect(box?.height).toBeLessThan(80);
      await page.getByText("More filters").click();
      await page.getByLabel("Provider", { exact: true }).selectOption({ index: 1 });
      await page.getByRole("button", { name: "Apply" }).click();
      await page.waitForURL(/provider=/);
      expect(await page.getByLabel("Provider", { exact: true }).isVisible()).toBe(true);
      await close();
    },
  );
});

describe("sums", () => {
  /** `<$0.01` has no part in a sum of cents. */
  const cents = (text = ""): number =>
    text.startsWith("<") ? 0 : Number(text.replaceAll(/[^\d.]/g, "")) * 1_000_000;

  test("the rows of the usage table add up to the spend of the period", async () => {
    const { page, close } = await openPage(`/console/${fixture.account.id}/usage`, DESKTOP);
    const figures = await page.locator(".figures .value").allTextContents();
    const table = page.getByRole("region", { name: "Usage by model" });
    const headings = await table.locator("thead th").allTextContents();
    const rows = await table.locator("tbody tr").all();
    const costs = await Promise.all(
      rows.map(
        async (row) => (await row.locator("th, td").allTextContents())[headings.indexOf("Cost")],
      ),
    );
    expect(costs.length).toBeGreaterThan(2);
    const sum = costs.reduce((total, cost) => total + cents(cost), 0);
    expect(Math.round(sum)).toBe(Math.round(cents(figures[0])));
    await close();
  });

  test("purchased and promotional credit add up to the balance", async () => {
    const { page, close } = await openPage(`/console/${fixture.account.id}/billing`, DESKTOP);
    const [balance, paid, promo] = await page.locator(".figures .value").allTextContents();
    expect(Math.round(cents(paid) + cents(promo))).toBe(Math.round(cents(balance)));
    await close();
  });
});

describe("search", () => {
  test("opens by keyboard, finds pages, keys, models and documentation, and leads to them", async () => {
    const { page, problems, close } = await openPage(`/console/${fixture.account.id}`, DESKTOP);
    await page.keyboard.press("Control+k");
    const dialog = page.getByRole("dialog", { name: "Search pages, models, keys and docs" });
    await dialog.getByRole("searchbox").fill("nightly");
    await dialog.getByRole("link", { name: /nightly-eval/ }).waitFor();
    await dialog.getByRole("searchbox").fill("echo");
    await dialog.getByRole("link", { name: "sim/echo Model" }).waitFor();
    await dialog.getByRole("searchbox").fill("webh");
    await dialog.getByRole("link", { name: /^Webhooks ?Page$/ }).waitFor();
    await dialog.getByRole("link", { name: /sim\/echo/ }).waitFor({ state: "detached" });
    await dialog.getByRole("link", { name: /^Webhooks.* ?Docs$/ }).waitFor();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/webhooks$/);
    await page.keyboard.press("Control+k");
    await dialog.waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    // The page that Enter opens ends the search for what was typed last.
    expect(problems.filter((problem) => !/^failed: .*\/search(\.json)?\?q=/.test(problem))).toEqual(
      [],
    );
    await close();
  });

  test("keeps the focus on a result when others arrive", async () => {
    const { page, close } = await openPage(`/console/${fixture.account.id}`, DESKTOP);
    const isChosen = Promise.withResolvers<void>();
    await page.route(/\/search\?q=/, async (route) => {
      await isChosen.promise;
      await route.continue();
    });
    await page.keyboard.press("Control+k");
    const dialog = page.getByRole("dialog", { name: "Search pages, models, keys and docs" });
    // The pages are found at once, the models by a request.
    await dialog.getByRole("searchbox").fill("tin");
    await dialog.getByRole("link", { name: /Settings/ }).waitFor();
    await page.keyboard.press("ArrowDown");
    isChosen.resolve();
    await dialog.getByRole("link", { name: /sim\/tiny/ }).waitFor();
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/settings$/);
    await close();
  });

  test("is a page without scripts", async () => {
    const target = `/console/${fixture.account.id}/search?q=nightly`;
    const { page, close } = await openPage(target, DESKTOP);
    const main = page.getByRole("main");
    const docs = main.getByRole("link", { name: "Search the documentation for “nightly”" });
    expect(await docs.getAttribute("href")).toBe("/docs/search?q=nightly");
    await main.getByRole("link", { name: "nightly-eval" }).click();
    await page.waitForURL(/\/logs\?key=key_/);
    await close();
  });
});

describe("the playground", () => {
  test.each(["chat", "responses", "messages", "gemini"])(
    "streams a reply with cost through %s",
    async (api) => {
      const { page, close, problems } = await openPage(
        `/console/${fixture.account.id}/playground`,
        DESKTOP,
      );
      await page.getByLabel("API", { exact: true }).selectOption(api);
      await page.getByLabel("System prompt").fill("Be brief.");
      await page.getByLabel("Message").fill("Repeat these words.");
      await page.getByRole("button", { name: "Run" }).click();
      await page
        .locator("[data-figure=cost]")
        .getByText(/^\$0\.0/)
        .waitFor();
      expect(await page.locator("[data-run=model] [data-reply]").textContent()).toContain(
        "Repeat these words.",
      );
      expect(await page.locator("[data-run=model] [data-figure=first]").textContent()).toMatch(
        /^\d+ ms$/,
      );
      await page.locator("[data-run=model]").getByText("Raw events").click();
      expect(await page.locator("[data-run=model] [data-events]").textContent()).toContain("{");
      await page.getByText("Show as code").click();
      for (const language of ["curl", "Python", "TypeScript"]) {
        await page.getByLabel("Language").selectOption(language);
        expect(await page.locator("[data-code]").textContent()).toContain("sim/echo");
      }
      // Chromium sometimes reports a stream that was read to its end as aborted.
      expect(problems.filter((problem) => !/^failed: .*\/v1(?:beta)?\//.test(problem))).toEqual([]);
      await close();
    },
  );

  test("continues a conversation, runs with Ctrl+Enter, and links to the call", async () => {
    const { page, close } = await openPage(`/console/${fixture.account.id}/playground`, DESKTOP);
    await page.locator("[data-price=model]").getByText("per million tokens").waitFor();
    await page.getByLabel("Continue the conversation").check();
    for (const text of ["The first message.", "The second message."]) {
      await page.getByLabel("Message").fill(text);
      await page.keyboard.press("Control+Enter");
      await page.locator("[data-run=model] [data-turns]").getByText(text).first().waitFor();
    }
    await page.getByLabel("Message").fill("The third message.");
    await page.getByText("Show as code").click();
    const code = await page.locator("[data-code]").textContent();
    for (const text of ["The first message.", "The second message.", "The third message."])
      expect(code).toContain(text);
    expect(await page.locator("[data-run=model] [data-status]").textContent()).toContain(
      "It cost $0.0",
    );
    await page.getByRole("link", { name: "Open this call" }).click();
    await page.waitForURL(/\/logs\/req_/);
    await page.getByRole("heading", { name: "Call to sim/echo" }).waitFor();
    await close();
  });

  test("formats Markdown, and shows HTML of a model as text", async () => {
    const { page, close } = await openPage(`/console/${fixture.account.id}/playground`, DESKTOP);
    const reply = page.locator("[data-run=model] [data-reply]");
    const sent =
      "**bold** `code`\n\n# Heading\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n<b id=raw>html</b>\n[site](https://example.com) [bad](javascript:alert)";
    await page.getByLabel("Message").fill(sent);
    await page.getByRole("button", { name: "Run" }).click();
    await reply.locator("strong", { hasText: "bold" }).waitFor();
    await reply.locator("h3", { hasText: "Heading" }).waitFor();
    await reply.getByRole("cell", { name: "2" }).waitFor();
    expect(await reply.locator("#raw").count()).toBe(0);
    expect(await reply.textContent()).toContain("<b id=raw>html</b>");
    const links = reply.locator("a");
    expect(await links.evaluateAll((all) => all.map((link) => link.getAttribute("href")))).toEqual([
      "https://example.com",
    ]);
    await page.getByLabel("Format Markdown").uncheck();
    await reply.getByText("**bold**").waitFor();
    await close();
  });

  test("sends a message to two models side by side", async () => {
    const { page, close } = await openPage(`/console/${fixture.account.id}/playground`, DESKTOP);
    await page.getByLabel("Compare with").fill("sim/tiny");
    await page.locator("[data-price=second-model]").getByText("per million tokens").waitFor();
    await page.getByLabel("Message").fill("Compare these words.");
    await page.getByRole("button", { name: "Run" }).click();
    const boxes: (number | undefined)[] = [];
    for (const [field, model] of [
      ["model", "sim/echo"],
      ["second-model", "sim/tiny"],
    ] as const) {
      const run = page.locator(`[data-run=${field}]`);
      await run.getByRole("heading", { name: model }).waitFor();
      await run.locator("[data-figure=cost]").getByText(/^\$/).waitFor();
      await run.getByRole("link", { name: "Open this call" }).waitFor();
      boxes.push((await run.boundingBox())?.y);
    }
    expect(boxes[0]).toBe(boxes[1]);
    await close();
  });

  test("shows generated images, with the code that generates them", async () => {
    const { page, close } = await openPage(`/console/${fixture.account.id}/playground`, DESKTOP);
    await page.locator("[data-price=model]").getByText("per million tokens").waitFor();
    await page.getByLabel("Model", { exact: true }).fill("sim/image");
    expect(await page.getByLabel("API", { exact: true }).inputValue()).toBe("images");
    await page.getByLabel("Message").fill("A small door.");
    await page.getByText("Show as code").click();
    await page.getByLabel("Language").selectOption("Python");
    expect(await page.locator("[data-code]").textContent()).toContain("client.images.generate(");
    await page.getByRole("button", { name: "Run" }).click();
    const image = page.locator("[data-run=model] [data-images] img");
    await image.waitFor();
    expect(await image.evaluate((shown: HTMLImageElement) => shown.naturalWidth)).toBe(1);
    await page.locator("[data-run=model] [data-figure=cost]").getByText(/^\$/).waitFor();
    await close();
  });

  test("plays generated speech, and shows its price for a character", async () => {
    const { page, close } = await openPage(`/console/${fixture.account.id}/playground`, DESKTOP);
    await page.locator("[data-price=model]").getByText("per million tokens").waitFor();
    await page.getByLabel("Model", { exact: true }).fill("sim/speech");
    await page.locator("[data-price=model]").getByText("$0.000015 per character").waitFor();
    expect(await page.getByLabel("API", { exact: true }).inputValue()).toBe("speech");
    await page.getByLabel("Message").fill("Hello.");
    await page.getByRole("button", { name: "Run" }).click();
    const player = page.locator("[data-run=model] [data-images] audio");
    await player.waitFor();
    expect(await player.evaluate((shown: HTMLAudioElement) => shown.src)).toStartWith("blob:");
    await page.locator("[data-run=model] [data-figure=cost]").getByText(/^\$/).waitFor();
    await close();
  });

  test("shows the cost of a stopped call", async () => {
    const { page, close } = await openPage(`/console/${fixture.account.id}/playground`, DESKTOP);
    await page.getByLabel("Message").fill("[[sim: chunks=100 pace=50]] Go on.");
    await page.getByRole("button", { name: "Run" }).click();
    await page.locator("[data-run=model] [data-reply]").getByText(/\w/).waitFor();
    await page.getByRole("link", { name: "Open this call" }).waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.locator("[data-run=model] [data-figure=cost]").getByText(/^\$/).waitFor();
    await close();
  });

  test("offers credits where the balance does not cover the call", async () => {
    const { gateway, owner } = fixture;
    // A person gets starting credits once.
    for (const name of ["First", "Empty"])
      await visitPage(gateway, "/console/workspaces", owner, { name });
    const [created] = await gateway.server.db.all("select id from account where name = 'Empty'");
    const path = `/console/${String(created?.["id"])}/playground`;
    const { page, close } = await openPage(path, DESKTOP);
    await page.getByRole("button", { name: "Run" }).click();
    await page.getByRole("link", { name: "Buy $10 of credits" }).click();
    await page.waitForURL(/\/billing\/buy\?amount_usd=10/);
    await close();
  });

  test("says what is wrong with a request", async () => {
    const { page, close } = await openPage(`/console/${fixture.account.id}/playground`, DESKTOP);
    await page.getByLabel("Model", { exact: true }).fill("no/such-model");
    await page.getByRole("button", { name: "Run" }).click();
    await page
      .getByText(/No model has the id/)
      .first()
      .waitFor();
    await page.getByText("Image and tools").click();
    await page.getByLabel("Tools").fill("not JSON");
    await page.getByRole("button", { name: "Run" }).click();
    await page.getByText(/JSON/).nth(1).waitFor();
    await close();
  });
});
