// What every page owes to whoever opens it, whatever it shows, and the looks in which it owes that.

import { expect, test } from "bun:test";
import type { DisplayMode, BrowserWindow } from "./chromium.ts";

export const DISPLAY_MODES: readonly DisplayMode[] = [
  { screen: "desktop", scheme: "light" },
  { screen: "desktop", scheme: "dark" },
  { screen: "phone", scheme: "light" },
  { screen: "phone", scheme: "dark" },
];

/** Tests the page that a `beforeAll` of the same `describe` opens. */
export function testPageBasics(openedWindow: () => BrowserWindow): void {
  test("says nothing in the console and asks nobody else for anything", () => {
    expect(openedWindow().problems).toEqual([]);
  });

  test("has one first-level heading, a title, a language, and a landmark for its content", async () => {
    const { page } = openedWindow();
    expect(await page.locator("h1").count()).toBe(1);
    expect(await page.title()).toContain("Postern");
    expect(await page.locator("html").getAttribute("lang")).toBe("en");
    expect(await page.locator("main").count()).toBe(1);
  });

  test("its headings leave no level out", async () => {
    const levels = await openedWindow()
      .page.locator("h1, h2, h3, h4, h5, h6")
      .evaluateAll((headings) => headings.map((heading) => Number(heading.tagName.slice(1))));
    let before = 0;
    for (const level of levels) {
      expect(level).toBeLessThanOrEqual(before + 1);
      before = level;
    }
  });

  test("does not scroll sideways", async () => {
    const [content, screenWidth] = await openedWindow().page.evaluate(() => [
      document.documentElement.scrollWidth,
      document.documentElement.clientWidth,
    ]);
    expect(content).toBeLessThanOrEqual(screenWidth ?? 0);
  });
}
