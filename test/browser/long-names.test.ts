// Long names never push a column out of the page: no table scrolls sideways at the width of a phone or a desktop.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Browser } from "playwright-core";
import { makeDeveloper } from "../billing/console-user.ts";
import { type ConsoleFixture, createConsoleFixture } from "../console/console-fixture.ts";
import { insertUnclearPayment, signInOperator, startOperatorHarness } from "../operator/harness.ts";
import {
  openWindow,
  SCREEN_SIZES,
  showPage,
  sharedBrowser,
  closeWindows,
} from "../support/browser/chromium.ts";
import { registerAccount } from "../support/gateway.ts";
import { type ConsoleHistory, createConsoleHistory } from "./console-history.ts";

/** 88 characters, without a place to break the line. */
const LONG =
  "evaluation_of_the_summarization_pipeline_for_the_quarterly_report_of_the_research_team_1";

let fixture: ConsoleFixture;
let browser: Browser;
let history: ConsoleHistory;

beforeAll(async () => {
  [fixture, browser] = await Promise.all([createConsoleFixture("sqlite"), sharedBrowser()]);
  history = await createConsoleHistory(fixture);
  const { gateway, account, developer } = fixture;
  await makeDeveloper(gateway, account.id, developer);
  await gateway.server.db.write(async (tx) => {
    for (const statement of [
      `update api_key set name = substr(id, -4) || '${LONG.slice(4)}'`,
      `update account set name = '${LONG}'`,
      `update usage_record set model = 'sim/${LONG}', labels = ',team=${LONG},'`,
      `update person set email = '${LONG}@example.com'`,
      `update provider_key set name = '${LONG}'`,
      `update webhook set url = 'http://127.0.0.1:9/${LONG}'`,
    ])
      await tx.run(statement);
  });
});
afterAll(async () => {
  await closeWindows(browser);
  await fixture.gateway.stop();
});

/** The parts of the pages that are wider than their boxes. */
async function findWide(
  pages: readonly string[],
  { url, cookie }: { readonly url: string; readonly cookie: string },
): Promise<readonly string[]> {
  const wide: string[] = [];
  const [name = "", ...value] = cookie.split("=");
  for (const screen of ["phone", "desktop"] as const) {
    const opened = await openWindow(browser, url, { screen, scheme: "light" });
    const path = name.includes("operator") ? "/operator" : "/";
    await opened.page
      .context()
      .addCookies([{ name, value: value.join("="), domain: "127.0.0.1", path }]);
    for (const page of pages) {
      await showPage(opened, url + page);
      const found = await opened.page.evaluate(() =>
        [document.documentElement, ...document.querySelectorAll(".scroll, .card")]
          .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 1)
          .map((element) => element.getAttribute("aria-label") ?? element.className),
      );
      expect(await opened.page.locator("h1").count()).toBe(1);
      wide.push(
        ...found.map(
          (element) => `${SCREEN_SIZES[screen].width} px, ${page}: ${element || "page"}`,
        ),
      );
    }
    await opened.close();
  }
  return wide;
}

test("a name of 88 characters widens no table of the console, at 390 and at 1,440 pixels", async () => {
  expect(LONG).toHaveLength(88);
  const { account, gateway, owner } = fixture;
  const pages = [
    "",
    "/usage?by=key",
    "/usage?by=model",
    "/usage?by=session",
    "/logs",
    "/logs?sort=cost",
    "/agent-sessions",
    `/agent-sessions/${history.sessionId}`,
    "/keys",
    `/keys/${history.keyId}`,
    "/connected-apps",
    "/presets",
    "/guardrails",
    "/mcp-servers",
    "/provider-keys",
    `/provider-keys/${history.providerKeyId}`,
    "/responses",
    "/members",
    "/webhooks",
    `/webhooks/${history.webhookId}`,
    "/audit",
    "/billing",
    "/budgets",
    "/settings",
    `/logs/${history.callId}`,
    "/search?q=key",
  ].map((page) => `/console/${account.id}${page}`);
  const { url } = gateway;
  const found = await findWide([...pages, "/console?all=true", "/sessions", "/emails"], {
    url,
    cookie: owner.cookie,
  });
  expect(found).toEqual([]);
});

test("a name of 88 characters widens no table of the operator", async () => {
  const harness = await startOperatorHarness("sqlite");
  const session = await signInOperator(harness);
  const { gateway, clock } = harness;
  const account = await registerAccount(gateway);
  await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: account.headers,
    body: JSON.stringify({ model: "sim/echo", messages: [{ role: "user", content: "Hello." }] }),
  });
  await insertUnclearPayment(gateway.server.db, account.id, clock.now);
  await gateway.server.db.write(async (tx) => {
    for (const statement of [
      `update api_key set name = '${LONG}'`,
      `update account set name = '${LONG}', email = '${LONG}@example.com'`,
      `update usage_record set model = 'sim/${LONG}'`,
      `update usage_rollup set model = 'sim/${LONG}'`,
      `update provider_hour set model = 'sim/${LONG}'`,
    ])
      await tx.run(statement);
  });
  const pages = ["", "/report", "/grants", "/providers", "/incidents", "/system", "/payments"];
  const found = await findWide(
    [...pages, "/audit", `/accounts/${account.id}`].map((page) => `/operator${page}`),
    { url: gateway.url, cookie: session.cookie },
  );
  await gateway.stop();
  expect(found).toEqual([]);
});
