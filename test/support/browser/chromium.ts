// A real browser out of npm, and a window of it that keeps what went wrong: messages of the console, failed and foreign
// requests.

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
    desktop: { width: 1_280, height: 800 },
    phone: { width: 360, height: 740 },
  };

export interface BrowserWindow {
  readonly page: Page;
  /** What a person would find in the console, and every request that left this site. */
  readonly problems: readonly string[];
  readonly close: () => Promise<void>;
}

export async function launchBrowser(): Promise<Browser> {
  return await driver.launch({
    executablePath: await prepareBrowser(),
    // In a single process, the first window that is closed takes the browser with it.
    args: chromium.args.filter((argument) => argument !== "--single-process"),
    headless: true,
  });
}

// The package unpacks into the folder for temporary files, where a second process takes the half that it finds for the
// whole. So it is unpacked aside and moved into its place at once; whoever comes second keeps the first one's.
export async function prepareBrowser(): Promise<string> {
  const entry = createRequire(import.meta.url).resolve("@sparticuz/chromium");
  const { version } = JSON.parse(
    readFileSync(path.join(path.dirname(entry), "..", "package.json"), "utf8"),
  );
  const folder = path.join(tmpdir(), `postern-browser-${version}-${process.getuid?.() ?? 0}`);
  const program = path.join(folder, "chromium");
  if (existsSync(program)) return program;
  const previousTmpdir = process.env["TMPDIR"];
  const stagingFolder = mkdtempSync(`${folder}-`);
  try {
    process.env["TMPDIR"] = stagingFolder;
    await chromium.executablePath();
    renameSync(stagingFolder, folder);
  } catch (error) {
    rmSync(stagingFolder, { recursive: true, force: true });
    if (!existsSync(program)) throw error;
  } finally {
    if (previousTmpdir === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = previousTmpdir;
  }
  return program;
}

export interface DisplayMode {
  readonly screen: Screen;
  readonly scheme: ColorScheme;
}

export async function openWindow(
  browser: Browser,
  site: string,
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
    if (!url.startsWith(`${site}/`) && !url.startsWith("data:")) problems.push(`foreign: ${url}`);
  });
  return { page, problems, close: () => context.close() };
}
