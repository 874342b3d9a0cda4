import { afterAll, expect, test } from "bun:test";
import { recordPerson } from "../../src/people/people.ts";
import {
  createUser,
  makeDeveloper,
  makeMember,
  textOf,
  visitPage,
} from "../billing/console-user.ts";
import { addDeveloper } from "../support/act.ts";
import { sharedBrowser, closeWindows } from "../support/browser/chromium.ts";
import { startWorkspaceHarness } from "./workspace-harness.ts";

const harness = await startWorkspaceHarness();
afterAll(() => harness.gateway.stop());

test("the members page lists 1,000 members page by page, with the owner first", async () => {
  const { gateway, owner } = harness;
  const { account, path, claim } = await harness.newWorkspace();
  await claim();
  const membersPath = `${path}/members`;
  const now = Date.now();
  const people = await gateway.server.db.write(async (tx) => {
    const ids: string[] = [];
    for (let index = 0; index < 999; index++) {
      const { id: personId } = await recordPerson(
        tx,
        {
          issuer: "https://id.test",
          subject: `${account.id} ${index}`,
          email: `member-${index}@example.com`,
          name: null,
        },
        now,
      );
      await addDeveloper(tx, { accountId: account.id, personId, via: "test", now });
      ids.push(personId);
    }
    return ids;
  });
  const seen = new Set<string>();
  let pagePath = membersPath;
  for (let pages = 0; pages < 10; pages++) {
    const { text } = await visitPage(gateway, pagePath, owner);
    expect(text.length).toBeLessThan(200_000);
    const ids = [...text.matchAll(/id="(usr_\w+)" title="\1"/g)].map(([, id]) => id);
    if (pages === 0) expect(ids[0]).toBe(owner.personId);
    for (const id of ids) seen.add(id ?? "");
    pagePath = /href="([^"]+)">More members/.exec(text)?.[1] ?? pagePath;
  }
  expect([seen.size, people.every((id) => seen.has(id))]).toEqual([1_000, true]);

  // The cursor of a page stays valid when the member that it names is removed.
  const from = pagePath.slice(pagePath.indexOf("from=") + "from=".length);
  const [, first = ""] = from.split("-");
  const removal = { do: "remove", person: first, from };
  expect((await visitPage(gateway, membersPath, owner, removal)).location).toBe(
    `${pagePath}&done=remove`,
  );
  const last = await visitPage(gateway, pagePath, owner);
  expect(last.text.match(/ id="usr_/g)?.length).toBe(99);
  expect(last.text).not.toContain(`id="${first}"`);
  expect(textOf(await visitPage(gateway, path, owner))).toContain("999 members");
});

test("irreversible actions need a confirmation", async () => {
  const { gateway, owner } = harness;
  const { account, path, claim } = await harness.newWorkspace();
  await claim();
  const heir = await createUser(gateway, "heir");
  await makeDeveloper(gateway, account.id, heir);
  const webhook = { do: "add", url: "http://127.0.0.1:9/hook" };
  await visitPage(gateway, `${path}/webhooks`, owner, webhook);
  const idOn = async (page: string): Promise<string> => {
    const { text } = await visitPage(gateway, `${path}/${page}`, owner);
    return /id="(whk_\w+)"/.exec(text)?.[1] ?? "";
  };
  const webhookId = await idOn("webhooks");
  const browser = await sharedBrowser();
  try {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const [name = "", value = ""] = owner.cookie.split("=");
    await context.addCookies([{ name, value, url: gateway.url }]);
    const page = await context.newPage();
    for (const [pageName, id, link, confirm] of [
      ["webhooks", webhookId, /^Delete http:/, "Delete webhook"],
      ["members", heir.personId, /^Make owner heir@/, undefined],
      ["members", heir.personId, /^Remove heir@/, "Remove member and revoke keys"],
    ] as const) {
      await page.goto(`${gateway.url}${path}/${pageName}`);
      const row = page.locator(`tr:has(#${id})`);
      await row.getByRole("link", { name: link }).click();
      // The fragment moves the view and the keyboard focus to the confirmation.
      await page.waitForURL(/#confirmation$/, { waitUntil: "load" });
      await page.keyboard.press("Tab");
      expect([pageName, await page.locator("#confirmation :focus").count()]).toEqual([pageName, 1]);
      await page.getByRole("link", { name: "Cancel", exact: true }).click();
      await page.waitForURL((url) => url.search === "" && url.hash === "");
      expect(await row.count()).toBe(1);
      await row.getByRole("link", { name: link }).click();
      if (confirm === undefined) continue;
      await page.getByRole("button", { name: confirm, exact: true }).click();
      await page.waitForURL(/done=/);
      expect([pageName, await row.count()]).toEqual([pageName, 0]);
    }
    expect(await page.textContent("main")).toContain("first transfer ownership");
  } finally {
    await closeWindows(browser);
  }
});

test("removing a member revokes the keys that they created, and only those", async () => {
  const { gateway, owner } = harness;
  const { account, path, claim } = await harness.newWorkspace();
  await claim();
  const admin = await createUser(gateway, "leaving-admin");
  await makeMember(gateway, account.id, admin, "admin");
  const created = await visitPage(gateway, `${path}/keys`, admin, { do: "mint", name: "theirs" });
  const raw = /pst-rt-[0-9A-Za-z]{49}/.exec(created.text)?.[0] ?? "";
  const statusOf = async (key: string): Promise<number> => {
    const headers = { authorization: `Bearer ${key}` };
    return (await fetch(`${gateway.url}/v1/account`, { headers })).status;
  };
  expect(await statusOf(raw)).toBe(200);
  const form = { do: "remove", person: admin.personId };
  expect((await visitPage(gateway, `${path}/members`, owner, form)).status).toBe(303);
  expect([await statusOf(raw), await statusOf(account.key)]).toEqual([401, 200]);
  const audit = await visitPage(gateway, `${path}/audit`, owner);
  expect(audit.text).toContain("key.revoked");
});

test("an invitation gives the chosen role; only the owner invites admins", async () => {
  const { gateway, owner } = harness;
  const { account, path, claim } = await harness.newWorkspace();
  await claim();
  const [admin, guest] = [
    await createUser(gateway, "inviting"),
    await createUser(gateway, "guest"),
  ];
  await makeMember(gateway, account.id, admin, "admin");
  const invite = (by: typeof owner, role: string) =>
    visitPage(gateway, `${path}/members`, by, { do: "invite", email: guest.email, role });
  expect((await invite(admin, "admin")).status).toBe(403);
  expect((await invite(owner, "owner")).status).toBe(400);
  expect((await invite(owner, "viewer")).status).toBe(303);
  const start = await visitPage(gateway, "/console", guest);
  expect(textOf(start)).toContain("with the role viewer");
  const invitation = /name="invitation" value="([^"]+)"/.exec(start.text)?.[1] ?? "";
  await visitPage(gateway, "/console/invitations", guest, { invitation, answer: "accept" });
  const members = await visitPage(gateway, `${path}/members`, owner);
  expect(textOf(members)).toMatch(/guest (guest@example.com )?Viewer /);
});

