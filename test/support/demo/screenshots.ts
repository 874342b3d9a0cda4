// Takes screenshots of pages with demonstration data.
//   npm run screenshots             the images of README and docs, into docs/images
//   npm run screenshots -- FOLDER   every page on a desktop and a phone, in light and dark mode, with its accessibility findings

import { mkdirSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Browser, Page } from "playwright-core";
import { signInOperator } from "../../operator/harness.ts";
import { type DisplayMode, launchBrowser, openWindow, SCREEN_SIZES } from "../browser/chromium.ts";
import { DISPLAY_MODES, findAccessibilityIssues } from "../browser/page-checks.ts";
import { type Gateway, startGateway } from "../gateway.ts";
import {
  authorizePath,
  claimPath,
  connectPath,
  createOperatorRecords,
  devicePath,
  payPath,
} from "./demo-forms.ts";
import { type Demo, fillDemo } from "./demo-store.ts";

const IMAGES_DIR = path.join(import.meta.dirname, "../../../docs/images");
const IMAGE_BYTES_MAX = 150_000;
/** Chromium takes no taller picture than about twice this. */
const HEIGHT_MAX = 8_000;
const OPERATOR_EMAIL = "ada@operator.example";
/** Callable in the demonstration; calls are answered by the simulator. */
const DEMO_PROVIDERS = ["sim", "openai", "anthropic", "google", "deepseek"];

type PageTarget = readonly [
  name: string,
  path: (demo: Demo, gateway: Gateway) => string | Promise<string>,
  /** 200, unless the page is an error. */
  status?: number,
];

const consoleTarget = (name: string, page: string): PageTarget => [
  `console-${name}`,
  ({ account }) => `/console/${account.id}${page}`,
];

const WORKSPACE_PAGES = [
  "usage",
  "logs",
  "playground",
  "keys",
  "agent-sessions",
  "batches",
  "connected-apps",
  "provider-keys",
  "presets",
  "guardrails",
  "mcp-servers",
  "budgets",
  "responses",
  "members",
  "sso",
  "directory-sync",
  "webhooks",
  "sinks",
  "audit",
  "billing",
  "settings",
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
  consoleTarget("logs-failed", "/logs?outcome=failed"),
  ["console-call", ({ account, callId }) => `/console/${account.id}/logs/${callId}`],
  [
    "console-failed-call",
    ({ account, failedCallId }) => `/console/${account.id}/logs/${failedCallId}`,
  ],
  ...WORKSPACE_PAGES.map((page) => consoleTarget(page, `/${page}`)),
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
  ...["", ...WORKSPACE_PAGES].map((page): PageTarget => [
    `empty-${page === "" ? "overview" : page}`,
    ({ emptyAccount }) => `/console/${emptyAccount.id}${page === "" ? "" : `/${page}`}`,
  ]),
  [
    "console-agent-session",
    ({ account, sessionId }) => `/console/${account.id}/agent-sessions/${sessionId}`,
  ],
  consoleTarget("usage-by-label", "/usage?by=label"),
  consoleTarget("revoke", "/keys?ask=all"),
  ["claim-review", (demo, gateway) => claimPath(gateway, demo)],
  ["claim-owner", (demo, gateway) => claimPath(gateway, demo)],
  ["claim-code", () => "/claim"],
  ["device", (_, gateway) => devicePath(gateway)],
  ["mcp-sign-in", (_, gateway) => authorizePath(gateway)],
  ["connect", connectPath],
  ["pay", (demo, gateway) => payPath(gateway, demo)],
  ["status", () => "/status"],
  ["docs-search", () => "/docs/search?q=rotate+key"],
  ["docs-error", () => "/docs/errors/insufficient_credits"],
  ["docs-settings", () => "/docs/settings"],
  ["docs-streaming", () => "/docs/guides/streaming"],
  ["signed-out", () => "/signout"],
  ["error-not-found", () => "/nope", 404],
  ["error-workspace", () => `/console/acct_${"0".repeat(26)}`, 404],
  ["error-call", ({ account }) => `/console/${account.id}/logs/req_${"0".repeat(26)}`, 404],
  ["error-query", ({ account }) => `/console/${account.id}/billing?cursor=zzz`, 400],
  ["operator-sign-in", () => "/operator/signin"],
  ["operator-error", () => "/operator/nope", 404],
  ["operator-accounts", () => "/operator"],
  ["operator-account", ({ account }) => `/operator/accounts/${account.id}`],
  ["operator-approvals", () => "/operator/approvals"],
  ["operator-controls", () => "/operator/controls"],
  ["operator-incidents", () => "/operator/incidents"],
  ["operator-service-levels", () => "/operator/service-levels"],
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
  ["claim-review", { screen: "desktop", scheme: "light" }],
  ["claim-review-phone", { screen: "phone", scheme: "light" }],
  ["claim-owner", { screen: "desktop", scheme: "light" }],
  // Last, because it creates a key and a call.
  ["console-playground", { screen: "desktop", scheme: "dark" }],
];

