// Takes screenshots of pages with demonstration data.
//   npm run screenshots             the images of README and docs, into docs/images
//   npm run screenshots -- FOLDER   every page on a desktop and a phone, in light and dark mode

import { mkdirSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Browser, Page } from "playwright-core";
import { signInOperator } from "../../operator/harness.ts";
import { type DisplayMode, launchBrowser, openWindow, SCREEN_SIZES } from "../browser/chromium.ts";
import { DISPLAY_MODES } from "../browser/page-checks.ts";
import { type Gateway, startGateway } from "../gateway.ts";
import { type Demo, fillDemo } from "./demo-store.ts";

const IMAGES_DIR = path.join(import.meta.dirname, "../../../docs/images");
const IMAGE_BYTES_MAX = 150_000;
/** Chromium takes no taller picture than about twice this. */
const HEIGHT_MAX = 8_000;
const OPERATOR_EMAIL = "ada@operator.example";
/** Callable in the demonstration; calls are answered by the simulator. */
const DEMO_PROVIDERS = ["sim", "openai", "anthropic", "google", "deepseek"];

type PageTarget = readonly [name: string, path: (demo: Demo) => string];

const consoleTarget = (name: string, page: string): PageTarget => [
  `console-${name}`,
  ({ account }) => `/console/${account.id}${page}`,
];

const PAGES: readonly PageTarget[] = [
  ["home", () => "/"],
  ["docs", () => "/docs"],
  ["docs-quick-start", () => "/docs/quick-start"],
  ["docs-api", () => "/docs/api/create-chat-completion"],
  ["docs-errors", () => "/docs/errors"],
  ["docs-guide", () => "/docs/guides/claude-code"],
  ["docs-status", () => "/docs/status"],
  ["docs-changelog", () => "/docs/operators/changelog"],
  ["models", () => "/models?sort=latency"],
  ["model", () => "/models/anthropic/claude-sonnet-5-5"],
  ["console-workspaces", () => "/console"],
  consoleTarget("overview", ""),
  consoleTarget("usage", "/usage"),
  consoleTarget("logs", "/logs"),
  consoleTarget("logs-failed", "/logs?outcome=failed"),
  ["console-call", ({ account, callId }) => `/console/${account.id}/logs/${callId}`],
  [
    "console-failed-call",
    ({ account, failedCallId }) => `/console/${account.id}/logs/${failedCallId}`,
  ],
  ...[
    "playground",
    "keys",
    "agent-sessions",
    "connected-apps",
    "provider-keys",
    "budgets",
    "responses",
    "members",
    "webhooks",
    "audit",
    "billing",
    "settings",
  ].map((page) => consoleTarget(page, `/${page}`)),
  ["console-key", ({ account, keyId }) => `/console/${account.id}/keys/${keyId}`],
  [
    "console-deliveries",
    ({ account, webhookId }) => `/console/${account.id}/webhooks/${webhookId}`,
  ],
  consoleTarget("new-provider-key", "/provider-keys/new"),
  consoleTarget("buy", "/billing/buy"),
  consoleTarget("buy-review", "/billing/buy?amount_usd=25"),
  consoleTarget("search", "/search?q=key"),
  ["console-components", () => "/console/_components"],
  ["emails", () => "/emails"],
  ["sessions", () => "/sessions"],
  ["console-empty", ({ emptyAccount }) => `/console/${emptyAccount.id}`],
  ["console-empty-usage", ({ emptyAccount }) => `/console/${emptyAccount.id}/usage`],
  ["console-empty-logs", ({ emptyAccount }) => `/console/${emptyAccount.id}/logs`],
  ["operator-accounts", () => "/operator"],
  ["operator-account", ({ account }) => `/operator/accounts/${account.id}`],
  ["operator-approvals", () => "/operator/approvals"],
  ["operator-controls", () => "/operator/controls"],
  ["operator-incidents", () => "/operator/incidents"],
  ["operator-report", () => "/operator/report"],
  ["operator-grants", () => "/operator/grants?days=30"],
  ["operator-providers", () => "/operator/providers"],
  ["operator-system", () => "/operator/system"],
  ["operator-payments", () => "/operator/payments"],
  ["operator-audit", () => "/operator/audit"],
];

