// The operator's pages in a real browser. Where POSTERN_TEST_PICTURES names a folder, a picture of each look is left there.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import path from "node:path";
import type { Browser } from "playwright-core";
import { createLog } from "../../src/base/log.ts";
import { createInvoice } from "../../src/billing/billing.ts";
import { enter } from "../../src/billing/checkouts.ts";
import { markPaid, markRefunded } from "../../src/billing/manual.ts";
import { COMMAND_LINE, freezeAccount, giveCredit } from "../../src/operator/operator.ts";
import {
  type Desk,
  leaveUnclear,
  open,
  openDesk,
  type Seat,
  seatOf,
  written,
} from "../operator/world.ts";
import { launchBrowser, type Look, openWindow, type Window } from "../support/browser.ts";
import { type Account, register } from "../support/gateway.ts";
import { LOOKS, testManners } from "../support/page-manners.ts";

const PICTURES = process.env["POSTERN_TEST_PICTURES"];
const START_MS = 60_000;

let desk: Desk;
let seat: Seat;
let browser: Browser;
let account: Account;
let frozen: Account;

beforeAll(async () => {
  [desk, browser] = await Promise.all([openDesk("sqlite"), launchBrowser()]);
  seat = await seatOf(desk);
  await settle();
}, START_MS);
afterAll(async () => {
  await browser.close();
  await desk.gateway.stop();
});

/** A small past: accounts, calls, payments, money that went back, a payment that is not clear, a freeze. */
async function settle(): Promise<void> {
  const { gateway, clock } = desk;
  const { db } = gateway.house;
  [account, frozen] = [await register(gateway), await register(gateway)];
  const till = {
    db,
    log: createLog({ level: "error", readable: true, now: Date.now, write: () => {} }),
  };
  const act = { by: COMMAND_LINE, network: null, now: clock.now };
  await db.write((tx) =>
    giveCredit(tx, {
      ...act,
      accountId: account.id,
      reason: "a gift for the outage of the third of May",
      id: "gift",
      amount: 12_500_000_000n,
    }),
  );
  await db.write((tx) =>
    freezeAccount(tx, { ...act, accountId: frozen.id, reason: "resells its credits" }),
  );
  for (let call = 0; call < 3; call++)
    await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: account.headers,
      body: JSON.stringify({
        model: "sim/echo",
        max_tokens: 200,
        messages: [{ role: "user", content: "What a fine day it is. ".repeat(40) }],
      }),
    });
  await leaveUnclear(db, account.id, clock.now);
  for (const [place, amountCents] of [1_000, 25_000, 500].entries()) {
    const about = { accountId: account.id, amountCents, now: clock.now + place };
    const { id: invoiceId } = await db.write((tx) => createInvoice(tx, about));
    const told = { invoiceId, reference: `transfer ${place}`, now: clock.now };
    if (place < 2) await markPaid(till, told);
    if (place === 0) await markRefunded(till, { ...told, reference: "back", amountCents: 300 });
    if (place === 1)
      await enter(
        till,
        [
          {
            processor: "manual",
            ref: "once more",
            kind: "paid",
            payment: "once more",
            invoiceId,
            amountCents: 26_250,
            taxCents: 0,
            currency: "usd",
            at: clock.now,
          },
        ],
        clock.now,
      );
  }
}

async function visit(target: string, look: Look): Promise<Window> {
  const { url } = desk.gateway;
  const opened = await openWindow(browser, url, look);
  const [name = "", value = ""] = seat.cookie.split("=");
  await opened.page.context().addCookies([{ name, value, domain: "127.0.0.1", path: "/operator" }]);
  // There is no script that could ask for more later.
  await opened.page.goto(url + target, { waitUntil: "load" });
  return opened;
}

