// The members of a workspace in the console, however many there are, and what the console asks before it does what cannot
// be undone.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { addDeveloper } from "../../src/accounts/members.ts";
import { recordPerson } from "../../src/people/people.ts";
import {
  type TestUser,
  createUser,
  makeDeveloper,
  makeOwner,
  visitPage,
  textOf,
} from "../billing/console-user.ts";
import { launchBrowser } from "../support/browser/chromium.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";

setDefaultTimeout(60_000);
let gateway: Gateway;
let account: TestAccount;
let owner: TestUser;
beforeAll(async () => {
  gateway = await startGateway();
  owner = await createUser(gateway, "olga");
});
afterAll(() => gateway.stop());

const newWorkspace = async (): Promise<string> => {
  account = await registerAccount(gateway);
  await makeOwner(gateway, account.id, owner);
  return `/console/${account.id}`;
};

test("a thousand members are shown a hundred at a time, the owner and the way to invite first", async () => {
  const place = `${await newWorkspace()}/members`;
  const now = Date.now();
  const told = Array.from({ length: 999 }, (_one, count) => ({
    issuer: "https://id.test",
    subject: `${account.id} ${count}`,
    email: `member-${count}@example.com`,
    name: null,
  }));
  const people = await gateway.server.db.write(async (tx) => {
    const people = [];
    for (const identity of told) {
      const { id: personId } = await recordPerson(tx, identity, now);
      await addDeveloper(tx, { accountId: account.id, personId, via: "test", now });
      people.push(personId);
    }
    return people;
  });
  const seen = new Set<string>();
  let path = place;
  for (let pages = 0; pages < 10; pages++) {
    const { text } = await visitPage(gateway, path, owner);
    expect(text.length).toBeLessThan(150_000);
    expect(text.indexOf(">Invite<")).toBeLessThan(text.indexOf('<h2 id="usr_'));
    const ids = [...text.matchAll(/aria-labelledby="(usr_\w+)"><h2 id="\1"/g)].map(([, id]) => id);
    if (pages === 0) expect(ids[0]).toBe(owner.personId);
    for (const id of ids) seen.add(id ?? "");
    path = /href="([^"]+)">More members/.exec(text)?.[1] ?? path;
  }
  expect([seen.size, people.every((id) => seen.has(id))]).toEqual([1_000, true]);
  const from = path.slice(path.indexOf("from=") + "from=".length);
  const [, first = ""] = from.split("-");
  // What the page begins with may be removed, and the page is still there.
  const removed = await visitPage(gateway, place, owner, { do: "remove", person: first, from });
  expect(removed.location).toBe(path);
  const last = await visitPage(gateway, path, owner);
  expect(last.text.match(/<h2 id="usr_/g)?.length).toBe(99);
  expect(last.text).not.toContain(first + '"');
  expect(textOf(await visitPage(gateway, place.replace("/members", ""), owner))).toContain(
    "999 members",
  );
});

test("what cannot be undone is asked about once more, and only the answer does it", async () => {
  const place = await newWorkspace();
  const heir = await createUser(gateway, "heir");
  await makeDeveloper(gateway, account.id, heir);
  const url = "http://127.0.0.1:9/asked";
  await visitPage(gateway, `${place}/webhooks`, owner, { do: "add", url });
  const idOn = async (path: string): Promise<string> =>
    /<h2 id="((?:key|whk)_\w+)"/.exec((await visitPage(gateway, place + path, owner)).text)?.[1] ??
    "";
  const [key, hook] = [await idOn("/keys"), await idOn("/webhooks")];
  const browser = await launchBrowser();
  try {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const [name = "", value = ""] = owner.cookie.split("=");
    await context.addCookies([{ name, value, url: gateway.url }]);
    const page = await context.newPage();
    const button = (of: string) => page.getByRole("link", { name: of, exact: true });
    for (const [path, id, opens, no, yes] of [
      ["keys", key, /^Revoke the key that ends in/, "Keep it", "Revoke the key"],
      ["webhooks", hook, /^Delete http:/, "Keep it", "Delete the webhook"],
      ["members", heir.personId, /^Hand the workspace over to heir@/, "Keep the workspace", ""],
      ["members", heir.personId, /^Remove heir@/, "Keep them", "Remove the member"],
    ] as const) {
      await page.goto(`${gateway.url}${place}/${path}`);
      const card = page.locator(`section[aria-labelledby=${id}]`);
      await card.getByRole("link", { name: opens }).click();
      // The keyboard goes on at the question, and the eye finds it, however long the card is.
      await page.waitForURL(/#question$/, { waitUntil: "load" });
      await page.keyboard.press("Tab");
      const inQuestion = page.locator("#question :focus");
      expect([path, await inQuestion.count()]).toEqual([path, 1]);
      await button(no).click();
      expect(await card.count()).toBe(1);
      await card.getByRole("link", { name: opens }).click();
      if (yes === "") continue;
      await page.click(`text=${yes}`);
      expect([path, await card.count()]).toEqual([path, 0]);
    }
    expect(await page.textContent("main")).toContain("An owner leaves by handing");
  } finally {
    await browser.close();
  }
});
