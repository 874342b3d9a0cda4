// The sign-in of people at /mcp, over HTTP, on both stores: what a client gets, and what attackers do not get.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
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
import { postModern } from "../mcp/raw-mcp.ts";
import { hiddenFields } from "../operator/harness.ts";
import { call, textAt, valueAt, type Json } from "../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { type Fields, pkce, queryOf } from "../support/pkce.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";

const MINUTE_MS = 60_000;
const REDIRECT = "http://127.0.0.1:52100/callback";

describe.each(["sqlite", "postgres"] as const)("a sign-in at /mcp on %s", (store) => {
  let gateway: Gateway;
  let account: TestAccount;
  let owner: TestUser;
  let clientId: string;
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
    clientId = await register([REDIRECT]);
  });

  function newUser(): Promise<TestUser> {
    users += 1;
    return createUser(gateway, `person-${users}`, clock);
  }

  const postRegistration = (body: Json) => call(gateway, "POST /mcp/register", { body });

  async function register(redirectUris: readonly string[], name = "Editor"): Promise<string> {
    const response = await postRegistration({ client_name: name, redirect_uris: redirectUris });
    expectStatus("registerMcpClient", 201, response);
    return textAt(response.body, "client_id");
  }

  function authorizePath(challenge: string, fields: Fields = {}): string {
    const query = queryOf({
      response_type: "code",
      client_id: clientId,
      redirect_uri: REDIRECT,
      state: "xyz/ä",
      resource: `${gateway.url}/mcp`,
      code_challenge: challenge,
      code_challenge_method: "S256",
      ...fields,
    });
    return `/mcp/authorize?${query}`;
  }

  const open = (challenge: string, fields: Fields = {}, user = owner): Promise<PageResponse> =>
    visitPage(gateway, authorizePath(challenge, fields), user);

  async function decide(
    page: PageResponse,
    form: Record<string, string> = {},
    user = owner,
  ): Promise<PageResponse> {
    const { request = "" } = hiddenFields(page, "approve");
    return visitPage(gateway, "/mcp/authorize", user, {
      request,
      do: "approve",
      account: account.id,
      limit_usd: "5",
      limit_window: "month",
      ...form,
    });
  }

  async function approve(challenge: string, fields: Fields = {}): Promise<string> {
    const decided = await decide(await open(challenge, fields));
    expect(decided.status).toBe(303);
    return new URL(decided.location ?? "").searchParams.get("code") ?? "";
  }

  function redeem(code: string, verifier: string, fields: Fields = {}) {
    return call(gateway, "POST /mcp/token", {
      raw: queryOf({
        grant_type: "authorization_code",
        code,
        client_id: clientId,
        redirect_uri: REDIRECT,
        code_verifier: verifier,
        ...fields,
      }),
      headers: { "content-type": "application/x-www-form-urlencoded" },
    });
  }

  async function signIn(): Promise<{ code: string; verifier: string; key: string }> {
    const { verifier, challenge } = pkce();
    const code = await approve(challenge);
    const { body } = await redeem(code, verifier);
    return { code, verifier, key: textAt(body, "access_token") };
  }

  const balance = (key: string) =>
    postModern(gateway, {
      method: "tools/call",
      params: { name: "get_balance", arguments: {} },
      key,
    });

  test("gives the client a key with the limit that the person picked, listed under the client's name", async () => {
    const { verifier, challenge } = pkce();
    const page = await open(challenge);
    expect(page.status).toBe(200);
    expect(textOf(page)).toContain("It calls itself Editor");
    expect(textOf(page)).toContain("127.0.0.1:52100");
    expect(page.text).toContain(account.id);
    const decided = await decide(page);
    const target = new URL(decided.location ?? "");
    expect(`${target.origin}${target.pathname}`).toBe(REDIRECT);
    expect(target.searchParams.get("state")).toBe("xyz/ä");
    expect(target.searchParams.get("iss")).toBe(`${gateway.url}/mcp`);
    const code = target.searchParams.get("code") ?? "";
    const token = await redeem(code, verifier, { resource: `${gateway.url}/mcp` });
    expectStatus("redeemMcpCode", 200, token);
    expect(token.headers.get("cache-control")).toBe("no-store");
    expect(token.body).toMatchObject({
      token_type: "Bearer",
      expires_in: 90 * 86_400,
      scope: "models:write usage:read claim:read keys:read",
    });
    const key = textAt(token.body, "access_token");
    expect(valueAt((await balance(key)).body, "result.structuredContent.account.id")).toBe(
      account.id,
    );
    const { body } = await call(gateway, "GET /v1/keys", { key: account.key });
    expect(valueAt(body, "data")).toContainEqual(
      expect.objectContaining({
        name: "Editor (MCP sign-in)",
        limit_usd: 5,
        limit_window: "month",
        expires_at: expect.any(String),
      }),
    );
    const created = await call(gateway, "POST /v1/keys", { key, body: {} });
    expect(created.status).toBe(403);
  });

  test("ends with the key: after its revocation, the client is asked to sign in again", async () => {
    const { key } = await signIn();
    const { body } = await call(gateway, "GET /v1/account", { key });
    const id = textAt(body, "key.id");
    expect((await call(gateway, `DELETE /v1/keys/${id}`, { key: account.key })).status).toBe(200);
    clock += 6_000;
    const refused = await balance(key);
    expect(refused.status).toBe(401);
    expect(refused.headers.get("www-authenticate")).toContain(
      "/.well-known/oauth-protected-resource/mcp",
    );
    expect(textAt(refused.body, "error.message")).toContain("revoked");
  });

  test("stores neither the code nor the key", async () => {
    const { code, key } = await signIn();
    const rows = await gateway.server.db.all("select * from authorization_code", []);
    const stored = JSON.stringify(rows, (_, value: unknown) =>
      typeof value === "bigint" ? String(value) : value,
    );
    expect(stored).toContain("Editor");
    for (const secret of [code, key]) expect(stored).not.toContain(secret);
  });

  test("records the consent and the key as those of the person", async () => {
    await signIn();
    const rows = await gateway.server.db.all(
      "select action from audit where account_id = ? and actor_id = ? order by id",
      [account.id, owner.personId],
    );
    expect(rows.map(({ action }) => action)).toEqual(["mcp_client.approved", "key.created"]);
  });

  test("tells the client that the person declined", async () => {
    const declined = await decide(await open(pkce().challenge), { do: "deny" });
    const target = new URL(declined.location ?? "");
    expect(target.searchParams.get("error")).toBe("access_denied");
    expect(target.searchParams.get("state")).toBe("xyz/ä");
    expect(target.searchParams.get("code")).toBeNull();
  });

  test("revokes the key if its code is used a second time", async () => {
    const { code, verifier, key } = await signIn();
    expect((await balance(key)).status).toBe(200);
    const again = await redeem(code, verifier);
    expectStatus("redeemMcpCode", 400, again);
    expect(again.body).toMatchObject({ error: "invalid_grant" });
    clock += 6_000;
    expect((await balance(key)).status).toBe(401);
  });

  test("gives one key to two redemptions at once", async () => {
    const { verifier, challenge } = pkce();
    const code = await approve(challenge);
    const both = await Promise.all([redeem(code, verifier), redeem(code, verifier)]);
    expect(both.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 400]);
    const row = await gateway.server.db.get(
      "select count(*) as count from api_key where account_id = ? and created_by = ?",
      [account.id, owner.personId],
    );
    expect(Number(row?.["count"])).toBe(1);
  });

  test("refuses a stolen code without its verifier, and leaves it to the client", async () => {
    const { verifier, challenge } = pkce();
    const code = await approve(challenge);
    for (const wrong of [pkce().verifier, challenge, "short", `${verifier}\n`]) {
      const { status, body } = await redeem(code, wrong);
      expect([status, valueAt(body, "error")]).toEqual([400, "invalid_grant"]);
    }
    expect((await redeem(code, verifier)).status).toBe(200);
  });

  test("binds a code to its client, its redirect URI and its resource", async () => {
    const { verifier, challenge } = pkce();
    const code = await approve(challenge);
    const other = await register([REDIRECT], "Other");
    for (const [fields, error] of [
      [{ client_id: other }, "invalid_grant"],
      [{ redirect_uri: "http://127.0.0.1:52101/callback" }, "invalid_grant"],
      [{ resource: gateway.url }, "invalid_grant"],
      [{ resource: "https://evil.example/mcp" }, "invalid_target"],
    ] as const) {
      const { status, body } = await redeem(code, verifier, fields);
      expect([status, valueAt(body, "error")]).toEqual([400, error]);
    }
    expect((await redeem(code, verifier)).status).toBe(200);
  });

  test("expires a code after two minutes", async () => {
    const { verifier, challenge } = pkce();
    const code = await approve(challenge);
    clock += 2 * MINUTE_MS;
    expect((await redeem(code, verifier)).body).toMatchObject({ error: "invalid_grant" });
  });

  test.each<[fields: Fields, error: string]>([
    [{ grant_type: undefined }, "invalid_request"],
    [{ grant_type: "refresh_token" }, "unsupported_grant_type"],
    [{ grant_type: "client_credentials" }, "unsupported_grant_type"],
    [{ code: undefined }, "invalid_request"],
    [{ code_verifier: undefined }, "invalid_request"],
    [{ code_verifier: "" }, "invalid_request"],
    [{ client_id: undefined }, "invalid_request"],
    [{ redirect_uri: undefined }, "invalid_request"],
    [{ code: "unknown" }, "invalid_grant"],
  ])("answers a wrong redemption %p with %s", async (fields, error) => {
    const { verifier, challenge } = pkce();
    const { status, body } = await redeem(await approve(challenge), verifier, fields);
    expect([status, valueAt(body, "error")]).toEqual([400, error]);
  });

  test.each<[what: string, uri: string]>([
    ["another host", "http://evil.example/callback"],
    ["another path", "http://127.0.0.1:52100/callback/x"],
    ["a longer host", "http://127.0.0.1.evil.example:52100/callback"],
    ["a user name", "http://127.0.0.1:52100@evil.example/callback"],
    ["another loopback name", "http://localhost:52100/callback"],
    ["a query", "http://127.0.0.1:52100/callback?x=1"],
    ["a fragment", "http://127.0.0.1:52100/callback#x"],
    ["https", "https://127.0.0.1:52100/callback"],
    ["dot segments", "http://127.0.0.1:52100/x/../callback"],
    ["letter case", "http://127.0.0.1:52100/Callback"],
    ["nothing", ""],
  ])("refuses a redirect URI with %s, and leads nowhere", async (_what, uri) => {
    const page = await open(pkce().challenge, { redirect_uri: uri });
    expect([page.status, page.location]).toEqual([400, null]);
    expect(page.text).not.toContain("evil.example");
    expect(page.text).not.toContain("Return to");
  });

  test("lets only the port of a loopback redirect URI differ", async () => {
    const { challenge } = pkce();
    expect((await open(challenge, { redirect_uri: "http://127.0.0.1:1/callback" })).status).toBe(
      200,
    );
    expect((await open(challenge, { redirect_uri: "http://127.0.0.1/callback" })).status).toBe(200);
    const web = await register(["https://app.example/callback"]);
    const moved = { client_id: web, redirect_uri: "https://app.example:8443/callback" };
    expect((await open(challenge, moved)).status).toBe(400);
    const exact = await open(challenge, { ...moved, redirect_uri: "https://app.example/callback" });
    expect(exact.status).toBe(200);
    expect(exact.headers.get("content-security-policy")).toContain(
      "form-action 'self' https://app.example;",
    );
  });

  test.each<[fields: Fields, error: string]>([
    [{ response_type: "token" }, "unsupported_response_type"],
    [{ response_type: undefined }, "unsupported_response_type"],
    [{ code_challenge: undefined }, "invalid_request"],
    [{ code_challenge_method: "plain" }, "invalid_request"],
    [{ code_challenge_method: undefined }, "invalid_request"],
    [{ code_challenge: "short" }, "invalid_request"],
    [{ resource: "https://other.example/mcp" }, "invalid_target"],
    [{ resource: "http://127.0.0.1/mcp" }, "invalid_target"],
  ])(
    "shows what is wrong with %p, and returns to the client only on a click",
    async (fields, error) => {
      const page = await open(pkce().challenge, fields);
      expect([page.status, page.location]).toEqual([400, null]);
      const [, href = ""] = /<a href="(http:\/\/127[^"]+)"/.exec(page.text) ?? [];
      const { searchParams } = new URL(href.replaceAll("&amp;", "&"));
      expect(searchParams.get("error")).toBe(error);
      expect(searchParams.get("state")).toBe("xyz/ä");
      expect(page.text).not.toContain('name="request"');
    },
  );

  test.each([
    "javascript:alert(1)",
    "javascript://127.0.0.1/%0aalert(1)",
    "data:text/html,x",
    "http://app.example/callback",
    "https://user:password@app.example/callback",
    "https://app.example/callback#x",
    "https://app.example/ callback",
    "file:///etc/passwd",
    "mailto:a@example.com",
    "/callback",
    "",
    `https://app.example/${"x".repeat(300)}`,
  ])("does not register the redirect URI %p", async (uri) => {
    const response = await postRegistration({ redirect_uris: [uri] });
    expectStatus("registerMcpClient", 400, response);
    expect(response.body).toMatchObject({ error: "invalid_redirect_uri" });
  });

  test("registers apps by their scheme, and public clients only", async () => {
    const uris = ["cursor://anysphere.cursor-mcp/oauth/callback", "com.example.app:/callback"];
    const { body } = await postRegistration({
      redirect_uris: uris,
      token_endpoint_auth_method: "client_secret_basic",
      grant_types: ["authorization_code", "refresh_token"],
    });
    expect(body).toMatchObject({
      client_name: "An MCP client",
      redirect_uris: uris,
      grant_types: ["authorization_code"],
      token_endpoint_auth_method: "none",
    });
    const page = await open(pkce().challenge, {
      client_id: textAt(body, "client_id"),
      redirect_uri: uris[0],
    });
    expect(page.headers.get("content-security-policy")).toContain("form-action 'self' cursor:;");
    expect((await postRegistration({ redirect_uris: [] })).status).toBe(400);
    const many = Array.from({ length: 9 }, (_, n) => `https://app.example/${"x".repeat(200)}${n}`);
    expect((await postRegistration({ redirect_uris: many })).body).toMatchObject({
      error: "invalid_client_metadata",
    });
  });

  test("rejects a client id that was changed", async () => {
    const [registration = "", mac = ""] = clientId.slice("mcp_".length).split(".");
    const forged = Buffer.from(
      JSON.stringify({ n: "Editor", r: ["https://evil.example/callback"] }),
    ).toString("base64url");
    for (const id of [
      `mcp_${forged}.${mac}`,
      `mcp_${registration}.`,
      `mcp_${registration}`,
      "mcp_",
      "unknown",
      "",
    ]) {
      const page = await open(pkce().challenge, {
        client_id: id,
        redirect_uri: "https://evil.example/callback",
      });
      expect([page.status, page.location]).toEqual([400, null]);
      expect(textOf(page)).toContain("not registered here");
      expect(page.text).not.toContain("evil.example");
    }
  });

  test("limits the clients that a network may register", async () => {
    const statuses: number[] = [];
    for (let n = 0; n < 30; n++)
      statuses.push((await postRegistration({ redirect_uris: [REDIRECT] })).status);
    expect(statuses.filter((status) => status === 201)).toHaveLength(29);
    const last = await postRegistration({ redirect_uris: [REDIRECT] });
    expectStatus("registerMcpClient", 429, last);
    expect(Number(last.headers.get("retry-after"))).toBeGreaterThan(0);
  });

  test("shows what a client calls itself only as plain text", async () => {
    clientId = await register([REDIRECT], '<script>alert("x")</script>\u202e');
    const page = await open(pkce().challenge);
    expect(page.status).toBe(200);
    expect(page.text).not.toContain("<script>alert");
    expect(page.text).not.toContain("\u202e");
  });

  test("cannot be framed, and sends no referrer", async () => {
    const page = await open(pkce().challenge);
    expect(page.headers.get("content-security-policy")).toContain("frame-ancestors 'none'");
    expect(page.headers.get("x-frame-options")).toBe("DENY");
    expect(page.headers.get("referrer-policy")).toBe("no-referrer");
    expect(page.headers.get("cache-control")).toBe("no-store");
  });

  test("rejects the form of another site, and one without its token", async () => {
    const { request = "" } = hiddenFields(await open(pkce().challenge), "approve");
    const form = { request, do: "approve", account: account.id, limit_usd: "5" };
    for (const [csrf, origin] of [
      ["wrong", gateway.url],
      [owner.csrf, "https://evil.example"],
    ] as const) {
      const response = await fetch(`${gateway.url}/mcp/authorize`, {
        method: "POST",
        headers: { cookie: owner.cookie, origin },
        body: new URLSearchParams({ csrf, ...form }),
        redirect: "manual",
      });
      await response.text();
      expect(response.status).toBe(403);
    }
    expect(await countCodes()).toBe(0);
  });

  const countCodes = async (): Promise<number> => {
    const row = await gateway.server.db.get(
      "select count(*) as n from authorization_code where account_id = ?",
      [account.id],
    );
    return Number(row?.["n"]);
  };

  test("rejects a request that was changed, is another person's, or is too old", async () => {
    const page = await open(pkce().challenge);
    const { request = "" } = hiddenFields(page, "approve");
    const other = request.startsWith("A") ? "B" : "A";
    const changed = await decide(page, { request: `${other}${request.slice(1)}` });
    const stranger = await newUser();
    await makeMember(gateway, account.id, stranger, "admin");
    const others = await decide(page, {}, stranger);
    clock += 15 * MINUTE_MS;
    const old = await decide(page);
    for (const refused of [changed, others, old]) {
      expect([refused.status, refused.location]).toEqual([400, null]);
      expect(textOf(refused)).toContain("Start the sign-in again");
    }
    expect(await countCodes()).toBe(0);
  });

  test("asks for a session first, and comes back with the request", async () => {
    const response = await fetch(gateway.url + authorizePath(pkce().challenge), {
      redirect: "manual",
    });
    await response.text();
    expect(response.status).toBe(303);
    expect(decodeURIComponent(response.headers.get("location") ?? "")).toContain("client_id=mcp_");
  });

  test("gives no key of a workspace that the person is no member of, or may not create keys in", async () => {
    const stranger = await newUser();
    const page = await open(pkce().challenge, {}, stranger);
    expect(textOf(page)).toContain("None of your workspaces allows you to create a key");
    expect(page.text).not.toContain('name="request"');
    const developer = await newUser();
    await makeDeveloper(gateway, account.id, developer);
    const without = await decide(await open(pkce().challenge, {}, developer), {}, developer);
    expect([without.status, textOf(without)]).toEqual([400, expect.stringMatching(/allowance/i)]);
    expect(await countCodes()).toBe(0);
  });

  test("gives no key if the person left the workspace after the consent", async () => {
    const admin = await newUser();
    await makeMember(gateway, account.id, admin, "admin");
    const { verifier, challenge } = pkce();
    const decided = await decide(await open(challenge, {}, admin), {}, admin);
    const code = new URL(decided.location ?? "").searchParams.get("code") ?? "";
    const act = personAct(account.id, owner.personId, { clientIp: "", now: clock });
    await gateway.server.db.write((tx) => removeMember(tx, act, admin.personId));
    const { status, body } = await redeem(code, verifier);
    expect([status, valueAt(body, "error")]).toEqual([400, "invalid_grant"]);
  });

  test.each(["", "0", "-1", "much", "9999999999"])(
    "does not take %p as the limit",
    async (limit) => {
      const page = await decide(await open(pkce().challenge), { limit_usd: limit });
      expect([page.status, page.location]).toEqual([400, null]);
      expect(page.text).toContain('aria-invalid="true"');
    },
  );

  test("grants of the scopes only those that a key with a limit can have", async () => {
    const { verifier, challenge } = pkce();
    const scope =
      "models:write billing:write keys:manage account:close offline_access billing:read";
    const code = await approve(challenge, { scope });
    expect(textAt((await redeem(code, verifier)).body, "scope")).toBe("models:write billing:read");
  });

  test("limits the requests of a person", async () => {
    const statuses: number[] = [];
    for (let n = 0; n < 61; n++) statuses.push((await open(pkce().challenge)).status);
    expect(statuses.slice(0, 60).every((status) => status === 200)).toBe(true);
    expect(statuses[60]).toBe(429);
  });

  test("leaves the token endpoint of claims alone", async () => {
    const { verifier, challenge } = pkce();
    const code = await approve(challenge);
    const { status, body } = await call(gateway, "POST /oauth2/token", {
      key: account.key,
      raw: queryOf({ grant_type: "authorization_code", code, code_verifier: verifier }),
      headers: { "content-type": "application/x-www-form-urlencoded" },
    });
    expect([status, valueAt(body, "error")]).toEqual([400, "unsupported_grant_type"]);
  });
});
