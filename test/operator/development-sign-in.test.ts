// The operator's door in development, end to end: the command as it is started, with the bundled identity provider.

import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  createTempFolder,
  type RunningProcess,
  startPostern,
  stopPostern,
  stopAll,
} from "../commands/run-postern.ts";
import { createHttpBrowser, type HttpPage } from "../support/browser/http-browser.ts";
import { OPERATOR_EMAIL } from "./harness.ts";

const START_TIMEOUT_MS = 60_000;
const place = createTempFolder();
let gateway: RunningProcess;

/** The base URL names the port, so it must be known before. */
async function freePort(): Promise<string> {
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response() });
  const { port } = server;
  await server.stop(true);
  return String(port);
}

beforeAll(async () => {
  gateway = await startPostern(["serve"], {
    ...place.settings,
    POSTERN_PORT: await freePort(),
    POSTERN_IDENTITY_PORT: "0",
    POSTERN_OPERATORS: OPERATOR_EMAIL,
  });
}, START_TIMEOUT_MS);
afterAll(async () => {
  await stopPostern(gateway);
  stopAll();
  place.remove();
});

/** What the process prints takes its way through a pipe. */
async function codeFor(email: string): Promise<string> {
  const line = new RegExp(`Sign-in code for ${email}: (\\d{6})`);
  for (const until = Date.now() + 10_000; Date.now() < until; await Bun.sleep(10)) {
    const code = line.exec(gateway.output())?.[1];
    if (code !== undefined) return code;
  }
  throw new Error(`no code for ${email}: ${gateway.output()}`);
}

async function signIn(
  email: string,
): Promise<{ page: HttpPage; visit: (path: string) => Promise<HttpPage> }> {
  const browser = createHttpBrowser();
  const visit = (path: string): Promise<HttpPage> => browser.visit(gateway.url + path);
  const door = await visit("/operator");
  expect(door.url.pathname).toBe("/operator/signin");
  const begin = /href="(\/operator\/signin\/begin[^"]*)"/.exec(door.text)?.[1] ?? "";
  const asked = await browser.submit(await visit(begin), { email });
  const code = await codeFor(email);
  return { page: await browser.submit(asked, { code }), visit };
}

test("an operator signs in with the code that the terminal shows, and sees the accounts", async () => {
  const { page, visit } = await signIn(OPERATOR_EMAIL);
  expect([page.status, page.url.pathname]).toEqual([200, "/operator"]);
  expect(page.text).toContain("<h1>Accounts</h1>");
  expect((await visit("/operator/audit")).text).toContain("operator.signed_in");
});

test("anybody else is refused there", async () => {
  const { page, visit } = await signIn("mallory@example.com");
  expect(page.status).toBe(403);
  expect(page.text).toContain("is not an operator of this gateway");
  expect((await visit("/operator")).url.pathname).toBe("/operator/signin");
});
