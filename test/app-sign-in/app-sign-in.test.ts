// Sign-in of apps at /connect, over HTTP, on both stores: what an app gets, and what attackers do not get.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import * as fc from "fast-check";
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
import { hiddenFields } from "../operator/harness.ts";
import { call, textAt, valueAt } from "../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { type Fields, pkce, queryOf } from "../support/pkce.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const CALLBACK = "https://app.example/callback";

describe.each(["sqlite", "postgres"] as const)("a sign-in of an app on %s", (store) => {
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
    clock += 11 * MINUTE_MS;
    account = await registerAccount(gateway);
    owner = await newUser();
    await makeOwner(gateway, account.id, owner);
  });

  function newUser(): Promise<TestUser> {
    users += 1;
    return createUser(gateway, `app-user-${users}`, clock);
  }

  const open = (challenge: string, fields: Fields = {}, user = owner): Promise<PageResponse> =>
    visitPage(
      gateway,
      `/connect?${queryOf({
        callback_url: CALLBACK,
        code_challenge: challenge,
        code_challenge_method: "S256",
        ...fields,
      })}`,
      user,
    );

  function decide(page: PageResponse, form: Record<string, string> = {}, user = owner) {
    const { csrf: _csrf, ...request } = hiddenFields(page, "approve");
    return visitPage(gateway, "/connect", user, {
      ...request,
      do: "approve",
      account: account.id,
      limit: "5",
      reset: "month",
      days: "30",
      models: "",
      ...form,
    });
  }

  async function approve(challenge: string, form: Record<string, string> = {}): Promise<string> {
    const decided = await decide(await open(challenge), form);
    expect(decided.status).toBe(303);
    return new URL(decided.location ?? "").searchParams.get("code") ?? "";
  }

  const redeem = (code: string, verifier: string, fields: Record<string, unknown> = {}) =>
    call(gateway, "POST /v1/auth/keys", {
      body: { code, code_verifier: verifier, code_challenge_method: "S256", ...fields },
    });

  async function signIn(form: Record<string, string> = {}) {
    const { verifier, challenge } = pkce();
    const code = await approve(challenge, form);
    const redeemed = await redeem(code, verifier);
    expectStatus("redeemAppCode", 200, redeemed);
    return { code, verifier, key: textAt(redeemed.body, "key"), redeemed };
  }

  const readKey = (key: string) => call(gateway, "GET /v1/account", { key });
  const chat = (key: string, model: string) =>
    call(gateway, "POST /v1/chat/completions", {
      key,
      body: { model, max_tokens: 8, messages: [{ role: "user", content: "Hi" }] },
    });
  const appsPage = (query = "", user = owner) =>
    visitPage(gateway, `/console/${account.id}/connected-apps${query}`, user);

  test("gives the app a key with the limit, reset, expiry and models that the person picked", async () => {
    const { key, redeemed } = await signIn({
      limit: "2.50",
      reset: "day",
      days: "7",
      models: "sim/echo\nother/*",
    });
    expect(redeemed.headers.get("cache-control")).toBe("no-store");
    expect(redeemed.headers.get("access-control-allow-origin")).toBe("*");
    expect(redeemed.body).toEqual({ key, user_id: account.id });
    const { body } = await call(gateway, "GET /v1/keys", { key: account.key });
    expect(valueAt(body, "data.0")).toMatchObject({
      name: "app.example (connected app)",
      limit_usd: 2.5,
      limit_window: "day",
      expires_at: new Date(clock + 7 * DAY_MS).toISOString(),
      allowed_models: ["sim/echo", "other/*"],
      scopes: ["claim:read", "models:write", "usage:read"],
      created_by: owner.personId,
    });
    expect((await chat(key, "sim/echo")).status).toBe(200);
    expect((await chat(key, "sim/tools")).status).toBe(404);
    expect((await call(gateway, "POST /v1/keys", { key, body: {} })).status).toBe(403);
  });

  test("shows who asks, and what the app proposed", async () => {
    const page = await open(pkce().challenge, {
      limit: "3",
      reset: "week",
      days: "7",
      models: "sim/echo,sim/tools",
    });
    expect(page.status).toBe(200);
    expect(textOf(page)).toContain("Connect app.example?");
    expect(textOf(page)).toContain(CALLBACK);
    expect(page.text).toContain('value="3"');
    expect(page.text).toContain('<option value="week" selected');
    expect(page.text).toContain("sim/echo\nsim/tools");
    const local = await open(pkce().challenge, { callback_url: "http://localhost:3000/cb" });
    expect(textOf(local)).toContain("whose name is not verified");
  });

  test("keeps the app's own query and state, and overwrites a code that it brought", async () => {
    const { verifier, challenge } = pkce();
    const page = await open(challenge, {
      callback_url: `${CALLBACK}?tab=1&code=attacker`,
      state: "xyz/ä",
    });
    const { searchParams } = new URL((await decide(page)).location ?? "");
    expect([searchParams.get("tab"), searchParams.get("state")]).toEqual(["1", "xyz/ä"]);
    expect(searchParams.getAll("code")).toHaveLength(1);
    expect((await redeem(searchParams.get("code") ?? "", verifier)).status).toBe(200);
  });

  test("tells the app that the person declined, and creates nothing", async () => {
    const declined = await decide(await open(pkce().challenge), { do: "deny" });
    const { searchParams } = new URL(declined.location ?? "");
    expect([searchParams.get("error"), searchParams.get("code")]).toEqual(["access_denied", null]);
  });

  test("revokes the key if its code is used a second time", async () => {
    const { code, verifier, key } = await signIn();
    expect((await readKey(key)).status).toBe(200);
    const again = await redeem(code, verifier);
    expectStatus("redeemAppCode", 400, again);
    expect(textAt(again.body, "error.message")).toContain("used before");
    clock += 6_000;
    expect((await readKey(key)).status).toBe(401);
  });

  test("gives one key to two redemptions at once", async () => {
    const { verifier, challenge } = pkce();
    const code = await approve(challenge);
    const both = await Promise.all([redeem(code, verifier), redeem(code, verifier)]);
    expect(both.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 400]);
  });

  test("refuses a stolen code without its verifier, and leaves it to the app", async () => {
    const { verifier, challenge } = pkce();
    const code = await approve(challenge);
    for (const wrong of [pkce().verifier, challenge, "short", `${verifier}\n`, ""])
      expect((await redeem(code, wrong)).status).toBe(400);
    const plain = await redeem(code, challenge, { code_challenge_method: "plain" });
    expect(valueAt(plain.body, "error.param")).toBe("code_challenge_method");
    expect((await call(gateway, "POST /v1/auth/keys", { body: { code } })).status).toBe(400);
    expect((await redeem(code, verifier)).status).toBe(200);
  });

  test("expires a code after two minutes", async () => {
    const { verifier, challenge } = pkce();
    const code = await approve(challenge);
    clock += 2 * MINUTE_MS;
    expect((await redeem(code, verifier)).status).toBe(400);
  });

  test("does not accept a code of an app as that of an MCP client", async () => {
    const { verifier, challenge } = pkce();
    const code = await approve(challenge);
    const asClient = await call(gateway, "POST /mcp/token", {
      raw: queryOf({
        grant_type: "authorization_code",
        code,
        client_id: "https://app.example",
        redirect_uri: CALLBACK,
        code_verifier: verifier,
      }),
      headers: { "content-type": "application/x-www-form-urlencoded" },
    });
    expect([asClient.status, valueAt(asClient.body, "error")]).toEqual([400, "invalid_grant"]);
    expect((await redeem(code, verifier)).status).toBe(200);
  });

  test("stores neither the code nor the key", async () => {
    const { code, key } = await signIn();
    const rows = await Promise.all(
      ["authorization_code", "api_key", "audit"].map((table) =>
        gateway.server.db.all(`select * from ${table}`, []),
      ),
    );
    const stored = JSON.stringify(rows, (_, value: unknown) =>
      typeof value === "bigint" ? String(value) : value,
    );
    expect(stored).toContain("app.example");
    for (const secret of [code, key]) expect(stored).not.toContain(secret);
  });

  test.each<[what: string, url: string]>([
    ["plain http", "http://app.example/callback"],
    ["a longer loopback host", "http://127.0.0.1.evil.example/callback"],
    ["a user name", "https://app.example@evil.example/callback"],
    ["a fragment", "https://evil.example/callback#x"],
    ["a directive of the page's policy as its host", "https://evil.example;sandbox/callback"],
    ["a second policy as its host", "https://evil.example,sandbox/callback"],
    ["all hosts", "https://*/evil.example"],
    ["a script", "javascript:alert(1)"],
    ["data", "data:text/html,x"],
    ["the scheme of an app", "com.example.app:/callback"],
    ["the scheme of an editor", "cursor://callback"],
    ["no host", "/callback"],
    ["two lines", "https://evil.example/\nx"],
    ["nothing", ""],
  ])("refuses a callback URL with %s, and leads nowhere", async (_what, callback_url) => {
    const page = await open(pkce().challenge, { callback_url });
    expect([page.status, page.location]).toEqual([400, null]);
    expect(page.text).not.toContain("evil.example");
    const form = { callback_url, code_challenge: pkce().challenge, code_challenge_method: "S256" };
    for (const decision of ["approve", "deny"]) {
      const posted = await visitPage(gateway, "/connect", owner, {
        ...form,
        do: decision,
        account: account.id,
        limit: "5",
        days: "30",
      });
      expect([posted.status, posted.location]).toEqual([400, null]);
    }
  });

  test.each<Fields>([
    { code_challenge: undefined },
    { code_challenge: "short" },
    { code_challenge_method: "plain" },
    { code_challenge_method: undefined },
  ])("requires PKCE with S256: %p", async (fields) => {
    const page = await open(pkce().challenge, fields);
    expect([page.status, page.location]).toEqual([400, null]);
    expect(textOf(page)).toContain("code_challenge_method=S256");
  });

  test("is decided by a person on a page that no other page can frame or submit", async () => {
    const { challenge } = pkce();
    const page = await open(challenge);
    expect(page.headers.get("x-frame-options")).toBe("DENY");
    const policy = page.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).toContain("form-action 'self' https://app.example;");
    const forged = await fetch(`${gateway.url}/connect`, {
      method: "POST",
      redirect: "manual",
      headers: { cookie: owner.cookie, "content-type": "application/x-www-form-urlencoded" },
      body: queryOf({
        do: "approve",
        callback_url: CALLBACK,
        code_challenge: challenge,
        code_challenge_method: "S256",
        account: account.id,
        limit: "5",
        days: "30",
      }),
    });
    expect([forged.status, forged.headers.get("location")]).toEqual([403, null]);
    const stranger = await fetch(`${gateway.url}/connect?${queryOf({ callback_url: CALLBACK })}`, {
      redirect: "manual",
    });
    expect(stranger.headers.get("location") ?? "").not.toContain("https://app.example");
  });

  test.each<[field: string, value: string, text: string]>([
    ["limit", "", "amount in US dollars"],
    ["limit", "0", "amount in US dollars"],
    ["limit", "-1", "amount in US dollars"],
    ["limit", "1e9", "amount in US dollars"],
    ["limit", "9000001", "from 0 to 9,000,000"],
    ["days", "36500", "how long"],
    ["models", "x".repeat(300), "model ids"],
    ["account", "acc_unknown", ""],
  ])("shows the page again if %s is %p", async (field, value, text) => {
    const decided = await decide(await open(pkce().challenge), { [field]: value });
    expect([decided.status, decided.location]).toEqual([400, null]);
    expect(textOf(decided)).toContain(text);
    expect(textOf(decided)).toContain("Connect app.example?");
  });

  test("does not let a developer without an allowance give an app a key, nor a stranger", async () => {
    const developer = await newUser();
    await makeDeveloper(gateway, account.id, developer);
    const { challenge } = pkce();
    const refused = await decide(await open(challenge, {}, developer), {}, developer);
    expect([refused.status, refused.location]).toEqual([400, null]);
    const stranger = await newUser();
    const form = {
      callback_url: CALLBACK,
      code_challenge: challenge,
      code_challenge_method: "S256",
      do: "approve",
      account: account.id,
      limit: "5",
      days: "30",
    };
    const foreign = await visitPage(gateway, "/connect", stranger, form);
    expect(foreign.location).toBeNull();
  });

  test("gives no key if the person left the workspace after the consent", async () => {
    const admin = await newUser();
    await makeMember(gateway, account.id, admin, "admin");
    const { verifier, challenge } = pkce();
    const decided = await decide(await open(challenge, {}, admin), {}, admin);
    const code = new URL(decided.location ?? "").searchParams.get("code") ?? "";
    const act = personAct(account.id, owner.personId, { clientIp: "", now: clock });
    await gateway.server.db.write((tx) => removeMember(tx, act, admin.personId));
    const refused = await redeem(code, verifier);
    expect([refused.status, valueAt(refused.body, "error.param")]).toEqual([400, "code"]);
  });

  test("leaves a code to the app if the store fails during the redemption", async () => {
    const { verifier, challenge } = pkce();
    const code = await approve(challenge);
    const rename = (from: string, to: string) =>
      gateway.server.db.write((tx) => tx.run(`alter table ${from} rename to ${to}`));
    await rename("api_key", "gone_api_key");
    const failed = await redeem(code, verifier);
    await rename("gone_api_key", "api_key");
    expectStatus("redeemAppCode", 500, failed);
    expect((await redeem(code, verifier)).status).toBe(200);
  });

  test("is listed under Connected apps with its spend, and ends there", async () => {
    const { key } = await signIn();
    expect((await chat(key, "sim/echo")).status).toBe(200);
    const page = await appsPage();
    expect(page.status).toBe(200);
    expect(textOf(page)).toContain("app.example");
    const id = textAt((await readKey(key)).body, "key.id");
    const asked = await appsPage(`?ask=${id}`);
    expect(textOf(asked)).toContain("Revoke the key of app.example ?");
    const revoked = await visitPage(gateway, `/console/${account.id}/connected-apps`, owner, {
      key: id,
    });
    expect(revoked.location).toContain("done=revoked");
    expect(textOf(await appsPage())).toContain("No connected apps");
    clock += 6_000;
    expect((await readKey(key)).status).toBe(401);
  });

  test("never gives a key more than the person picked, whatever the app proposes", async () => {
    const choice = fc.record({
      limit: fc.constantFrom("0.01", "1", "25.5"),
      reset: fc.constantFrom("", "day", "week", "month"),
      days: fc.constantFrom("7", "30", "90", "365"),
    });
    await fc.assert(
      fc.asyncProperty(choice, choice, async (proposed, picked) => {
        const { verifier, challenge } = pkce();
        const decided = await decide(await open(challenge, proposed), picked);
        const code = new URL(decided.location ?? "").searchParams.get("code") ?? "";
        await redeem(code, verifier);
        const { body } = await call(gateway, "GET /v1/keys", { key: account.key });
        expect(valueAt(body, "data.0")).toMatchObject({
          limit_usd: Number(picked.limit),
          limit_window: picked.reset === "" ? null : picked.reset,
          expires_at: new Date(clock + Number(picked.days) * DAY_MS).toISOString(),
        });
      }),
      { numRuns: 8 },
    );
  });
});
