// The home page and the API reference in a real browser. POSTERN_TEST_PICTURES names a folder for screenshots.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import path from "node:path";
import type { Browser, Page } from "playwright-core";
import { addServiceLevel } from "../../src/service-levels/service-levels.ts";
import { AVAILABILITY } from "../service-levels/level-world.ts";
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
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";

const SCREENSHOTS_DIR = process.env["POSTERN_TEST_PICTURES"];
/** Enough to get past the header and into the content. */
const TAB_STOPS = 12;
const PAGES = [
  "/",
  "/docs",
  "/docs/quick-start",
  "/docs/api/create-chat-completion",
  "/docs/errors",
  "/models",
  "/models/sim/echo",
  "/status",
  "/docs/sla",
];

let gateway: Gateway;
let browser: Browser;
beforeAll(async () => {
  [gateway, browser] = await Promise.all([startGateway(), sharedBrowser()]);
  const act = { operator: "ada@operator.example", network: null, now: Date.now() };
  await gateway.server.db.write((tx) => addServiceLevel(tx, act, AVAILABILITY));
});
afterAll(async () => {
  await closeWindows(browser);
  await gateway.stop();
});

async function openPage(
  target: string,
  mode: DisplayMode,
  open: OpenWindow = openWindow,
): Promise<BrowserWindow> {
  const opened = await open(browser, gateway.url, mode);
  await showPage(opened, gateway.url + target);
  return opened;
}

async function saveScreenshot(page: Page, name: string): Promise<void> {
  if (SCREENSHOTS_DIR === undefined) return;
  await page.screenshot({
    path: path.join(SCREENSHOTS_DIR, `${name}.png`),
    fullPage: name.includes("home"),
  });
}

const PAGE_MODES = PAGES.flatMap((target, index) =>
  testedModes(index).map(({ screen, scheme }) => [target, screen, scheme] as const),
);

describe.each(PAGE_MODES)("%s on %s in %s mode", (target, screen, scheme) => {
  let opened: BrowserWindow;
  beforeAll(async () => {
    opened = await openPage(target, { screen, scheme }, openSharedWindow);
    const name = target === "/" ? "home" : target.slice(1).replaceAll(/\W/g, "-");
    await saveScreenshot(opened.page, `${name}-${screen}-${scheme}`);
  });
  afterAll(() => opened.close());

  testPageBasics(() => opened);

  test("has a header", async () => {
    expect(await opened.page.locator("header").count()).toBeGreaterThan(0);
  });

  test("follows the preferred color scheme", async () => {
    const [red = 0] = await opened.page.evaluate(() =>
      (getComputedStyle(document.body).backgroundColor.match(/\d+/g) ?? []).map(Number),
    );
    const [rootRed = red] = await opened.page.evaluate(() =>
      (getComputedStyle(document.documentElement).backgroundColor.match(/\d+/g) ?? []).map(Number),
    );
    expect(Math.max(red, rootRed) < 128).toBe(scheme === "dark");
  });

  test("shows the keyboard focus on every element", async () => {
    const { page } = opened;
    await page.evaluate(() => {
      window.scrollTo(0, 0);
      if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
    });
    const stops: { readonly what: string; readonly isVisible: boolean }[] = [];
    for (let tabs = 0; tabs < TAB_STOPS; tabs++) {
      await page.keyboard.press("Tab");
      stops.push(await page.evaluate(focusIndicator));
    }
    // After the last element, the focus moves to the browser and comes back.
    const own = stops.filter(({ what }) => !what.startsWith("BODY"));
    expect(own.filter(({ isVisible }) => !isVisible)).toEqual([]);
    expect(new Set(own.map(({ what }) => what)).size).toBeGreaterThan(3);
  });
});

function focusIndicator(): { readonly what: string; readonly isVisible: boolean } {
  const focused = document.activeElement;
  if (!(focused instanceof HTMLElement)) return { what: "nothing", isVisible: false };
  const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(focused);
  const box = focused.getBoundingClientRect();
  const isOutlined = outlineStyle !== "none" && Number.parseFloat(outlineWidth) >= 1;
  const isOnScreen = box.width > 0 && box.bottom > 0 && box.top < innerHeight;
  return {
    what: `${focused.tagName} ${(focused.textContent ?? "").trim().slice(0, 30)}`,
    isVisible: isOnScreen && (isOutlined || boxShadow !== "none"),
  };
}

describe("links", () => {
  const working = new Set<string>();

  test.each(PAGES)("of %s to this gateway all work, including fragments", async (target) => {
    const mode = { screen: "desktop", scheme: "light" } as const;
    const { page, close } = await openPage(target, mode, openSharedWindow);
    const links = await page
      .locator("a[href]")
      .evaluateAll((anchors) => anchors.map((anchor) => (anchor as HTMLAnchorElement).href));
    const own = [...new Set(links)].filter((link) => link.startsWith(`${gateway.url}/`));
    expect(own.length).toBeGreaterThan(3);
    const ids = new Set(
      await page.locator("[id]").evaluateAll((elements) => elements.map(({ id }) => id)),
    );
    const broken: string[] = [];
    for (const link of own) {
      const { pathname, search, hash } = new URL(link);
      // The console answers 401 without a session.
      if (pathname === "/console") continue;
      if (pathname === target && hash !== "") {
        if (!ids.has(decodeURIComponent(hash.slice(1)))) broken.push(link);
      } else if (!working.has(pathname + search)) {
        if ((await fetch(link)).status < 400) working.add(pathname + search);
        else broken.push(link);
      }
    }
    expect(broken).toEqual([]);
    await close();
  });

  test("the skip link is the first to get the focus and leads to the content", async () => {
    const { page, close } = await openPage("/docs", { screen: "desktop", scheme: "light" });
    await page.keyboard.press("Tab");
    expect(await page.evaluate(() => document.activeElement?.getAttribute("href"))).toBe("#main");
    await page.keyboard.press("Enter");
    expect(await page.evaluate(() => document.activeElement?.id)).toBe("main");
    await close();
  });
});

