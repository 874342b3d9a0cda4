// Long names never push a column out of the page: no table scrolls sideways at the width of a phone or a desktop.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Browser } from "playwright-core";
import { makeDeveloper } from "../billing/console-user.ts";
import { type ConsoleFixture, createConsoleFixture } from "../console/console-fixture.ts";
import { launchBrowser, openWindow, SCREEN_SIZES, showPage } from "../support/browser/chromium.ts";
import { type ConsoleHistory, createConsoleHistory } from "./console-history.ts";

/** 88 characters, without a place to break the line. */
const LONG =
  "evaluation_of_the_summarization_pipeline_for_the_quarterly_report_of_the_research_team_1";

let fixture: ConsoleFixture;
let browser: Browser;
let history: ConsoleHistory;

beforeAll(async () => {
  [fixture, browser] = await Promise.all([createConsoleFixture("sqlite"), launchBrowser()]);
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
  await browser.close();
  await fixture.gateway.stop();
});

test("a name of 88 characters widens no table, at 390 and at 1,440 pixels", async () => {
  expect(LONG).toHaveLength(88);
  const { account, gateway, owner } = fixture;
  const pages = [
    "",
    "/usage?by=key",
    "/usage?by=model",
    "/logs",
    "/logs?sort=cost",
    "/agent-sessions",
    `/agent-sessions/${history.sessionId}`,
    "/keys",
    `/keys/${history.keyId}`,
    "/provider-keys",
    `/provider-keys/${history.providerKeyId}`,
    "/members",
    "/webhooks",
    `/webhooks/${history.webhookId}`,
    "/audit",
    "/billing",
    `/logs/${history.callId}`,
  ];
  const wide: string[] = [];
  for (const screen of ["phone", "desktop"] as const) {
    const opened = await openWindow(browser, gateway.url, { screen, scheme: "light" });
    const [name = "", ...value] = owner.cookie.split("=");
    const cookie = { name, value: value.join("="), domain: "127.0.0.1", path: "/" };
    await opened.page.context().addCookies([cookie]);
    for (const page of pages) {
      await showPage(opened, `${gateway.url}/console/${account.id}${page}`);
      const found = await opened.page.evaluate(() =>
        [document.documentElement, ...document.querySelectorAll(".scroll, .card")]
          .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 1)
          .map((element) => element.getAttribute("aria-label") ?? element.className),
      );
      wide.push(
        ...found.map(
          (element) => `${SCREEN_SIZES[screen].width} px, ${page}: ${element || "page"}`,
        ),
      );
    }
    await opened.close();
  }
  expect(wide).toEqual([]);
});
