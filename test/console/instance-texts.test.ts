// Texts depend on the instance: no page promises an email where none is sent.

import { expect, test } from "bun:test";
import { consolePage } from "../../src/console/console-layout.tsx";
import { KeyFields } from "../../src/console/keys/key-fields.tsx";
import { renderPage } from "../../src/http/pages/layout.tsx";
import { textOf, visitPage } from "../billing/console-user.ts";
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
  expect(await page("/keys")).toContain("Your emails");
  expect(await page("/keys")).toContain("Create workspace");
  await gateway.stop();
});

test("a page of a gateway that sends no emails does not mention them", () => {
  const pageOf = (sendsEmails: boolean): string => {
    const workspace = {
      accountId: "acct_1",
      name: null,
      role: "owner",
      createdAt: 0,
      sendsEmails,
      memberships: [],
    } as const;
    const main = KeyFields({ id: "key", values: {}, error: undefined, sendsEmails });
    return renderPage(consolePage({ title: "Keys", workspace, user: USER, page: "/keys", main }));
  };
  expect(pageOf(true)).toContain("Sent by email and webhook.");
  expect(pageOf(true)).toContain('href="/emails"');
  expect(pageOf(false)).toContain("Sent by webhook.");
  expect(pageOf(false)).not.toContain('href="/emails"');
});
