// Starts Chromium from npm, and opens windows that record console messages, failed requests and requests to other sites.

import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import chromium from "@sparticuz/chromium";
import { type Browser, chromium as driver, type Page } from "playwright-core";

export type Screen = "desktop" | "phone";
export type ColorScheme = "light" | "dark";

const SCREEN_SIZES: Readonly<Record<Screen, { readonly width: number; readonly height: number }>> =
  {
    desktop: { width: 1_440, height: 900 },
    phone: { width: 390, height: 844 },
  };

export interface BrowserWindow {
  readonly page: Page;
  /** Console errors and warnings, failed requests, and requests to other sites. */
  readonly problems: readonly string[];
  readonly close: () => Promise<void>;
}

export async function launchBrowser(): Promise<Browser> {
  return await driver.launch({
    executablePath: await prepareBrowser(),
    // With a single process, closing a window ends the browser.
    args: chromium.args.filter((argument) => argument !== "--single-process"),
    headless: true,
  });
}

// The package unpacks into TMPDIR, where a concurrent process would use an incomplete executable. So it is unpacked into a
// staging folder, which is renamed; if another process was first, its folder is used.
export async function prepareBrowser(): Promise<string> {
  const entry = createRequire(import.meta.url).resolve("@sparticuz/chromium");
  const { version } = JSON.parse(
    readFileSync(path.join(path.dirname(entry), "..", "package.json"), "utf8"),
  );
  const folder = path.join(tmpdir(), `postern-browser-${version}-${process.getuid?.() ?? 0}`);
  const executable = path.join(folder, "chromium");
  if (existsSync(executable)) return executable;
  const previousTmpdir = process.env["TMPDIR"];
  const stagingFolder = mkdtempSync(`${folder}-`);
  try {
    process.env["TMPDIR"] = stagingFolder;
    await chromium.executablePath();
    renameSync(stagingFolder, folder);
  } catch (error) {
    rmSync(stagingFolder, { recursive: true, force: true });
    if (!existsSync(executable)) throw error;
  } finally {
    if (previousTmpdir === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = previousTmpdir;
  }
  return executable;
}

export interface DisplayMode {
  readonly screen: Screen;
  readonly scheme: ColorScheme;
}

export async function openWindow(
  browser: Browser,
  baseUrl: string,
  mode: DisplayMode,
): Promise<BrowserWindow> {
  const context = await browser.newContext({
    viewport: SCREEN_SIZES[mode.screen],
    colorScheme: mode.scheme,
    hasTouch: mode.screen === "phone",
  });
  const page = await context.newPage();
  const problems: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("requestfailed", (request) => problems.push(`failed: ${request.url()}`));
  page.on("response", (response) => {
    if (response.status() >= 400) problems.push(`${response.status()}: ${response.url()}`);
  });
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(`${baseUrl}/`) && !url.startsWith("data:"))
      problems.push(`other site: ${url}`);
  });
  return { page, problems, close: () => context.close() };
}
