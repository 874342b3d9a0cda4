// An invited developer can work: with the allowance of the invitation, or by asking the owner for one.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  createUser,
  makeDeveloper,
  makeOwner,
  type PageResponse,
  type TestUser,
  textOf,
  visitPage,
} from "../billing/console-user.ts";
import { sharedBrowser, closeWindows } from "../support/browser/chromium.ts";
import { findPageIssues } from "../support/browser/page-checks.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

describe.each(STORE_KINDS)("a developer of a workspace on %s", (store) => {
  let gateway: Gateway;
  let owner: TestUser;
  let path: string;
  let accountId: string;
  let people = 0;
  beforeAll(async () => {
    gateway = await startGateway({ store });
    owner = await createUser(gateway, "olga");
    accountId = (await registerAccount(gateway)).id;
    await makeOwner(gateway, accountId, owner);
    path = `/console/${accountId}`;
  });
  afterAll(() => gateway.stop());

  const newPerson = async (): Promise<TestUser> => {
    people += 1;
    return await createUser(gateway, `dev${people}`);
  };
  const members = (form: Readonly<Record<string, string>>, user = owner): Promise<PageResponse> =>
    visitPage(gateway, `${path}/members`, user, form);
  const invite = (email: string, more: Readonly<Record<string, string>> = {}) =>
    members({
      do: "invite",
      email,
      role: "developer",
      allowance_usd: "10",
      allowance_window: "month",
      ...more,
    });
  const linkOf = async (email: string): Promise<string> => {
    const { text } = await visitPage(gateway, `${path}/members`, owner);
    const row = text.slice(text.indexOf(`>${email}<`));
    return /\/console\?invitation=inst_\w+/.exec(row)?.[0] ?? "";
  };
  const accept = async (link: string, user: TestUser): Promise<void> => {
    const invitation = link.split("=")[1] ?? "";
    const joined = await visitPage(gateway, "/console/invitations", user, {
      invitation,
      answer: "accept",
    });
    expect(joined.status).toBe(303);
  };
  const createKey = (user: TestUser, limit_usd: string): Promise<PageResponse> =>
    visitPage(gateway, `${path}/keys`, user, { do: "mint", limit_usd });

  test("invited with the proposed allowance opens the link, joins and creates a key", async () => {
    const form = (await visitPage(gateway, `${path}/members`, owner)).text;
    expect(form).toMatch(/id="invite-allowance"[^>]* value="10"/);
    expect(form).toMatch(/<option value="month" selected/);
    const person = await newPerson();
    expect((await invite(person.email)).status).toBe(303);
    const link = await linkOf(person.email);
    const opened = await visitPage(gateway, link, person);
    expect(textOf(opened)).toContain(`Invitation from ${owner.email}`);
    await accept(link, person);
    expect(textOf(await visitPage(gateway, `${path}/members`, owner))).toContain(
      "$10.00 per month",
    );
    expect((await createKey(person, "4")).text).toContain("Your new key");
    const beyond = await createKey(person, "7");
    expect(beyond.status).toBe(403);
    expect(textOf(beyond)).toContain("Your allowance has $6.00 left for new keys");
    expect(beyond.text).toContain('value="7"');
  });

  test("without an allowance sees whom to ask, requests one, and the owner sets it", async () => {
    const person = await newPerson();
    await makeDeveloper(gateway, accountId, person);
    expect(textOf(await visitPage(gateway, `${path}/members`, owner))).toContain(
      "cannot create keys",
    );
    for (const page of ["keys", "playground"]) {
      const shown = await visitPage(gateway, `${path}/${page}`, person);
      expect(textOf(shown)).toContain("You have no allowance, so you cannot create keys yet.");
      expect(textOf(shown)).toContain(owner.email);
      expect(shown.text).toContain("Request allowance");
      expect(shown.text).not.toContain('id="create"');
    }
    for (let times = 0; times < 2; times++) {
      const asked = await members({ do: "request_allowance" }, person);
      expect(asked.location).toBe(`${path}/keys?done=request_allowance`);
    }
    const after = await visitPage(gateway, `${path}/keys?done=request_allowance`, person);
    expect(textOf(after)).toContain("The owner is notified");
    expect(after.text).not.toContain("Request allowance");
    const events = await gateway.server.db.all(
      "select id from event where account_id = ? and type = 'allowance.requested'",
      [accountId],
    );
    expect(events).toHaveLength(1);
    const page = textOf(await visitPage(gateway, `${path}/members`, owner));
    expect(page).toContain(`${person.email} asks for an allowance`);
    await members({
      do: "change",
      person: person.personId,
      role: "developer",
      allowance_usd: "3",
      allowance_window: "",
    });
    const settled = textOf(await visitPage(gateway, `${path}/members`, owner));
    expect(settled).not.toContain("asks for an allowance");
    expect((await createKey(person, "3")).text).toContain("Your new key");
    const used = await visitPage(gateway, `${path}/keys`, person);
    expect(textOf(used)).toContain("Your allowance of $3.00 is used up by your keys.");
  });

  test("the owner does not request an allowance, and neither does a stranger", async () => {
    expect((await members({ do: "request_allowance" })).status).toBe(400);
    expect((await members({ do: "request_allowance" }, await newPerson())).status).toBe(404);
  });

  test("an invitation is sent again with the same link; a member cannot be invited", async () => {
    const person = await newPerson();
    await invite(person.email);
    const link = await linkOf(person.email);
    const invitation = link.split("=")[1] ?? "";
    const again = await members({ do: "resend", invitation });
    expect(again.location).toBe(`${path}/members?done=resend`);
    expect(await linkOf(person.email)).toBe(link);
    const stranger = await visitPage(gateway, link, await newPerson());
    expect(textOf(stranger)).toContain("The invitation of this link is not for");
    expect(stranger.text).toContain("Use another account");
    await accept(link, person);
    const refused = await invite(person.email, { allowance_usd: "12" });
    expect(refused.status).toBe(400);
    expect(textOf(refused)).toContain("belongs to a member already, with the role developer");
    expect(refused.text).toContain('value="12"');
    expect((await members({ do: "resend", invitation })).status).toBe(404);
  });

  test("an allowance that is no amount is named beside its field, and the form stays", async () => {
    const refused = await invite("typo@example.com", { allowance_usd: "ten" });
    expect(refused.status).toBe(400);
    expect(textOf(refused)).toContain("must be an amount in US dollars");
    expect(refused.text).toContain('value="typo@example.com"');
    expect(refused.text).toContain('value="ten"');
  });
});

test("its pages fit a phone and a desktop, in light and dark", async () => {
  const gateway = await startGateway();
  const browser = await sharedBrowser();
  try {
    const owner = await createUser(gateway, "owner");
    const developer = await createUser(gateway, "developer-with-a-long-name");
    const { id } = await registerAccount(gateway);
    await makeOwner(gateway, id, owner);
    await makeDeveloper(gateway, id, developer);
    const path = `/console/${id}`;
    const email = `${"long-name-".repeat(6)}@example.com`;
    await visitPage(gateway, `${path}/members`, owner, { do: "invite", email });
    await visitPage(gateway, `${path}/members`, developer, { do: "request_allowance" });
    for (const [page, user] of [
      ["members", owner],
      ["keys", developer],
    ] as const) {
      const context = await browser.newContext();
      const [name = "", value = ""] = user.cookie.split("=");
      await context.addCookies([{ name, value, url: gateway.url }]);
      const opened = await context.newPage();
      await opened.goto(`${gateway.url}${path}/${page}`);
      expect([page, await findPageIssues(opened)]).toEqual([page, []]);
      await context.close();
    }
  } finally {
    await closeWindows(browser);
    await gateway.stop();
  }
});
