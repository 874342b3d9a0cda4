// The sign-in of a program with a browser, over HTTP, on both stores.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { removeMember } from "../../src/accounts/members.ts";
import { personAct } from "../../src/activity/audit.ts";
import {
  createUser,
  makeDeveloper,
  makeMember,
  makeOwner,
  type PageResponse,
  textOf,
  type TestUser,
  visitPage,
} from "../billing/console-user.ts";
import { bodyOf, type Json, postCall } from "../inference/support/harness.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";

const GRANT = "urn:ietf:params:oauth:grant-type:device_code";
const MINUTE_MS = 60_000;
const INTERVAL_MS = 5_000;

interface Started {
  readonly device_code: string;
  readonly user_code: string;
  readonly verification_uri_complete: string;
  readonly expires_in: number;
  readonly interval: number;
}

interface Polled {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Json;
}

describe.each(["sqlite", "postgres"] as const)("a sign-in with a browser on %s", (store) => {
  let gateway: Gateway;
  let account: TestAccount;
  let owner: TestUser;
  let users = 0;
  let clock = Date.now();

  beforeAll(async () => {
    gateway = await startGateway({ store, now: () => clock });
  });
  afterAll(() => gateway.stop());
  beforeEach(async () => {
    // Each test has windows of its own for what is counted per network.
    clock += 11 * MINUTE_MS;
    account = await registerAccount(gateway);
    owner = await newUser();
    await makeOwner(gateway, account.id, owner);
  });

  function newUser(): Promise<TestUser> {
    users += 1;
    return createUser(gateway, `person-${users}`);
  }

  function post(path: string, fields: Readonly<Record<string, string>>): Promise<Response> {
    return fetch(gateway.url + path, {
      method: "POST",
      headers: { "user-agent": "claude-code/2.1.332" },
      body: new URLSearchParams(fields),
    });
  }

  async function start(): Promise<Started> {
    const response = await post("/oauth/device_authorization", { surface: "claude_code" });
    expect(response.status).toBe(200);
    expect(response.headers.get("cache-control")).toBe("no-store");
    return (await response.json()) as Started;
  }

  async function poll(deviceCode: string): Promise<Polled> {
    const response = await post("/oauth/token", { grant_type: GRANT, device_code: deviceCode });
    return {
      status: response.status,
      headers: response.headers,
      body: (await response.json()) as Json,
    };
  }

  async function pollLater(deviceCode: string): Promise<Polled> {
    clock += INTERVAL_MS;
    return poll(deviceCode);
  }

  const decide = (
    user: TestUser,
    choice: "find" | "approve" | "deny",
    userCode: string,
    more: Readonly<Record<string, string>> = {},
  ): Promise<PageResponse> =>
    visitPage(gateway, "/device", user, {
      do: choice,
      user_code: userCode,
      account: account.id,
      limit_usd: "5",
      limit_window: "week",
      ...more,
    });

  async function signIn(): Promise<{ readonly started: Started; readonly key: string }> {
    const started = await start();
    expect((await decide(owner, "approve", started.user_code)).status).toBe(200);
    const { status, body } = await poll(started.device_code);
    expect(status).toBe(200);
    return { started, key: String(body["access_token"]) };
  }

  const callWith = (key: string): Promise<Response> =>
    postCall(
      gateway,
      { ...account, headers: { ...account.headers, authorization: `Bearer ${key}` } },
      "messages",
      bodyOf("messages", "hi"),
    );

  test("gives the program a key of the chosen workspace, for model calls only", async () => {
    const started = await start();
    expect(started).toMatchObject({ expires_in: 600, interval: 5 });
    expect(started.device_code).toMatch(/^[A-Za-z0-9]{43}$/);
    expect(started.user_code).toMatch(/^[B-DF-HJ-NP-TV-XZ]{4}-[B-DF-HJ-NP-TV-XZ]{4}$/);
    const pending = await poll(started.device_code);
    expect([pending.status, pending.body["error"]]).toEqual([400, "authorization_pending"]);

    const found = await decide(owner, "find", started.user_code);
    expect(textOf(found)).toContain("Give Claude Code a key?");
    expect(textOf(found)).toContain(started.user_code);
    expect(found.text).toContain(account.id);
    const approved = await decide(owner, "approve", started.user_code);
    expect([approved.status, textOf(approved)]).toEqual([
      200,
      expect.stringContaining("Return to Claude Code"),
    ]);

    const { status, headers, body } = await pollLater(started.device_code);
    expect([status, headers.get("cache-control")]).toEqual([200, "no-store"]);
    const key = String(body["access_token"]);
    expect(body).toMatchObject({
      token_type: "Bearer",
      expires_in: 90 * 86_400,
      email: owner.email,
      access_token: expect.stringMatching(/-rt-/),
    });
    const call = await callWith(key);
    expect([call.status, await call.text()]).toEqual([200, expect.any(String)]);
    const headersOfKey = { authorization: `Bearer ${key}` };
    const keys = await fetch(`${gateway.url}/v1/keys`, { headers: headersOfKey });
    await keys.text();
    expect(keys.status).toBe(403);
    const list = await fetch(`${gateway.url}/v1/keys`, { headers: account.headers });
    const { data } = (await list.json()) as { data: Json[] };
    expect(data).toContainEqual(
      expect.objectContaining({
        name: "Claude Code (signed in with a browser)",
        expires_at: expect.any(String),
        limit_usd: 5,
        limit_window: "week",
      }),
    );
  });

  test("asks for the limit of the key, and shows what is wrong with it", async () => {
    const started = await start();
    const found = await decide(owner, "find", started.user_code);
    expect(found.text).toMatch(/name="limit_usd"[^>]*value="10"/);
    for (const limit_usd of ["", "0", "-1", "ten"]) {
      const limit = { limit_usd, limit_window: "day" };
      const page = await decide(owner, "approve", started.user_code, limit);
      expect([limit_usd, page.status, textOf(page)]).toEqual([
        limit_usd,
        400,
        expect.stringContaining("The limit must be an amount in US dollars"),
      ]);
      expect(page.text).toContain('value="day" selected');
    }
    expect((await poll(started.device_code)).body["error"]).toBe("authorization_pending");
  });

  test("records the key as created by the person", async () => {
    await signIn();
    const rows = await gateway.server.db.all(
      "select * from audit where account_id = ? and action = 'key.created' and actor_id = ?",
      [account.id, owner.personId],
    );
    expect(rows).toHaveLength(1);
  });

  test("stores neither of the codes, nor the key", async () => {
    const { started, key } = await signIn();
    const rows = await gateway.server.db.all("select * from device_login", []);
    const stored = JSON.stringify(rows, (_, value: unknown) =>
      typeof value === "bigint" ? String(value) : value,
    );
    for (const secret of [
      started.device_code,
      started.user_code,
      started.user_code.replace("-", ""),
      key,
    ])
      expect(stored).not.toContain(secret);
  });

  test("revokes the key if its code is used a second time", async () => {
    const { started, key } = await signIn();
    const statusOfCall = async (): Promise<number> => {
      const call = await callWith(key);
      await call.text();
      return call.status;
    };
    expect(await statusOfCall()).toBe(200);
    // As long as a process may take a key from its cache.
    const again = await pollLater(started.device_code);
    expect([again.status, again.body["error"]]).toEqual([400, "invalid_grant"]);
    expect(await statusOfCall()).toBe(401);
  });

  test("gives one key to two polls at once", async () => {
    const started = await start();
    await decide(owner, "approve", started.user_code);
    const polls = await Promise.all([poll(started.device_code), poll(started.device_code)]);
    expect(polls.filter(({ status }) => status === 200).length).toBeLessThanOrEqual(1);
    const row = await gateway.server.db.get(
      "select count(*) as count from api_key where account_id = ? and created_by = ?",
      [account.id, owner.personId],
    );
    expect(Number(row?.["count"])).toBe(1);
  });

  test("tells a program that polls too fast to slow down", async () => {
    const { device_code: code } = await start();
    expect((await poll(code)).body["error"]).toBe("authorization_pending");
    expect((await poll(code)).body).toMatchObject({ error: "slow_down", interval: 10 });
    expect((await pollLater(code)).body).toMatchObject({ error: "slow_down", interval: 15 });
    clock += 15_000;
    expect((await poll(code)).body["error"]).toBe("authorization_pending");
  });

  test("ends when the person declines", async () => {
    const started = await start();
    const denied = await decide(owner, "deny", started.user_code);
    expect(textOf(denied)).toContain("was not signed in");
    expect((await poll(started.device_code)).body["error"]).toBe("access_denied");
    expect((await decide(owner, "approve", started.user_code)).status).toBe(404);
  });

  test("ends after ten minutes, approved or not", async () => {
    const [first, second] = [await start(), await start()];
    await decide(owner, "approve", first.user_code);
    clock += 10 * MINUTE_MS;
    expect((await poll(first.device_code)).body["error"]).toBe("expired_token");
    expect((await poll(second.device_code)).body["error"]).toBe("expired_token");
    expect((await decide(owner, "approve", second.user_code)).status).toBe(404);
  });

  test("is decided once: a second person cannot approve or redirect it", async () => {
    const started = await start();
    const other = await newUser();
    const otherAccount = await registerAccount(gateway);
    await makeOwner(gateway, otherAccount.id, other);
    await decide(owner, "approve", started.user_code);
    const second = await decide(other, "approve", started.user_code, { account: otherAccount.id });
    expect(second.status).toBe(404);
    expect((await decide(other, "deny", started.user_code)).status).toBe(404);
    const { body } = await poll(started.device_code);
    expect(body["email"]).toBe(owner.email);
  });

  test("does not give a key of a workspace that the person is no member of", async () => {
    const started = await start();
    const stranger = await newUser();
    const page = await decide(stranger, "approve", started.user_code);
    expect(page.status).toBe(400);
    expect((await poll(started.device_code)).body["error"]).toBe("authorization_pending");
  });

  test("does not give a key to a role that may not create one", async () => {
    const viewer = await newUser();
    await makeMember(gateway, account.id, viewer, "viewer");
    const started = await start();
    const found = await decide(viewer, "find", started.user_code);
    expect(textOf(found)).toContain("None of your workspaces allows you to create a key");
    expect((await decide(viewer, "approve", started.user_code)).status).toBe(400);
    expect((await poll(started.device_code)).body["error"]).toBe("authorization_pending");
  });

  test("says on the page that a developer has no allowance, and creates nothing", async () => {
    const developer = await newUser();
    await makeDeveloper(gateway, account.id, developer);
    const started = await start();
    const page = await decide(developer, "approve", started.user_code);
    expect([page.status, textOf(page)]).toEqual([400, expect.stringMatching(/allowance/i)]);
    const row = await gateway.server.db.get(
      "select count(*) as count from api_key where created_by = ?",
      [developer.personId],
    );
    expect(Number(row?.["count"])).toBe(0);
  });

  test("gives no key if the person left the workspace after the approval", async () => {
    const admin = await newUser();
    await makeMember(gateway, account.id, admin, "admin");
    const started = await start();
    expect((await decide(admin, "approve", started.user_code)).status).toBe(200);
    await gateway.server.db.write((tx) =>
      removeMember(
        tx,
        personAct(account.id, owner.personId, { clientIp: "", now: clock }),
        admin.personId,
      ),
    );
    expect((await poll(started.device_code)).body["error"]).toBe("access_denied");
  });

  test("takes a code in lower case and without the hyphen, and no other one", async () => {
    const started = await start();
    const typed = started.user_code.toLowerCase().replace("-", " ");
    expect((await decide(owner, "find", typed)).status).toBe(200);
    for (const wrong of ["", "WDJB", "AAAA-AAAA", "BBBB-BBBB", `${started.user_code}B`])
      expect((await decide(owner, "find", wrong)).status).toBe(404);
  });

  test("limits the codes that a person may try", async () => {
    const guesser = await newUser();
    const statuses: number[] = [];
    for (let tries = 0; tries < 16; tries++)
      statuses.push((await decide(guesser, "find", "BBBB-BBBB")).status);
    expect(statuses.slice(0, 15).every((status) => status === 404)).toBe(true);
    expect(statuses[15]).toBe(429);
    // Also with the right code, and on every form.
    const { user_code: right } = await start();
    for (const choice of ["find", "approve", "deny"] as const)
      expect((await decide(guesser, choice, right)).status).toBe(429);
  });

  test("limits the sign-ins that a network may start", async () => {
    for (let starts = 0; starts < 30; starts++) await start();
    const response = await post("/oauth/device_authorization", {});
    await response.text();
    expect([response.status, Number(response.headers.get("retry-after"))]).toEqual([429, 600]);
  });

  test("limits the sign-ins that the widest network around it may start, so that others can", async () => {
    const window = clock - (clock % (10 * MINUTE_MS));
    await gateway.server.db.write((tx) =>
      tx.run("insert into claim_count (scope, slot, counted) values (?, ?, ?)", [
        "device start 127.0.0.0/16",
        window,
        4_000,
      ]),
    );
    expect((await post("/oauth/device_authorization", {})).status).toBe(429);
    const all = await gateway.server.db.get(
      "select counted from claim_count where scope = 'device start' and slot = ?",
      [window],
    );
    expect(all).toBeUndefined();
  });

  test("fills a code of the link in, and decides nothing", async () => {
    const started = await start();
    const url = new URL(started.verification_uri_complete);
    const page = await visitPage(gateway, url.pathname + url.search, owner);
    expect(page.text).toContain(`value="${started.user_code}"`);
    expect(page.text).not.toContain(account.id);
    expect((await poll(started.device_code)).body["error"]).toBe("authorization_pending");
  });

  test("asks for a session first, and comes back with the code", async () => {
    const { verification_uri_complete: link } = await start();
    const response = await fetch(link, { redirect: "manual" });
    await response.text();
    expect(response.status).toBe(303);
    expect(decodeURIComponent(response.headers.get("location") ?? "")).toContain(
      "/device?user_code=",
    );
  });

  test("rejects the form of another site, and one without its token", async () => {
    const started = await start();
    const body = { do: "approve", user_code: started.user_code, account: account.id };
    for (const [csrf, origin] of [
      ["wrong", gateway.url],
      [owner.csrf, "https://evil.example"],
    ] as const) {
      const response = await fetch(`${gateway.url}/device`, {
        method: "POST",
        headers: { cookie: owner.cookie, origin },
        body: new URLSearchParams({ csrf, ...body }),
        redirect: "manual",
      });
      await response.text();
      expect(response.status).toBe(403);
    }
    expect((await poll(started.device_code)).body["error"]).toBe("authorization_pending");
  });

  test("shows what a program calls itself only as plain text", async () => {
    const response = await post("/oauth/device_authorization", {
      client_id: '<script>alert("x")</script>',
    });
    const started = (await response.json()) as Started;
    const page = await decide(owner, "find", started.user_code);
    expect(page.text).not.toContain("<script>alert");
    expect(textOf(page)).toContain("Give A program a key?");
  });

  test.each<[fields: Record<string, string>, error: string]>([
    [{}, "invalid_request"],
    [{ grant_type: GRANT }, "invalid_request"],
    [{ grant_type: "refresh_token", refresh_token: "x" }, "unsupported_grant_type"],
    [{ grant_type: GRANT, device_code: "unknown", new_parameter: "x" }, "invalid_grant"],
  ])("answers a wrong poll %p with %s", async (fields, error) => {
    const response = await post("/oauth/token", fields);
    expect([response.status, ((await response.json()) as Json)["error"]]).toEqual([400, error]);
  });

  test("leaves the token endpoint of claims alone", async () => {
    const { device_code: code } = await start();
    const response = await fetch(`${gateway.url}/oauth2/token`, {
      method: "POST",
      headers: { authorization: `Bearer ${account.key}` },
      body: new URLSearchParams({ grant_type: GRANT, device_code: code }),
    });
    const { error } = (await response.json()) as Json;
    expect([response.status, error]).toEqual([400, "unsupported_grant_type"]);
  });

  test("is described to Claude Code, and claims to everyone else", async () => {
    const metadata = async (agent: string): Promise<Json> => {
      const response = await fetch(`${gateway.url}/.well-known/oauth-authorization-server`, {
        headers: { "user-agent": agent },
      });
      expect(response.headers.get("vary")).toContain("user-agent");
      return (await response.json()) as Json;
    };
    expect(await metadata("claude-code/2.1.332")).toMatchObject({
      device_authorization_endpoint: `${gateway.url}/oauth/device_authorization`,
      token_endpoint: `${gateway.url}/oauth/token`,
      grant_types_supported: [GRANT],
    });
    const others = await metadata("curl/8");
    expect(others["token_endpoint"]).toBe(`${gateway.url}/oauth2/token`);
    expect(others).not.toHaveProperty("device_authorization_endpoint");
  });

  test("serves settings whose checksum is that of Claude Code", async () => {
    const { key } = await signIn();
    const read = (headers: Record<string, string> = {}): Promise<Response> =>
      fetch(`${gateway.url}/managed/settings`, {
        headers: { authorization: `Bearer ${key}`, ...headers },
      });
    const response = await read();
    expectStatus("getManagedSettings", 200, response);
    const body = (await response.json()) as { checksum: string; settings: Json };
    const sum = createHash("sha256").update(JSON.stringify(body.settings)).digest("hex");
    expect(body.checksum).toBe(`sha256:${sum}`);
    expect(response.headers.get("etag")).toBe(`"${body.checksum}"`);
    const same = await read({ "if-none-match": `"${body.checksum}"` });
    expectStatus("getManagedSettings", 304, same);
    expect(await same.text()).toBe("");
    const twoKeys = await read({ "x-api-key": account.key });
    await twoKeys.text();
    expectStatus("getManagedSettings", 400, twoKeys);
    const any = await read({ "if-none-match": "*" });
    await any.text();
    expect(any.status).toBe(200);
    const anonymous = await fetch(`${gateway.url}/managed/settings`);
    await anonymous.text();
    expect([anonymous.status, anonymous.headers.get("x-should-retry")]).toEqual([401, "false"]);
  });
});
