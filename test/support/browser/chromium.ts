// Starts Chromium from npm, and opens windows that record console messages, failed requests and requests to other sites.

import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import chromium from "@sparticuz/chromium";
import { type Browser, type BrowserContext, chromium as driver, type Page } from "playwright-core";
import { atProcessEnd } from "../process-end.ts";

export type Screen = "desktop" | "phone";
type ColorScheme = "light" | "dark";

export const SCREEN_SIZES: Readonly<
  Record<Screen, { readonly width: number; readonly height: number }>
> = {
  desktop: { width: 1_440, height: 900 },
  phone: { width: 390, height: 844 },
};

// Not those of the package, which are for one short-lived process: they end the browser with its first window, and render
// with a software GPU, which takes a fifth of the time of a page.
const BROWSER_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"];

export interface BrowserWindow {
  readonly page: Page;
  /** Console errors and warnings, failed requests, and requests to other sites. */
  readonly problems: string[];
  readonly close: () => Promise<void>;
}

export async function launchBrowser(): Promise<Browser> {
  return await driver.launch({
    executablePath: await prepareBrowser(),
    args: [...BROWSER_ARGUMENTS],
    headless: true,
  });
}

let shared: Promise<Browser> | undefined;

/** The browser of all test files of a process: its start takes as long as several pages. */
export function sharedBrowser(): Promise<Browser> {
  if (shared === undefined) atProcessEnd(async () => (await shared)?.close());
  shared ??= launchBrowser();
  return shared;
}

/** Closes what a test file has opened in the shared browser. */
export async function closeWindows(browser: Browser | undefined): Promise<void> {
  if (browser === undefined) return;
  sharedWindows.delete(browser);
  await Promise.all(browser.contexts().map((context) => context.close()));
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

export type OpenWindow = (
  browser: Browser,
  baseUrl: string,
  mode: DisplayMode,
) => Promise<BrowserWindow>;

/** A window with cookies and storage of its own. */
export const openWindow: OpenWindow = async (browser, baseUrl, mode) => {
  const context = await createContext(browser, mode);
  const page = await context.newPage();
  return { page, problems: recordProblems(page, baseUrl), close: () => context.close() };
};

const sharedWindows = new WeakMap<Browser, Promise<SharedWindow>>();

interface SharedWindow extends BrowserWindow {
  readonly setMode: (mode: DisplayMode) => Promise<void>;
}

/** The window that tests use one after another. It changes its mode without loading the page again. */
export const openSharedWindow: OpenWindow = async (browser, baseUrl, mode) => {
  const opening = sharedWindows.get(browser) ?? createSharedWindow(browser, baseUrl, mode);
  sharedWindows.set(browser, opening);
  const { page, problems, setMode } = await opening;
  await setMode(mode);
  return { page, problems, close: async () => undefined };
};

async function createSharedWindow(
  browser: Browser,
  baseUrl: string,
  mode: DisplayMode,
): Promise<SharedWindow> {
  const opened = await openWindow(browser, baseUrl, mode);
  const devTools = await opened.page.context().newCDPSession(opened.page);
  return {
    ...opened,
    setMode: async ({ screen, scheme }) => {
      await opened.page.setViewportSize(SCREEN_SIZES[screen]);
      await opened.page.emulateMedia({ colorScheme: scheme });
      const enabled = screen === "phone";
      await devTools.send("Emulation.setTouchEmulationEnabled", { enabled });
    },
  };
}

/** Loads a page, unless the window shows it. */
export async function showPage({ page, problems }: BrowserWindow, url: string): Promise<void> {
  if (page.url() === url) return;
  problems.length = 0;
  await page.goto(url, { waitUntil: "load" });
}

function createContext(browser: Browser, { screen, scheme }: DisplayMode): Promise<BrowserContext> {
  return browser.newContext({
    viewport: SCREEN_SIZES[screen],
    colorScheme: scheme,
    hasTouch: screen === "phone",
  });
}

function recordProblems(page: Page, baseUrl: string): string[] {
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
  return problems;
}
