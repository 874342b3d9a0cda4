// Checks that every page must pass, in all display modes.

import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type axe from "axe-core";
import type { Page } from "playwright-core";
import { IS_FULL } from "../full.ts";
import { type BrowserWindow, type DisplayMode, SCREEN_SIZES } from "./chromium.ts";

export const DISPLAY_MODES: readonly DisplayMode[] = [
  { screen: "desktop", scheme: "light" },
  { screen: "desktop", scheme: "dark" },
  { screen: "phone", scheme: "light" },
  { screen: "phone", scheme: "dark" },
];

/** Each width and each color scheme once, which do not depend on each other; every combination in the full form. */
const TESTED_MODES: readonly DisplayMode[] = IS_FULL
  ? DISPLAY_MODES
  : DISPLAY_MODES.filter(({ screen, scheme }) => (screen === "desktop") === (scheme === "light"));

/** The page is loaded in the first mode and then changes: every second page is loaded on a phone. */
export function testedModes(pageIndex: number): readonly DisplayMode[] {
  return pageIndex % 2 === 0 ? TESTED_MODES : TESTED_MODES.toReversed();
}

const AXE_SOURCE = readFileSync(
  createRequire(import.meta.url).resolve("axe-core/axe.min.js"),
  "utf8",
);
const AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

export async function findAccessibilityIssues(page: Page): Promise<readonly string[]> {
  // The CSP of the page blocks script elements, but not what the driver evaluates.
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(AXE_SOURCE);
  return await page.evaluate(async (tags) => {
    const { axe: engine } = window as unknown as { readonly axe: typeof axe };
    const { violations } = await engine.run(document, {
      runOnly: [...tags],
      resultTypes: ["violations"],
      selectors: false,
      preload: false,
    });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
  }, AXE_TAGS);
}

/**
 * The accessibility issues and the horizontal scrolling of a page without scripts, in the tested modes. Checks a copy of the
 * document, because axe-core needs scripts.
 */
export async function findPageIssues(page: Page): Promise<readonly string[]> {
  const body = await page.content();
  const context = await page.context().browser()?.newContext();
  if (context === undefined) throw new Error("the page has no browser");
  const copy = await context.newPage();
  await copy.route(page.url(), (route) => route.fulfill({ body, contentType: "text/html" }));
  await copy.goto(page.url());
  const issues: string[] = [];
  for (const { screen, scheme } of TESTED_MODES) {
    await copy.setViewportSize(SCREEN_SIZES[screen]);
    await copy.emulateMedia({ colorScheme: scheme });
    const found = await findAccessibilityIssues(copy);
    issues.push(...found.map((issue) => `${screen}, ${scheme}: ${issue}`));
    const width = await copy.evaluate(() => document.documentElement.scrollWidth);
    if (width > SCREEN_SIZES[screen].width) issues.push(`${screen}: ${width} pixels wide`);
  }
  await context.close();
  return issues;
}

/** Tests the page that a `beforeAll` of the same `describe` opens. */
export function testPageBasics(openedWindow: () => BrowserWindow): void {
  test("logs nothing to the console and makes no requests to other sites", () => {
    expect(openedWindow().problems).toEqual([]);
  });

  test("has one h1, a title, a language and a main landmark", async () => {
    const { page } = openedWindow();
    expect(await page.locator("h1").count()).toBe(1);
    expect(await page.title()).toContain("Postern");
    expect(await page.locator("html").getAttribute("lang")).toBe("en");
    expect(await page.locator("main").count()).toBe(1);
  });

  test("has no accessibility findings (axe, WCAG 2.2 AA)", async () => {
    expect(await findAccessibilityIssues(openedWindow().page)).toEqual([]);
  });

  test("skips no heading level", async () => {
    const levels = await openedWindow()
      .page.locator("h1, h2, h3, h4, h5, h6")
      .evaluateAll((headings) => headings.map((heading) => Number(heading.tagName.slice(1))));
    let before = 0;
    for (const level of levels) {
      expect(level).toBeLessThanOrEqual(before + 1);
      before = level;
    }
  });

  test("does not scroll horizontally", async () => {
    const [content, screenWidth] = await openedWindow().page.evaluate(() => [
      document.documentElement.scrollWidth,
      document.documentElement.clientWidth,
    ]);
    expect(content).toBeLessThanOrEqual(screenWidth ?? 0);
  });
}