/** The images of README and docs. */
const DOCUMENT_IMAGES: readonly (readonly [page: string, mode: DisplayMode])[] = [
  ["console-overview", { screen: "desktop", scheme: "light" }],
  ["console-usage", { screen: "desktop", scheme: "light" }],
  ["console-logs", { screen: "desktop", scheme: "light" }],
  ["console-call", { screen: "desktop", scheme: "light" }],
  ["console-keys", { screen: "desktop", scheme: "light" }],
  ["console-budgets", { screen: "desktop", scheme: "light" }],
  ["console-billing", { screen: "desktop", scheme: "light" }],
  ["console-deliveries", { screen: "desktop", scheme: "light" }],
  ["models", { screen: "desktop", scheme: "light" }],
  ["model", { screen: "desktop", scheme: "dark" }],
  ["operator-report", { screen: "desktop", scheme: "light" }],
  // Last, because it creates a key and a call.
  ["console-playground", { screen: "desktop", scheme: "dark" }],
];

const gateway = await startGateway({
  providers: DEMO_PROVIDERS,
  env: { POSTERN_OPERATORS: OPERATOR_EMAIL },
});
const browser = await launchBrowser();
try {
  const demo = await fillDemo(gateway);
  const operator = await signInOperator({ gateway, clock: { now: Date.now() } }, OPERATOR_EMAIL);
  const cookies = [demo.owner.cookie, operator.cookie];
  const [, , folder, onlyPage = ""] = process.argv;
  if (folder === undefined) await takeDocumentImages(demo, cookies);
  else {
    mkdirSync(folder, { recursive: true });
    for (const [name, target] of PAGES.filter(([name]) => name.includes(onlyPage)))
      for (const mode of DISPLAY_MODES) {
        const file = path.join(folder, `${name}-${mode.screen}-${mode.scheme}.png`);
        await takeScreenshot({ browser, gateway, cookies }, target(demo), {
          mode,
          file,
          fullPage: true,
        });
      }
  }
} finally {
  await browser.close();
  await gateway.stop();
}

async function takeDocumentImages(demo: Demo, cookies: readonly string[]): Promise<void> {
  for (const [page, mode] of DOCUMENT_IMAGES) {
    const target = PAGES.find(([name]) => name === page)?.[1];
    if (target === undefined) throw new Error(`no page ${page}`);
    const file = path.join(IMAGES_DIR, `${page}.webp`);
    await takeScreenshot({ browser, gateway, cookies }, target(demo), {
      mode,
      file,
      fullPage: false,
    });
    const { size } = statSync(file);
    process.stdout.write(`${path.basename(file)} ${Math.round(size / 1_000)} KB\n`);
    if (size > IMAGE_BYTES_MAX) throw new Error(`${file} has ${size} bytes`);
  }
}

interface ScreenshotDeps {
  readonly browser: Browser;
  readonly gateway: Gateway;
  readonly cookies: readonly string[];
}

async function takeScreenshot(
  { browser, gateway, cookies }: ScreenshotDeps,
  target: string,
  {
    mode,
    file,
    fullPage,
  }: { readonly mode: DisplayMode; readonly file: string; readonly fullPage: boolean },
): Promise<void> {
  const { page, close } = await openWindow(browser, gateway.url, mode);
  for (const cookie of cookies) {
    const [name = "", ...value] = cookie.split("=");
    const cookiePath = name.includes("operator") ? "/operator" : "/";
    await page
      .context()
      .addCookies([{ name, value: value.join("="), domain: "127.0.0.1", path: cookiePath }]);
  }
  const response = await page.goto(gateway.url + target, { waitUntil: "load" });
  if (response?.status() !== 200)
    throw new Error(`${target}: ${response?.status() ?? "no response"}`);
  if (target.endsWith("/playground")) await runPlayground(page);
  if (fullPage) {
    const { width } = SCREEN_SIZES[mode.screen];
    const height = await page.evaluate(() => document.documentElement.scrollHeight);
    const clip = { x: 0, y: 0, width, height: Math.min(height, HEIGHT_MAX) };
    await page.screenshot({ path: file, fullPage, clip });
  } else {
    // Playwright itself writes no WebP, which is half as large as PNG.
    const session = await page.context().newCDPSession(page);
    const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 82 });
    writeFileSync(file, Buffer.from(data, "base64"));
  }
  await close();
}

/** A call with its reply, figures and code. The simulator repeats the message. */
async function runPlayground(page: Page): Promise<void> {
  await page.getByLabel("Message").fill("Name three uses of a webhook, one line each.");
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByText("You said:").waitFor();
  await page.getByText("Show as code").click();
}