describe("the documentation", () => {
  test("scrolls the sidebar to the link of the page", async () => {
    const mode = { screen: "desktop", scheme: "light" } as const;
    const { page, close } = await openPage("/docs/api/create-account", mode);
    const link = await page.locator(".docs-sidebar li [aria-current]").boundingBox();
    expect(link?.y).toBeLessThan(900);
    await close();
  });

  test.each(["desktop", "phone"] as const)(
    "keeps the copy button beside the code, and words of the sidebar whole, on a %s",
    async (screen) => {
      const mode = { screen, scheme: "light" } as const;
      const { page, close } = await openPage("/docs/errors/insufficient_credits", mode);
      if (screen === "phone") await page.getByRole("button", { name: "Menu" }).click();
      const { covered, broken } = await page.evaluate(() => {
        const overlaps = (one: DOMRect, other: DOMRect): boolean =>
          one.left < other.right &&
          other.left < one.right &&
          one.top < other.bottom &&
          other.top < one.bottom;
        const frames = [...document.querySelectorAll(".code-frame")];
        const links = [...document.querySelectorAll<HTMLElement>(".docs-sidebar li a")];
        const hasBrokenWord = (link: HTMLElement): boolean => {
          const range = document.createRange();
          range.selectNodeContents(link);
          const isOneWord = !/[\s-]/.test(link.textContent.trim());
          return isOneWord && range.getClientRects().length > 1;
        };
        return {
          covered: frames.filter((frame) => {
            const [button, code] = [frame.querySelector(".copy"), frame.querySelector("pre")];
            if (button === null || code === null) return true;
            return overlaps(button.getBoundingClientRect(), code.getBoundingClientRect());
          }).length,
          broken: links
            .filter((link) => hasBrokenWord(link) || link.scrollWidth > link.clientWidth)
            .map(({ textContent }) => textContent),
        };
      });
      expect({ covered, broken }).toEqual({ covered: 0, broken: [] });
      await close();
    },
  );

  test("finds pages while typing, and by keyboard", async () => {
    const { page, close } = await openPage("/docs", { screen: "desktop", scheme: "light" });
    await page.keyboard.press("/");
    await page.keyboard.type("claim");
    const first = page.locator(".docs-results a").first();
    await first.waitFor();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/docs\/\w/);
    expect(await page.locator("h1").textContent()).toMatch(/claim/i);
    await close();
  });

  test("searches again after a search that failed", async () => {
    const { page, close } = await openPage("/docs", { screen: "desktop", scheme: "light" });
    const failed = page.waitForEvent("requestfailed");
    await page.route("**/docs/search.json*", (route) => route.abort(), { times: 1 });
    await page.locator(".docs-search input").focus();
    await page.keyboard.type("w");
    await failed;
    await page.keyboard.type("ebhook");
    await page.locator(".docs-results a").first().waitFor();
    await close();
  });

  test("finds pages without scripts", async () => {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    await page.goto(`${gateway.url}/docs`);
    await page.locator("input[name=q]").fill("webhook");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/docs\/search\?q=webhook/);
    expect(await page.locator(".docs-result a").count()).toBeGreaterThan(3);
    await context.close();
  });

  test("remembers the SDK of its examples on other pages", async () => {
    const mode = { screen: "desktop", scheme: "light" } as const;
    const { page, close } = await openPage("/docs/quick-start", mode);
    await page.getByText("Python", { exact: true }).first().click();
    await page.goto(`${gateway.url}/models/sim/echo`);
    expect(await page.getByLabel("Python").isChecked()).toBe(true);
    await close();
  });

  test("copies an example", async () => {
    const { page, close } = await openPage("/docs/api/create-account", {
      screen: "desktop",
      scheme: "light",
    });
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.locator(".docs-examples .code-frame").first().hover();
    await page.locator(".docs-examples .copy").first().click();
    await page.getByText("Copied").waitFor();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toStartWith("curl -sS");
    await close();
  });

  test("sends a request with the reader's key", async () => {
    const { key } = await registerAccount(gateway);
    const { page, close } = await openPage("/docs/api/create-chat-completion", {
      screen: "desktop",
      scheme: "light",
    });
    await page.getByLabel("API key", { exact: true }).fill(key);
    await page.getByRole("button", { name: "Send request" }).click();
    await page.getByText(/^Status 200/).waitFor();
    expect(await page.locator(".try-it-result pre").textContent()).toContain('"chat.completion"');
    await page.goto(`${gateway.url}/docs/api/get-model`);
    await page.getByLabel("id").fill("sim/echo");
    await page.getByRole("button", { name: "Send request" }).click();
    await page.getByText(/^Status 200/).waitFor();
    await close();
  });
});
