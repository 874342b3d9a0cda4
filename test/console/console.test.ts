import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  type Permission,
  addDeveloper,
  ROLE_PERMISSIONS,
  roleOf,
  claimWorkspace,
} from "../../src/accounts/members.ts";
import { consoleRoutes } from "../../src/console/routes.ts";
import { loadMasterSecret } from "../../src/config/master-secret.ts";
import { recordPerson } from "../../src/people/people.ts";
import { createSessions } from "../../src/people/sessions.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";

interface TestUser {
  readonly personId: string;
  readonly email: string;
  readonly cookie: string;
  readonly csrf: string;
}

async function signInUser(gateway: Gateway, name: string): Promise<TestUser> {
  const { db } = gateway.server;
  const { secret, store } = gateway.config;
  const sessions = createSessions({
    db,
    master: loadMasterSecret(secret, store.dataDir),
    baseUrl: gateway.url,
  });
  const now = Date.now();
  const email = `${name}@example.com`;
  const [person, set] = await db.write(async (tx) => {
    const person = await recordPerson(
      tx,
      { issuer: "https://id.test", subject: name, email, name },
      now,
    );
    return [
      person,
      await sessions.begin(tx, {
        personId: person.id,
        network: "test",
        browser: "test",
        cookies: null,
        now,
      }),
    ] as const;
  });
  const cookie = set.split(";")[0] ?? "";
  const session = await sessions.find(cookie, now);
  return { personId: person.id, email, cookie, csrf: session?.csrf ?? "" };
}

interface PageResponse {
  readonly status: number;
  readonly text: string;
  readonly location: string | null;
  readonly headers: Headers;
}

async function fetchPage(
  gateway: Gateway,
  path: string,
  as?: TestUser,
  form?: Readonly<Record<string, string>>,
): Promise<PageResponse> {
  const headers: Record<string, string> = { origin: gateway.url, "sec-fetch-site": "same-origin" };
  if (as !== undefined) headers["cookie"] = as.cookie;
  if (form !== undefined) headers["content-type"] = "application/x-www-form-urlencoded";
  const body =
    form === undefined
      ? {}
      : { body: new URLSearchParams({ csrf: as?.csrf ?? "", ...form }).toString() };
  const response = await fetch(gateway.url + path, {
    method: form === undefined ? "GET" : "POST",
    headers,
    redirect: "manual",
    ...body,
  });
  return {
    status: response.status,
    text: await response.text(),
    location: response.headers.get("location"),
    headers: response.headers,
  };
}

