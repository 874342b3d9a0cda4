// The provider keys page. The provider is the simulator, which accepts one key.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
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
import { sharedBrowser, closeWindows } from "../support/browser/chromium.ts";
import { testedModes } from "../support/browser/page-checks.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";
import { describeEachStore, type StoreKind } from "../support/stores/stores.ts";

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

/** The fields of list items that the tests read. */
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
  // Safe because the tests read only fields that the items have.
  return ((await response.json()) as { readonly data: readonly ListItem[] }).data;
}

/** What a browser sends of the checked boxes and hidden fields. */
function formFields(html: string): Readonly<Record<string, string>> {
  const inputs = html.slice(0, html.indexOf("</form>")).match(/<input[^>]*>/g) ?? [];
  const attribute = (input: string, name: string): string =>
    new RegExp(` ${name}="([^"]*)"`).exec(input)?.[1] ?? "";
  const sent = inputs.filter(
    (input) => input.includes('type="hidden"') || / checked(?:=|[ />])/.test(input),
  );
  return Object.fromEntries(
    sent.map((input) => [attribute(input, "name"), attribute(input, "value")]),
  );
}

describeEachStore((store) => {
  describe(`provider keys page on ${store}`, () => {
    let fixture: ProviderKeysFixture;
    beforeAll(async () => {
      fixture = await createFixture(store);
    });
    afterAll(() => fixture.gateway.stop());

    const send = (form: Readonly<Record<string, string>>): Promise<PageResponse> =>
      visitPage(fixture.gateway, fixture.page, fixture.owner, form);
    const keys = () => list(fixture, "provider-keys");

    test("adds and deletes a key with audit entries, and never shows the key itself", async () => {
      expect((await send(ADD_FORM)).status).toBe(303);
      const page = await visitPage(fixture.gateway, fixture.page, fixture.owner);
      expect(textOf(page)).toContain("team …9fQz openai In use All keys of the workspace never");
      expect(page.text).not.toContain("canary");
      const [key] = await keys();
      const remove = { do: "remove", provider_key: key?.id ?? "" };
      for (let click = 0; click < 2; click++) expect((await send(remove)).status).toBe(303);
      expect((await keys()).map(({ status }) => status)).toEqual(["deleted"]);
      const entries = (await list(fixture, "audit")).filter(({ action }) =>
        action.startsWith("provider_key"),
      );
      expect(entries.map(({ action }) => action)).toEqual([
        "provider_key.deleted",
        "provider_key.added",
      ]);
      for (const { actor, detail } of entries) {
        expect(actor).toEqual({ type: "person", id: fixture.owner.personId });
        expect(detail).toEqual({
          provider: "openai",
          name: "team",
          last4: "9fQz",
          api_key_ids: null,
          allow_store: false,
        });
      }
    });

    test("does not store a key that the provider rejects, and keeps the other fields of the form", async () => {
      const form = {
        ...ADD_FORM,
        name: "to keep",
        api_key: "sk-wrong-zyxwvutsrqponmlkjihgfedcba",
      };
      const before = await keys();
      const rejected = await send(form);
      expect([rejected.status, textOf(rejected)]).toEqual([
        400,
        expect.stringMatching(
          /OpenAI rejected this key \(status 401\): .*\. The key was not stored\./,
        ),
      ]);
      expect(rejected.text).toContain('value="to keep"');
      expect(rejected.text).toMatch(/<option value="openai" selected/);
      expect(rejected.text).not.toContain("zyxw");
      expect(await keys()).toEqual(before);
    });

    test("rejects invalid fields, and keys of this gateway", async () => {
      for (const [change, message] of [
        [{ api_key: "short" }, "The API key must have at least 16 characters"],
        [{ api_key: fixture.account.key }, "The API key is a key of this gateway"],
        [{ provider: "unknown" }, "The provider must be one of openai,"],
        [{ provider: "" }, "The provider must not be empty."],
        [{ name: "x".repeat(101) }, "The name must have at most 100 characters."],
      ] as const) {
        const rejected = await send({ ...ADD_FORM, ...change });
        expect([rejected.status, textOf(rejected)]).toEqual([
          400,
          expect.stringContaining(message),
        ]);
      }
    });

    test("adds one key if a form is sent several times", async () => {
      const before = (await keys()).length;
      const form = { ...ADD_FORM, once: "a".repeat(22) };
      for (const { status } of await Promise.all([send(form), send(form), send(form)]))
        expect(status).toBe(303);
      expect((await keys()).length).toBe(before + 1);
    });

    test("keeps chosen API keys that the form has no checkbox for when an owner saves", async () => {
      const { gateway, account, page, owner } = fixture;
      const { headers } = account;
      const created = await Promise.all(
        Array.from({ length: 45 }, async () => {
          const response = await fetch(`${gateway.url}/v1/keys`, {
            method: "POST",
            headers,
            body: "{}",
          });
          // Safe because a created key has an id.
          return ((await response.json()) as { readonly id: string }).id;
        }),
      );
      expect((await send(ADD_FORM)).status).toBe(303);
      const id = (await keys())[0]?.id ?? "";
      const chosenIds = async (): Promise<unknown> => {
        const key = (await keys()).find((one) => one.id === id);
        return key !== undefined && "api_key_ids" in key && Array.isArray(key.api_key_ids)
          ? new Set(key.api_key_ids)
          : undefined;
      };
      const all = { do: "change", provider_key: id, used_by: "chosen" };
      expect((await send({ ...all, also_used_by: created.join(" ") })).status).toBe(303);
      expect(await chosenIds()).toEqual(new Set(created));

      const { text } = await visitPage(gateway, `${page}/${id}`, owner);
      expect(text).toContain("5 more chosen keys are kept.");
      const form = formFields(text.slice(text.indexOf('value="change"')));
      expect((await send({ ...all, ...form, allow_store: "on" })).status).toBe(303);
      expect(await chosenIds()).toEqual(new Set(created));
      const unknown = await send({ ...all, also_used_by: "key_unknown" });
      expect([unknown.status, textOf(unknown)]).toEqual([
        400,
        expect.stringContaining("no API key with this id"),
      ]);
    });

    test("is hidden from developers, and does not accept keys of other workspaces", async () => {
      const { gateway, account, page } = fixture;
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

test("adds keys and deletes one after a confirmation, in a browser without JavaScript", async () => {
  const fixture = await createFixture("sqlite");
  const browser = await sharedBrowser();
  try {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const [name = "", value = ""] = fixture.owner.cookie.split("=");
    await context.addCookies([{ name, value, url: fixture.gateway.url }]);
    const page = await context.newPage();
    await page.goto(`${fixture.gateway.url}/console/${fixture.account.id}`);
    await page.click("nav >> text=Provider keys");
    await page.locator("main", { hasText: "No provider keys yet" }).waitFor();
    for (const keyName of ["the first", "the second"]) {
      await page.click("text=Add provider key");
      await page.selectOption("#add-provider", "openai");
      await page.fill("#add-key", GOOD_KEY);
      await page.fill("#add-name", keyName);
      await page.click("button:has-text('Add key')");
      await page.locator(`tr:has-text('${keyName}')`).waitFor();
    }
    expect(await page.textContent("[role=status]")).toBe("The provider key is added.");
    expect(await page.textContent("tr:has-text('first')")).toContain("Not used");
    await page.click("text=the second");
    await page.click("a:has-text('Delete')");
    await page.locator("main", { hasText: "will use the key that ends in 9fQz" }).waitFor();
    if (SCREENSHOTS_DIR !== undefined)
      for (const { screen, scheme } of testedModes(0)) {
        await page.setViewportSize({ width: screen === "phone" ? 360 : 1_280, height: 800 });
        await page.emulateMedia({ colorScheme: scheme });
        const file = `provider-keys-${screen}-${scheme}.png`;
        await page.screenshot({ path: path.join(SCREENSHOTS_DIR, file), fullPage: true });
      }
    await page.click("text=Cancel");
    await page.getByRole("heading", { name: "the second", level: 1, exact: true }).waitFor();
    await page.click("a:has-text('Delete')");
    await page.click("button:has-text('Delete key')");
    await page.locator("[role=status]", { hasText: "The provider key is deleted." }).waitFor();
    expect(await page.textContent("tr:has-text('first')")).toContain("In use");
    expect(await page.textContent("li:has-text('second')")).toContain("…9fQz");
  } finally {
    await closeWindows(browser);
    await fixture.gateway.stop();
  }
});