const PAGES: readonly (readonly [name: string, target: () => string])[] = [
  ["sign-in", () => "/operator/signin"],
  ["accounts", () => "/operator"],
  ["account", () => `/operator/accounts/${account.id}`],
  ["frozen", () => `/operator/accounts/${frozen.id}`],
  ["report", () => "/operator/report"],
  ["payments", () => "/operator/payments"],
  ["audit", () => "/operator/audit"],
];
const MATRIX = PAGES.flatMap(([name, target]) =>
  LOOKS.map(({ screen, scheme }) => [name, screen, scheme, target] as const),
);

describe.each(MATRIX)("the operator's %s on a %s in %s", (name, screen, scheme, target) => {
  let opened: Window;
  beforeAll(async () => {
    opened = await visit(target(), { screen, scheme });
    if (PICTURES !== undefined)
      await opened.page.screenshot({
        path: path.join(PICTURES, `operator-${name}-${screen}-${scheme}.png`),
        fullPage: true,
      });
  });
  afterAll(() => opened.close());

  testManners(() => opened);

  test("runs no script", async () => {
    expect(await opened.page.locator("script").count()).toBe(0);
  });

  test("every field has a name", async () => {
    const nameless = await opened.page
      .locator("input:not([type=hidden]), select")
      .evaluateAll((fields) =>
        fields
          .filter((field) => (field as HTMLInputElement).labels?.length !== 1)
          .map(({ id }) => id),
      );
    expect(nameless).toEqual([]);
  });

  test("follows the colours that the person has chosen", async () => {
    const ground = await opened.page.evaluate(() =>
      (getComputedStyle(document.body).backgroundColor.match(/\d+/g) ?? []).map(Number),
    );
    expect((ground[0] ?? 0) < 128).toBe(scheme === "dark");
  });
});

describe("an operator with a mouse", () => {
  test("adjusts a balance, sees it done, and a reload asks for nothing again", async () => {
    const before = (await written(desk.gateway.house.db, "account.adjusted")).length;
    const { page, wrong, close } = await visit(`/operator/accounts/${account.id}`, {
      screen: "desktop",
      scheme: "light",
    });
    await page.getByLabel("US dollars, with − for less").fill("-0.25");
    await page.locator("#adjust-reason").fill("counted twice");
    await page.getByRole("button", { name: "Adjust the balance" }).click();
    await page.waitForURL(/done=adjusted/);
    expect(await page.getByRole("status").textContent()).toBe("The balance was adjusted.");
    await page.reload();
    const told = await written(desk.gateway.house.db, "account.adjusted");
    expect(told.length - before).toBe(1);
    expect(told.at(-1)?.detail).toMatchObject({ usd: "-0.25", reason: "counted twice" });
    expect(wrong).toEqual([]);
    await close();
  });

  test("a double click is one change", async () => {
    const before = (await written(desk.gateway.house.db, "account.credited")).length;
    const { page, close } = await visit(`/operator/accounts/${account.id}`, {
      screen: "desktop",
      scheme: "light",
    });
    await page.locator("#grant-usd").fill("1");
    await page.locator("#grant-reason").fill("double click");
    await page.getByRole("button", { name: "Grant the credit" }).dblclick();
    await page.waitForURL(/done=granted/);
    expect((await written(desk.gateway.house.db, "account.credited")).length - before).toBe(1);
    await close();
  });

  test("what is missing is asked for before anything is sent", async () => {
    const { page, close } = await visit(`/operator/accounts/${account.id}`, {
      screen: "desktop",
      scheme: "light",
    });
    await page.getByRole("button", { name: "Freeze the account" }).click();
    expect(await page.evaluate(() => document.activeElement?.id)).toBe("freeze-reason");
    expect((await open(desk, `/operator/accounts/${account.id}`, seat)).text).not.toContain(
      "Frozen by an operator",
    );
    await close();
  });

  test("signs out, and the way back leads to the door", async () => {
    const own = await seatOf(desk);
    const former = seat;
    seat = own;
    const { page, close } = await visit("/operator", { screen: "desktop", scheme: "light" });
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.waitForURL(/\/operator\/signin/);
    await page.goto(`${desk.gateway.url}/operator/audit`);
    expect(new URL(page.url()).pathname).toBe("/operator/signin");
    seat = former;
    await close();
  });
});
