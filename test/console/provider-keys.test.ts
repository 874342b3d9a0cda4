// The console's page of a workspace's own keys at providers. The provider is the simulator, which takes one key.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import path from "node:path";
import {
  type TestUser,
  createUser,
  makeDeveloper,
  makeOwner,
  type PageResponse,
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
import { DISPLAY_MODES } from "../support/browser/page-checks.ts";
import { describeEachStore, type StoreKind } from "../support/stores/stores.ts";

setDefaultTimeout(60_000);

const SCREENSHOTS_DIR = process.env["POSTERN_TEST_PICTURES"];
const GOOD_KEY = "sk-canary-0123456789abcdefghijklmnop-9fQz";
const ADD_FORM = { do: "add", provider: "openai", api_key: GOOD_KEY, name: "team" };

interface ProviderKeysFixture {
  readonly gateway: Gateway;
  readonly account: TestAccount;
  readonly owner: TestUser;
  readonly page: string;
}

async function createFixture(store: StoreKind): Promise<ProviderKeysFixture> {
  const gateway = await startGateway({ store, providers: ["openai"], requireKey: GOOD_KEY });
  const owner = await createUser(gateway, "olga");
  const account = await registerAccount(gateway);
  await makeOwner(gateway, account.id, owner);
  return { gateway, account, owner, page: `/console/${account.id}/provider-keys` };
}

/** What these tests read of the API's lists. */
interface ListItem {
  readonly id: string;
  readonly status: string;
  readonly action: string;
  readonly actor: object;
  readonly detail: object;
}

async function list(
  { gateway, account }: ProviderKeysFixture,
  query: string,
): Promise<readonly ListItem[]> {
  const response = await fetch(`${gateway.url}/v1/${query}`, { headers: account.headers });
  // Safe because these lists hold nothing but what the tests read.
  return ((await response.json()) as { readonly data: readonly ListItem[] }).data;
}

describeEachStore((store) => {
  describe(`the page of provider keys on ${store}`, () => {
    let place: ProviderKeysFixture;
    beforeAll(async () => {
      place = await createFixture(store);
    });
    afterAll(() => place.gateway.stop());

    const send = (form: Readonly<Record<string, string>>): Promise<PageResponse> =>
      visitPage(place.gateway, place.page, place.owner, form);
    const keys = () => list(place, "provider-keys");

    test("an owner brings a key, sees it without the key itself, and deletes it; both are written down", async () => {
      expect((await send(ADD_FORM)).status).toBe(303);
      const shown = await visitPage(place.gateway, place.page, place.owner);
      expect(textOf(shown)).toContain("team , openai …9fQz");
      expect(textOf(shown)).toContain("Calls to openai go on it. The provider took it");
      expect(shown.text).not.toContain("canary");
      const [key] = await keys();
      const remove = { do: "remove", provider_key: key?.id ?? "" };
      for (let click = 0; click < 2; click++) expect((await send(remove)).status).toBe(303);
      expect((await keys()).map(({ status }) => status)).toEqual(["deleted"]);
      const told = (await list(place, "audit")).filter(({ action }) =>
        action.startsWith("provider_key"),
      );
      expect(told.map(({ action }) => action)).toEqual([
        "provider_key.deleted",
        "provider_key.added",
      ]);
      for (const { actor, detail } of told) {
        expect(actor).toEqual({ type: "person", id: place.owner.personId });
        expect(detail).toEqual({ provider: "openai", name: "team", last4: "9fQz" });
      }
    });

    test("a key that the provider refuses is not stored; the page says why, and keeps all but the key", async () => {
      const wrong = {
        ...ADD_FORM,
        name: "to keep",
        api_key: "sk-wrong-zyxwvutsrqponmlkjihgfedcba",
      };
      const before = await keys();
      const refused = await send(wrong);
      expect([refused.status, textOf(refused)]).toEqual([
        400,
        expect.stringMatching(
          /OpenAI rejected this key \(status 401\): .*\. The key was not stored\./,
        ),
      ]);
      expect(refused.text).toContain('value="to keep"');
      expect(refused.text).toMatch(/<option value="openai" selected/);
      expect(refused.text).not.toContain("zyxw");
      expect(await keys()).toEqual(before);
    });

    test("what cannot be a key, or is one of this gateway, is refused by the name of its field", async () => {
      for (const [change, said] of [
        [{ api_key: "short" }, "The API key must have at least 16 characters"],
        [{ api_key: place.account.key }, "The API key is a key of this gateway"],
        [{ provider: "nobody" }, "The provider must be one of openai,"],
        [{ provider: "" }, "The provider must not be empty."],
        [{ name: "x".repeat(101) }, "The name must have at most 100 characters."],
      ] as const) {
        const refused = await send({ ...ADD_FORM, ...change });
        expect([refused.status, textOf(refused)]).toEqual([400, expect.stringContaining(said)]);
      }
    });

    test("a form that is sent twice adds one key", async () => {
      const before = (await keys()).length;
      const form = { ...ADD_FORM, once: "a".repeat(22) };
      for (const { status } of await Promise.all([send(form), send(form), send(form)]))
        expect(status).toBe(303);
      expect((await keys()).length).toBe(before + 1);
    });

    test("a developer finds neither the page nor a link to it, and a key of somebody else's is not there", async () => {
      const { gateway, account, page } = place;
      const developer = await createUser(gateway, "dev");
      await makeDeveloper(gateway, account.id, developer);
      for (const form of [undefined, ADD_FORM, { do: "remove", provider_key: "pk_none" }])
        expect((await visitPage(gateway, page, developer, form)).status).toBe(403);
      expect((await visitPage(gateway, `/console/${account.id}`, developer)).text).not.toContain(
        "provider-keys",
      );
      await send(ADD_FORM);
      const [key] = await keys();
      const stranger = await createUser(gateway, "stranger");
      const other = await registerAccount(gateway);
      await makeOwner(gateway, other.id, stranger);
      const remove = { do: "remove", provider_key: key?.id ?? "" };
      const theirs = `/console/${other.id}/provider-keys`;
      expect((await visitPage(gateway, theirs, stranger, remove)).status).toBe(404);
      expect((await visitPage(gateway, theirs, stranger)).text).not.toContain("9fQz");
      expect((await keys())[0]?.status).toBe("active");
    });
  });
});

test("in a browser without JavaScript a key is brought, and deleted after one more question", async () => {
  const place = await createFixture("sqlite");
  const browser = await launchBrowser();
  try {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const [name = "", value = ""] = place.owner.cookie.split("=");
    await context.addCookies([{ name, value, url: place.gateway.url }]);
    const page = await context.newPage();
    await page.goto(`${place.gateway.url}/console/${place.account.id}`);
    await page.click("nav >> text=Provider keys");
    expect(await page.textContent("main")).toContain("No provider key is here.");
    for (const called of ["the first", "the second"]) {
      await page.selectOption("#add-provider", "openai");
      await page.fill("#add-key", GOOD_KEY);
      await page.fill("#add-name", called);
      await page.click("text=Add the key");
    }
    expect(await page.textContent("section:has(h2:has-text('first'))")).toContain("It is not used");
    await page.click("section:has(h2:has-text('second')) >> text=Delete");
    expect(await page.textContent("main")).toContain("then go on the key that ends in 9fQz");
    if (SCREENSHOTS_DIR !== undefined)
      for (const { screen, scheme } of DISPLAY_MODES) {
        await page.setViewportSize({ width: screen === "phone" ? 360 : 1_280, height: 800 });
        await page.emulateMedia({ colorScheme: scheme });
        const file = `provider-keys-${screen}-${scheme}.png`;
        await page.screenshot({ path: path.join(SCREENSHOTS_DIR, file), fullPage: true });
      }
    await page.click("text=Keep it");
    expect(await page.locator("section:has(h2:has-text('second'))").count()).toBe(1);
    await page.click("section:has(h2:has-text('second')) >> text=Delete");
    await page.click("text=Delete the key");
    expect(await page.textContent("section:has(h2:has-text('first'))")).toContain("go on it");
    expect(await page.textContent("li:has-text('second')")).toContain("…9fQz");
    await page.goBack();
    await page.click("text=Delete the key");
    expect(await page.locator("section:has(h2:has-text('second'))").count()).toBe(0);
  } finally {
    await browser.close();
    await place.gateway.stop();
  }
});
