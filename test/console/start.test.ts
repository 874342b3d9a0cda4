// People start without an agent: they create a workspace in the console, name it and use its first key.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createUser, makeDeveloper, textOf, visitPage } from "../billing/console-user.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

const RAW_KEY = /pst-rt-[0-9A-Za-z]{49}/;
const WORKSPACES_MAX = 20;

interface AccountState {
  readonly account: { readonly id: string; readonly name: string | null; readonly origin: string };
  readonly balance: { readonly credits: number };
}

for (const store of STORE_KINDS)
  describe(`a start without an agent on ${store}`, () => {
    let gateway: Gateway;
    beforeAll(async () => {
      gateway = await startGateway({ store });
    });
    afterAll(() => gateway.stop());

    const newUser = () => createUser(gateway, `u${crypto.randomUUID()}`);
    type User = Awaited<ReturnType<typeof newUser>>;
    const createWorkspace = (user: User, form: Readonly<Record<string, string>> = {}) =>
      visitPage(gateway, "/console/workspaces", user, form);
    const keyOf = (page: { readonly text: string }): string => RAW_KEY.exec(page.text)?.[0] ?? "";
    const api = (key: string, init: RequestInit = {}) =>
      fetch(`${gateway.url}/v1/account`, {
        ...init,
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      });
    // Safe because the tests read only fields that the response has.
    const stateOf = async (key: string) => (await (await api(key)).json()) as AccountState;
    const formToken = ({ text }: { readonly text: string }): string =>
      /name="once" value="([^"]+)"/.exec(text)?.[1] ?? "";

    test("the first workspace has a name, a key that works and the credit of a claim", async () => {
      const user = await newUser();
      const start = await visitPage(gateway, "/console", user);
      expect(start.text).toContain("Create your workspace");
      const page = await createWorkspace(user, { name: " Acme <prod> " });
      expect(page.status).toBe(200);
      expect(textOf(page)).toContain("The workspace starts with $1.00 of credits");
      const { account, balance } = await stateOf(keyOf(page));
      expect(account).toMatchObject({ name: "Acme <prod>", origin: "person" });
      expect(balance.credits).toBe(1_000_000);
      for (const client of ["curl", "OpenAI SDK", "Anthropic SDK", "Claude Code", "Codex"])
        expect(page.text).toContain(client);
      const home = await visitPage(gateway, "/console", user);
      expect(home.location).toBe(`/console/${account.id}`);
      const keys = await visitPage(gateway, `/console/${account.id}/keys`, user);
      expect(keys.text).not.toContain(keyOf(page));
      expect(keys.text).toContain("First key");
      expect(keys.text).toContain("Acme &lt;prod&gt;");
    });

    test("a person gets the credit once, also with requests at the same time", async () => {
      const user = await newUser();
      const pages = await Promise.all([1, 2, 3, 4].map(() => createWorkspace(user)));
      const states = await Promise.all(pages.map((page) => stateOf(keyOf(page))));
      const credits = states.map(({ balance }) => balance.credits).toSorted((a, b) => b - a);
      expect(credits).toEqual([1_000_000, 0, 0, 0]);
      expect(pages.filter((page) => textOf(page).includes("starts without credits"))).toHaveLength(
        3,
      );
    });

    test("a double click creates one workspace, and a reload shows the same key", async () => {
      const user = await newUser();
      const once = formToken(await visitPage(gateway, "/console", user));
      const pages = await Promise.all([1, 2].map(() => createWorkspace(user, { name: "a", once })));
      const again = await createWorkspace(user, { name: "a", once });
      expect(new Set([...pages, again].map(keyOf)).size).toBe(1);
      const changed = await createWorkspace(user, { name: "b", once });
      expect([changed.status, textOf(changed)]).toEqual([
        400,
        expect.stringContaining("already submitted with other values"),
      ]);
    });

    test(`a person creates at most ${WORKSPACES_MAX} workspaces, also with requests at the same time`, async () => {
      const user = await newUser();
      const requests = Array.from({ length: WORKSPACES_MAX + 3 }, () => createWorkspace(user));
      const statuses = (await Promise.all(requests)).map(({ status }) => status);
      expect(statuses.filter((status) => status === 200)).toHaveLength(WORKSPACES_MAX);
      const refused = await createWorkspace(user, { name: "one more" });
      expect(textOf(refused)).toContain("You have created 20 workspaces");
      expect(refused.text).toContain('value="one more"');
    });

    test("a name that is too long is refused beside its field and kept", async () => {
      const user = await newUser();
      const name = "n".repeat(81);
      const page = await createWorkspace(user, { name });
      expect(page.status).toBe(400);
      expect(page.text).toContain('aria-invalid="true"');
      expect(page.text).toContain(`value="${name}"`);
      expect(textOf(page)).toContain("The name must be one line of at most 80 characters");
    });

    test("keys and people with the permission rename a workspace; others cannot", async () => {
      const [owner, developer, stranger] = [await newUser(), await newUser(), await newUser()];
      const key = keyOf(await createWorkspace(owner, { name: "one" }));
      const { account } = await stateOf(key);
      await makeDeveloper(gateway, account.id, developer);
      const renamed = await api(key, { method: "PATCH", body: JSON.stringify({ name: "two" }) });
      expect([renamed.status, await renamed.json()]).toEqual([
        200,
        expect.objectContaining({ id: account.id, name: "two" }),
      ]);
      for (const name of ["x".repeat(81), "two\nlines", 5])
        expect((await api(key, { method: "PATCH", body: JSON.stringify({ name }) })).status).toBe(
          400,
        );
      const path = `/console/${account.id}/settings`;
      expect((await visitPage(gateway, path, owner)).text).toContain('value="two"');
      const bad = await visitPage(gateway, path, owner, { name: "x".repeat(81) });
      expect([bad.status, bad.text]).toEqual([400, expect.stringContaining("x".repeat(81))]);
      expect((await visitPage(gateway, path, owner, { name: "three" })).location).toBe(
        `${path}?saved=true`,
      );
      expect((await visitPage(gateway, path, developer, { name: "four" })).status).toBe(403);
      expect((await visitPage(gateway, path, stranger, { name: "five" })).status).toBe(404);
      expect((await visitPage(gateway, path, stranger)).status).toBe(404);
      expect((await stateOf(key)).account.name).toBe("three");
      const audit = await visitPage(gateway, `/console/${account.id}/audit`, owner);
      expect(audit.text.match(/>account\.renamed<\/span>/g)).toHaveLength(2);
      expect(textOf(audit)).toContain(
        `${owner.email} person 127.0.0.1 account.renamed name: three`,
      );
      const byKey = `${path.replace("settings", "audit")}?action=account.renamed&actor=`;
      const keyId = /value="(key_\w+)"/.exec(audit.text)?.[1];
      const filtered = await visitPage(gateway, `${byKey}${keyId}`, owner);
      expect(filtered.text.match(/>account\.renamed<\/span>/g)).toHaveLength(1);
      expect(textOf(filtered)).toContain("First key key 127.0.0.1 account.renamed name: two");
      const none = await visitPage(gateway, `${byKey}key_none&target=`, owner);
      expect(textOf(none)).toContain("No entries");
      await api(key, { method: "PATCH", body: JSON.stringify({ name: null }) });
      expect((await stateOf(key)).account.name).toBeNull();
    });

    test("an invitation and the switcher show the name", async () => {
      const [owner, guest] = [await newUser(), await newUser()];
      const key = keyOf(await createWorkspace(owner, { name: "Shared work" }));
      const { account } = await stateOf(key);
      await visitPage(gateway, `/console/${account.id}/members`, owner, {
        do: "invite",
        email: guest.email,
      });
      const page = await visitPage(gateway, "/console", guest);
      expect(textOf(page)).toContain("invited to join the workspace Shared work");
      await createWorkspace(owner, { name: "Second" });
      const overview = await visitPage(gateway, `/console/${account.id}`, owner);
      expect(overview.text).toContain("Second");
    });

    test("the home page links to the console, which signs people in", async () => {
      const home = await fetch(gateway.url, { headers: { accept: "text/html" } });
      expect(await home.text()).toContain('<a href="/console">Sign in</a>');
      const console = await fetch(`${gateway.url}/console`, { redirect: "manual" });
      expect(console.headers.get("location")).toBe("/signin?return_to=%2Fconsole");
    });
  });
