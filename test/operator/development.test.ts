// The operator's door in development, end to end: the command as it is started, with the bundled identity provider.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { makePlace, type Running, startPostern, stop, stopAll } from "../commands/postern.ts";
import { createWebBrowser, type WebPage } from "../support/web-browser.ts";
import { ADA } from "./world.ts";

const START_MS = 60_000;
const place = makePlace();
let gateway: Running;

beforeAll(async () => {
  gateway = await startPostern(["serve"], {
    ...place.settings,
    POSTERN_IDENTITY_PORT: "0",
    POSTERN_LOG_FORM: "text",
    POSTERN_OPERATORS: ADA,
  });
}, START_MS);
afterAll(async () => {
  await stop(gateway);
  stopAll();
  place.remove();
});

async function signIn(
  email: string,
): Promise<{ page: WebPage; visit: (path: string) => Promise<WebPage> }> {
  const browser = createWebBrowser();
  const visit = (path: string): Promise<WebPage> => browser.visit(gateway.url + path);
  const door = await visit("/operator");
  expect(door.url.pathname).toBe("/operator/signin");
  const begin = /href="(\/operator\/signin\/begin[^"]*)"/.exec(door.text)?.[1] ?? "";
  const asked = await browser.submit(await visit(begin), { email });
  const code = new RegExp(`Sign-in code for ${email}: (\\d{6})`).exec(gateway.output())?.[1] ?? "";
  return { page: await browser.submit(asked, { code }), visit };
}

test("an operator signs in with the code that the terminal shows, and sees the accounts", async () => {
  const { page, visit } = await signIn(ADA);
  expect([page.status, page.url.pathname]).toEqual([200, "/operator"]);
  expect(page.text).toContain("<h1>Accounts</h1>");
  expect((await visit("/operator/audit")).text).toContain("operator.signed_in");
  // The same person is nobody at the customers' door.
  expect((await visit("/console")).url.pathname).not.toBe("/console");
});

test("anybody else is refused there", async () => {
  const { page, visit } = await signIn("mallory@example.com");
  expect(page.status).toBe(403);
  expect(page.text).toContain("is not an operator of this gateway");
  expect((await visit("/operator")).url.pathname).toBe("/operator/signin");
});
