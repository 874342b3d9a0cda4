// Texts depend on the instance: no page promises an email where none is sent.

import { expect, test } from "bun:test";
import { budgetsPage } from "../../src/console/budgets/budgets-page.tsx";
import { consolePage } from "../../src/console/console-layout.tsx";
import { KeyFields } from "../../src/console/keys/key-fields.tsx";
import { settingsPage } from "../../src/console/settings/settings-page.tsx";
import { renderPage } from "../../src/http/pages/layout.tsx";
import { sessionsPage } from "../../src/people/sign-in-pages.tsx";
import { createUser, makeOwner, textOf, visitPage } from "../billing/console-user.ts";
import { buyCredits } from "../billing/fixtures.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";
import { startWorkspaceHarness } from "./workspace-harness.ts";

const USER = {
  personId: "usr_1",
  issuer: "https://id.example.com",
  subject: "1",
  email: "ada@example.com",
  sessionId: "ses_1",
  csrf: "token",
  timeZone: "UTC",
};

test("a page in development, where emails are kept and shown, mentions them", async () => {
  const harness = await startWorkspaceHarness();
  const workspace = await harness.newWorkspace();
  await workspace.claim();
  const { gateway, owner } = harness;
  const page = async (path: string): Promise<string> =>
    textOf(await visitPage(gateway, `${workspace.path}${path}`, owner));
  expect(await page("/billing")).toContain("Sent by email and to webhooks");
  expect(await page("/keys")).toContain("Sent by email and webhook");
  expect(await page("/keys")).toContain("Docs Emails Sessions");
  expect(await page("/keys")).toContain("Create workspace");
  await gateway.stop();
});

test("a page of a gateway that sends no emails does not mention them", () => {
  const pagesOf = (sendsEmails: boolean): readonly string[] => {
    const workspace = {
      accountId: "acct_1",
      name: null,
      role: "owner",
      createdAt: 0,
      sendsEmails,
      operatorLinks: [],
      memberships: [],
    } as const;
    const view = { workspace, user: USER };
    const main = KeyFields({ id: "key", values: {}, error: undefined, sendsEmails });
    const budget = { limit: null, used: 0n, held: 0n, remaining: null, endsAt: 0 } as const;
    const budgets = {
      day: { ...budget, window: "day" },
      month: { ...budget, window: "month" },
    } as const;
    const pages = [
      consolePage({ title: "Keys", ...view, page: "/keys", main }),
      budgetsPage({ ...view, budgets }),
      settingsPage({ ...view, signsReceipts: false, promptRetentionDays: null, dataPolicy: null }),
      sessionsPage(USER, [], sendsEmails),
    ];
    return pages.map(renderPage);
  };
  for (const page of pagesOf(true)) expect(page).toMatch(/emails?\b/i);
  expect(pagesOf(true)[0]).toContain("Sent by email and webhook.");
  const texts = pagesOf(false).map((page) =>
    page.replaceAll(USER.email, "").replace(/Then emails, names,/, ""),
  );
  expect(texts.filter((page) => /\bemail/i.test(page))).toEqual([]);
  expect(texts[0]).toContain("Sent by webhook.");
});

test("the first link of a production home page without sign-in is the guide, not the API reference", async () => {
  const gateway = await startGateway({
    env: {
      POSTERN_BASE_URL: "https://gateway.example.com",
      POSTERN_SECRET: "a-secret-of-this-gateway-only-for-the-test",
    },
  });
  const home = await (await fetch(`${gateway.url}/`, { headers: { accept: "text/html" } })).text();
  const [, first] = /class="hero-links">[^]*?<a [^>]*href="([^"]+)"/.exec(home) ?? [];
  expect(first).toBe("/docs");
  expect(home).not.toContain("/console");
  await gateway.stop();
});

test("the seller's links are in the footers, the console, the docs, errors and invoices", async () => {
  const urls = ["terms", "privacy", "dpa", "subprocessors"].map(
    (name) => `https://acme.test/${name}`,
  );
  const [terms = "", privacy = "", dpa = "", subprocessors = ""] = urls;
  const gateway = await startGateway({
    env: {
      POSTERN_OPERATOR_NAME: "Acme Gateways Ltd",
      POSTERN_OPERATOR_CONTACT: "help@acme.test",
      POSTERN_TERMS_URL: terms,
      POSTERN_PRIVACY_URL: privacy,
      POSTERN_DPA_URL: dpa,
      POSTERN_SUBPROCESSORS_URL: subprocessors,
    },
  });
  const account = await registerAccount(gateway);
  const owner = await createUser(gateway, "owner");
  await makeOwner(gateway, account.id, owner);
  const { pay_url: payUrl } = await buyCredits(gateway, account, "25");
  const payPath = new URL(payUrl).pathname;
  const missingOn = async (path: string, expected: readonly string[]): Promise<unknown> => {
    const headers = { accept: "text/html", cookie: owner.cookie };
    const text = await (await fetch(gateway.url + path, { headers })).text();
    return [path, expected.filter((href) => !text.includes(`href="${href}"`))];
  };
  const all = ["mailto:help@acme.test", ...urls];
  for (const path of ["/", "/docs", "/docs/quick-start", `/console/${account.id}`, payPath])
    expect(await missingOn(path, all)).toEqual([path, []]);
  expect(await missingOn("/nope", ["mailto:help@acme.test"])).toEqual(["/nope", []]);
  expect((await visitPage(gateway, payPath, owner)).text).toContain("Acme Gateways Ltd");
  await gateway.stop();
});
