// The home page and the API reference in a real browser. POSTERN_TEST_PICTURES names a folder for screenshots.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import path from "node:path";
import type { Browser, Page } from "playwright-core";
import {
  launchBrowser,
  type DisplayMode,
  openSharedWindow,
  openWindow,
  type OpenWindow,
  type BrowserWindow,
} from "../support/browser/chromium.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import { TESTED_MODES, testPageBasics } from "../support/browser/page-checks.ts";

const SCREENSHOTS_DIR = process.env["POSTERN_TEST_PICTURES"];
const START_TIMEOUT_MS = 60_000;
/** Enough to get past the header and into the content. */
const TAB_STOPS = 12;
const PAGES = [
  "/",
  "/docs",
  "/docs/quick-start",
  "/docs/api/create-chat-completion",
  "/docs/errors",
  "/models",
  "/models?all=true",
  "/models/sim/echo",
];

let gateway: Gateway;
let browser: Browser;
beforeAll(async () => {
  [gateway, browser] = await Promise.all([startGateway(), launchBrowser()]);
}, START_TIMEOUT_MS);
afterAll(async () => {
  await browser.close();
  await gateway.stop();
});

async function openPage(
  target: string,
  mode: DisplayMode,
  open: OpenWindow = openWindow,
): Promise<BrowserWindow> {
  const opened = await open(browser, gateway.url, mode);
  await opened.page.goto(gateway.url + target, { waitUntil: "load" });
  return opened;
}

async function saveScreenshot(page: Page, name: string): Promise<void> {
  if (SCREENSHOTS_DIR === undefined) return;
  await page.screenshot({
    path: path.join(SCREENSHOTS_DIR, `${name}.png`),
    fullPage: name.includes("home"),
  });
}

const PAGE_MODES = PAGES.flatMap((target) =>
  TESTED_MODES.map(({ screen, scheme }) => [target, screen, scheme] as const),
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

  test("has sufficient text contrast", async () => {
    const worst = await opened.page.evaluate(lowestContrastText);
    expect({ ...worst, isLegible: worst.contrast >= 4.5 }).toEqual({ ...worst, isLegible: true });
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

/** The text with the lowest contrast (WCAG 2). */
function lowestContrastText(): { readonly contrast: number; readonly text: string } {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (color: string): readonly number[] => {
    if (canvas === null) return [0, 0, 0, 0];
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([red = 0, green = 0, blue = 0]: readonly number[]): number => {
    const [r = 0, g = 0, b = 0] = [red, green, blue].map((value) => {
      const part = value / 255;
      return part <= 0.040_45 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const backgroundOf = (element: Element | null): readonly number[] => {
    for (let at = element; at !== null; at = at.parentElement) {
      const background = rgb(getComputedStyle(at).backgroundColor);
      if ((background[3] ?? 0) > 250) return background;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
  };
  let worst = { contrast: 21, text: "" };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const text = node.textContent?.trim() ?? "";
    const element = node.parentElement;
    if (text === "" || element === null || element.getClientRects().length === 0) continue;
    const [one, other] = [
      light(rgb(getComputedStyle(element).color)),
      light(backgroundOf(element)),
    ];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < worst.contrast) worst = { contrast, text: text.slice(0, 60) };
  }
  return worst;
}

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
  test.each(PAGES)("of %s to this gateway all work, including fragments", async (target) => {
    const { page, close } = await openPage(target, { screen: "desktop", scheme: "light" });
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
      const { pathname, hash } = new URL(link);
      // The console answers 401 without a session.
      if (pathname === "/console") continue;
      if (pathname === target && hash !== "") {
        if (!ids.has(decodeURIComponent(hash.slice(1)))) broken.push(link);
      } else if ((await fetch(link)).status >= 400) broken.push(link);
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

  test("finds pages without scripts", async () => {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    await page.goto(`${gateway.url}/docs`);
    await page.locator("input[name=q]").fill("webhook");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/docs\/search\?q=webhook/);
    expect(await page.locator("main li a").count()).toBeGreaterThan(3);
    await context.close();
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
