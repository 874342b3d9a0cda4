// Operator sign-in in development mode, end to end, with the bundled identity provider.

import { afterAll, expect, test } from "bun:test";
import { createTempFolder, startPostern, stopPostern, stopAll } from "../commands/run-postern.ts";
import { createHttpBrowser, type HttpPage } from "../support/browser/http-browser.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { OPERATOR_EMAIL } from "./harness.ts";

const folder = createTempFolder();

const gateway = await startPostern(["serve"], {
  ...folder.settings,
  // The base URL contains the port, so it must be known before the start.
  POSTERN_PORT: String(await freePort()),
  POSTERN_IDENTITY_PORT: "0",
  POSTERN_OPERATORS: OPERATOR_EMAIL,
});
afterAll(async () => {
  await stopPostern(gateway);
  stopAll();
  folder.remove();
});

function codeFor(email: string): Promise<string> {
  const line = new RegExp(`Sign-in code for ${email}: (\\d{6})`);
  return eventually(() => line.exec(gateway.output())?.[1]);
}

async function signIn(
  email: string,
): Promise<{ page: HttpPage; visit: (path: string) => Promise<HttpPage> }> {
  const browser = createHttpBrowser();
  const visit = (path: string): Promise<HttpPage> => browser.visit(gateway.url + path);
  const start = await visit("/operator");
  expect(start.url.pathname).toBe("/operator/signin");
  const begin = /href="(\/operator\/signin\/begin[^"]*)"/.exec(start.text)?.[1] ?? "";
  const codePage = await browser.submit(await visit(begin), { email });
  const code = await codeFor(email);
  return { page: await browser.submit(codePage, { code }), visit };
}

test("an operator signs in with the code from the terminal", async () => {
  const { page, visit } = await signIn(OPERATOR_EMAIL);
  expect([page.status, page.url.pathname]).toEqual([200, "/operator"]);
  expect(page.text).toContain("<h1>Accounts</h1>");
  expect((await visit("/operator/audit")).text).toContain("operator.signed_in");
});

test("another person is rejected", async () => {
  const { page, visit } = await signIn("mallory@example.com");
  expect(page.status).toBe(403);
  expect(page.text).toContain("is not an operator of this gateway");
  expect((await visit("/operator")).url.pathname).toBe("/operator/signin");
});