for (const store of ["sqlite", "postgres"] as const) {
  describe(`the console, on ${store}`, () => {
    let gateway: Gateway;
    let account: TestAccount;
    let elsewhere: TestAccount;
    let owner: TestUser;
    let developer: TestUser;
    let stranger: TestUser;

    beforeAll(async () => {
      gateway = await startGateway({ store });
      account = await registerAccount(gateway);
      elsewhere = await registerAccount(gateway);
      owner = await signInUser(gateway, "olga");
      developer = await signInUser(gateway, "dev");
      stranger = await signInUser(gateway, "stranger");
      await gateway.server.db.write(async (tx) => {
        const now = Date.now();
        await claimWorkspace(tx, {
          accountId: account.id,
          personId: owner.personId,
          via: "test",
          now,
        });
        await addDeveloper(tx, {
          accountId: account.id,
          personId: developer.personId,
          via: "test",
          now,
        });
        await claimWorkspace(tx, {
          accountId: elsewhere.id,
          personId: stranger.personId,
          via: "test",
          now,
        });
      });
      await fetch(`${gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({
          model: "sim/echo",
          max_tokens: 20,
          messages: [{ role: "user", content: "hi" }],
        }),
      });
    });
    afterAll(() => gateway.stop());

    test("sends whoever is not signed in to sign in, and back", async () => {
      const asked = await fetchPage(gateway, `/console/${account.id}/keys`);
      expect(asked.status).toBe(303);
      expect(asked.location).toContain("/signin?return_to=%2Fconsole%2F");
    });

    test("shows the balance, the spending, the keys and the members to a member", async () => {
      const overview = await fetchPage(gateway, `/console/${account.id}`, developer);
      expect(overview.status).toBe(200);
      expect(overview.text).toContain("left</h2>");
      expect(overview.text).toContain("1 live key");
      expect(overview.text).toContain("2 members");
      expect(overview.headers.get("cache-control")).toBe("no-store");
      expect(overview.headers.get("content-security-policy")).toContain("frame-ancestors 'none'");
      expect((await fetchPage(gateway, `/console/${account.id}/usage`, developer)).text).toContain(
        "sim/echo",
      );
      expect(
        (await fetchPage(gateway, `/console/${account.id}/members`, developer)).text,
      ).toContain(owner.email);
    });

    test("a table that is wider than its page can be scrolled by keyboard, and has a name", async () => {
      for (const path of ["", "/usage", "/audit"]) {
        const { text } = await fetchPage(gateway, `/console/${account.id}${path}`, owner);
        const scrolled = text.match(/<div class="scroll"[^>]*>/g) ?? [];
        expect([path, scrolled.length]).not.toEqual([path, 0]);
        for (const one of scrolled)
          expect(one).toMatch(/role="region" aria-label="[^"]+" tabindex="0"/);
      }
    });

    test("lists a person's workspaces, or goes to the only one", async () => {
      expect((await fetchPage(gateway, "/console", owner)).location).toBe(`/console/${account.id}`);
      const nobody = await signInUser(gateway, "nobody");
      expect((await fetchPage(gateway, "/console", nobody)).text).toContain(
        "You have no workspace yet",
      );
    });

    test("a workspace of somebody else is not there, on any page and for any action", async () => {
      for (const page of ["", "/keys", "/usage", "/members"]) {
        expect((await fetchPage(gateway, `/console/${account.id}${page}`, stranger)).status).toBe(
          404,
        );
        expect((await fetchPage(gateway, `/console/${elsewhere.id}${page}`, owner)).status).toBe(
          404,
        );
      }
      const forms = [
        ["/keys", { do: "mint" }],
        ["/keys", { do: "revoke", key: "key_x" }],
        ["/keys", { do: "limit", key: "key_x" }],
        ["/members", { do: "invite", email: "x@example.com" }],
        ["/members", { do: "withdraw", invitation: "inst_x" }],
        ["/members", { do: "remove", person: owner.personId }],
        ["/members", { do: "hand_over", person: stranger.personId }],
        ["/members", { do: "hand_over", person: owner.personId }],
      ] as const;
      for (const [page, form] of forms)
        expect(
          (await fetchPage(gateway, `/console/${account.id}${page}`, stranger, form)).status,
        ).toBe(404);
      // Whoever leaves is outside, as they wish; what there is to leave is not told.
      for (const id of [account.id, "acct_none"]) {
        const left = await fetchPage(gateway, `/console/${id}/members`, stranger, { do: "leave" });
        expect([left.status, left.location]).toEqual([303, "/console"]);
      }
      expect(await roleOf(gateway.server.db, account.id, owner.personId)).toBe("owner");
    });

    test("each role may do what the one table says, and nothing else", async () => {
      const forms = [
        ["keys.create", "/keys", { do: "mint", name: "from the console" }],
        ["members.invite", "/members", { do: "invite", email: "guest@example.com" }],
        ["members.remove", "/members", { do: "remove", person: "usr_nobody" }],
        ["workspace.transfer", "/members", { do: "hand_over", person: "usr_nobody" }],
        ["workspace.leave", "/members", { do: "leave" }],
      ] as const;
      for (const [action, page, form] of forms) {
        for (const [role, person] of [
          ["owner", owner] as const,
          ["developer", developer] as const,
        ]) {
          if (action === "workspace.leave" && role === "developer") continue;
          const { status } = await fetchPage(
            gateway,
            `/console/${account.id}${page}`,
            person,
            form,
          );
          expect([action, role, status === 403]).toEqual([
            action,
            role,
            !ROLE_PERMISSIONS[action][role],
          ]);
        }
      }
    });

    test("every route × every role × another tenant: the table decides, and a stranger finds nothing", async () => {
      const posts: Readonly<
        Record<string, readonly (readonly [Permission, Record<string, string>])[]>
      > = {
        changeWorkspaceKeys: [
          ["keys.create", { do: "mint" }],
          ["keys.change", { do: "limit", key: "key_none" }],
          ["keys.change", { do: "expiry", key: "key_none" }],
          ["keys.revoke", { do: "revoke", key: "key_none" }],
        ],
        changeWorkspaceMembers: [
          ["members.invite", { do: "invite", email: "not an address" }],
          ["members.invite", { do: "withdraw", invitation: "inst_none" }],
          ["members.remove", { do: "remove", person: "usr_none" }],
          ["workspace.transfer", { do: "hand_over", person: "usr_none" }],
        ],
        changeWorkspaceBudgets: [
          ["budgets.change", { daily_usd: "not an amount", monthly_usd: "" }],
        ],
        changeWorkspaceBilling: [
          ["billing.buy", { do: "buy", amount_usd: "not an amount", once: "x" }],
          ["billing.buy", { do: "void", invoice: "inv_none" }],
          ["billing.auto_top_up", { do: "save_method" }],
          ["billing.auto_top_up", { do: "remove_method" }],
          [
            "billing.auto_top_up",
            { do: "allow", threshold_usd: "5", amount_usd: "x", monthly_ceiling_usd: "50" },
          ],
          ["billing.auto_top_up", { do: "turn_off" }],
        ],
        saveDevelopmentCard: [["billing.auto_top_up", { card: "works" }]],
        changeWorkspaceProviderKeys: [
          ["provider_keys.change", { do: "add", provider: "sim", api_key: "short" }],
          ["provider_keys.change", { do: "remove", provider_key: "pk_none" }],
        ],
        changeWorkspaceWebhooks: [
          ["webhooks.change", { do: "add", url: "not an address" }],
          ["webhooks.change", { do: "remove", webhook: "whk_none" }],
          ["webhooks.change", { do: "test", webhook: "whk_none" }],
          ["webhooks.change", { do: "enable", webhook: "whk_none" }],
        ],
      };
      const gets: Readonly<Record<string, Permission>> = {
        showWorkspace: "workspace.read",
        showWorkspaceUsage: "usage.read",
        showWorkspaceKeys: "keys.read",
        showWorkspaceMembers: "members.read",
        showWorkspaceBudgets: "budgets.read",
        showWorkspaceBilling: "billing.read",
        showDevelopmentCards: "billing.auto_top_up",
        showWorkspaceProviderKeys: "provider_keys.read",
        showWorkspaceWebhooks: "webhooks.read",
        showWorkspaceAudit: "audit.read",
      };
      const routes = gateway.server.routes.filter((route) =>
        route.path.startsWith("/console/{account}"),
      );
      expect(routes.map((route) => route.id).sort()).toEqual(
        [...Object.keys(gets), ...Object.keys(posts)].sort(),
      );
      for (const route of routes) {
        const page = route.path.replace("{account}", account.id);
        const get = gets[route.id];
        const asked = get === undefined ? (posts[route.id] ?? []) : [[get, undefined] as const];
        for (const [action, form] of asked) {
          expect([route.id, (await fetchPage(gateway, page, stranger, form)).status]).toEqual([
            route.id,
            404,
          ]);
          for (const [role, person] of [
            ["owner", owner] as const,
            ["developer", developer] as const,
          ]) {
            const { status } = await fetchPage(gateway, page, person, form);
            expect([route.id, action, role, status === 403]).toEqual([
              route.id,
              action,
              role,
              !ROLE_PERMISSIONS[action][role],
            ]);
          }
        }
      }
    });

    test("makes a key, shows it once, limits it and revokes it", async () => {
      const made = await fetchPage(gateway, `/console/${account.id}/keys`, owner, {
        do: "mint",
        name: "night",
        limit_usd: "2.50",
        limit_window: "day",
      });
      expect(made.status).toBe(200);
      const raw = /pst-rt-[0-9A-Za-z]{49}/.exec(made.text)?.[0] ?? "";
      const read = await fetch(`${gateway.url}/v1/account`, {
        headers: { authorization: `Bearer ${raw}` },
      });
      const { key } = (await read.json()) as {
        key: { id: string; name: string; limit_usd: number; limit_window: string };
      };
      expect(key).toMatchObject({ name: "night", limit_usd: 2.5, limit_window: "day" });
      expect((await fetchPage(gateway, `/console/${account.id}/keys`, owner)).text).not.toContain(
        raw,
      );
      expect(
        (
          await fetchPage(gateway, `/console/${account.id}/keys`, owner, {
            do: "limit",
            key: key.id,
            limit_usd: "x",
          })
        ).text,
      ).toContain("must be an amount");
      expect(
        (
          await fetchPage(gateway, `/console/${account.id}/keys`, owner, {
            do: "revoke",
            key: key.id,
          })
        ).status,
      ).toBe(303);
      expect(
        (await fetch(`${gateway.url}/v1/account`, { headers: { authorization: `Bearer ${raw}` } }))
          .status,
      ).toBe(401);
    });

    test("widens what no key may: a limit, and the last day of a key", async () => {
      const keysPath = `/console/${account.id}/keys`;
      const change = (key: string, form: Record<string, string>) =>
        fetchPage(gateway, keysPath, owner, { ...form, key });
      const made = await fetchPage(gateway, keysPath, owner, {
        do: "mint",
        name: "short",
        limit_usd: "1",
        last_day: "2030-05-01",
      });
      const raw = /pst-rt-[0-9A-Za-z]{49}/.exec(made.text)?.[0] ?? "";
      const headers = { authorization: `Bearer ${raw}`, "content-type": "application/json" };
      const read = async () => {
        const { key } = (await (await fetch(`${gateway.url}/v1/account`, { headers })).json()) as {
          key: { id: string; expires_at: string | null; limit_usd: number | null };
        };
        return key;
      };
      const { id, ...settings } = await read();
      expect(settings).toMatchObject({ expires_at: "2030-05-02T00:00:00.000Z", limit_usd: 1 });
      const patch = (body: object) =>
        fetch(`${gateway.url}/v1/keys/${id}`, {
          method: "PATCH",
          headers,
          body: JSON.stringify(body),
        });
      for (const body of [{ limit_usd: 2 }, { expires_at: "2030-05-02T00:00:00.001Z" }])
        expect((await patch(body)).status).toBe(403);
      expect((await change(id, { do: "limit", limit_usd: "2" })).status).toBe(303);
      expect((await change(id, { do: "expiry", last_day: "2030-06-30" })).status).toBe(303);
      expect(await read()).toMatchObject({ expires_at: "2030-07-01T00:00:00.000Z", limit_usd: 2 });
      const page = await fetchPage(gateway, keysPath, owner);
      expect(page.text).toContain('value="2030-06-30"');
      expect(page.text).toContain("works until 2030-07-01 00:00 UTC");
      for (const last_day of ["2020-01-01", "tomorrow", "2030-13-45"]) {
        const refused = await change(id, { do: "expiry", last_day });
        expect([last_day, refused.status]).toEqual([last_day, 400]);
      }
      expect((await change(id, { do: "expiry", last_day: "" })).status).toBe(303);
      expect(await read()).toMatchObject({ expires_at: null, limit_usd: 2 });
    });

    test("a page that is loaded again makes no second key, and no second webhook", async () => {
      const keysPath = `/console/${account.id}/keys`;
      const count = async (): Promise<number> =>
        (await gateway.server.db.all("select id from api_key where account_id = ?", [account.id]))
          .length;
      const before = await count();
      const formOf = (page: PageResponse): string =>
        /name="once" value="(\w{22})"/.exec(page.text)?.[1] ?? "";
      const once = formOf(await fetchPage(gateway, keysPath, owner));
      const form = { do: "mint", name: "reloaded", once };
      const [first, again] = [
        await fetchPage(gateway, keysPath, owner, form),
        await fetchPage(gateway, keysPath, owner, form),
      ];
      const rawOf = ({ text }: PageResponse) => /pst-rt-[0-9A-Za-z]{49}/.exec(text)?.[0];
      expect([first.status, again.status]).toEqual([200, 200]);
      expect(rawOf(first)).toBeString();
      expect(rawOf(again)).toBe(rawOf(first));
      expect(await count()).toBe(before + 1);
      const other = await fetchPage(gateway, keysPath, owner, { ...form, name: "another" });
      expect([other.status, other.text]).toEqual([400, expect.stringContaining("was sent before")]);
      const next = await fetchPage(gateway, keysPath, owner, { ...form, once: formOf(again) });
      expect(rawOf(next)).not.toBe(rawOf(first));
      expect(await count()).toBe(before + 2);

      const hooks = `/console/${account.id}/webhooks`;
      const add = {
        do: "add",
        url: "http://127.0.0.1:9/reloaded",
        once: formOf(await fetchPage(gateway, hooks, owner)),
      };
      const secretOf = ({ text }: PageResponse) => /whsec_[\w+/=]+/.exec(text)?.[0];
      const made = await fetchPage(gateway, hooks, owner, add);
      expect(secretOf(made)).toBeString();
      expect(secretOf(await fetchPage(gateway, hooks, owner, add))).toBe(secretOf(made));
      const shown = (await fetchPage(gateway, hooks, owner)).text;
      expect(shown.match(/<h2[^>]*>http:\/\/127\.0\.0\.1:9\/reloaded</g)?.length).toBe(1);
    });

    test("a form that is refused keeps what was typed, and says what is wrong in the page's words", async () => {
      const refused = await fetchPage(gateway, `/console/${account.id}/keys`, owner, {
        do: "mint",
        name: "typed name",
        limit_usd: "7",
        limit_window: "week",
        last_day: "2020-01-01",
      });
      expect(refused.status).toBe(400);
      expect(refused.text).toContain("The expiry date must lie in the future.");
      expect(refused.text).not.toContain("expires_at");
      for (const kept of ['value="typed name"', 'value="7"', 'value="2020-01-01"'])
        expect(refused.text).toContain(kept);
      expect(refused.text).toMatch(/<option value="week" selected/);
      const invited = await fetchPage(gateway, `/console/${account.id}/members`, owner, {
        do: "invite",
        email: "ada at example.com",
      });
      expect(invited.text).toContain('value="ada at example.com"');
      const lost = await fetchPage(gateway, `/console/${account.id}/billing?cursor=zzz`, owner);
      expect(lost.status).toBe(400);
      expect(lost.text).toContain("Go back");
      expect(lost.text).not.toMatch(/next_cursor|query cursor/);
      const gone = await fetchPage(gateway, `/console/${account.id}/keys`, owner, {
        do: "revoke",
        key: "key_none",
      });
      expect(gone.text).toContain("There is no key with that id.");
      expect(gone.text).not.toContain("/v1/");
    });

    test("a wrong address is a page for a browser, and JSON for a program", async () => {
      for (const [method, path, status] of [
        ["GET", `/console/${account.id}/keys/`, 404],
        ["GET", `/console/${account.id}/nope`, 404],
        ["GET", "/operator/nope", 404],
        ["GET", "/claim/code", 405],
        ["GET", "/pay/a/b/c/d", 404],
        ["GET", "/nope", 404],
        ["GET", "/docs/nope", 404],
        ["GET", "/v1beta", 404],
      ] as const) {
        const ask = (accept: string) => fetch(gateway.url + path, { method, headers: { accept } });
        const page = await ask("text/html,application/xhtml+xml,*/*;q=0.8");
        expect([path, page.status, page.headers.get("content-type")]).toEqual([
          path,
          status,
          "text/html; charset=utf-8",
        ]);
        const text = await page.text();
        expect(text).toMatch(/<h1>(Not found|Something went wrong)<\/h1>/);
        expect(text).not.toMatch(/openapi|`allow`/);
        expect([path, text.includes('href="/console"')]).toEqual([path, status === 404]);
        const json = await ask("*/*");
        expect([path, json.status, json.headers.get("content-type")]).toEqual([
          path,
          status,
          "application/json",
        ]);
      }
      for (const path of ["/v1", "/v1/nope", "/agent/nope", "/oauth2/nope", "/.well-known/nope"]) {
        const api = await fetch(gateway.url + path, { headers: { accept: "text/html" } });
        expect([path, api.status, api.headers.get("content-type")]).toEqual([
          path,
          404,
          "application/json",
        ]);
      }
    });

    test("another account's key cannot be changed through one's own workspace", async () => {
      const list = await fetch(`${gateway.url}/v1/keys`, { headers: elsewhere.headers });
      const { data } = (await list.json()) as { data: { id: string }[] };
      const id = data[0]?.id ?? "";
      expect(
        (await fetchPage(gateway, `/console/${account.id}/keys`, owner, { do: "revoke", key: id }))
          .status,
      ).toBe(404);
      expect(
        (await fetch(`${gateway.url}/v1/account`, { headers: elsewhere.headers })).status,
      ).toBe(200);
    });

    test("an invitation is for one address: its person joins as a developer, and nobody else sees it", async () => {
      const guest = await signInUser(gateway, "guest-2");
      await fetchPage(gateway, `/console/${account.id}/members`, owner, {
        do: "invite",
        email: "Guest-2@example.com",
      });
      const door = await fetchPage(gateway, "/console", guest);
      expect(door.text).toContain(`${owner.email} invites you`);
      const id = /name="invitation" value="([^"]+)"/.exec(door.text)?.[1] ?? "";
      expect(
        (
          await fetchPage(gateway, "/console/invitations", stranger, {
            invitation: id,
            answer: "accept",
          })
        ).status,
      ).toBe(404);
      const accept = { invitation: id, answer: "accept" };
      const clicks = [1, 2, 3].map(() => fetchPage(gateway, "/console/invitations", guest, accept));
      for (const joined of await Promise.all(clicks))
        expect(joined.location).toBe(`/console/${account.id}`);
      expect(await roleOf(gateway.server.db, account.id, guest.personId)).toBe("developer");
      const told = await fetch(`${gateway.url}/v1/audit?target=${guest.personId}`, {
        headers: account.headers,
      });
      expect(((await told.json()) as { data: object[] }).data.length).toBe(1);
      const decline = { invitation: id, answer: "decline" };
      expect((await fetchPage(gateway, "/console/invitations", guest, decline)).status).toBe(404);
      const members = `/console/${account.id}/members`;
      await fetchPage(gateway, members, owner, { do: "remove", person: guest.personId });
      expect((await fetchPage(gateway, "/console/invitations", guest, accept)).status).toBe(404);
      expect(await roleOf(gateway.server.db, account.id, guest.personId)).toBeUndefined();
    });

    test("sessions that are ended by two clicks are written down once", async () => {
      const guest = await signInUser(gateway, "guest-3");
      const elsewhere = await signInUser(gateway, "guest-3");
      const { db } = gateway.server;
      const written = async (): Promise<number> =>
        (await db.all("select id from audit where actor_id = ?", [guest.personId])).length;
      const { text } = await fetchPage(gateway, "/sessions", guest);
      const session = /value="(ses_\w+)"[^>]*>\s*End this session/.exec(text)?.[1] ?? "";
      const end = (session: string) => fetchPage(gateway, "/sessions", guest, { session });
      const clicks = await Promise.all([end(session), end(session), end(session)]);
      expect(clicks.map(({ location }) => location)).toEqual(Array(3).fill("/sessions"));
      expect(await written()).toBe(1);
      expect((await fetchPage(gateway, "/sessions", elsewhere)).status).toBe(303);
      expect((await end("others")).location).toBe("/sessions");
      expect(await written()).toBe(1);
      expect((await end("ses_none")).status).toBe(404);
    });

    test("an invitation that is withdrawn is written down once, with its address", async () => {
      const members = `/console/${account.id}/members`;
      const email = "nobody-yet@example.com";
      await fetchPage(gateway, members, owner, { do: "invite", email });
      const { text } = await fetchPage(gateway, members, owner);
      const id = /name="invitation" value="([^"]+)"/.exec(text)?.[1] ?? "";
      for (const invitation of [id, id, "inst_none"])
        expect(
          (await fetchPage(gateway, members, owner, { do: "withdraw", invitation })).location,
        ).toBe(members);
      const path = "/v1/audit?action=invitation.withdrawn";
      const told = await fetch(gateway.url + path, { headers: account.headers });
      const { data } = (await told.json()) as { data: object[] };
      expect(data).toMatchObject([{ target: id, detail: { by: owner.email, email } }]);
      expect(data.length).toBe(1);
    });

    test("an owner leaves only after handing over, and then as a developer", async () => {
      const heir = await signInUser(gateway, "heir");
      await gateway.server.db.write((tx) =>
        addDeveloper(tx, {
          accountId: account.id,
          personId: heir.personId,
          via: "test",
          now: Date.now(),
        }),
      );
      expect(
        (await fetchPage(gateway, `/console/${account.id}/members`, owner, { do: "leave" })).status,
      ).toBe(403);
      const members = `/console/${account.id}/members`;
      const handOver = { do: "hand_over", person: heir.personId };
      const clicks = [1, 2, 3].map(() => fetchPage(gateway, members, owner, handOver));
      for (const { status, location } of await Promise.all(clicks))
        expect([status, location]).toEqual([303, members]);
      expect((await fetchPage(gateway, members, owner, handOver)).location).toBe(members);
      expect(await roleOf(gateway.server.db, account.id, heir.personId)).toBe("owner");
      const toOneself = { do: "hand_over", person: heir.personId };
      const kept = await fetchPage(gateway, `/console/${account.id}/members`, heir, toOneself);
      expect([kept.status, kept.text]).toEqual([
        400,
        expect.stringContaining("You own this workspace already."),
      ]);
      const leaving = [1, 2, 3].map(() => fetchPage(gateway, members, owner, { do: "leave" }));
      for (const { location } of await Promise.all(leaving)) expect(location).toBe("/console");
      const again = { do: "remove", person: owner.personId };
      expect((await fetchPage(gateway, members, heir, again)).location).toBe(members);
      const told = async (action: string): Promise<{ readonly data: readonly object[] }> => {
        const path = `/v1/audit?action=${action}&target=${action === "owner.changed" ? heir.personId : owner.personId}`;
        const answer = await fetch(gateway.url + path, { headers: account.headers });
        return (await answer.json()) as { readonly data: readonly object[] };
      };
      for (const action of ["member.removed", "owner.changed"])
        expect([action, (await told(action)).data.length]).toEqual([action, 1]);
      expect(await told("member.removed")).toMatchObject({
        data: [{ target: owner.personId, detail: { email: owner.email } }],
      });
      expect(await told("owner.changed")).toMatchObject({
        data: [{ target: heir.personId, detail: { email: heir.email } }],
      });
      expect((await fetchPage(gateway, `/console/${account.id}`, owner)).status).toBe(404);
      expect((await fetch(`${gateway.url}/v1/account`, { headers: account.headers })).status).toBe(
        200,
      );
    });

    test("webhooks and the audit log are the owner's: set up, tested, deleted, and noted", async () => {
      const page = `/console/${elsewhere.id}/webhooks`;
      expect((await fetchPage(gateway, page, owner)).status).toBe(404);
      const wrong = await fetchPage(gateway, page, stranger, {
        do: "add",
        url: "ftp://example.com",
      });
      expect(wrong.status).toBe(400);
      const made = await fetchPage(gateway, page, stranger, {
        do: "add",
        url: "http://127.0.0.1:9/hook",
      });
      expect(made.text).toContain("whsec_");
      const id = /name="webhook" value="([^"]+)"/.exec(made.text)?.[1] ?? "";
      expect((await fetchPage(gateway, page, stranger)).text).not.toContain("whsec_");
      expect((await fetchPage(gateway, page, stranger, { do: "test", webhook: id })).status).toBe(
        303,
      );
      expect((await fetchPage(gateway, page, stranger, { do: "remove", webhook: id })).status).toBe(
        303,
      );
      const log = await fetchPage(gateway, `/console/${elsewhere.id}/audit`, stranger);
      expect(log.text).toContain("webhook.created");
      expect(log.text).toContain("webhook.deleted");
    });

    test("a developer sees neither the webhooks nor the audit log", async () => {
      const helper = await signInUser(gateway, "helper");
      await gateway.server.db.write((tx) =>
        addDeveloper(tx, {
          accountId: elsewhere.id,
          personId: helper.personId,
          via: "test",
          now: Date.now(),
        }),
      );
      for (const page of ["/webhooks", "/audit"])
        expect((await fetchPage(gateway, `/console/${elsewhere.id}${page}`, helper)).status).toBe(
          403,
        );
      expect((await fetchPage(gateway, `/console/${elsewhere.id}`, helper)).text).not.toContain(
        "Audit log",
      );
    });

    test("a form without its token, or from another site, changes nothing", async () => {
      const url = `${gateway.url}/console/${elsewhere.id}/keys`;
      const body = new URLSearchParams({ do: "mint", csrf: stranger.csrf }).toString();
      const type = "application/x-www-form-urlencoded";
      const post = (headers: Record<string, string>, sent: string) =>
        fetch(url, {
          method: "POST",
          headers: { "content-type": type, cookie: stranger.cookie, ...headers },
          body: sent,
          redirect: "manual",
        });
      expect(
        (await post({ origin: "https://evil.example", "sec-fetch-site": "cross-site" }, body))
          .status,
      ).toBe(403);
      expect(
        (await post({ origin: gateway.url, "sec-fetch-site": "same-origin" }, "do=mint&csrf=wrong"))
          .status,
      ).toBe(403);
    });
  });
}

test("every page of the console is for signed-in people only", () => {
  const parts = { billing: { processor: { kind: "development" } } } as unknown;
  for (const route of consoleRoutes(parts as Parameters<typeof consoleRoutes>[0]))
    expect([route.id, route.auth]).toEqual([route.id, "session"]);
});