const gateway = await startGateway({
  providers: DEMO_PROVIDERS,
  env: {
    POSTERN_OPERATORS: `${OPERATOR_EMAIL}, ben@operator.example`,
    POSTERN_OPERATOR_APPROVAL: "two_person",
    POSTERN_OPERATOR_NAME: "Example Gateways Ltd",
    POSTERN_OPERATOR_ADDRESS: "1 Example Street; 10115 Berlin",
  },
});
const browser = await launchBrowser();
try {
  const demo = await fillDemo(gateway);
  const harness = { gateway, clock: { now: Date.now() } };
  const operator = await signInOperator(harness, OPERATOR_EMAIL);
  await createOperatorRecords(harness, operator, demo.account.id);
  const cookies = [demo.owner.cookie, operator.cookie];
  const [, , folder, onlyPage = ""] = process.argv;
  if (folder === undefined) await takeDocumentImages(demo, cookies);
  else {
    mkdirSync(folder, { recursive: true });
    for (const [name, target, status] of PAGES.filter(([name]) => name.includes(onlyPage)))
      for (const mode of DISPLAY_MODES) {
        const file = path.join(folder, `${name}-${mode.screen}-${mode.scheme}.png`);
        await takeScreenshot({ browser, gateway, cookies }, await target(demo, gateway), {
          mode,
          file,
          fullPage: true,
          status,
        });
      }
  }
} finally {
  await browser.close();
  await gateway.stop();
}

async function takeDocumentImages(demo: Demo, cookies: readonly string[]): Promise<void> {
  for (const [page, mode] of DOCUMENT_IMAGES) {
    const target = PAGES.find(([name]) => name === page.replace(/-phone$/, ""))?.[1];
    if (target === undefined) throw new Error(`no page ${page}`);
    const file = path.join(IMAGES_DIR, `${page}.webp`);
    await takeScreenshot({ browser, gateway, cookies }, await target(demo, gateway), {
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
    status = 200,
  }: {
    readonly mode: DisplayMode;
    readonly file: string;
    readonly fullPage: boolean;
    readonly status?: number | undefined;
  },
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
  if (response?.status() !== status)
    throw new Error(`${target}: ${response?.status() ?? "no response"}`);
  if (file.includes("console-playground")) await runPlayground(page);
  if (file.includes("claim-owner")) await takeOver(page);
  if (fullPage) {
    const isChecked = (mode.screen === "desktop") === (mode.scheme === "light");
    for (const issue of isChecked ? await findAccessibilityIssues(page) : [])
      process.stdout.write(`${path.basename(file)}: ${issue}\n`);
    const { width } = SCREEN_SIZES[mode.screen];
    const height = await page.evaluate(() => document.documentElement.scrollHeight);
    const clip = { x: 0, y: 0, width, height: Math.min(height, HEIGHT_MAX) };
    await page.screenshot({ path: file, fullPage, clip });
  } else {
    // Playwright itself writes no WebP, which is half as large as PNG.
    const session = await page.context().newCDPSession(page);
    const clip = await narrowPage(page);
    const { data } = await session.send("Page.captureScreenshot", {
      format: "webp",
      quality: 82,
      ...(clip === undefined ? {} : { clip, captureBeyondViewport: true }),
    });
    writeFileSync(file, Buffer.from(data, "base64"));
  }
  await close();
}

/** The box of a page of one column, which is narrower than the window; undefined for others. */
function narrowPage(page: Page) {
  return page.evaluate(() => {
    if (!document.body.matches(".plain:not(.wide)")) return undefined;
    const { x, width } = document.body.getBoundingClientRect();
    return { x, y: 0, width, height: document.documentElement.scrollHeight, scale: 1 };
  });
}

async function takeOver(page: Page): Promise<void> {
  await page.getByLabel("Limit in US dollars").first().fill("5");
  await page.getByRole("button", { name: "Take over the account" }).click();
  await page.getByRole("heading", { name: "The account is yours" }).waitFor();
}

/** A call with its reply, figures and code. The simulator repeats the message. */
async function runPlayground(page: Page): Promise<void> {
  await page.getByLabel("Message").fill("Name three uses of a webhook, one line each.");
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByText("You said:").waitFor();
  await page.getByText("Show as code").click();
}