test("a rejected invitation keeps its values and says beside the field what is wrong", async () => {
  const { gateway, owner } = harness;
  const { path, claim } = await harness.newWorkspace();
  await claim();
  const form = { do: "invite", email: "no address", role: "billing" };
  const page = await visitPage(gateway, `${path}/members`, owner, form);
  expect(page.status).toBe(400);
  expect(page.text).toContain('value="no address"');
  expect(page.text).toMatch(/aria-invalid="true" aria-describedby="invite-email-error"/);
  expect(page.text).toMatch(/<option value="billing" selected/);
});

test("the owner removes a newly joined person with one click and gets a notice", async () => {
  const { gateway, owner } = harness;
  const { account, path, claim } = await harness.newWorkspace();
  await claim();
  const [joined, viewer] = [
    await createUser(gateway, "just-joined"),
    await createUser(gateway, "watching"),
  ];
  await makeMember(gateway, account.id, viewer, "viewer");
  await makeDeveloper(gateway, account.id, joined);
  const page = await visitPage(gateway, `${path}/members`, owner);
  expect(textOf(page)).toMatch(/just-joined@example.com joined on \S+ as Developer/);
  expect(textOf(await visitPage(gateway, `${path}/members`, viewer))).not.toContain("joined on");
  const form = { do: "remove", person: joined.personId };
  const { location } = await visitPage(gateway, `${path}/members`, owner, form);
  const after = await visitPage(gateway, location ?? "", owner);
  expect(textOf(after)).toContain("The member is removed");
  expect(textOf(after)).not.toContain("just-joined@example.com");
  await gateway.server.db.write((tx) =>
    tx.run("update membership set added_at = ? where person_id = ?", [
      Date.now() - 8 * 86_400_000,
      viewer.personId,
    ]),
  );
  expect(textOf(await visitPage(gateway, `${path}/members`, owner))).not.toContain("joined on");
});

test("a rejected change keeps its values and says beside the field what is wrong", async () => {
  const { gateway, owner } = harness;
  const { account, path, claim } = await harness.newWorkspace();
  await claim();
  const dev = await createUser(gateway, "dev-with-allowance");
  await makeDeveloper(gateway, account.id, dev);
  const page = await visitPage(gateway, `${path}/members`, owner, {
    do: "change",
    person: dev.personId,
    role: "billing",
    allowance_usd: "plenty",
    allowance_window: "week",
  });
  expect(page.status).toBe(400);
  expect(page.text).toMatch(/value="plenty"[^>]*aria-invalid="true"/);
  expect(page.text).toMatch(/<option value="billing" selected/);
  expect(page.text).toMatch(/<option value="week" selected/);
});
